"""The Microsoft Agent Framework as a client: agent_framework_client.py URL"""

import asyncio
import sys

from agent_framework import MCPStreamableHTTPTool
from cases import Framework, Outcome, end, installed, raised, run, texts


async def main(url: str) -> None:
    async with MCPStreamableHTTPTool(name="toolyard", url=url) as tool:

        async def call(name: str, arguments: dict) -> Outcome:
            try:
                result = await tool.call_tool(name, **arguments)
            except Exception as error:
                return raised(error)
            return Outcome(result if isinstance(result, str) else texts(result))

        async def names() -> list[str]:
            return [function.name for function in tool.functions]

        framework = Framework(
            "agent-framework",
            installed("agent-framework-core"),
            call,
            names,
            tool_error="ToolExecutionException",
            rpc_error="ToolExecutionException",
        )
        await run(framework)
    end(framework)


asyncio.run(main(sys.argv[1]))
