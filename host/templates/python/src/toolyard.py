"""A library for Toolyard plugins in Python: tools as functions, results as dataclasses, errors as
exceptions.

It is a thin layer over the contract in `wit/`; a plugin may also use the contract directly, with
`wit_world.imports.host`. The schemas are generated from annotations while the component is built,
so they cost a call nothing.
"""

import dataclasses
import inspect
import json
import traceback
import types as python_types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from componentize_py_types import Err, Ok
from wit_world import exports
from wit_world.imports import host
from wit_world.imports import types as wit

# JSON-RPC: the arguments fit the schema, but are invalid.
INVALID_PARAMS = -32602

T = TypeVar("T")


@dataclass
class Reply(Generic[T]):
    """A result with both a text for the model and structured content for programs."""

    text: str
    structured: T


class ToolError(Exception):
    """A tool error, which the model reads and may correct. Only its message is shown."""


class RpcError(Exception):
    """A request error: the client gets it as a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None):
        super().__init__(message)
        self.code, self.data = code, data


class NoAnswer(ToolError):
    """A question has no answer; `reason` is a case of `ask-error` in `wit/types.wit`."""

    def __init__(self, reason: Any):
        super().__init__(_said(reason))
        self.reason = reason


# --- Tools -----------------------------------------------------------------------------------


@dataclass
class _Registered:
    function: Callable[..., Any]
    hints: dict[str, Any]
    declaration: wit.Tool


_tools: dict[str, _Registered] = {}


def tool(
    name: str | None = None,
    *,
    title: str | None = None,
    task: Literal["forbidden", "optional", "required"] = "optional",
    **annotations: bool,
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Makes a function a tool. Its parameters are the arguments, and its docstring is the description.
    A call may become a task; with `task="forbidden"` every call is a plain call. Options such as `read_only=True` are hints. `Annotated[str, "…"]` describes a parameter;
    `Annotated[int, {"minimum": 1}]` adds to its schema.
    """

    def register(function: Callable[..., T]) -> Callable[..., T]:
        hints = get_type_hints(function, include_extras=True)
        output = _output_schema(hints.pop("return", None))
        called = name or function.__name__
        declaration = wit.Tool(
            name=called,
            title=title,
            description=inspect.getdoc(function),
            icons="[]",
            input_schema=json.dumps(_object_schema(hints, _optional_parameters(function))),
            output_schema=output and json.dumps(output),
            annotations=json.dumps({_camel(key) + "Hint": value for key, value in annotations.items()}),
            task_support=wit.TaskSupport[task.upper()],
            meta=None,
        )
        _tools[called] = _Registered(function, hints, declaration)
        return function

    return register


class Tools(exports.Tools):
    """The export of the component."""

    def list_tools(self) -> list[wit.Tool]:
        return [registered.declaration for registered in _tools.values()]

    def call(self, name: str, arguments: str) -> wit.ToolResult:
        # The host calls only tools that `list_tools` has named, with arguments that fit.
        called = _tools[name]
        try:
            given = json.loads(arguments)
            return _result(called.function(**{key: _read(called.hints[key], given[key]) for key in given}))
        except RpcError as error:
            data = None if error.data is None else json.dumps(error.data)
            raise Err(wit.CallError_Rpc(wit.RpcError(error.code, str(error), data))) from None
        except MemoryError:
            raise  # the host reports it: it knows the limit
        except ToolError as error:
            return _text(str(error), is_error=True)
        except Exception as error:
            log("error", {"error": repr(error), "at": _places(error)}, "python")
            return _text(f"{type(error).__name__}: {error}", is_error=True)


def _places(error: Exception) -> list[str]:
    """The places that an error passed; without source lines, which the component lacks."""
    frames = traceback.walk_tb(error.__traceback__)
    return [f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}" for frame, line in frames]


def _result(value: Any) -> wit.ToolResult:
    match value:
        case None:
            return wit.ToolResult([], None, False, None)
        case str():
            return _text(value)
        case wit.ToolResult():
            return value
        case Reply(text, structured):
            return dataclasses.replace(_text(text), structured_content=_json(structured))
    text = _json(value)
    return dataclasses.replace(_text(text), structured_content=text)


def _text(text: str, is_error: bool = False) -> wit.ToolResult:
    return wit.ToolResult([wit.Content_Text(wit.TextBlock(text, None, None))], None, is_error, None)


