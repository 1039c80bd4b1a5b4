"""FastMCP as a client: fastmcp_client.py URL"""

import asyncio
import sys

from cases import Framework, Outcome, answer_to, end, installed, raised, run, texts
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult

asked: list[str] = []


async def answer(message: str, _response_type: type, params: object, _context: object) -> ElicitResult:
    asked.append(message)
    return ElicitResult(action="accept", content=answer_to(params.requested_schema))


async def main(url: str) -> None:
    async with Client(url, elicitation_handler=answer) as client:

        async def call(name: str, arguments: dict) -> Outcome:
            try:
                result = await client.call_tool(name, arguments)
            except Exception as error:
                return raised(error)
            return Outcome(texts(result.content), result.structured_content)

        async def names() -> list[str]:
            return [tool.name for tool in await client.list_tools()]

        framework = Framework(
            "fastmcp", installed("fastmcp"), call, names, tool_error="ToolError", rpc_error="MCPError", asked=asked
        )
        await run(framework)
    end(framework)


asyncio.run(main(sys.argv[1]))
