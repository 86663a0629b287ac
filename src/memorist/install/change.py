"""What changes in a client's config files: worked out first, shown or written then."""

import difflib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from memorist.errors import ConfigError, InvalidInput
from memorist.install import entries, jsonc, toml
from memorist.install.clients import NAME, Client, Places
from memorist.install.entries import Values

BACKUP = ".before-memorist"


@dataclass(frozen=True, slots=True)
class Change:
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


def installed(client: Client, scope: str, places: Places) -> list[str]:
    """What of ours a client knows of in a scope: its server, its hooks, both or neither."""
    found = ["server"] if entries.has_server(_values(client, *_text(_server(client, scope, places))), client) else []
    hooks = _hooks(client, scope, places)
    return [*found, "hooks"] if hooks and entries.has_hooks(_values(client, *_text(hooks))) else found


def installing(
    client: Client, scope: str, places: Places, program: Sequence[str], *, hooks: bool = True
) -> list[Change]:
    """
    What to change, so that a client knows of our server and, where it has such a thing, calls our hooks; or does not.
    """
    edits: list[tuple[Path, Callable[[Values], Values]]] = [
        (_server(client, scope, places), lambda values: entries.with_server(values, client, program))
    ]
    file, called = _hooks(client, scope, places), client.hooks
    if file and called:
        wanted = (lambda values: entries.with_hooks(values, called, program)) if hooks else entries.without_hooks
        edits.append((file, wanted))
    return _changes(client, edits)


def removing(client: Client, scope: str, places: Places) -> list[Change]:
    """What to change, so that nothing of ours is left; a file that holds nothing else goes."""
    edits: list[tuple[Path, Callable[[Values], Values]]] = [
        (_server(client, scope, places), lambda values: entries.without_server(values, client))
    ]
    if file := _hooks(client, scope, places):
        edits.append((file, entries.without_hooks))
    return _changes(client, edits)


def write(changes: Iterable[Change]) -> list[Path]:
    """Make the changes; gives the copies that were made of what was there before."""
    return [copy for change in changes if (copy := _write(change))]


def _server(client: Client, scope: str, places: Places) -> Path:
    if scope not in client.servers:
        raise InvalidInput(f"{client.title} has no config of a {scope}; its scope is {' or '.join(client.servers)}")
    return _there(places.path(client.servers[scope]))


def _hooks(client: Client, scope: str, places: Places) -> Path | None:
    return _there(places.path(client.hooks.files[scope])) if client.hooks else None


def _there(file: Path) -> Path:
    """The file itself, where its name is a link to it; its twin with comments, where that is the one in use."""
    twin = file.with_suffix(".jsonc")
    return (twin if twin.exists() and not file.exists() else file).resolve()


def _changes(client: Client, edits: Iterable[tuple[Path, Callable[[Values], Values]]]) -> list[Change]:
    """The edits, one change for each file that is not as it should be already."""
    changes: dict[Path, Change] = {}
    for file, edit in edits:
        change = changes.get(file) or Change(*(read := _text(file)), read[1])
        values = _values(client, file, change.new)
        with _about(file):
            new = edit(values)
            if new != values:
                text = _patched(client, file, change.new or "", values, new)
                changes[file] = Change(file, change.old, None if _is_bare(client, file, text) else text)
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


def _write(change: Change) -> Path | None:
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
