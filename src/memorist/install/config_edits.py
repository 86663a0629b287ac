"""Our entries among those of others, in the values of a client's config: put in, found again, taken out.

What changes in a client's config files: worked out first, shown or written then.
"""

import difflib
import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

from memorist.errors import ConfigError, InvalidInput
from memorist.install import config_edits, jsonc, toml
from memorist.install.clients import NAME, Client, ConfigPaths, Hooks

HOOKS = "hooks"  # under which every client that has any lists them

Values = dict[str, Any]


def has_server(values: Mapping[str, Any], client: Client) -> bool:
    return NAME in _object(values, client.key)


def with_server(values: Values, client: Client, program: Sequence[str]) -> Values:
    """With an entry for our server; what a user added to the one that is there stays."""
    servers = _object(values, client.key)
    entry = servers.get(NAME)
    ours = (entry if isinstance(entry, dict) else {}) | client.entry([*program, "mcp"])
    return values | {client.key: servers | {NAME: ours}}


def without_server(values: Values, client: Client) -> Values:
    """Without it; that nothing may be left where it stood is for the text to show."""
    if not has_server(values, client):
        return values
    servers = {name: entry for name, entry in _object(values, client.key).items() if name != NAME}
    return values | {client.key: servers}


def has_hooks(values: Mapping[str, Any]) -> bool:
    return any(_ours_in(entry) for entries in _lists(values).values() for entry in entries)


def with_hooks(values: Values, hooks: Hooks, program: Sequence[str]) -> Values:
    """With a command of ours for each event; where it is there already, it stays where it is."""
    wanted = {event: hooks.entry(_command([*program, "hook", event])) for event in hooks.events}
    listed = dict(_object(values, HOOKS))
    for event in {**_lists(values), **wanted}:
        entries = listed.get(event, [])
        if not isinstance(entries, list):
            raise ConfigError(f'"{HOOKS}"."{event}" in it is no list')
        if [entry for entry in entries if _ours_in(entry)] != [wanted.get(event)]:
            kept = _kept(entries)
            listed[event] = [*kept, wanted[event]] if event in wanted else kept
    return {**hooks.besides, **values, HOOKS: listed}


def without_hooks(values: Values) -> Values:
    if not has_hooks(values):
        return values
    return values | {HOOKS: _object(values, HOOKS) | {event: _kept(one) for event, one in _lists(values).items()}}


def _kept(entries: Sequence[Any]) -> list[Any]:
    """What is not ours of a list of hooks; of a group, what is not ours in it."""
    kept = []
    for entry in entries:
        if not _ours_in(entry):
            kept.append(entry)
        elif isinstance(entry.get("hooks"), list) and (others := [one for one in entry["hooks"] if not _is_ours(one)]):
            kept.append(entry | {"hooks": others})
    return kept


def _ours_in(entry: Any) -> bool:
    """Whether a hook is ours, or one of a group is."""
    group = entry.get("hooks") if isinstance(entry, dict) else None
    return _is_ours(entry) or (isinstance(group, list) and any(_is_ours(one) for one in group))


def _is_ours(hook: Any) -> bool:
    """By its command: `memorist ... hook EVENT`, wherever the program is."""
    command = hook.get("command") if isinstance(hook, dict) else None
    if not isinstance(command, str):
        return False
    try:
        words = [word.strip("\"'") for word in shlex.split(command, posix=False)]
    except ValueError:
        return False
    return words[-2:-1] == ["hook"] and any(PureWindowsPath(word).stem == NAME for word in words[:-2])


