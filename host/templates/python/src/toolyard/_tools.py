"""Tools, and the export of the component that lists and calls them."""

import inspect
import json
import linecache
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from componentize_py_types import Err
from wit_world import exports

from . import _content, _schema
from ._host import ToolError, log
from ._wit import wit

# JSON-RPC: the arguments fit the schema, but are invalid.
INVALID_PARAMS = -32602

T = TypeVar("T")


@dataclass
class Reply(Generic[T]):
    """A result with both content for the model, such as a text, and structured content for programs."""

    content: _content.Content | list[_content.Content]
    structured: T


class RpcError(Exception):
    """A request error: the client gets it as a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None):
        super().__init__(message)
        self.code, self.data = code, data


@dataclass
class _Registered:
    function: Callable[..., Any]
    hints: dict[str, Any]
    content: bool  # whether the annotation says that the result is content alone
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

    A call may become a task; with `task="forbidden"` every call is a plain call. Options such as `read_only=True` are
    hints. `Annotated[str, "…"]` describes a parameter; `Annotated[int, {"minimum": 1}]` adds to its schema.
    """

    def register(function: Callable[..., T]) -> Callable[..., T]:
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"the tool {function.__name__} is `async def`; tools are plain functions, which may wait")
        hints = get_type_hints(function, include_extras=True)
        result = hints.pop("return", None)
        output = _output_schema(result)
        called = name or function.__name__
        parameters = inspect.signature(function).parameters.values()
        optional = {each.name for each in parameters if each.default is not inspect.Parameter.empty}
        declaration = wit.Tool(
            name=called,
            title=title,
            description=inspect.getdoc(function),
            icons="[]",
            input_schema=json.dumps(_schema.object_schema(hints, optional)),
            output_schema=output and json.dumps(output),
            annotations=json.dumps({_camel(key) + "Hint": value for key, value in annotations.items()}),
            task_support=wit.TaskSupport[task.upper()],
            meta=None,
        )
        _tools[called] = _Registered(function, hints, _for_model(result), declaration)
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
            value = called.function(**{key: _schema.read(called.hints[key], given[key]) for key in given})
            return _result(value, called.content)
        except RpcError as error:
            data = None if error.data is None else json.dumps(error.data)
            raise Err(wit.CallError_Rpc(wit.RpcError(error.code, str(error), data))) from None
        except MemoryError:
            raise  # the host reports it: it knows the limit
        except ToolError as error:
            return _failure(str(error))
        except Exception as error:
            log("error", _report(error), "python")
            # urllib wraps an error of `toolyard.http`, which has a sentence for the model.
            reason = getattr(error, "reason", None)
            return _failure(str(reason) if isinstance(reason, ToolError) else f"{type(error).__name__}: {error}")


def _report(error: Exception) -> dict[str, Any]:
    """An error for the log. Its trace ends in the author's line, also if a library raised the error."""
    frames = [_place(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)][1:]
    own = max((at for at, place in enumerate(frames) if _is_own(place)), default=len(frames) - 1)
    report: dict[str, Any] = {"error": f"{type(error).__name__}: {error}"}
    if own + 1 < len(frames):
        report["raised"] = frames[-1]
    return report | {"trace": frames[: own + 1]}


def _is_own(place: str) -> bool:
    return place.startswith("src/") and not place.startswith("src/toolyard/")


def _place(frame: types.FrameType, line: int) -> str:
    code = frame.f_code
    text = linecache.getline(code.co_filename, line, frame.f_globals).strip()
    # componentize-py shows the sources to the build as folder 0.
    name = code.co_filename.replace("/0/", "src/", 1) if code.co_filename.startswith("/0/") else code.co_filename
    return f"{name}:{line} in {code.co_name}" + (f": {text}" if text else "")


def _result(value: Any, content: bool) -> wit.ToolResult:
    match value:
        case None:
            return wit.ToolResult([], None, False, None)
        case wit.ToolResult():
            return value
        case Reply(shown, structured):
            return wit.ToolResult(_content.blocks(shown), _json(structured), False, None)
    if content or _is_content(value):
        return wit.ToolResult(_content.blocks(value), None, False, None)
    text = _json(value)
    return wit.ToolResult(_content.blocks(text), text, False, None)


def _failure(text: str) -> wit.ToolResult:
    return wit.ToolResult(_content.blocks(text), None, True, None)


def _is_content(value: Any) -> bool:
    """Whether a value is for the model alone: a text, an image and the like, or a list in which one is not a text."""
    if isinstance(value, list):
        return all(map(_is_content, value)) and not all(isinstance(each, str) for each in value)
    return isinstance(value, _content.Content)


def _json(value: Any) -> str:
    """A JSON object: other values are wrapped in one, as their schema says."""
    text = json.dumps(value, ensure_ascii=False, default=_schema.plain)
    return text if text.startswith("{") else f'{{"result": {text}}}'


def _output_schema(kind: Any) -> dict[str, Any] | None:
    if get_origin(kind) is Reply:
        kind = get_args(kind)[0]
    if kind in (None, type(None), wit.ToolResult) or _for_model(kind):
        return None
    schema = _schema.schema_of(kind)
    if schema.get("type") == "object":
        return schema
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}


def _for_model(kind: Any) -> bool:
    """Whether the annotation is of content, which has no schema."""
    if get_origin(kind) is list:
        return _for_model(get_args(kind)[0]) and get_args(kind)[0] is not str
    if get_origin(kind) in (Union, types.UnionType):
        return all(map(_for_model, get_args(kind)))
    return kind in get_args(_content.Content)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
