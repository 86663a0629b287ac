"""The rules of a `.gitignore`: which files and folders it leaves out, and which it takes back in.

They are ours because a walk must know of a folder whether to enter it, which `pathspec` cannot tell: to it `*` and
`!*/` ignore every folder, though git enters them, and a line `*a*a*a*a*a*a*b` keeps it busy for minutes.

Which files to index: those below the folders that were named, without what is hidden, ignored or beyond them.

A file is known by where it really is. So it is found once, however many links lead to it, and a link that leads out
of the named folder leads nowhere.
"""

import os
import re
import stat
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from memorist.errors import InvalidInput
from memorist.ingest.readers import Unreadable, load, trouble, unwanted

LONGEST = 4096  # characters of a pattern
TOGETHER = 200  # rules in one expression: with each group more, all others take longer

_CASE = re.IGNORECASE if sys.platform in ("win32", "darwin") else 0  # as git has it there
_GLOB_WILDCARD = re.compile(r"\*\*+/?|\*|\?|\[|\\|[^*?\[\\]+", re.DOTALL)
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One line: what matches it is ignored, or after a `!` not ignored."""

    regex: str  # for a name, or if it is not for any, for a path below the folder of the file
    for_any: bool  # however deep it is
    ignores: bool
    folders_only: bool
    by_name: bool  # what it says of a name does not begin with a wildcard
    by_suffix: bool  # but it ends with a suffix


class Rules:
    """All lines of one file, which hold for everything below its folder."""

    def __init__(self, folder: str, lines: Iterable[str]) -> None:
        """The folder ends in a slash; all paths asked about begin with it."""
        self._start = len(folder)
        self._rules = [rule for rule in map(_rule, lines) if rule]
        self._for_folders = [_Any(self._rules, for_any, True) for for_any in (True, False)]
        self._for_files = [_Any(self._rules, for_any, False) for for_any in (True, False)]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def about(self, path: str, is_folder: bool) -> Rule | None:
        """The rule that decides about a path: the last that matches it."""
        by_name, by_path = self._for_folders if is_folder else self._for_files
        last = max(by_name.last(path, path.rfind("/") + 1), by_path.last(path, self._start))
        return self._rules[last] if last >= 0 else None


class _Any:
    """Rules of one sort in a few expressions, with a group for each, the last rule first: it wins over the others."""

    def __init__(self, rules: Sequence[Rule], for_any: bool, is_folder: bool) -> None:
        numbers = [
            number
            for number, rule in enumerate(rules)
            if rule.for_any == for_any and (is_folder or not rule.folders_only)
        ][::-1]
        self._groups = [numbers[start : start + TOGETHER] for start in range(0, len(numbers), TOGETHER)]
        self._regexes = [
            re.compile("|".join(f"({rules[number].regex})" for number in group), re.DOTALL | _CASE)
            for group in self._groups
        ]

    def last(self, path: str, start: int) -> int:
        for regex, group in zip(self._regexes, self._groups, strict=True):
            found = regex.fullmatch(path, start)
            if found and found.lastindex:
                return group[found.lastindex - 1]
        return -1


def lines_of(data: bytes) -> list[str]:
    """The lines of such a file as git cuts them; names in it are bytes that need not be UTF-8."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return [line.removesuffix("\r") for line in text.split("\n")]


def _rule(line: str) -> Rule | None:
    """A line as a rule; None if it is a comment, or no pattern."""
    pattern = line.rstrip(" ")
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:  # a last space that is escaped counts
        pattern += line[len(pattern) : len(pattern) + 1]
    if pattern.startswith("#") or len(pattern) > LONGEST:
        return None
    negated, folders_only = pattern.startswith("!"), pattern.endswith("/")
    pattern = pattern.removeprefix("!").removesuffix("/")
    for_any = "/" not in pattern
    regex = _regex(pattern.removeprefix("/"), for_any)
    if not regex:
        return None
    name = pattern.rpartition("/")[2]
    by_name, by_suffix = name[:1] not in ("*", "?", "["), "." in re.split(r"[*?\]]", name)[-1]
    return Rule(regex, for_any, not negated, folders_only, by_name, by_suffix)


