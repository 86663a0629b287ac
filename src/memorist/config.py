"""
Settings: defaults < the user's config.toml < the project's memorist.toml < MEMORIST_... < arguments.

The command line, the servers and the hooks read them; `memorist.open` never does.
"""

import codecs
import fnmatch
import json
import math
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin

from msgspec import Struct
from msgspec.structs import asdict, fields, replace

from memorist import validation
from memorist.atomic_file import make_folder, write_atomically
from memorist.embed import LOCAL_EMBEDDERS, parse_embedder_name
from memorist.errors import ConfigError, InvalidInput
from memorist.profiles import PROFILES
from memorist.records import NEAR_ACTIONS
from memorist.trust import TrustedFiles, fingerprint

PROJECT_FILE = "memorist.toml"
_USER_FILE = "config.toml"
FORMER_NAME = "recollect"  # the project's name before; a user's database may still be stored under it
SYNCHRONOUS = ("full", "normal")
MAX_WORKERS = 64

# A project's file comes with the project, so it must not decide where the user's memories are sent,
_PROJECT_EMBEDDERS = LOCAL_EMBEDDERS
# which model may read or write them, how long recalls are kept, what is not a secret, and which folders are trusted.
_USER_ONLY = ("chat", "chat_add", "recall_days", "recall_megabytes", "redact_allow", "trusted")
_MAX_PROJECT_FILE_BYTES = 16 * 1024  # the parser takes minutes for a longer one that is made for it
SECRETS = ("http_token",)  # never shown, and not allowed in a project's file, which others can read
_PATHS = {"database", "models"}


class UserFolders(Struct, frozen=True):
    """The folders in which programs of this user keep their settings and data, on each system."""

    home: Path
    environ: Mapping[str, str]
    platform: str = sys.platform

    def expand(self, template: str) -> Path:
        """Return the path of a template that begins with the name of a folder, such as {codex}/sessions."""
        name, _, rest = template.removeprefix("{").partition("}")
        return self.find(name) / rest.removeprefix("/")

    def find(self, name: str) -> Path:
        if name in _PROGRAM_FOLDERS:
            return self._read(*_PROGRAM_FOLDERS[name])
        if name == "settings":  # of graphical programs
            return self._choose("Library/Application Support", ("APPDATA", "AppData/Roaming"), "config")
        if name == "state":  # what they keep without being asked
            return self._choose("Library/Application Support", ("LOCALAPPDATA", "AppData/Local"), "data")
        windows = self.platform == "win32"
        if name == "zed":
            return self.find("settings") / "Zed" if windows else self.find("config") / "zed"
        if name == "zed-data":
            return self.find("state") / ("Zed" if windows or self.platform == "darwin" else "zed")
        if name == "mcp-memory":
            base = self.home / ".local/share" if self.platform == "linux" else self.find("state")
            return Path(self.environ.get("MCP_MEMORY_BASE_DIR") or base / name)
        return {"home": self.home}[name]

    def _choose(self, mac: str, windows: tuple[str, str], other: str) -> Path:
        if self.platform == "darwin":
            return self.home / mac
        return self._read(*windows) if self.platform == "win32" else self.find(other)

    def _read(self, variable: str, default: str) -> Path:
        return Path(self.environ.get(variable) or self.home / default).expanduser()


_PROGRAM_FOLDERS = {  # the variable that names a folder, and where it is otherwise
    "claude": ("CLAUDE_CONFIG_DIR", ".claude"),
    "claude.json": ("CLAUDE_CONFIG_DIR", "."),
    "claude-mem": ("CLAUDE_MEM_DATA_DIR", ".claude-mem"),
    "codex": ("CODEX_HOME", ".codex"),
    "gemini": ("GEMINI_CLI_HOME", "."),
    "config": ("XDG_CONFIG_HOME", ".config"),  # of command line programs, on every system
    "data": ("XDG_DATA_HOME", ".local/share"),
}


