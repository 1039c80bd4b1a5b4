"""Strands as a client, without and with tasks: strands_client.py URL [tasks]"""

import asyncio
import sys

from cases import Framework, Outcome, answer_to, end, installed, raised, run, texts
from mcp.types import ElicitResult
from strands.tools.mcp import MCPClient

asked: list[str] = []


async def answer(_context: object, params: object) -> ElicitResult:
    asked.append(params.message)
    return ElicitResult(action="accept", content=answer_to(params.requested_schema))


async def main(url: str, tasks: bool) -> None:
    options = {"tasks_config": {}} if tasks else {}
    with MCPClient(url=url, elicitation_callback=answer, **options) as client:

        async def call(name: str, arguments: dict) -> Outcome:
            try:
                result = await client.call_tool_async("call-1", name, arguments)
            except Exception as error:
                return raised(error)
            kind = "error" if result["status"] == "error" else "result"
            return Outcome(texts(result["content"]), result.get("structuredContent"), kind)

        async def names() -> list[str]:
            return [tool.tool_name for tool in client.list_tools_sync()]

        name = "strands-agents, tasks" if tasks else "strands-agents"
        framework = Framework(name, installed("strands-agents"), call, names, asked=asked, tasks=tasks)
        await run(framework)
    end(framework)


asyncio.run(main(sys.argv[1], sys.argv[2:] == ["tasks"]))
