"""JSON Schemas of what callers send, what they are made of, and validation of a value against one."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from memorist.errors import InvalidInput
from memorist.validation import quote

Schema = dict[str, Any]


class Meta(Struct, frozen=True):
    """The meaning and the limits of an argument, which its type does not tell; the limits are those of JSON Schema."""

    description: str = ""
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    enum: tuple[str, ...] = ()
    nullable: bool = False  # None is a value: it empties a field
    check: Callable[[object], Any] | None = None  # of a filter: returns a value in its one form
    hides: str = ""  # of a filter: why it held a memory back

    def __repr__(self) -> str:
        shown = {name: value for name, value in self.schema.items() if name != "description"}
        said = [repr(self.description)] if self.description else []
        return f"Meta({', '.join([*said, *(f'{name}={value!r}' for name, value in shown.items())])})"

    @property
    def schema(self) -> dict[str, Any]:
        limits = {
            "description": self.description, "minimum": self.minimum, "maximum": self.maximum,
            "minLength": self.min_length, "maxLength": self.max_length, "minItems": self.min_items,
            "maxItems": self.max_items, "enum": list(self.enum),
        }  # fmt: skip
        return {name: value for name, value in limits.items() if value not in (None, "", [])}


def nullable(schema: Schema) -> Schema:
    """Return a schema that lets null pass as well, which empties a field."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    null = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [*types, "null"], **null}


_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "text"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "array": ((list,), "a list"),
    "object": ((dict,), "an object"),
    "null": ((type(None),), "null"),
}


def validate(name: str, schema: Mapping[str, Any], value: Any) -> Any:
    """Return a value in the form that a schema asks for, or raise InvalidInput."""
    value = _require_type(name, schema, value)
    if isinstance(value, dict):
        return validate_object(name, schema, value)
    if isinstance(value, list):
        _check_range(f"the length of {name}", len(value), schema.get("minItems"), schema.get("maxItems"))
        value = [_validate_item(name, schema, item) for item in value]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _check_range(name, value, schema.get("minimum"), schema.get("maximum"))
    elif isinstance(value, str):
        _check_range(f"the length of {name}", len(value), schema.get("minLength"), schema.get("maxLength"))
    if "enum" in schema and value not in schema["enum"]:
        allowed = ", ".join(str(choice) for choice in schema["enum"] if choice is not None)
        raise InvalidInput(f"{name} must be one of {allowed}, not {quote(value)}")
    return value


def validate_object(name: str, schema: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of an object, each in the form that its schema asks for."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    others = schema.get("additionalProperties", not properties)
    valid = {}
    for key, value in values.items():
        if key in properties:
            valid[key] = validate(key, properties[key], value)
        elif others is False:
            raise InvalidInput(f"{name} takes no argument {quote(key)}; it takes: {', '.join(properties) or 'none'}")
        else:
            valid[key] = validate(key, others, value) if isinstance(others, Mapping) else value
    for key in schema.get("required", ()):
        if key not in valid:
            raise InvalidInput(f"{name} needs the argument {key!r}")
    return valid


def _require_type(name: str, schema: Mapping[str, Any], value: Any) -> Any:
    if "type" not in schema:
        return value
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "integer" in types and isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON has one kind of number
    for type in types:
        classes, _ = _TYPES[type]
        if isinstance(value, classes) and (bool in classes or not isinstance(value, bool)):
            return value
    expected = "a list of texts" if types == ["array"] else " or ".join(_TYPES[type][1] for type in types)
    raise InvalidInput(f"{name} must be {expected}, not {quote(value)}")


def _validate_item(name: str, schema: Mapping[str, Any], item: Any) -> Any:
    items = schema.get("items", {})
    if items.get("type") == "string" and not isinstance(item, str):
        raise InvalidInput(f"{name} must be a list of texts, but {quote(item)} is not a text")
    return validate(f"an item of {name}", items, item)


def _check_range(what: str, value: float, least: float | None, most: float | None) -> None:
    if least is not None and not value >= least:  # in this form NaN, which compares with nothing, is refused as well
        raise InvalidInput(f"{what} must be at least {least}, not {value}")
    if most is not None and not value <= most:
        raise InvalidInput(f"{what} must be at most {most}, not {value}")