def _json(value: Any) -> str:
    """A JSON object: other values are wrapped in one, as their schema says."""
    plain = dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value
    return json.dumps(plain if isinstance(plain, dict) else {"result": plain}, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return dataclasses.asdict(value)
    return str(value)


# --- Schemas ---------------------------------------------------------------------------------

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of an annotation."""
    if kind is Any:
        return {}
    if isinstance(kind, type) and kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if dataclasses.is_dataclass(kind):
        optional = {
            field.name: field.default
            for field in dataclasses.fields(kind)
            if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        }
        return _object_schema(get_type_hints(kind, include_extras=True), optional)
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        schema = schema_of(args[0])
        for extra in args[1:]:
            schema |= {"description": extra} if isinstance(extra, str) else extra
        return schema
    if origin is Literal:
        return {"enum": list(args)}
    if origin is list:
        return {"type": "array", "items": schema_of(args[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(args[1])}
    if origin in (Union, python_types.UnionType):
        # None may be absent or null.
        return {"anyOf": [{"type": "null"} if arg is type(None) else schema_of(arg) for arg in args]}
    raise TypeError(f"{kind} has no JSON Schema")


def _object_schema(hints: dict[str, Any], optional: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: schema_of(kind) for name, kind in hints.items()},
        "required": [name for name in hints if name not in optional],
        "additionalProperties": False,
    }


def _optional_parameters(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}


def _output_schema(kind: Any) -> dict[str, Any] | None:
    if get_origin(kind) is Reply:
        kind = get_args(kind)[0]
    if kind in (None, type(None), str, wit.ToolResult):
        return None
    schema = schema_of(kind)
    if schema.get("type") == "object":
        return schema
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}


def _read(kind: Any, value: Any) -> Any:
    """Converts JSON to the annotated type: objects become dataclasses."""
    if get_origin(kind) is Annotated:
        return _read(get_args(kind)[0], value)
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return kind(**{key: _read(hints[key], value[key]) for key in value})
    if get_origin(kind) is list:
        return [_read(get_args(kind)[0], each) for each in value]
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


# --- Host functions ----------------------------------------------------------------------------


def progress(done: float, total: float | None = None, message: str | None = None) -> None:
    """Reports progress to the caller; `done` must increase."""
    host.progress(done, total, message)


def status(message: str) -> None:
    """Sets the status message of the task."""
    host.status(message)


def log(level: str, data: Any, logger: str | None = None) -> None:
    """Logs a message for the client; `level` is a name from RFC 5424, such as "info"."""
    host.log(wit.LogLevel[level.upper()], logger, json.dumps(data))


def sleep(milliseconds: int) -> None:
    """Suspends the call; this uses no thread of the host."""
    host.sleep(milliseconds)


def cancelled() -> bool:
    """Whether the call is being cancelled, so that it can clean up. The host stops it in any case."""
    return host.cancelled()


def call_info() -> dict[str, Any]:
    """Information about this call: `taskId`, `attempt`, `deadline`, `tool`, `clientCapabilities`."""
    return json.loads(host.call_info())


def ask(key: str, message: str, fields: dict[str, Any]) -> dict[str, Any] | None:
    """Asks the user with a form, and waits. `key` names the question in recorded answers; `fields`
    are annotations, as for a tool's parameters. Returns the filled-in fields, or None if the user
    declined or closed the form.
    """
    schema = {
        "type": "object",
        "properties": {name: schema_of(kind) for name, kind in fields.items()},
        "required": list(fields),
    }
    [answer] = ask_all([(key, "elicitation/create", {"message": message, "requestedSchema": schema})])
    return answer.get("content", {}) if answer["action"] == "accept" else None


def ask_all(questions: list[tuple[str, str, Any]]) -> list[Any]:
    """Asks several questions at once; each is a key, a method (elicitation, sampling, roots) and its
    params. Returns the results in the same order.
    """
    try:
        answers = host.ask([wit.Question(key, method, json.dumps(params)) for key, method, params in questions])
    except Err as error:
        raise NoAnswer(error.value) from None
    outcomes = {answer.key: answer.outcome for answer in answers}
    return [_outcome(outcomes[key]) for key, _, _ in questions]


def _outcome(outcome: Any) -> Any:
    match outcome:
        case Ok(value):
            return json.loads(value)
        case Err(reason):
            raise NoAnswer(reason)


def _said(reason: Any) -> str:
    match reason:
        case wit.AskError_Unsupported(what):
            return f"this client cannot be asked: {what}"
        case wit.AskError_TimedOut():
            return "no answer came in time"
        case wit.AskError_Refused(error):
            return f"the client refused to answer: {error.message} ({error.code})"
        case wit.AskError_Invalid(why):
            return f"the question is not valid: {why}"
        case wit.AskError_TooLate():
            return "the call has had effects, so it is too late to ask"
    return "the call is being stopped"
