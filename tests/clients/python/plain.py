"""A client without tasks."""

from connect import Connection
from expect import INVALID_PARAMS, equal, ok, refused, true
from mcp import types


async def plain(connection: Connection) -> None:
    session = connection.session
    tasks = connection.capabilities.tasks
    true(tasks and tasks.list and tasks.cancel, f"tasks can be listed and cancelled: {tasks}")
    true(tasks.requests and tasks.requests.tools and tasks.requests.tools.call, f"tools/call: {tasks}")
    ok("capabilities: tasks can be listed, cancelled, and made of tools/call")

    await session.send_ping()
    ok("ping")

    tools = await all_tools(connection)
    support = {tool.name: tool.execution.taskSupport if tool.execution else "forbidden" for tool in tools}
    equal(support["echo"], "forbidden", "echo")
    equal(support["wait"], "optional", "wait")
    equal(support["batch"], "required", "batch")
    for tool in tools:
        equal(tool.inputSchema["type"], "object", tool.name)
    ok(f"tools/list: {len(tools)} tools with their task support")

    echo = await session.call_tool("echo", {"text": "Grüße, 世界 🌍"})
    equal(echo.content, [types.TextContent(type="text", text="Grüße, 世界 🌍")], "echo")
    true(not echo.isError, "echo works")
    ok("plain call")

    seen: list[tuple[float, float | None, str | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    counted = await session.call_tool("count", {"steps": 4, "ms": 120}, progress_callback=report)
    equal(counted.content, [types.TextContent(type="text", text="counted 4")], "count")
    equal(seen, [(step, 4, f"step {step} of 4") for step in range(1, 5)], "progress")
    ok("plain call with progress")

    await refused(session.call_tool("no-such-tool", {}), INVALID_PARAMS)
    ok("unknown tool is refused")

    wrong = await session.call_tool("echo", {"text": 5})
    true(wrong.isError and "text" in wrong.content[0].text, f"wrong arguments: {wrong}")
    ok("wrong arguments are a result that the model can read")


async def all_tools(connection: Connection) -> list[types.Tool]:
    tools: list[types.Tool] = []
    params = None
    while True:
        page = await connection.session.list_tools(params=params)
        tools.extend(page.tools)
        if page.nextCursor is None:
            return tools
        params = types.PaginatedRequestParams(cursor=page.nextCursor)
