"""
Settings: defaults < the user's config.toml < the project's memorist.toml < MEMORIST_... < arguments.

Only surfaces read them; `memorist.open` never does.
"""

import fnmatch
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from memorist import validation
from memorist.errors import ConfigError, InvalidInput
from memorist.profiles import PROFILES
from memorist.records import NEAR_ACTIONS

PROJECT_FILE = "memorist.toml"
USER_FILE = "config.toml"
# A project's file comes with the project, so it may not decide where the user's memories are sent.
PROJECT_EMBEDDERS = validation.LOCAL_EMBEDDERS
# Nor may it choose whom they are told, let a model write them, or say what is no secret.
USERS_OWN = ("chat", "chat_add", "redact_allow", "trusted")
# Nor, where nobody typed the command, where they are kept or what reads them: opening a folder is no consent.
IF_TRUSTED = ("database", "namespace", "models")
SECRETS = ("http_token",)  # known to whoever has the project, were they in its file; and never shown
PATHS = {"database", "models"}
SYNCHRONOUS = ("full", "normal")


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set. `database` None is the user's own one."""

    database: str | None = None
    namespace: str = "default"
    project: str | None = None
    embedder: str = "local"
    profile: str = "balanced"
    threads: int | None = None
    busy_timeout: float = 30.0
    synchronous: str = "full"
    near: str = "report"
    redact: bool = False
    redact_allow: tuple[str, ...] = ()
    models: str | None = None
    trusted: tuple[str, ...] = ()
    chat: str | None = None
    chat_add: bool = False
    chat_timeout: float = 120.0
    answer_tokens: int = 1500
    http_token: str | None = field(default=None, repr=False)


TYPES: Mapping[str, type] = {
    "database": str,
    "namespace": str,
    "project": str,
    "embedder": str,
    "profile": str,
    "threads": int,
    "busy_timeout": float,
    "synchronous": str,
    "near": str,
    "redact": bool,
    "redact_allow": list,
    "models": str,
    "trusted": list,
    "chat": str,
    "chat_add": bool,
    "chat_timeout": float,
    "answer_tokens": int,
    "http_token": str,
}
_WORDS = {bool: "true or false", list: "a list of texts", str: "text"}  # what a value must be, if not a number
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, for each that is not a default where it came from, and what of a project's file was passed over."""

    settings: Settings
    origins: Mapping[str, str]
    passed_over: str | None = None


def load(
    environ: Mapping[str, str], folder: Path, arguments: Mapping[str, Any], *, typed: bool = True
) -> LoadedSettings:
    """
    Put the settings together, each from the place that counts most.

    Where nobody `typed` the command, a project's file counts in full only if the user trusts its folder.
    """
    user, project = user_file(environ), project_file(folder)
    own, of_environment = _placed(user), _of_environment(environ)
    given = {name: value for name, value in arguments.items() if value is not None}
    of_project = _of_project(project) if project else {}
    passed_over = None
    if project and not typed and not _trusted(project.parent, (own | of_environment).get("trusted", ())):
        held = [name for name in IF_TRUSTED if name in of_project]
        of_project = {name: value for name, value in of_project.items() if name not in held}
        if missed := [name for name in held if name not in of_environment | given]:
            passed_over = (
                f"{project} sets {' and '.join(missed)}, which was passed over: nobody typed this command; if you "
                f"trust the project, add {str(project.parent.resolve())!r} to the list `trusted` in {user}"
            )
    settings = Settings()
    origins: dict[str, str] = {}
    for origin, values in (
        (str(user), own),
        (str(project), of_project),
        ("environment", of_environment),
        ("argument", given),
    ):
        settings = replace(settings, **values)
        origins |= dict.fromkeys(values, origin)
    return LoadedSettings(settings, origins, passed_over)


def user_file(environ: Mapping[str, str]) -> Path:
    """The user's own config file; MEMORIST_CONFIG names another."""
    if named := environ.get("MEMORIST_CONFIG"):
        return Path(named)
    from platformdirs import user_config_path

    return user_config_path("memorist", appauthor=False) / USER_FILE


def default_path() -> Path:
    """The user's own database, where their system keeps such things."""
    from platformdirs import user_data_path

    return user_data_path("memorist", appauthor=False) / "memory.db"


def names_a_file(database: str) -> bool:
    """Whether a database is one on a disk: not in memory, nor somewhere else."""
    return database != ":memory:" and "://" not in database


def nothing_at(path: Path) -> bool:
    """Whether there is no database to read yet: no file, or an empty one."""
    return not path.exists() or (path.is_file() and path.stat().st_size == 0)


def project_file(folder: Path) -> Path | None:
    """The nearest memorist.toml in this folder or one above it."""
    return next((file for place in (folder, *folder.parents) if (file := place / PROJECT_FILE).is_file()), None)


def _trusted(folder: Path, trusted: Iterable[str]) -> bool:
    """Whether a folder is one of those, wherever links lead; a * in one stands for anything."""
    place = str(folder.resolve())
    wanted = (str(Path(os.path.expanduser(one)).resolve()) for one in trusted)
    return any(place == one or fnmatch.fnmatch(place, one) for one in wanted)


