"""What a client hands to a tool, compared with what the tool says it takes."""

from collections.abc import Mapping
from typing import Any

from memorist.errors import InvalidInput

SHOWN = 60  # characters of a value that is refused

_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "text"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "array": ((list,), "a list of texts"),
}


def checked(tool: str, schema: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call; null is as good as not given, as many clients fill in what they do not use."""
    properties = schema["properties"]
    for name in given:
        if name not in properties:
            raise InvalidInput(f"{tool} takes no argument {_shown(name)}; it takes: {', '.join(properties)}")
    arguments = {name: _value(name, properties[name], value) for name, value in given.items() if value is not None}
    for name in schema.get("required", ()):
        if name not in arguments:
            raise InvalidInput(f"{tool} needs the argument {name!r}")
    return arguments


def _value(name: str, schema: Mapping[str, Any], value: Any) -> Any:
    types, words = _TYPES[schema["type"]]
    if schema["type"] == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON has one kind of number
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise InvalidInput(f"{name} must be {words}, not {_shown(value)}")
    if isinstance(value, list):
        for each in value:
            if not isinstance(each, str):
                raise InvalidInput(f"{name} must be {words}; {_shown(each)} is none")
        _within(f"the length of {name}", len(value), schema.get("minItems"), schema.get("maxItems"))
    elif isinstance(value, int | float):
        _within(name, value, schema.get("minimum"), schema.get("maximum"))
    if value not in schema.get("enum", [value]):
        raise InvalidInput(f"{name} must be one of {', '.join(schema['enum'])}, not {_shown(value)}")
    return value


def _within(what: str, value: float, least: float | None, most: float | None) -> None:
    if least is not None and not value >= least:  # written so that NaN, which compares with nothing, is refused too
        raise InvalidInput(f"{what} must be at least {least}, not {value}")
    if most is not None and not value <= most:
        raise InvalidInput(f"{what} must be at most {most}, not {value}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
