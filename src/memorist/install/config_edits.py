"""
Changes to clients' config files: our server and our hooks, added beside the entries of others and removed again.

Changes are planned first, then shown as a diff or written.
"""

import difflib
import itertools
import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PureWindowsPath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memorist.atomic_file import is_special, write_atomically
from memorist.errors import ConfigError, InvalidInput
from memorist.install import jsonc, toml
from memorist.install.clients import NAME, PROJECT, Client, ConfigPaths, HookConfig

HOOKS_KEY = "hooks"  # in the config of every client that has hooks
_BACKUP_SUFFIX = ".before-memorist"
_MAX_FILE_BYTES = 64 * 2**20  # Claude Code keeps more than settings in its file

_Values = dict[str, Any]
_Edit = Callable[[_Values], _Values]


class FileChange(Struct, frozen=True):
    """The text of a file before and after a change; None means no file."""

    file: Path
    old: str | None
    new: str | None

    @property
    def diff(self) -> str:
        old, new = ((text or "").splitlines(keepends=True) for text in (self.old, self.new))
        before, after = (os.devnull if text is None else str(self.file) for text in (self.old, self.new))
        lines = difflib.unified_diff(old, new, before, after)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def list_installed(client: Client, scope: str, paths: ConfigPaths) -> list[str]:
    """Return which of our entries a client has in a scope: "server", "hooks", both or neither."""
    server_file, hooks_file = _find_files(client, scope, paths)
    has_our_server = _has_server(_parse(client, server_file, _read_text(server_file)), client)
    has_our_hooks = hooks_file is not None and _has_hooks(_parse(client, hooks_file, _read_text(hooks_file)))
    return [*(["server"] if has_our_server else []), *(["hooks"] if has_our_hooks else [])]


def plan_install(
    client: Client, scope: str, paths: ConfigPaths, program: Sequence[str], *, hooks: bool = True
) -> list[FileChange]:
    """Return the changes that add our server, and that add our hooks or, without `hooks`, remove them."""
    server_file, hooks_file = _find_files(client, scope, paths)
    edits: list[tuple[Path, _Edit]] = [(server_file, lambda values: _add_server(values, client, program))]
    config = client.hooks
    if hooks_file and config:
        edits.append((hooks_file, (lambda values: add_hooks(values, config, program)) if hooks else _remove_hooks))
    return _plan_changes(client, edits)


def plan_removal(client: Client, scope: str, paths: ConfigPaths) -> list[FileChange]:
    """Return the changes that remove our entries, and files that hold nothing else."""
    server_file, hooks_file = _find_files(client, scope, paths)
    edits: list[tuple[Path, _Edit]] = [(server_file, lambda values: _remove_server(values, client))]
    if hooks_file:
        edits.append((hooks_file, _remove_hooks))
    return [_restore_original(client, change, edits) for change in _plan_changes(client, edits)]


def _restore_original(client: Client, change: FileChange, removals: Iterable[tuple[Path, _Edit]]) -> FileChange:
    """Return the change back to a copy from before we were added, byte for byte, if nothing else has changed since."""
    now = _parse(client, change.file, change.old)
    for copy in reversed(list(_list_copies(change.file))):
        with suppress(ConfigError, OSError):
            text = _read_text(copy) or ""
            values = _parse(client, change.file, text)
            has_ours = any(file == change.file and remove(values) != values for file, remove in removals)
            if not has_ours and _patch(client, change.file, text, values, now) == change.old:
                return replace(change, new=text)
    return change


def write_changes(changes: Iterable[FileChange]) -> list[Path]:
    """Make all the changes or none, and return the copies of the files as they were before."""
    changes, copies = list(changes), []
    for change in changes:
        _check_unchanged(change)
    for number, change in enumerate(changes):
        try:
            copies += [_copy(change.file)] if change.old is not None else []
            _write(change.file, change.new)
        except OSError:
            for done in changes[:number]:
                _write(done.file, done.old)
            raise
    return copies


def _find_files(client: Client, scope: str, paths: ConfigPaths) -> tuple[Path, Path | None]:
    """Return the file that lists a client's servers, and the one that lists its hooks."""
    if scope not in client.server_files:
        raise InvalidInput(f"{client.title} has no {scope} config; its scope is {' or '.join(client.server_files)}")
    root = paths.project.resolve() if scope == PROJECT else None
    server_file = _resolve(paths.expand(client.server_files[scope]), root)
    return server_file, _resolve(paths.expand(client.hooks.files[scope]), root) if client.hooks else None