class Settings(Struct, frozen=True):
    """All settings with their defaults. `database` None is the user's own database."""

    database: str | None = None
    namespace: str = "default"
    project: str | None = None
    embedder: str = "local"
    profile: str = "balanced"
    threads: int | None = None
    busy_timeout: float = 30.0
    search_timeout: float = 30.0
    synchronous: str = "full"
    on_near_duplicate: str = "report"
    redact: bool | None = None  # None: what models write
    redact_allow: tuple[str, ...] = ()
    metadata_index: tuple[str, ...] | None = None
    log_recalls: bool = True
    recall_days: float = 90.0
    recall_megabytes: float = 200.0
    image_megabytes: float = 1000.0
    models: str | None = None
    trusted: tuple[str, ...] = ()
    chat: str | None = None
    chat_add: bool = False
    chat_timeout: float = 120.0
    answer_tokens: int = 1500
    http_token: str | None = None
    workers: int | None = None

    def __repr__(self) -> str:
        shown = {name: value for name, value in asdict(self).items() if name != "http_token"}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def _file_type(annotation: Any) -> type:
    """Return the type that a setting has in a TOML file: `str` for `str | None`, `list` for tuples."""
    if get_origin(annotation) is tuple:
        return list
    value_type: type = annotation
    options = get_args(annotation)
    return _file_type(options[0]) if options else value_type


TYPES: Mapping[str, type] = {field.name: _file_type(field.type) for field in fields(Settings)}
_TYPE_WORDS = {bool: "true or false", list: "a list of texts", str: "text", int: "a number", float: "a number"}
_VECTOR_SEARCH: Mapping[str, type] = {"enabled": bool, "provider": str, "model": str}
_TRUE_WORDS, _FALSE_WORDS = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class LoadedSettings(Struct, frozen=True):
    """Settings, the origin of each that is not a default, and the project's file if it was ignored."""

    settings: Settings
    origins: Mapping[str, str]
    ignored: "IgnoredFile | None" = None


class IgnoredFile(Struct, frozen=True):
    """A project's file that is not trusted: a warning for the user, and what tells it from the file as it was."""

    warning: str
    fingerprint: str


def load(
    environ: Mapping[str, str], folder: Path, arguments: Mapping[str, Any], *, by_user: bool = True
) -> LoadedSettings:
    """
    Load the settings that hold in a folder.

    If a program and not the user runs the command (`by_user` is false), a project's file counts only if the user trusts
    it: opening a folder in an agent is no consent. Without that, it may only name its project as its folder is called.
    """
    user, project = user_file(environ), find_project_file(folder)
    if environ.get("MEMORIST_CONFIG") and (user.is_dir() or not user.exists()):
        problem = "is a folder" if user.is_dir() else "does not exist: `memorist config set` makes it"
        raise ConfigError(f"MEMORIST_CONFIG names {user}, which {problem}")
    of_user, of_environment = _check_settings(user, _parse_file(user)), _read_environment(environ)
    of_arguments = {name: value for name, value in arguments.items() if value is not None}
    of_project, ignored = {}, None
    if project:
        overruled = of_environment.keys() | of_arguments.keys()
        content = read_project_file(project)
        if _is_trusted(project, content, (of_user | of_environment).get("trusted", ())):
            of_project = parse_project_settings(project, content)
        elif by_user:
            of_project = parse_project_settings(project, content)
            _check_addresses(project, {name: of_project[name] for name in _PATHS & of_project.keys() - overruled})
        else:
            of_project, ignored = _parse_untrusted(project, content, overruled)
    settings = Settings()
    origins: dict[str, str] = {}
    for origin, values in (
        (str(user), of_user),
        (str(project), of_project),
        ("environment", of_environment),
        ("argument", of_arguments),
    ):
        settings = replace(settings, **values)
        origins |= dict.fromkeys(values, origin)
    return LoadedSettings(settings, origins, ignored)


def user_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's config file; MEMORIST_CONFIG names another one."""
    if path := environ.get("MEMORIST_CONFIG"):
        return Path(os.path.expanduser(path))
    return _settings_folder() / _USER_FILE


def trusted_files() -> TrustedFiles:
    """Return the projects' files that the user trusts."""
    return TrustedFiles(_settings_folder())


def _settings_folder() -> Path:
    from platformdirs import user_config_path

    return user_config_path("memorist", appauthor=False)


def default_path(notify: Callable[[str], object] | None = None) -> Path:
    """
    Return the path of the user's own database.

    If there is only one under the project's former name, that one is used; `notify` is told so, or else the log.
    """
    from platformdirs import user_data_path

    path, former = (user_data_path(name, appauthor=False) / "memory.db" for name in ("memorist", FORMER_NAME))
    if path.exists() or not former.exists():
        return path
    if notify is None:
        import logging

        notify = logging.getLogger("memorist").info
    notify(
        f"using the database of {FORMER_NAME.capitalize()}, as Memorist was called before: {former}. "
        f"Move it to {path} to keep it under the new name."
    )
    return former


def is_file_path(database: str) -> bool:
    """Return whether a database is a file: not in memory, nor on a server."""
    return database != ":memory:" and "://" not in database


