"""Pydantic AI as a client: pydantic_client.py URL"""

import asyncio
import sys

from cases import Framework, Outcome, answer_to, end, installed, raised, run
from fastmcp.client.elicitation import ElicitResult
from pydantic_ai.mcp import MCPToolset

asked: list[str] = []


async def answer(message: str, _response_type: type, params: object, _context: object) -> ElicitResult:
    asked.append(message)
    return ElicitResult(action="accept", content=answer_to(params.requested_schema))


async def main(url: str) -> None:
    async with MCPToolset(url, elicitation_handler=answer) as toolset:

        async def call(name: str, arguments: dict) -> Outcome:
            try:
                result = await toolset.direct_call_tool(name, arguments)
            except Exception as error:
                return raised(error)
            match result:
                case str():
                    return Outcome(result)
                case list():
                    return Outcome("\n".join(result))
                case structured:
                    return Outcome("", structured)

        async def names() -> list[str]:
            return [tool.name for tool in await toolset.list_tools()]

        framework = Framework(
            "pydantic-ai",
            installed("pydantic-ai-slim"),
            call,
            names,
            tool_error="ModelRetry",
            rpc_error="ModelRetry",
            asked=asked,
        )
        await run(framework)
    end(framework)


asyncio.run(main(sys.argv[1]))