def _resolve(file: Path, root: Path | None) -> Path:
    """
    Follow links; take the file's .jsonc variant if that is the one in use.

    A user's links lead anywhere; those in a project may come from somebody else, and must stay below its root.
    """
    variant = file.with_suffix(".jsonc")
    path = (variant if variant.exists() and not file.exists() else file).resolve()
    if root and not path.is_relative_to(root):
        raise ConfigError(f"{file} is a link that leads out of the project, to {path}; it was not followed")
    return path


def _plan_changes(client: Client, edits: Iterable[tuple[Path, _Edit]]) -> list[FileChange]:
    """Return one change for each file that the edits change; several edits may be of one file."""
    changes: dict[Path, FileChange] = {}
    for file, edit in edits:
        change = changes.get(file) or FileChange(file, text := _read_text(file), text)
        values = _parse(client, file, change.new)
        with _name_in_errors(file):
            edited = edit(values)
            if edited != values:
                new = _patch(client, file, change.new or "", values, edited)
                changes[file] = FileChange(file, change.old, None if _is_empty(client, file, new) else new)
    return list(changes.values())


def _read_text(file: Path) -> str | None:
    if is_special(file):
        raise ConfigError(f"{file} is not a file, but a pipe or a device")
    try:
        if file.stat().st_size > _MAX_FILE_BYTES:
            raise ConfigError(f"{file} is longer than {_MAX_FILE_BYTES // 2**20} MB; it was left as it is")
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{file} is not UTF-8; it was left as it is") from exc


def _parse(client: Client, file: Path, text: str | None) -> _Values:
    if text is None or not text.strip():
        return {}
    with _name_in_errors(file):
        if file.suffix == ".toml":
            return toml.parse_document(text)
        return jsonc.parse_object(text, comments=client.allows_comments)


def _patch(client: Client, file: Path, text: str, old: _Values, new: _Values) -> str:
    if file.suffix == ".toml":
        return toml.patch_table(text, new, client.server_key, NAME)
    patched = jsonc.patch_object(text, new, comments=client.allows_comments)
    return jsonc.remove_emptied(patched, old, comments=client.allows_comments)


def _is_empty(client: Client, file: Path, text: str) -> bool:
    """Check that nothing is left in a file, not even a comment."""
    if file.suffix == ".toml":
        return not text.strip()
    with suppress(ConfigError):
        return jsonc.parse_object(text, comments=False) in ({}, client.hooks.required if client.hooks else {})
    return False


@contextmanager
def _name_in_errors(file: Path) -> Iterator[None]:
    """Name the file in errors about it, and say that it was not changed."""
    try:
        yield
    except ConfigError as exc:
        raise ConfigError(f"{file} was left as it is: {exc}") from exc


def _check_unchanged(change: FileChange) -> None:
    """Raise ConfigError if a file is no longer as it was when its change was planned, or must not be changed."""
    if _read_text(change.file) != change.old:
        raise ConfigError(f"{change.file} was changed by another program in the meantime; try again")
    if change.old is not None and not change.file.stat().st_mode & stat.S_IWUSR:
        raise ConfigError(f"{change.file} is read-only; it was left as it is")


def _write(file: Path, text: str | None) -> None:
    if text is None:
        file.unlink(missing_ok=True)
    else:
        write_atomically(file, text.encode("utf-8"))


def _copy(file: Path) -> Path:
    """Copy a file to a new one beside it. A link of that name is not followed: others may have put it there."""
    for number in itertools.count(1):
        copy = _name_copy(file, number)
        try:
            handle = os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o600)
        except FileExistsError:
            continue
        with open(handle, "wb") as out:
            out.write(file.read_bytes())
        shutil.copystat(file, copy)
        return copy
    raise AssertionError("unreachable")


def _list_copies(file: Path) -> Iterator[Path]:
    """Yield the copies that were made of a file, the oldest first."""
    copies = (_name_copy(file, number) for number in itertools.count(1))
    return itertools.takewhile(os.path.lexists, copies)


def _name_copy(file: Path, number: int) -> Path:
    return file.with_name(file.name + _BACKUP_SUFFIX + (f"-{number}" if number > 1 else ""))


# Our entries in the values of a config