def _command(words: Sequence[str]) -> str:
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def _object(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = values.get(key, {})
    if not isinstance(found, dict):
        raise ConfigError(f'"{key}" in it is no object')
    return found


def _lists(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {event: entries for event, entries in _object(values, HOOKS).items() if isinstance(entries, list)}


BACKUP = ".before-memorist"


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file, as it is and as it is to be; None is no file."""

    file: Path
    old: str | None
    new: str | None

    @property
    def diff(self) -> str:
        old, new = ((text or "").splitlines(keepends=True) for text in (self.old, self.new))
        before, after = (os.devnull if text is None else str(self.file) for text in (self.old, self.new))
        lines = difflib.unified_diff(old, new, before, after)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def installed(client: Client, scope: str, places: ConfigPaths) -> list[str]:
    """What of ours a client knows of in a scope: its server, its hooks, both or neither."""
    found = (
        ["server"] if config_edits.has_server(_values(client, *_text(_server(client, scope, places))), client) else []
    )
    hooks = _hooks(client, scope, places)
    return [*found, "hooks"] if hooks and config_edits.has_hooks(_values(client, *_text(hooks))) else found


def installing(
    client: Client, scope: str, places: ConfigPaths, program: Sequence[str], *, hooks: bool = True
) -> list[FileChange]:
    """
    What to change, so that a client knows of our server and, where it has such a thing, calls our hooks; or does not.
    """
    edits: list[tuple[Path, Callable[[Values], Values]]] = [
        (_server(client, scope, places), lambda values: config_edits.with_server(values, client, program))
    ]
    file, called = _hooks(client, scope, places), client.hooks
    if file and called:
        wanted = (
            (lambda values: config_edits.with_hooks(values, called, program)) if hooks else config_edits.without_hooks
        )
        edits.append((file, wanted))
    return _changes(client, edits)


def removing(client: Client, scope: str, places: ConfigPaths) -> list[FileChange]:
    """What to change, so that nothing of ours is left; a file that holds nothing else goes."""
    edits: list[tuple[Path, Callable[[Values], Values]]] = [
        (_server(client, scope, places), lambda values: config_edits.without_server(values, client))
    ]
    if file := _hooks(client, scope, places):
        edits.append((file, config_edits.without_hooks))
    return _changes(client, edits)


def write(changes: Iterable[FileChange]) -> list[Path]:
    """Make the changes; gives the copies that were made of what was there before."""
    return [copy for change in changes if (copy := _write(change))]


def _server(client: Client, scope: str, places: ConfigPaths) -> Path:
    if scope not in client.servers:
        raise InvalidInput(f"{client.title} has no config of a {scope}; its scope is {' or '.join(client.servers)}")
    return _there(places.path(client.servers[scope]))


def _hooks(client: Client, scope: str, places: ConfigPaths) -> Path | None:
    return _there(places.path(client.hooks.files[scope])) if client.hooks else None


def _there(file: Path) -> Path:
    """The file itself, where its name is a link to it; its twin with comments, where that is the one in use."""
    twin = file.with_suffix(".jsonc")
    return (twin if twin.exists() and not file.exists() else file).resolve()


def _changes(client: Client, edits: Iterable[tuple[Path, Callable[[Values], Values]]]) -> list[FileChange]:
    """The edits, one change for each file that is not as it should be already."""
    changes: dict[Path, FileChange] = {}
    for file, edit in edits:
        change = changes.get(file) or FileChange(*(read := _text(file)), read[1])
        values = _values(client, file, change.new)
        with _about(file):
            new = edit(values)
            if new != values:
                text = _patched(client, file, change.new or "", values, new)
                changes[file] = FileChange(file, change.old, None if _is_bare(client, file, text) else text)
    return list(changes.values())


def _text(file: Path) -> tuple[Path, str | None]:
    try:
        return file, file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return file, None
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{file} is not UTF-8; it was left as it is") from exc


def _values(client: Client, file: Path, text: str | None) -> Values:
    if not (text or "").strip():
        return {}
    with _about(file):
        return toml.read(text or "") if file.suffix == ".toml" else jsonc.read(text or "", comments=client.comments)


def _patched(client: Client, file: Path, text: str, old: Values, new: Values) -> str:
    if file.suffix == ".toml":
        return toml.patched(text, new, (client.key, NAME))
    patched = jsonc.patched(text, new, comments=client.comments)
    return jsonc.without_emptied(patched, old, comments=client.comments)


def _is_bare(client: Client, file: Path, text: str) -> bool:
    """Whether nothing of anybody is left in a file, not even a comment."""
    if file.suffix == ".toml":
        return not text.strip()
    with suppress(ConfigError):
        return jsonc.read(text, comments=False) in ({}, client.hooks.besides if client.hooks else {})
    return False


@contextmanager
def _about(file: Path) -> Iterator[None]:
    """Errors about a file name it, and say that nothing happened to it."""
    try:
        yield
    except ConfigError as exc:
        raise ConfigError(f"{file} was left as it is: {exc}") from exc


def _write(change: FileChange) -> Path | None:
    """Copy what is there, then put the new text in its place at once, so that nobody reads half of it."""
    file, copy = change.file, None
    if _text(file)[1] != change.old:
        raise ConfigError(f"{file} was changed by another program in the meantime; try again")
    if change.old is not None:
        copy = _unused(file.with_name(file.name + BACKUP))
        shutil.copy2(file, copy)
    if change.new is None:
        file.unlink()
        return copy
    file.parent.mkdir(parents=True, exist_ok=True)
    part = _unused(file.with_name(f"{file.name}.part"))
    mode = stat.S_IMODE(file.stat().st_mode) if copy else 0o666  # a file with keys in it is nobody else's, at no time
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
            out.write(change.new.encode("utf-8"))
        if copy:
            part.chmod(mode)
        part.replace(file)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    return copy


def _unused(file: Path) -> Path:
    names = (file if number == 1 else file.with_name(f"{file.name}-{number}") for number in range(1, 1_000_000))
    return next(name for name in names if not name.exists())