def _regex(pattern: str, for_any: bool) -> str:
    """
    A pattern as a regular expression; none if it can match nothing.

    What a wildcard has passed is never tried again (`(?>...)`): its first fit leaves most of the path to the rest, so
    where that fails any other would. Thus no pattern, whoever wrote it, takes long.
    """
    folders, name = [""], [""]  # what follows each `**/`, and in the last of these what follows each `*`
    place = 0
    while place < len(pattern):
        found = _GLOB_WILDCARD.match(pattern, place)
        token = found[0] if found else ""
        begins = not for_any and (place == 0 or pattern[place - 1] == "/")
        place += len(token)
        if begins and token.startswith("**") and (token.endswith("/") or place == len(pattern)):
            folders[-1] += _passing(name, "[^/]*?")
            folders, name = [*folders, ""], [""]
            if not token.endswith("/"):
                return _passing(folders, "(?:.*?/)??") + ".+"
        elif token.startswith("*"):
            name.append("/" if token.endswith("/") else "")
        elif token == "[":
            characters, place = _one_of(pattern, place)
            if not characters:
                return ""
            name[-1] += characters
        elif token == "\\":
            if place == len(pattern):
                return ""
            name[-1] += re.escape(pattern[place])
            place += 1
        else:
            name[-1] += "[^/]" if token == "?" else re.escape(token)
    folders[-1] += _passing(name, "[^/]*?", to_the_end=True)
    return _passing(folders, "(?:.*?/)??", to_the_end=True)


def _passing(parts: list[str], wildcard: str, to_the_end: bool = False) -> str:
    """Parts with a wildcard between any two; after the last one, a part that has to fit at the end."""
    passed = [f"(?>{wildcard}{part})" for part in parts[1:]]
    if passed and to_the_end:
        passed[-1] = wildcard + parts[-1]
    return parts[0] + "".join(passed)


def _one_of(pattern: str, place: int) -> tuple[str, int]:
    """What stands between brackets, as git reads it, and the place after it; nothing if they are not closed."""
    negated = pattern[place : place + 1] in ("!", "^")
    first = place = place + negated
    items, low = [], ""  # `low` may begin a range
    while (char := pattern[place : place + 1]) and (char != "]" or place == first):
        end = pattern.find("]", place)
        following = pattern[place + 1 : place + 2]
        if char == "[" and following == ":" and end > place + 2 and pattern[end - 1] == ":":
            if not (known := _CLASSES.get(pattern[place + 2 : end - 1])):
                return "", place
            items.append(known)
            low, place = "", end + 1
            continue
        ranged = char == "-" and low != "" and following not in ("", "]")
        place += 1 + (ranged and following == "\\")
        if ranged or char == "\\":
            char = pattern[place : place + 1]
            place += 1
        if not ranged:
            items.append(re.escape(char))
        elif low <= char:
            items.append(f"{re.escape(low)}-{re.escape(char)}")
        low = "" if ranged else char
    characters = "".join(items)
    if not char:
        return "", place
    if negated:
        return f"[^/{characters}]", place + 1
    return f"(?!/)[{characters}]" if characters else "(?!)", place + 1


LARGEST = 10_000_000  # bytes of a file; few that are larger were written by people
LATEST = 2**63 - 1  # nanoseconds that a database can hold: the year 2262
LARGEST_RULES = 100_000  # bytes of a file with rules

OURS, GITS = ".memoristignore", ".gitignore"
SHOWN = frozenset([".github"])  # hidden by name only: what is in it was written to be read
TOOLS = frozenset("__pycache__ bower_components node_modules site-packages".split())
TOOL_MARKS = frozenset(["CACHEDIR.TAG", "pyvenv.cfg"])  # they stand in folders that a tool can make again

_WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to index."""

    path: Path  # absolute, with no link in it
    root: Path  # the folder that was named, or where the file is that was; of a pattern, what is before its wildcards
    name: str  # the path from the root, with forward slashes
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was left out, and why. What is hidden or ignored is left out without a word."""

    path: Path  # to be shown: what is no text in a name is escaped
    reason: str  # the same words whenever it is the same, so that they can be counted
    stays: bool = False  # it could not be looked at this time: what is known of it, or of what is in it, still holds


