"""
Find the files to index below the named folders, without hidden, ignored or outlying ones.

A file is known by its resolved path. So it is found once, however many links lead to it, and links out of a named
folder are not followed.
"""

import os
import re
import stat
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from memorist.errors import InvalidInput
from memorist.ingest.gitignore import IgnoreRule, IgnoreRules, split_rule_lines
from memorist.ingest.readers import UnreadableFile, describe_os_error, read_bytes, reason_to_skip

MAX_FILE_BYTES = 10_000_000  # few larger files were written by people
_MAX_MTIME_NS = 2**63 - 1  # of a database column: the year 2262
_MAX_RULES_BYTES = 100_000

_MEMORISTIGNORE, _GITIGNORE = ".memoristignore", ".gitignore"
_SHOWN_FOLDERS = frozenset([".github"])  # hidden by its name, but written to be read
_TOOL_FOLDERS = frozenset("__pycache__ bower_components node_modules site-packages".split())
_TOOL_MARKERS = frozenset(["CACHEDIR.TAG", "pyvenv.cfg"])  # they mark folders that a tool can create again

_WILDCARD = re.compile(r"[*?\[]")


class FoundFile(Struct, frozen=True):
    """A file to index."""

    path: Path  # absolute, with links resolved
    root: Path  # the named folder, the folder of the named file, or of a pattern the part before its wildcards
    name: str  # the path from the root, with forward slashes
    size: int
    mtime_ns: int


class SkippedPath(Struct, frozen=True):
    """A path that was left out, with the reason. Hidden and ignored paths are left out silently."""

    path: Path  # for display: characters of a name that are no text are escaped
    reason: str  # always the same words for the same reason, so that they can be counted
    keep_indexed: bool = False  # it could not be read this time: what is indexed of it, or below it, stays


def _to_strings(texts: Sequence[str | Path]) -> list[str]:
    return [str(text) for text in ([texts] if isinstance(texts, str | Path) else texts)]


