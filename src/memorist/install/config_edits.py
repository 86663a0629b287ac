"""
Changes to clients' config files: our server and our hooks, added beside the entries of others and removed again.

Changes are planned first, then shown as a diff or written.
"""

import difflib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

from memorist.atomic_file import write_atomically
from memorist.errors import ConfigError, InvalidInput
from memorist.install import jsonc, toml
from memorist.install.clients import NAME, Client, ConfigPaths, HookConfig

HOOKS_KEY = "hooks"  # in the config of every client that has hooks
_BACKUP_SUFFIX = ".before-memorist"

_Values = dict[str, Any]
_Edit = Callable[[_Values], _Values]


@dataclass(frozen=True, slots=True)
class FileChange:
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
    return _plan_changes(client, edits)


def write_changes(changes: Iterable[FileChange]) -> list[Path]:
    """Make the changes, and return the copies of the files as they were before."""
    return [copy for change in changes if (copy := _write(change))]


def _find_files(client: Client, scope: str, paths: ConfigPaths) -> tuple[Path, Path | None]:
    """Return the file that lists a client's servers, and the one that lists its hooks."""
    if scope not in client.server_files:
        raise InvalidInput(f"{client.title} has no {scope} config; its scope is {' or '.join(client.server_files)}")
    server_file = _resolve(paths.expand(client.server_files[scope]))
    return server_file, _resolve(paths.expand(client.hooks.files[scope])) if client.hooks else None


def _resolve(file: Path) -> Path:
    """Follow links; take the file's .jsonc variant if that is the one in use."""
    variant = file.with_suffix(".jsonc")
    return (variant if variant.exists() and not file.exists() else file).resolve()


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
    try:
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


def _write(change: FileChange) -> Path | None:
    """Make a change, and return the copy of the file as it was before."""
    file, copy = change.file, None
    if _read_text(file) != change.old:
        raise ConfigError(f"{file} was changed by another program in the meantime; try again")
    if change.old is not None:
        copy = _find_unused(file.with_name(file.name + _BACKUP_SUFFIX))
        shutil.copy2(file, copy)
    if change.new is None:
        file.unlink()
    else:
        write_atomically(file, change.new.encode("utf-8"))
    return copy


def _find_unused(file: Path) -> Path:
    names = (file if number == 1 else file.with_name(f"{file.name}-{number}") for number in range(1, 1_000_000))
    return next(name for name in names if not name.exists())


# Our entries in the values of a config


def _has_server(values: Mapping[str, Any], client: Client) -> bool:
    return NAME in _get_object(values, client.server_key)


def _add_server(values: _Values, client: Client, program: Sequence[str]) -> _Values:
    """Return the values with an entry for our server; fields that a user added to an older one stay."""
    servers = _get_object(values, client.server_key)
    entry = servers.get(NAME)
    ours = (entry if isinstance(entry, dict) else {}) | client.server_entry([*program, "mcp"])
    return values | {client.server_key: servers | {NAME: ours}}


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
    return words[-2:-1] == ["hook"] and any(PureWindowsPath(word).stem == NAME for word in words[:-2])


def _join_command(words: Sequence[str]) -> str:
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def _get_object(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = values.get(key, {})
    if not isinstance(value, dict):
        raise ConfigError(f'"{key}" in it is not an object')
    return value


def _get_hook_lists(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {event: entries for event, entries in _get_object(values, HOOKS_KEY).items() if isinstance(entries, list)}
