"""A library for Toolyard plugins in Python: tools are functions, results are dataclasses, errors are exceptions.

It is a thin layer over the contract in `wit/`; a plugin may also use the contract directly, with
`wit_world.imports.host`. The schemas are generated from annotations while the component is built, so they cost a call
nothing.

With `wasi:http` in the world, `urllib.request` sends its requests through the host, and so does `toolyard.http`.
"""

from importlib.util import find_spec

from . import _modules as _modules  # first: it serves the imports that follow
from ._content import Audio, Content, File, Image, Link
from ._host import (
    CannotContinue,
    NoAnswer,
    ToolError,
    ask,
    ask_all,
    call_info,
    cancelled,
    continue_with,
    effects,
    log,
    progress,
    restored,
    sleep,
    status,
)
from ._schema import schema_of
from ._tools import INVALID_PARAMS, Reply, RpcError, Tools, tool

if find_spec("wit_world.imports.outgoing_handler"):
    from . import http as http

__all__ = [
    "INVALID_PARAMS",
    "Audio",
    "CannotContinue",
    "Content",
    "File",
    "Image",
    "Link",
    "NoAnswer",
    "Reply",
    "RpcError",
    "ToolError",
    "Tools",
    "ask",
    "ask_all",
    "call_info",
    "cancelled",
    "continue_with",
    "effects",
    "log",
    "progress",
    "restored",
    "schema_of",
    "sleep",
    "status",
    "tool",
]