def may_exist(path: str | Path) -> bool:
    """Return False only if there is nothing at a path; True also where that cannot be found out."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    return True


class _WalkRoot(Struct, frozen=True):
    """A named path: a file, a folder, or a folder with a pattern for the files below it."""

    path: str  # absolute, with forward slashes and links resolved
    pattern: str = ""
    is_file: bool = False

    @property
    def folder(self) -> str:
        """The folder that its rules are relative to; ends in a slash."""
        return (self.path.rpartition("/")[0] if self.is_file else self.path.rstrip("/")) + "/"


def find_root(path: str) -> _WalkRoot | None:
    """Return what a path names; None if there is nothing."""
    try:
        if path and os.path.exists(path):
            return _WalkRoot(_resolve(path), is_file=not os.path.isdir(path))
        parts = Path(path).parts
        wild = next((number for number, part in enumerate(parts) if _WILDCARD.search(part)), None)
        if wild is not None and os.path.isdir(base := os.path.join(".", *parts[:wild])):
            return _WalkRoot(_resolve(base), "/" + "/".join(parts[wild:]))
    except (OSError, ValueError):  # not a name that a file can have
        pass
    return None


def _resolve(path: str) -> str:
    return os.path.realpath(path).replace(os.sep, "/")


class Walk:
    """
    A walk over the files below folders, those that match a pattern such as `docs/**/*.md`, and those named themselves;
    each once. Iterate over it once.

    `include` and `exclude` are patterns as in a `.gitignore` at each root. A file is found whatever its kind if it is
    named itself, or a pattern names its suffix.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        max_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        roots = {path: find_root(path) for path in _to_strings(paths)}
        # It is most likely a typo, and half of what was asked for is not what was asked for.
        if missing := [path or "''" for path, root in roots.items() if not root]:
            raise InvalidInput(f"no such file or folder: {', '.join(missing)}")
        self._exclude, self._max_bytes = _to_strings(exclude), max_bytes
        self._required = {  # of each root, the patterns that a file must match
            root: tuple(
                IgnoreRules(root.folder, lines) for lines in (_to_strings(include), [root.pattern]) if any(lines)
            )
            for root in roots.values()
            if root
        }
        self._found: set[str] = set()
        self._reported: set[str] = set()

    def __iter__(self) -> Iterator[FoundFile | SkippedPath]:
        for root, required in self._required.items():
            excluded = IgnoreRules(root.folder, self._exclude)
            if not root.is_file:
                yield from self._walk_folder(root, _FolderWalk(root.folder, excluded, required))
            elif not _ignores(excluded.find_rule(root.path, False)):
                yield from self._check_file(root.folder, root.path, requested=True)

    def should_remove(self, path: str | Path) -> bool:
        """
        Return True if an indexed file that this walk did not find is to be removed from the index.

        That is so if it is gone from a folder of this walk, or ignored there now. A file that is there but does not
        belong to the paths and patterns of this walk stays.
        """
        name = str(path).replace(os.sep, "/")
        for root, required in self._required.items():
            if root.is_file or not name.startswith(root.folder):
                if name == root.path:
                    return True
            elif not may_exist(path) or all(_matches_path(rules, name, len(root.folder)) for rules in required):
                return True
        return False

    def _walk_folder(self, root: _WalkRoot, tree: "_FolderWalk") -> Iterator[FoundFile | SkippedPath]:
        found_any = False
        for item in tree.find_files():
            if isinstance(item, SkippedPath):
                yield from self._skip(str(item.path), item.reason, item.keep_indexed)
            else:
                path, requested = item
                found_any = found_any or path in self._found
                for result in self._check_file(tree.root, path, requested):
                    found_any = found_any or isinstance(result, FoundFile)
                    yield result
        if not found_any:
            reason = "nothing to index matches it" if root.pattern else "nothing to index in it"
            reason += " but what is ignored or hidden" if tree.ignored else ""
            yield SkippedPath(_displayable_path(root.path.rstrip("/") + root.pattern), reason)

    def _check_file(self, root: str, path: str, requested: bool) -> Iterator[FoundFile | SkippedPath]:
        """Yield a file once, if it is a regular file of a requested or known kind, and not too large."""
        if path in self._found:
            return
        name, keep_indexed = path[len(root) :], False
        try:
            reason = "" if requested else reason_to_skip(name.rpartition("/")[2])
            if not reason:
                status = os.lstat(path)
                if not stat.S_ISREG(status.st_mode):
                    reason = "neither a file nor a folder"
                elif status.st_size > self._max_bytes:
                    reason = f"larger than {self._max_bytes / 1e6:g} MB"
                elif not _is_utf8(path):
                    reason = "its name is not UTF-8"
                else:
                    self._found.add(path)
                    yield FoundFile(
                        Path(path), Path(root), name, status.st_size, min(status.st_mtime_ns, _MAX_MTIME_NS)
                    )
                    return
        except FileNotFoundError:  # deleted since it was listed
            return
        except OSError as exc:
            reason, keep_indexed = describe_os_error(exc), True
        yield from self._skip(path, reason, keep_indexed)

    def _skip(self, path: str, reason: str, keep_indexed: bool) -> Iterator[SkippedPath]:
        if path not in self._reported:
            self._reported.add(path)
            yield SkippedPath(_displayable_path(path), reason, keep_indexed)


class _WalkedFolder(Struct, frozen=True):
    """A folder with the rules that hold in it."""

    path: str  # ends in a slash
    memoristignore: tuple[IgnoreRules, ...] = ()  # of every .memoristignore, the nearest first
    gitignore: tuple[IgnoreRules, ...] = ()  # of every .gitignore in the same repository
    required: tuple[IgnoreRules, ...] = ()  # patterns that a file still has to match


