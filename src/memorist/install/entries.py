"""Our entries among those of others, in the values of a client's config: put in, found again, taken out."""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import PureWindowsPath
from typing import Any

from memorist.errors import ConfigError
from memorist.install.clients import NAME, Client, Hooks

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