def _has_server(values: Mapping[str, Any], client: Client) -> bool:
    return _is_our_server(_get_object(values, client.server_key).get(NAME))


def _is_our_server(entry: Any) -> bool:
    """Recognize our server by its command, `memorist ... mcp ...`, wherever the program is and whatever its options."""
    if not isinstance(entry, dict):
        return False
    parts = (entry.get("command"), entry.get("args", []))
    words = [word for part in parts for word in (part if isinstance(part, list) else [part])]
    return "mcp" in words and any(_is_our_program(word) for word in words[: words.index("mcp")])


def _add_server(values: _Values, client: Client, program: Sequence[str]) -> _Values:
    """Return the values with an entry for our server; fields that a user added to an older one stay."""
    servers = _get_object(values, client.server_key)
    entry = servers.get(NAME, {})
    if NAME in servers and not _is_our_server(entry):
        raise ConfigError(f'"{client.server_key}"."{NAME}" in it is a server of your own; give it another name first')
    return values | {client.server_key: servers | {NAME: entry | client.server_entry([*program, "mcp"])}}


def _remove_server(values: _Values, client: Client) -> _Values:
    """Return the values without our server; an object that is then empty stays."""
    if not _has_server(values, client):
        return values
    servers = {name: entry for name, entry in _get_object(values, client.server_key).items() if name != NAME}
    return values | {client.server_key: servers}


def _has_hooks(values: Mapping[str, Any]) -> bool:
    return any(_contains_ours(entry) for entries in _get_hook_lists(values).values() for entry in entries)


def add_hooks(values: _Values, hooks: HookConfig, program: Sequence[str]) -> _Values:
    """Return the values with our command for each event; one that is there already stays in its place."""
    ours = {event: hooks.entry(_join_command([*program, "hook", event]), event) for event in hooks.events}
    lists = dict(_get_object(values, HOOKS_KEY))
    for event in {**_get_hook_lists(values), **ours}:
        entries = lists.get(event, [])
        if not isinstance(entries, list):
            raise ConfigError(f'"{HOOKS_KEY}"."{event}" in it is not a list')
        if [entry for entry in entries if _contains_ours(entry)] != [ours.get(event)]:
            lists[event] = [*_remove_ours(entries), *([ours[event]] if event in ours else [])]
    return {**hooks.required, **values, HOOKS_KEY: lists}


def _remove_hooks(values: _Values) -> _Values:
    """Return the values without our hooks; lists that are then empty stay."""
    if not _has_hooks(values):
        return values
    others = {event: _remove_ours(entries) for event, entries in _get_hook_lists(values).items()}
    return values | {HOOKS_KEY: _get_object(values, HOOKS_KEY) | others}


def _remove_ours(entries: Sequence[Any]) -> list[Any]:
    """Return a list of hooks without ours; of a group, the hooks of others stay."""
    others = []
    for entry in entries:
        if not _contains_ours(entry):
            others.append(entry)
        elif group := [hook for hook in _get_group(entry) if not _is_ours(hook)]:
            others.append(entry | {"hooks": group})
    return others


def _contains_ours(entry: Any) -> bool:
    """Check whether an entry is our hook, or a group that holds it."""
    return _is_ours(entry) or any(_is_ours(hook) for hook in _get_group(entry))


def _get_group(entry: Any) -> list[Any]:
    group = entry.get("hooks") if isinstance(entry, dict) else None
    return group if isinstance(group, list) else []


def _is_ours(hook: Any) -> bool:
    """Recognize our hook by its command, `memorist ... hook EVENT`, wherever the program is."""
    command = hook.get("command") if isinstance(hook, dict) else None
    if not isinstance(command, str):
        return False
    try:
        words = [word.strip("\"'") for word in shlex.split(command, posix=False)]
    except ValueError:
        return False
    return words[-2:-1] == ["hook"] and any(_is_our_program(word) for word in words[:-2])


def _is_our_program(word: Any) -> bool:
    return isinstance(word, str) and PureWindowsPath(word).stem == NAME


def _join_command(words: Sequence[str]) -> str:
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def _get_object(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = values.get(key, {})
    if not isinstance(value, dict):
        raise ConfigError(f'"{key}" in it is not an object')
    return value


def _get_hook_lists(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {event: entries for event, entries in _get_object(values, HOOKS_KEY).items() if isinstance(entries, list)}
