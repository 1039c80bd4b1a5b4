"""The comparison with a server of the official Python SDK: `echo`, and `calculate` of
examples/plugins/python, over Uvicorn without access logs. It keeps no sessions and answers with JSON.
"""

import os
import socket
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Generic, TypeVar

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, TextContent

T = TypeVar("T")


@dataclass
class Reply(Generic[T]):
    content: str
    structured: T


def import_example() -> ModuleType:
    """The example, with a substitute for the library of components, which needs a component."""
    library = ModuleType("toolyard")
    errors = {"RpcError": ValueError, "ToolError": ValueError, "INVALID_PARAMS": -32602}
    functions: dict[str, Any] = {"tool": lambda **_: lambda function: function, "progress": lambda *_: None, "ask": None}
    vars(library).update(errors, **functions, Reply=Reply, Tools=None)
    sys.modules["toolyard"] = library
    sys.path.insert(0, str(Path(__file__).parents[4] / "examples/plugins/python/src"))
    import app

    return app


example = import_example()
server = MCPServer("languages", log_level="WARNING")


# `async def`, because plain functions run in threads, where one of many thousand calls of `calculate` failed.
@server.tool(structured_output=False)
async def echo(text: str) -> str:
    """Returns its text."""
    return text


@server.tool(description=example.calculate.__doc__)
async def calculate(
    lines: list[str], given: dict[str, str] = {}, digits: int = 20, title: str = ""
) -> Annotated[CallToolResult, example.Calculation]:
    reply = example.calculate(lines, given, digits, title)
    content = [TextContent(type="text", text=reply.content)]
    return CallToolResult(content=content, structured_content=asdict(reply.structured))


def end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


threading.Thread(target=end_with_parent, daemon=True).start()
hosts = TransportSecuritySettings(allowed_hosts=["localhost"])
app = server.streamable_http_app(stateless_http=True, json_response=True, transport_security=hosts)
config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_keep_alive=60)
# asyncio sets TCP_NODELAY only if the protocol is named.
with socket.socket(proto=socket.IPPROTO_TCP) as listener:
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"python serves http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    uvicorn.Server(config).run(sockets=[listener])
