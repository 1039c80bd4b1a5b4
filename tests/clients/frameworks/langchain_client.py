"""LangChain's adapters as a client: langchain_client.py URL"""

import asyncio
import sys

from cases import Framework, Outcome, answer_to, end, installed, raised, run, texts
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp.types import ElicitResult

asked: list[str] = []


async def answer(_mcp: object, params: object, _context: object) -> ElicitResult:
    asked.append(params.message)
    return ElicitResult(action="accept", content=answer_to(params.requestedSchema))


async def main(url: str) -> None:
    callbacks = Callbacks(on_elicitation=answer)
    client = MultiServerMCPClient({"toolyard": {"transport": "http", "url": url}}, callbacks=callbacks)
    tools = {tool.name: tool for tool in await client.get_tools()}

    async def call(name: str, arguments: dict) -> Outcome:
        try:
            if name not in tools:
                # The adapters offer listed tools only, so this is a call of the session below them.
                async with client.session("toolyard") as session:
                    result = await session.call_tool(name, arguments)
                    return Outcome(texts(result.content), kind="error" if result.isError else "result")
            request = {"type": "tool_call", "id": "call-1", "name": name, "args": arguments}
            message = await tools[name].ainvoke(request)
        except Exception as error:
            return raised(error)
        blocks = message.content if isinstance(message.content, list) else [{"text": message.content}]
        structured = (message.artifact or {}).get("structured_content")
        return Outcome(texts(blocks), structured, "error" if message.status == "error" else "result")

    async def names() -> list[str]:
        async with client.session("toolyard") as session:
            return [tool.name for tool in await load_mcp_tools(session)]

    framework = Framework(
        "langchain-mcp-adapters",
        installed("langchain-mcp-adapters"),
        call,
        names,
        rpc_error="McpError",
        asked=asked,
    )
    await run(framework)
    end(framework)


asyncio.run(main(sys.argv[1]))
