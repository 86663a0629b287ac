"""Runs that were kept, by name."""

import json
from pathlib import Path
from typing import Any

from memorist.errors import InvalidInput, NotFound
from memorist.evaluate.report import FORMAT


def save(run: dict[str, Any], name: str, cache: Path) -> Path:
    file = _file(name, cache)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    part.write_text(json.dumps(run, ensure_ascii=False), "utf-8")
    part.replace(file)
    return file


def is_saved(name: str, cache: Path) -> bool:
    return _file(name, cache).is_file()


def read(name: str, cache: Path) -> dict[str, Any]:
    file = _file(name, cache)
    if not file.is_file():
        raise NotFound(f"there is no run {name!r}; `memorist eval ... --save {name}` keeps one")
    try:
        run = json.loads(file.read_text("utf-8"))
    except ValueError as exc:
        raise InvalidInput(f"{file} is not JSON ({exc})") from exc
    if not isinstance(run, dict) or run.get("memorist_eval") != FORMAT:
        raise InvalidInput(f"{file} is no run that this version of `memorist eval` saved")
    return run


def _file(name: str, cache: Path) -> Path:
    """A file where the name is one; otherwise it is kept in the cache."""
    if name.endswith(".json"):
        return Path(name)
    if not name or Path(name).name != name:
        raise InvalidInput(f"{name!r} is no name for a run; a file's ends with .json")
    return cache / "runs" / f"{name}.json"