class _FolderWalk(Struct):
    """A walk through one root folder."""

    root: str  # ends in a slash
    excluded: IgnoreRules
    required: tuple[IgnoreRules, ...]
    ignored: int = 0  # how many paths were ignored or hidden
    _entered: set[str] = field(default_factory=set)
    _link_targets: deque[str] = field(default_factory=deque)  # of links that stay inside, looked at last
    _problems: list[SkippedPath] = field(default_factory=list)

    def find_files(self) -> Iterator[tuple[str, bool] | SkippedPath]:
        """Yield paths, and whether a pattern asks for their kind: folder by folder, in order of name."""
        folders = [self._open_folder(self.root)]
        while folders:
            folder = folders.pop()
            if folder.path not in self._entered:
                self._entered.add(folder.path)
                inner: list[_WalkedFolder] = []
                yield from self._list_folder(folder, inner)
                folders += reversed(inner)
            while self._link_targets and not folders:  # most lead to files that were found by then
                target = self._link_targets.popleft()
                if os.path.isdir(target):
                    folders.append(self._open_folder(target.rstrip("/") + "/"))
                else:
                    yield from self._match_file(self._open_folder(target.rpartition("/")[0] + "/"), target)

    def _list_folder(
        self, folder: _WalkedFolder, inner: list[_WalkedFolder]
    ) -> Iterator[tuple[str, bool] | SkippedPath]:
        """Yield the files of a folder that are not ignored, and add the folders in it to `inner`."""
        try:
            with os.scandir(folder.path) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError as exc:
            if not isinstance(exc, FileNotFoundError):
                yield SkippedPath(Path(folder.path), describe_os_error(exc), keep_indexed=True)
            return
        names = {entry.name for entry in entries}
        if folder.path != self.root and names & _TOOL_MARKERS:
            self.ignored += 1
            return
        folder = self._add_rules(folder, names)
        yield from self._problems
        self._problems.clear()
        for entry in entries:
            path = folder.path + entry.name
            try:
                is_folder, is_link = entry.is_dir(follow_symlinks=False), entry.is_symlink()
            except OSError as exc:
                yield SkippedPath(Path(path), describe_os_error(exc), keep_indexed=True)
                continue
            if self._is_ignored(folder, path, entry.name, is_folder):
                self.ignored += entry.name not in (".git", _GITIGNORE, _MEMORISTIGNORE)
            elif is_link:
                yield from self._follow_link(path)
            elif not is_folder:
                yield from self._match_file(folder, path)
            elif _is_utf8(path):
                inner.append(self._enter(folder, path))
            else:
                yield SkippedPath(Path(path), "its name is not UTF-8")

    def _follow_link(self, path: str) -> Iterator[SkippedPath]:
        target = _resolve(path)
        if not f"{target}/".startswith(self.root):
            yield SkippedPath(Path(path), "a link that leads out of the folder")
        elif not os.path.exists(target):
            yield SkippedPath(Path(path), "a link to nothing")
        else:
            self._link_targets.append(target)

    def _is_ignored(self, folder: _WalkedFolder, path: str, name: str, is_folder: bool) -> bool:
        """
        Return True if a path is excluded, ignored or hidden.

        A `.memoristignore` goes before a `.gitignore`. It can also show what is hidden, if it names it: `!*/` does not
        mean `.cache`.
        """
        if name == ".git" or _ignores(self.excluded.find_rule(path, is_folder)):
            return True
        hidden = name in _TOOL_FOLDERS or (name.startswith(".") and name not in _SHOWN_FOLDERS)
        if rule := _find_rule(folder.memoristignore, path, is_folder):
            return rule.ignores or (hidden and not rule.by_name)
        return hidden or _ignores(_find_rule(folder.gitignore, path, is_folder))

    def _match_file(self, folder: _WalkedFolder, path: str) -> Iterator[tuple[str, bool]]:
        """Yield a file if it matches the required patterns."""
        rules = [rules.find_rule(path, False) for rules in folder.required]
        if all(map(_ignores, rules)):
            yield path, any(rule and rule.by_suffix for rule in rules)

    def _enter(self, folder: _WalkedFolder, path: str) -> _WalkedFolder:
        """Return the folder at a path within a folder. A pattern that matches a folder matches everything in it."""
        required = tuple(rules for rules in folder.required if not _ignores(rules.find_rule(path, True)))
        return replace(folder, path=path + "/", required=required)

    def _open_folder(self, path: str) -> _WalkedFolder:
        """Return the root or a folder below it, with the rules of the folders above, from its repository's top on."""
        above = [path[: slash.end()] for slash in re.finditer("/", path)]
        tops = [place for place in above if len(place) <= len(self.root) and os.path.lexists(place + ".git")]
        folder = _WalkedFolder(max(tops, key=len, default=self.root), required=self.required)
        for place in above[above.index(folder.path) + 1 :]:
            names = [name for name in (".git", _GITIGNORE, _MEMORISTIGNORE) if os.path.lexists(folder.path + name)]
            folder = self._add_rules(folder, names)
            folder = self._enter(folder, place[:-1]) if len(place) > len(self.root) else replace(folder, path=place)
        return folder

    def _add_rules(self, folder: _WalkedFolder, names: Collection[str]) -> _WalkedFolder:
        """Return a folder with the rules in it; where a repository begins, the `.gitignore` rules above end."""
        memoristignore, gitignore = folder.memoristignore, folder.gitignore
        if ".git" in names:
            gitignore = self._read_rules(folder.path, _find_exclude_file(folder.path + ".git"))
        if _GITIGNORE in names:
            gitignore = self._read_rules(folder.path, folder.path + _GITIGNORE) + gitignore
        if _MEMORISTIGNORE in names:
            memoristignore = self._read_rules(folder.path, folder.path + _MEMORISTIGNORE) + memoristignore
        return replace(folder, memoristignore=memoristignore, gitignore=gitignore)

    def _read_rules(self, folder: str, file: str) -> tuple[IgnoreRules, ...]:
        if not os.path.lexists(file):
            return ()
        try:
            rules = IgnoreRules(folder, split_rule_lines(read_bytes(Path(file), _MAX_RULES_BYTES)))
        except UnreadableFile as exc:
            self._problems.append(SkippedPath(Path(file), f"its rules do not count: {exc}"))
            return ()
        return (rules,) if rules else ()