def walk(
    paths: Sequence[str | Path], *, include: Sequence[str] = (), exclude: Sequence[str] = (), largest: int = LARGEST
) -> "Walk":
    """
    The files below folders, those that match a pattern such as `docs/**/*.md`, and those named themselves; each once.

    `include` and `exclude` are patterns as in a `.gitignore` at each root. A file is found whatever its kind if it is
    named itself, or a pattern names its suffix. Where nothing is at a path, that is InvalidInput before anything is
    found: it is a slip of the hand, and half of what was asked for is not what was asked for.
    """
    starts = {path: start_of(path) for path in _listed(paths)}
    if missing := [path or "''" for path, start in starts.items() if not start]:
        raise InvalidInput(f"no such file or folder: {', '.join(missing)}")
    chosen = [start for start in starts.values() if start]
    return Walk(chosen, _listed(include), _listed(exclude), largest)


def _listed(texts: Sequence[str | Path]) -> list[str]:
    return [str(text) for text in ([texts] if isinstance(texts, str | Path) else texts)]


def is_there(path: str | Path) -> bool:
    """Whether something is at a path; where that cannot be told, nobody may say that it is gone."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    return True


@dataclass(frozen=True, slots=True)
class WalkRoot:
    """Something that was named: a file, a folder, or a folder with a pattern for what is in it."""

    path: str  # absolute, with forward slashes, without links
    pattern: str = ""
    is_file: bool = False

    @property
    def root(self) -> str:
        """The folder that its rules stand in; ends in a slash."""
        return (self.path.rpartition("/")[0] if self.is_file else self.path.rstrip("/")) + "/"


def start_of(path: str) -> WalkRoot | None:
    """What a path names; None where there is nothing."""
    try:
        if path and os.path.exists(path):
            return WalkRoot(_real(path), is_file=not os.path.isdir(path))
        parts = Path(path).parts
        wild = next((number for number, part in enumerate(parts) if _WILDCARD.search(part)), None)
        if wild is not None and os.path.isdir(base := os.path.join(".", *parts[:wild])):
            return WalkRoot(_real(base), "/" + "/".join(parts[wild:]))
    except (OSError, ValueError):  # no name that a file could have
        pass
    return None


def _real(path: str) -> str:
    return os.path.realpath(path).replace(os.sep, "/")


class Walk:
    """One walk, to be gone once: what it looks for, and what it came by so far."""

    def __init__(
        self, starts: Sequence[WalkRoot], include: Sequence[str], exclude: Sequence[str], largest: int
    ) -> None:
        self._exclude, self._largest = exclude, largest
        self._wanted = {  # of each start, what a file has to match besides
            start: tuple(Rules(start.root, lines) for lines in (include, [start.pattern]) if any(lines))
            for start in starts
        }
        self._found: set[str] = set()
        self._told: set[str] = set()

    def __iter__(self) -> Iterator[FoundFile | Skipped]:
        for start, wanted in self._wanted.items():
            excluded = Rules(start.root, self._exclude)
            if not start.is_file:
                yield from self._tree(start, _Tree(start.root, excluded, wanted))
            elif not _ignoring(excluded.about(start.path, False)):
                yield from self._file(start.root, start.path, asked=True)

    def gave_up(self, path: str | Path) -> bool:
        """
        Whether a file that was indexed once, and not found now, is no longer to be: it is gone from a folder of this
        walk, or ignored there now. A file that is there and that nobody asked about, by path or pattern, is not.
        """
        name = str(path).replace(os.sep, "/")
        for start, wanted in self._wanted.items():
            if start.is_file or not name.startswith(start.root):
                if name == start.path:
                    return True
            elif not is_there(path) or all(_wants(rules, name, len(start.root)) for rules in wanted):
                return True
        return False

    def _tree(self, start: WalkRoot, tree: "_Tree") -> Iterator[FoundFile | Skipped]:
        some = False
        for item in tree.files():
            if isinstance(item, Skipped):
                yield from self._skipped(str(item.path), item.reason, item.stays)
            else:
                path, asked = item
                some = some or path in self._found
                for result in self._file(tree.root, path, asked):
                    some = some or isinstance(result, FoundFile)
                    yield result
        if not some:
            reason = "nothing to index matches it" if start.pattern else "nothing to index in it"
            reason += " but what is ignored or hidden" if tree.left_out else ""
            yield Skipped(_shown(start.path.rstrip("/") + start.pattern), reason)

    def _file(self, root: str, path: str, asked: bool) -> Iterator[FoundFile | Skipped]:
        """A file, if it is one, of a kind that is asked for or known, and not too large; once."""
        if path in self._found:
            return
        name, stays = path[len(root) :], False
        try:
            reason = "" if asked else unwanted(name.rpartition("/")[2])
            if not reason:
                about = os.lstat(path)
                if not stat.S_ISREG(about.st_mode):
                    reason = "neither a file nor a folder"
                elif about.st_size > self._largest:
                    reason = f"larger than {self._largest / 1e6:g} MB"
                elif not _is_text(path):
                    reason = "its name is not UTF-8"
                else:
                    self._found.add(path)
                    yield FoundFile(Path(path), Path(root), name, about.st_size, min(about.st_mtime_ns, LATEST))
                    return
        except FileNotFoundError:  # since it was seen
            return
        except OSError as exc:
            reason, stays = trouble(exc), True
        yield from self._skipped(path, reason, stays)

    def _skipped(self, path: str, reason: str, stays: bool) -> Iterator[Skipped]:
        if path not in self._told:
            self._told.add(path)
            yield Skipped(_shown(path), reason, stays)


@dataclass(frozen=True, slots=True)
class _WalkedFolder:
    """A folder on the way, with what those above it say."""

    path: str  # ends in a slash
    ours: tuple[Rules, ...] = ()  # of every .memoristignore, the nearest first
    gits: tuple[Rules, ...] = ()  # of every .gitignore in the same repository
    wanted: tuple[Rules, ...] = ()  # patterns of which each file still has to match one


@dataclass(slots=True)
class _Tree:
    """What is below one folder."""

    root: str  # ends in a slash
    excluded: Rules
    wanted: tuple[Rules, ...]
    left_out: int = 0  # how much was ignored or hidden
    _entered: set[str] = field(default_factory=set)
    _links: deque[str] = field(default_factory=deque)  # where those lead to that stay inside, to be looked at last
    _notes: list[Skipped] = field(default_factory=list)

    def files(self) -> Iterator[tuple[str, bool] | Skipped]:
        """Where there is something, and whether a pattern asks for its kind: folder by folder, in order of name."""
        folders = [self._at(self.root)]
        while folders:
            folder = folders.pop()
            if folder.path not in self._entered:
                self._entered.add(folder.path)
                inner: list[_WalkedFolder] = []
                yield from self._entries(folder, inner)
                folders += reversed(inner)
            while self._links and not folders:  # most lead to what is found by then
                target = self._links.popleft()
                if os.path.isdir(target):
                    folders.append(self._at(target.rstrip("/") + "/"))
                else:
                    yield from self._file(self._at(target.rpartition("/")[0] + "/"), target)

    def _entries(self, folder: _WalkedFolder, inner: list[_WalkedFolder]) -> Iterator[tuple[str, bool] | Skipped]:
        """The files of a folder that are not ignored; adds the folders in it."""
        try:
            with os.scandir(folder.path) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError as exc:
            if not isinstance(exc, FileNotFoundError):
                yield Skipped(Path(folder.path), trouble(exc), stays=True)
            return
        names = {entry.name for entry in entries}
        if folder.path != self.root and names & TOOL_MARKS:
            self.left_out += 1
            return
        folder = self._with_rules(folder, names)
        yield from self._notes
        self._notes.clear()
        for entry in entries:
            path = folder.path + entry.name
            try:
                is_folder, is_link = entry.is_dir(follow_symlinks=False), entry.is_symlink()
            except OSError as exc:
                yield Skipped(Path(path), trouble(exc), stays=True)
                continue
            if self._is_ignored(folder, path, entry.name, is_folder):
                self.left_out += entry.name not in (".git", GITS, OURS)
            elif is_link:
                yield from self._link(path)
            elif not is_folder:
                yield from self._file(folder, path)
            elif _is_text(path):
                inner.append(self._inside(folder, path))
            else:
                yield Skipped(Path(path), "its name is not UTF-8")

    def _link(self, path: str) -> Iterator[Skipped]:
        target = _real(path)
        if not f"{target}/".startswith(self.root):
            yield Skipped(Path(path), "a link that leads out of the folder")
        elif not os.path.exists(target):
            yield Skipped(Path(path), "a link to nothing")
        else:
            self._links.append(target)

    def _is_ignored(self, folder: _WalkedFolder, path: str, name: str, is_folder: bool) -> bool:
        """
        Whether it is excluded, ignored or hidden, and not taken back in.

        Our rules go before those of git. They show what is hidden too, if they name it: `!*/` does not mean `.cache`.
        """
        if name == ".git" or _ignoring(self.excluded.about(path, is_folder)):
            return True
        hidden = name in TOOLS or (name.startswith(".") and name not in SHOWN)
        if rule := _deciding(folder.ours, path, is_folder):
            return rule.ignores or (hidden and not rule.by_name)
        return hidden or _ignoring(_deciding(folder.gits, path, is_folder))

    def _file(self, folder: _WalkedFolder, path: str) -> Iterator[tuple[str, bool]]:
        """A file, if it is wanted."""
        rules = [rules.about(path, False) for rules in folder.wanted]
        if all(map(_ignoring, rules)):
            yield path, any(rule and rule.by_suffix for rule in rules)

    def _inside(self, folder: _WalkedFolder, path: str) -> _WalkedFolder:
        """The folder at a path in a folder. Where a pattern wants a folder, it wants all that is in it."""
        wanted = tuple(rules for rules in folder.wanted if not _ignoring(rules.about(path, True)))
        return replace(folder, path=path + "/", wanted=wanted)

    def _at(self, path: str) -> _WalkedFolder:
        """A folder, the root or one below it, with what those above it say, from the top of its repository on."""
        above = [path[: slash.end()] for slash in re.finditer("/", path)]
        tops = [place for place in above if len(place) <= len(self.root) and os.path.lexists(place + ".git")]
        folder = _WalkedFolder(max(tops, key=len, default=self.root), wanted=self.wanted)
        for place in above[above.index(folder.path) + 1 :]:
            names = [name for name in (".git", GITS, OURS) if os.path.lexists(folder.path + name)]
            folder = self._with_rules(folder, names)
            folder = self._inside(folder, place[:-1]) if len(place) > len(self.root) else replace(folder, path=place)
        return folder

    def _with_rules(self, folder: _WalkedFolder, names: Collection[str]) -> _WalkedFolder:
        """A folder with the rules that stand in it; where a repository begins, those above hold no more."""
        ours, gits = folder.ours, folder.gits
        if ".git" in names:
            gits = self._read_rules(folder.path, _exclude_file(folder.path + ".git"))
        if GITS in names:
            gits = self._read_rules(folder.path, folder.path + GITS) + gits
        if OURS in names:
            ours = self._read_rules(folder.path, folder.path + OURS) + ours
        return replace(folder, ours=ours, gits=gits)

    def _read_rules(self, folder: str, file: str) -> tuple[Rules, ...]:
        if not os.path.lexists(file):
            return ()
        try:
            rules = Rules(folder, lines_of(load(Path(file), LARGEST_RULES)))
        except Unreadable as exc:
            self._notes.append(Skipped(Path(file), f"its rules do not count: {exc}"))
            return ()
        return (rules,) if rules else ()


def _deciding(stack: Sequence[Rules], path: str, is_folder: bool) -> Rule | None:
    return next((rule for rules in stack if (rule := rules.about(path, is_folder))), None)


def _ignoring(rule: Rule | None) -> bool:
    return rule is not None and rule.ignores


def _wants(rules: Rules, path: str, start: int) -> bool:
    """Whether a pattern matches a path, or a folder on the way to it from the start on."""
    folders = (path[: slash.start()] for slash in re.finditer("/", path) if slash.start() >= start)
    return _ignoring(rules.about(path, False)) or any(_ignoring(rules.about(folder, True)) for folder in folders)


def _exclude_file(git: str) -> str:
    """The rules a repository keeps to itself; in a worktree or submodule, `.git` is a file that says where it is."""
    try:
        if not os.path.isdir(git):
            git = os.path.join(os.path.dirname(git), os.fsdecode(load(Path(git), 4096)).removeprefix("gitdir:").strip())
            git = os.path.join(git, os.fsdecode(load(Path(git, "commondir"), 4096)).strip())
    except (Unreadable, ValueError):  # no worktree, or nothing git would know either
        pass
    return os.path.join(git, "info", "exclude")


def _is_text(path: str) -> bool:
    try:
        return bool(path.encode())
    except UnicodeEncodeError:
        return False


def _shown(path: str) -> Path:
    return Path(path.encode("utf-8", "backslashreplace").decode())
