"""JSON Schemas of annotations, and JSON as values of the annotated types."""

import dataclasses
import enum
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}
_UNIONS = (Union, types.UnionType)


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of an annotation."""
    if kind is Any:
        return {}
    if isinstance(kind, type) and kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _choice([each.value for each in kind])
    if dataclasses.is_dataclass(kind):
        return object_schema(get_type_hints(kind, include_extras=True), _defaults(kind))
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        schema = schema_of(args[0])
        for extra in args[1:]:
            schema |= {"description": extra} if isinstance(extra, str) else extra
        return schema
    if origin is Literal:
        return _choice(list(args))
    if origin is list:
        return {"type": "array", "items": schema_of(args[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(args[1])}
    if origin in _UNIONS:
        # None may be absent or null.
        return {"anyOf": [{"type": "null"} if arg is type(None) else schema_of(arg) for arg in args]}
    raise TypeError(f"{kind} has no JSON Schema")


def object_schema(hints: dict[str, Any], optional: set[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: schema_of(kind) for name, kind in hints.items()},
        "required": [name for name in hints if name not in optional],
        "additionalProperties": False,
    }


def form_schema(kind: Any) -> dict[str, Any]:
    """The schema of a form: a dataclass, or a dict of annotations. MCP allows no `anyOf` in it, so a field that may be
    None is one that may be left empty.
    """
    fields, optional = dict(kind) if isinstance(kind, dict) else get_type_hints(kind, include_extras=True), set()
    if not isinstance(kind, dict):
        optional = _defaults(kind)
    for name, field in fields.items():
        others = [arg for arg in get_args(field) if arg is not type(None)]
        if get_origin(field) in _UNIONS and len(others) == 1 and type(None) in get_args(field):
            fields[name] = others[0]
            optional.add(name)
    schema = object_schema(fields, optional)
    del schema["additionalProperties"]
    return schema


def read(kind: Any, value: Any) -> Any:
    """Converts JSON to the annotated type: objects become dataclasses, choices become members of their `Enum`."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return read(args[0], value)
    if origin in _UNIONS:
        return next((read(arg, value) for arg in args if _may_be(arg, value)), value)
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return kind(**{key: read(hints[key], value[key]) for key in value})
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if origin is list:
        return [read(args[0], each) for each in value]
    if origin is dict:
        return {key: read(args[1], each) for key, each in value.items()}
    return value


def plain(value: Any) -> Any:
    """A value of JSON."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value.value if isinstance(value, enum.Enum) else str(value)


def _choice(values: list[Any]) -> dict[str, Any]:
    # A form needs the type beside the values.
    texts = {"type": "string"} if all(isinstance(value, str) for value in values) else {}
    return texts | {"enum": values}


def _defaults(kind: Any) -> set[str]:
    missing = dataclasses.MISSING
    fields = dataclasses.fields(kind)
    return {each.name for each in fields if each.default is not missing or each.default_factory is not missing}


def _may_be(kind: Any, value: Any) -> bool:
    """Whether a member of a union fits a value, as far as conversion needs to know."""
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return (
            isinstance(value, dict) and value.keys() <= hints.keys() and hints.keys() <= value.keys() | _defaults(kind)
        )
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return value in [each.value for each in kind]
    return (get_origin(kind) or kind) in (type(value), Annotated)