def is_server(database: str) -> bool:
    """Return whether a database is on a PostgreSQL server."""
    return database.startswith(("postgresql://", "postgres://"))


def conceal_password(database: str) -> str:
    """Return the address of a database without its password."""
    return _PASSWORD.sub(r"\1\2***", database) if is_server(database) else database


# Before the host, as a parameter, and within the address of a standby.
_PASSWORD = re.compile(r"(://[^/@:]*:)[^/]*(?=@)|([?&](?:password|sslpassword|replica)=)[^&#]*")


def is_missing_or_empty(database: str) -> bool:
    """Return whether there is no database to read yet: no file, or an empty one. A server is expected to have one."""
    path = Path(database)
    return not is_server(database) and (not path.exists() or (path.is_file() and path.stat().st_size == 0))


def write_setting(file: Path, name: str, text: str, *, in_project: bool) -> None:
    """Set a value in a config file, given as text; the rest of the file stays as it is."""
    value = _parse_value(name, text, str(file))
    if in_project:
        _check_project_settings(file, {name: value})
    elif name in _PATHS:
        value = _resolve_path(value, Path.cwd())
    _edit_file(file, name, list(value) if isinstance(value, tuple) else value)


def remove_setting(file: Path, name: str) -> bool:
    """Remove a setting from a config file; return whether it was there."""
    check_name(name, str(file))
    if name not in _parse_file(file):
        return False
    _edit_file(file, name, None)
    return True


def check_name(name: str, origin: str) -> None:
    """Raise ConfigError if there is no setting of this name."""
    if name not in TYPES:
        raise ConfigError(f"{origin}: there is no setting {name!r}; settings are: {', '.join(TYPES)}")


def _edit_file(file: Path, name: str, value: Any) -> None:
    """Set a value in a TOML file, or remove it if it is None, keeping comments and order."""
    import tomlkit  # only commands that change settings need it
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(file.read_bytes().decode("utf-8")) if file.exists() else tomlkit.document()
        if value is None:
            del document[name]
        else:
            document[name] = value
        _with_embedder_of_section(document.unwrap(), str(file))  # it may name another model than the setting
        make_folder(Path(os.path.realpath(file)).parent, private=True)
        write_atomically(file, tomlkit.dumps(document).encode("utf-8"))
    except OSError as exc:
        raise ConfigError(f"cannot write {file}: {exc.strerror}") from exc
    except (ValueError, TOMLKitError) as exc:  # the file is not TOML, or the value is not Unicode text
        _refuse_json(file, file.read_bytes() if file.is_file() else b"")
        raise ConfigError(f"cannot change {name} in {file}: {exc}") from exc


def find_project_file(folder: Path) -> Path | None:
    """Return the nearest memorist.toml in this folder or one above it."""
    return next((file for parent in (folder, *folder.parents) if os.path.isfile(file := parent / PROJECT_FILE)), None)


def read_project_file(file: Path) -> bytes:
    """Read a project's file, or the beginning of one that is too long to be used."""
    try:
        with file.open("rb") as opened:
            return opened.read(_MAX_PROJECT_FILE_BYTES + 1)
    except OSError as exc:
        raise ConfigError(f"{file} cannot be read: {exc.strerror}") from exc


def parse_project_settings(file: Path, content: bytes) -> dict[str, Any]:
    """Return the settings of a project's file; ConfigError where it cannot be used."""
    if len(content) > _MAX_PROJECT_FILE_BYTES:
        raise ConfigError(f"{file} is longer than the {_MAX_PROJECT_FILE_BYTES:,} bytes that settings may have")
    values = _check_settings(file, _parse_toml(file, content))
    _check_project_settings(file, values)
    return values


def trust(file: Path, content: bytes) -> None:
    """Note that the user trusts a project's file with this content."""
    try:
        trusted_files().add(file, content)
    except OSError as exc:
        raise ConfigError(f"cannot note in {_settings_folder()} that {file} is trusted: {exc.strerror}") from exc


def list_trusted_files() -> list[Path]:
    """Return the projects' files that were approved as they are now."""
    trusted = trusted_files()
    return [file for file in trusted.list() if os.path.isfile(file) and trusted.contains(file, read_project_file(file))]


def _is_trusted(file: Path, content: bytes, folders: Iterable[str]) -> bool:
    """Return whether the user approved a file with this content, or lists its folder, by a pattern with * perhaps."""
    path = str(file.parent.resolve())
    patterns = (str(Path(os.path.expanduser(pattern)).resolve()) for pattern in folders)
    if any(path == pattern or fnmatch.fnmatch(path, pattern) for pattern in patterns):
        return True
    return trusted_files().contains(file, content)