def write(file: Path, name: str, text: str, *, of_project: bool) -> None:
    """Set one value in a config file, leaving every other line as it is."""
    value = _converted(name, text, str(file))
    if of_project:
        _safe_for_a_project(file, {name: value})
    elif name in PATHS:
        value = _path(value, Path.cwd())
    line = f"{name} = {as_toml(value)}"
    pattern = re.compile(rf"^{name}\s*=.*$", re.MULTILINE)
    try:
        old = file.read_text("utf-8") if file.exists() else ""
        new = pattern.sub(lambda _: line, old, count=1) if pattern.search(old) else f"{line}\n{old}"
        tomllib.loads(new)
        data = new.encode("utf-8")
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(file.name + ".part")
        part.write_bytes(data)
        part.replace(file)
    except OSError as exc:
        raise ConfigError(f"{file} cannot be written: {exc.strerror}") from exc
    except ValueError as exc:  # it was broken before, the old value has several lines, the new one is no text
        raise ConfigError(f"{name} cannot be set in {file} as it is written there; change it by hand: {exc}") from exc


def _read(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        values = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise ConfigError(f"{file} cannot be read: {exc}") from exc
    return {name: _typed(name, value, str(file)) for name, value in values.items()}


def _of_project(file: Path) -> dict[str, Any]:
    values = _placed(file)
    _safe_for_a_project(file, values)
    return values


def _placed(file: Path) -> dict[str, Any]:
    """What a file sets; its paths begin where it is, wherever one reads it."""
    values = _read(file)
    for name in PATHS & values.keys():
        values[name] = _path(values[name], file.parent)
    return values


def _path(value: str, folder: Path) -> str:
    return str(folder.absolute() / os.path.expanduser(value)) if names_a_file(value) else value


def _safe_for_a_project(file: Path, values: Mapping[str, Any]) -> None:
    for name in SECRETS:
        if name in values:
            raise ConfigError(f"{file} sets {name}, which is a secret: set it in your own config, or the environment")
    if values.get("embedder", "none") not in PROJECT_EMBEDDERS:
        raise ConfigError(
            f"{file} sets embedder = {values['embedder']!r}; a project's file can choose only "
            f"{' or '.join(PROJECT_EMBEDDERS)}: set it in your own config (`memorist config set embedder ...`)"
        )
    if values.get("redact") is False:
        raise ConfigError(f"{file} sets redact = false; a project's file can only switch it on")
    if own := next((name for name in USERS_OWN if name in values), None):
        raise ConfigError(
            f"{file} sets {own}, which is not for a project's file to choose: set it in your own config "
            f"(`memorist config set {own} ...`)"
        )


def _of_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    names = {"MEMORIST_DB": "database"} | {f"MEMORIST_{name.upper()}": name for name in TYPES if name != "database"}
    return {
        name: _converted(name, environ[variable], variable) for variable, name in names.items() if environ.get(variable)
    }


def _converted(name: str, text: str, origin: str) -> Any:
    """A value that came as text."""
    kind = TYPES.get(name)
    if kind in (int, float):
        try:
            return _typed(name, kind(text), origin)
        except ValueError:
            raise ConfigError(f"{_shown(name, text)} in {origin} is not a number") from None
    if kind is bool and text.strip().lower() in (*_YES, *_NO):
        return _typed(name, text.strip().lower() in _YES, origin)
    if kind is list:
        return _typed(name, _listed(text), origin)
    return _typed(name, text, origin)


def _listed(text: str) -> Any:
    """A list written as in JSON; anything else is the only text of one."""
    try:
        value = json.loads(text)
    except ValueError:
        return [text]
    return value if isinstance(value, list) else [text]


_CHECKS: Mapping[str, Callable[[Any], object]] = {
    "namespace": lambda value: validation.required_name(value, "namespace"),
    "project": lambda value: validation.required_name(value, "project"),
    "database": lambda value: validation.required_name(value, "database"),
    "embedder": validation.embedder_name,
    "profile": lambda value: validation.choice(value, PROFILES, "profile"),
    "threads": lambda value: validation.number(value, "threads", 1, 256),
    "busy_timeout": lambda value: validation.number(value, "busy_timeout", 0, 86_400),
    "synchronous": lambda value: validation.choice(value, SYNCHRONOUS, "synchronous"),
    "near": lambda value: validation.choice(value, NEAR_ACTIONS, "near"),
    "redact_allow": lambda value: validation.allowances(value, "redact_allow"),
    "models": lambda value: validation.required_name(value, "models"),
    "trusted": lambda value: validation.folders(value, "trusted"),
    "chat": validation.chat_model,
    "chat_timeout": lambda value: validation.number(value, "chat_timeout", 0.1, 86_400),
    "answer_tokens": lambda value: validation.number(value, "answer_tokens", 1000, 100_000),
    "http_token": lambda value: validation.token(value, "http_token"),
}


def _typed(name: str, value: Any, origin: str) -> Any:
    if name not in TYPES:
        raise ConfigError(f"{origin} sets {name!r}, which is no setting; there are: {', '.join(TYPES)}")
    kind = TYPES[name]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{_shown(name, value)} in {origin} must be {_WORDS.get(kind, 'a number')}")
    try:
        _CHECKS.get(name, lambda _: None)(value)
    except InvalidInput as exc:
        raise ConfigError(f"{origin}: {exc}") from exc
    return tuple(value) if isinstance(value, list) else value


def _shown(name: str, value: Any) -> str:
    """A setting as an error tells of it."""
    return name if name in SECRETS else f"{name} = {value!r}"


def as_toml(value: Any) -> str:
    """A value as TOML: as in JSON, but with whole characters, for it has no halves, and without a bare DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


assert {field.name for field in fields(Settings)} == set(TYPES)
