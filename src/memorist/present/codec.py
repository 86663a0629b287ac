"""Records as JSON and back: encoding, the JSON Schema of a type of record, and decoding by that type."""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from memorist.documents import DocumentHit
from memorist.present.render import timestamp
from memorist.records import Hit
from memorist.schemas import Schema

# Properties of records that a reader of JSON cannot compute as easily.
_PROPERTIES: Mapping[str, Mapping[str, Any]] = {"Results": {"relevant": bool}}

_SIMPLE: Mapping[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
    type(None): {"type": "null"},
    Any: {},
}


def encode(value: Any) -> Any:
    """Return a value as JSON has it: records by their fields, times as text."""
    kind = type(value)
    if kind in (str, int, float, bool, type(None)):
        return value
    if kind is datetime:
        return timestamp(value)
    if kind in (tuple, list):
        return [encode(item) for item in value]
    if is_dataclass(kind):
        return {name: encode(getattr(value, name)) for name in _field_types(kind)}
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    return value


@cache
def _field_types(record: type) -> dict[str, Any]:
    """Return the types of what JSON holds of a record, by name."""
    hints = get_type_hints(record)
    return {field.name: hints[field.name] for field in fields(record)} | dict(_PROPERTIES.get(record.__name__, {}))


def schema_of(annotation: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the JSON Schema of a type; those of records are put into `definitions`, and referred to by name."""
    if annotation in _SIMPLE:
        return dict(_SIMPLE[annotation])
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(choice, definitions) for choice in arguments]}
    if origin is tuple and arguments[-1] is not Ellipsis:
        (item,) = set(arguments)  # all records have pairs of one type
        count = len(arguments)
        return {"type": "array", "items": schema_of(item, definitions), "minItems": count, "maxItems": count}
    if origin in (tuple, list):
        return {"type": "array", "items": schema_of(arguments[0], definitions)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1], definitions)}
    if not is_dataclass(annotation):
        raise TypeError(f"no JSON Schema is known for {annotation}")
    if annotation is Hit:
        return {"anyOf": [_refer_to(DocumentHit, definitions), _refer_to(Hit, definitions)]}
    return _refer_to(annotation, definitions)


def _refer_to(record: Any, definitions: dict[str, Schema]) -> Schema:
    name = record.__name__
    if name not in definitions:
        definitions[name] = {}  # a record may contain itself
        properties = {field: schema_of(kind, definitions) for field, kind in _field_types(record).items()}
        definitions[name] = {
            "type": "object",
            "description": (record.__doc__ or "").strip().splitlines()[0],
            "properties": properties,
            "required": list(properties),
        }
    return {"$ref": f"#/components/schemas/{name}"}


def decode(annotation: Any, value: Any) -> Any:
    """Return what JSON holds as a value of a type; what a newer writer added to a record is passed over."""
    if value is None or annotation is Any or annotation in (str, int, bool):
        return value
    if annotation is float:
        return float(value)
    if annotation is datetime:
        return datetime.fromisoformat(value)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return decode(next(choice for choice in arguments if choice is not type(None)), value)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return tuple(decode(kind, item) for kind, item in zip(arguments, value, strict=True))
    if origin in (tuple, list):
        return origin(decode(arguments[0], item) for item in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: decode(arguments[1], item) for key, item in value.items()}
    if annotation is Hit and "document" in value:
        annotation = DocumentHit
    known = _field_types(annotation)
    own = {field.name for field in fields(annotation)}
    return annotation(**{name: decode(known[name], item) for name, item in value.items() if name in own})