def _parse_untrusted(
    file: Path, content: bytes, overruled: Container[str]
) -> tuple[dict[str, Any], IgnoredFile | None]:
    """Return what a file that is not trusted may say, and the file if it says anything else that would count."""
    allowed = {}
    try:
        values = parse_project_settings(file, content)
    except ConfigError:
        missed = ["it cannot be used"]
    else:
        if values.get("project") == file.parent.absolute().name:
            allowed = {"project": values.pop("project")}
        missed = [name for name in values if name not in overruled]
    if not missed:
        return allowed, None
    warning = (
        f"{str(file)!r} is not trusted, so what it sets was ignored ({', '.join(missed)}): a program ran this command, "
        "not you. Read the file; if you agree with it, run `memorist trust` in its folder"
    )
    return allowed, IgnoredFile(warning, fingerprint(file, content))


def _check_addresses(file: Path, paths: Mapping[str, str]) -> None:
    """Refuse to go to a host that only a file names which is not trusted: it would be sent the user's password."""
    for name, path in paths.items():
        if "://" in path or path.startswith(("//", "\\\\")):
            raise ConfigError(
                f"{file} sets {name} to another machine, and is not trusted: a password of yours could be sent there. "
                "Read the file; if you agree with it, run `memorist trust`"
            )


def _parse_file(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        return _parse_toml(file, file.read_bytes())
    except OSError as exc:
        raise ConfigError(f"{file} cannot be read: {exc.strerror}") from exc


def _parse_toml(file: Path, content: bytes) -> dict[str, Any]:
    import tomllib  # a library that reads no file does without

    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as exc:  # no UTF-8, no TOML, or a number of thousands of digits
        _refuse_json(file, content)
        raise ConfigError(f"{file} cannot be read as TOML: {exc}") from exc


def _refuse_json(file: Path, content: bytes) -> None:
    """Raise ConfigError where a file begins as JSON does, and TOML never: the settings of other programs often do."""
    comments = rb"(?:\s|//[^\n]*|/\*.*?\*/)*+"  # many programs allow them
    if re.match(comments + rb"\{", content.removeprefix(codecs.BOM_UTF8), re.DOTALL):
        raise ConfigError(
            f'{file} is JSON, and settings are TOML: write `profile = "rank"` for {{"profile": "rank"}}, and the '
            'line `[memory.vectorSearch]` above `provider = "openai"` for {"memory": {"vectorSearch": {...}}}; '
            "`memorist config set NAME VALUE` writes a new file as it must be"
        )


def _check_settings(file: Path, written: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that are written in a file; a relative path in it starts at the file's folder."""
    written = _with_embedder_of_section(written, str(file))
    values = {name: _check_value(name, value, str(file)) for name, value in written.items()}
    for name in _PATHS & values.keys():
        values[name] = _resolve_path(values[name], file.parent)
    provider, _, path = values.get("embedder", "").strip().partition(":")
    if provider == "onnx":
        values["embedder"] = f"onnx:{_resolve_path(path.strip(), file.parent)}"
    return values


def _with_embedder_of_section(values: dict[str, Any], origin: str) -> dict[str, Any]:
    """Translate AgentStack's section [memory.vectorSearch] to the setting `embedder`: off, it keeps its provider."""
    memory = values.get("memory")
    if memory is None:
        return values
    if not isinstance(memory, dict) or not isinstance(memory.get("vectorSearch"), dict) or len(memory) > 1:
        raise ConfigError(f"{origin}: `memory` has one section, [memory.vectorSearch], and nothing else")
    section = memory["vectorSearch"]
    for name, value in section.items():
        kind = _VECTOR_SEARCH.get(name)
        if kind is None:
            raise ConfigError(f"{origin}: [memory.vectorSearch] has no {name!r}; it has: {', '.join(_VECTOR_SEARCH)}")
        if not isinstance(value, kind):
            raise ConfigError(f"{_describe_setting(name, value)} in {origin} must be {_TYPE_WORDS[kind]}")
    values = {name: value for name, value in values.items() if name != "memory"}
    if "embedder" in values and ("provider" in section or "model" in section):
        raise ConfigError(f"{origin} names a model by `embedder` and in [memory.vectorSearch]: keep one of them")
    if "model" in section and "provider" not in section:
        raise ConfigError(f"{origin}: [memory.vectorSearch] names a model and no provider")
    if not section.get("enabled", True):
        return {**values, "embedder": "none"}
    embedder = ":".join(section[name] for name in ("provider", "model") if name in section)
    return {**values, "embedder": embedder} if embedder else values


def _resolve_path(value: str, folder: Path) -> str:
    return str(folder.absolute() / os.path.expanduser(value)) if is_file_path(value) else value


def _check_project_settings(file: Path, values: Mapping[str, Any]) -> None:
    for name in SECRETS:
        if name in values:
            raise ConfigError(f"{file} sets {name}, which is a secret: set it in your own config or the environment")
    if values.get("embedder", "none") not in _PROJECT_EMBEDDERS:
        raise ConfigError(
            f"{file} sets embedder = {values['embedder']!r}; a project's file can choose only "
            f"{' or '.join(_PROJECT_EMBEDDERS)}: set it in your own config (`memorist config set embedder ...`)"
        )
    if values.get("redact") is False:
        raise ConfigError(f"{file} sets redact = false; a project's file can only turn it on")
    if name := next((name for name in _USER_ONLY if name in values), ""):
        raise ConfigError(
            f"{file} sets {name}, which is not allowed in a project's file: set it in your own config "
            f"(`memorist config set {name} ...`)"
        )


def _read_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    variables = {"MEMORIST_DB" if name == "database" else f"MEMORIST_{name.upper()}": name for name in TYPES}
    return {
        name: _parse_value(name, environ[variable], variable)
        for variable, name in variables.items()
        if environ.get(variable)
    }


def _parse_value(name: str, text: str, origin: str) -> Any:
    """Parse a value given as text and check it."""
    kind = TYPES.get(name)
    value: Any = text
    if kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            raise ConfigError(f"{_describe_setting(name, text)} in {origin} is not a number") from None
    elif kind is bool and text.strip().lower() in (*_TRUE_WORDS, *_FALSE_WORDS):
        value = text.strip().lower() in _TRUE_WORDS
    elif kind is list:
        value = _parse_list(text)
    return _check_value(name, value, origin)


def _parse_list(text: str) -> Any:
    """Parse a list written as JSON; any other text is its only item."""
    try:
        value = json.loads(text)
    except ValueError:
        return [text]
    return value if isinstance(value, list) else [text]


_CHECKS: Mapping[str, Callable[[Any], object]] = {
    **{name: partial(validation.required_name, what=name) for name in ("namespace", "project", "database", "models")},
    "embedder": parse_embedder_name,
    "profile": lambda value: validation.choice(value, PROFILES, "profile"),
    "threads": lambda value: validation.number(value, "threads", 1, 256),
    "busy_timeout": lambda value: validation.number(value, "busy_timeout", 0, 86_400),
    "search_timeout": lambda value: validation.number(value, "search_timeout", 0.001, 86_400),
    "synchronous": lambda value: validation.choice(value, SYNCHRONOUS, "synchronous"),
    "on_near_duplicate": lambda value: validation.choice(value, NEAR_ACTIONS, "on_near_duplicate"),
    "redact_allow": lambda value: validation.allowances(value, "redact_allow"),
    "metadata_index": lambda value: validation.indexed_fields(value, "metadata_index"),
    "recall_days": lambda value: validation.number(value, "recall_days", *validation.RECALL_DAYS),
    "recall_megabytes": lambda value: validation.number(value, "recall_megabytes", *validation.RECALL_MEGABYTES),
    "image_megabytes": lambda value: validation.number(value, "image_megabytes", *validation.IMAGE_MEGABYTES),
    "trusted": lambda value: validation.folders(value, "trusted"),
    "chat": validation.chat_model,
    "chat_timeout": lambda value: validation.number(value, "chat_timeout", 0.1, 86_400),
    "answer_tokens": lambda value: validation.number(value, "answer_tokens", 1000, 100_000),
    "http_token": lambda value: validation.token(value, "http_token"),
    "workers": lambda value: validation.number(value, "workers", 1, MAX_WORKERS),
}


def _check_value(name: str, value: Any, origin: str) -> Any:
    """Return a value in the type of its setting; ConfigError where it cannot be used."""
    check_name(name, origin)
    kind = TYPES[name]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if value.bit_length() <= sys.float_info.max_exp else math.inf
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{_describe_setting(name, value)} in {origin} must be {_TYPE_WORDS[kind]}")
    try:
        _CHECKS.get(name, lambda _: None)(value)
    except InvalidInput as exc:
        raise ConfigError(f"{origin}: {exc}") from exc
    return tuple(value) if isinstance(value, list) else value


def _describe_setting(name: str, value: Any) -> str:
    """Return a setting as it is shown in an error; a secret by its name only."""
    return name if name in SECRETS else f"{name} = {validation.quote(value)}"