def _find_rule(stack: Sequence[IgnoreRules], path: str, is_folder: bool) -> IgnoreRule | None:
    return next((rule for rules in stack if (rule := rules.find_rule(path, is_folder))), None)


def _ignores(rule: IgnoreRule | None) -> bool:
    return rule is not None and rule.ignores


def _matches_path(rules: IgnoreRules, path: str, start: int) -> bool:
    """Return True if a pattern matches a path, or a folder on the way to it from the start on."""
    folders = (path[: slash.start()] for slash in re.finditer("/", path) if slash.start() >= start)
    return _ignores(rules.find_rule(path, False)) or any(_ignores(rules.find_rule(folder, True)) for folder in folders)


def _find_exclude_file(git: str) -> str:
    """Return the path of a repository's own rules; in a worktree or submodule, `.git` is a file with a path."""
    try:
        if not os.path.isdir(git):
            git = os.path.join(
                os.path.dirname(git), os.fsdecode(read_bytes(Path(git), 4096)).removeprefix("gitdir:").strip()
            )
            git = os.path.join(git, os.fsdecode(read_bytes(Path(git, "commondir"), 4096)).strip())
    except (UnreadableFile, ValueError):  # no worktree, or nothing that git would know either
        pass
    return os.path.join(git, "info", "exclude")


def _is_utf8(path: str) -> bool:
    try:
        return bool(path.encode())
    except UnicodeEncodeError:
        return False


def _displayable_path(path: str) -> Path:
    return Path(path.encode("utf-8", "backslashreplace").decode())
