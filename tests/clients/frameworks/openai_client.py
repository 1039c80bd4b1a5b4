"""The OpenAI Agents SDK as a client: openai_client.py URL"""

import asyncio
import sys

from agents.mcp import MCPServerStreamableHttp
from cases import Framework, Outcome, end, installed, raised, run, texts


async def main(url: str) -> None:
    # With its default timeout of 5 s.
    async with MCPServerStreamableHttp({"url": url}) as server:

        async def call(name: str, arguments: dict) -> Outcome:
            try:
                result = await server.call_tool(name, arguments)
            except Exception as error:
                return raised(error)
            structured = getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)
            is_error = getattr(result, "is_error", None) or getattr(result, "isError", None)
            return Outcome(texts(result.content), structured, "error" if is_error else "result")

        async def names() -> list[str]:
            return [tool.name for tool in await server.list_tools()]

        framework = Framework("openai-agents", installed("openai-agents"), call, names, rpc_error="MCPError")
        await run(framework)
    end(framework)


asyncio.run(main(sys.argv[1]))
