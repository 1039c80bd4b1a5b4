"""mcp-use as a client: mcp_use_client.py URL"""

import asyncio
import sys

from cases import Framework, Outcome, answer_to, end, installed, raised, run, texts
from mcp.types import ElicitResult
from mcp_use import MCPClient

asked: list[str] = []


async def answer(_context: object, params: object) -> ElicitResult:
    asked.append(params.message)
    return ElicitResult(action="accept", content=answer_to(params.requestedSchema))


async def main(url: str) -> None:
    client = MCPClient({"mcpServers": {"toolyard": {"url": url}}}, elicitation_callback=answer)
    try:
        session = await client.create_session("toolyard")

        async def call(name: str, arguments: dict) -> Outcome:
            try:
                result = await session.call_tool(name, arguments)
            except Exception as error:
                return raised(error)
            kind = "error" if result.isError else "result"
            return Outcome(texts(result.content), result.structuredContent, kind)

        async def names() -> list[str]:
            return [tool.name for tool in await session.list_tools()]

        framework = Framework("mcp-use", installed("mcp-use"), call, names, rpc_error="McpError", asked=asked)
        await run(framework)
    finally:
        await client.close_all_sessions()
    end(framework)


asyncio.run(main(sys.argv[1]))
