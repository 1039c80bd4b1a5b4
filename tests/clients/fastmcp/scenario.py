"""Runs FastMCP's client, which can call tools as tasks, against a host:

    python scenario.py http URL
    python scenario.py stdio COMMAND [ARG…]

The host serves the `probe` plugin. Prints one line for each check; the first failure
ends it with status 1.
"""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError
from mcp import McpError

# Longer than any step takes on the slowest machine.
PATIENCE = 60


def ok(what: str) -> None:
    print(f"ok {what}", flush=True)


def equal(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what}: expected {expected!r}, found {found!r}")


async def refused(awaitable) -> str:
    try:
        answer = await awaitable
    except (ToolError, McpError) as error:
        return str(error)
    raise AssertionError(f"expected an error, found {answer!r}")


def transport_to(target: list[str]):
    match target:
        case ["http", url]:
            return StreamableHttpTransport(url)
        case ["stdio", command, *args]:
            return StdioTransport(command=command, args=args)
        case _:
            sys.exit("usage: scenario.py http URL | stdio COMMAND [ARG…]")


async def plain(client: Client) -> None:
    names = {tool.name for tool in await client.list_tools()}
    equal({"echo", "wait", "batch"} <= names, True, "the tools, of all pages")
    echo = await client.call_tool("echo", {"text": "Grüße, 世界 🌍"})
    equal(echo.content[0].text, "Grüße, 世界 🌍", "echo")
    equal(await refused(client.call_tool("fail", {"message": "out of paper"})), "out of paper", "fail")
    ok("plain calls")


async def tasks(client: Client) -> None:
    task = await client.call_tool("wait", {"ms": 300}, task=True, ttl=90_000)
    equal(task.returned_immediately, False, "it became a task")
    status = await task.status()
    equal((status.taskId, status.status, status.ttl), (task.task_id, "working", 90_000), "status")
    ok("call_tool(task=True) makes a task")

    equal((await task.result()).content[0].text, "waited 300 ms", "the result")
    equal((await task.status()).status, "completed", "status")
    equal((await client.get_task_status(task.task_id)).status, "completed", "status by id")
    ok("result() waits for the end")

    batch = await client.call_tool("batch", {"steps": 3, "ms": 20}, task=True)
    equal((await batch.wait(timeout=PATIENCE)).status, "completed", "wait()")
    equal((await batch.result()).content[0].text, "counted 3", "batch")
    ok("a tool that is only ever a task")

    failing = await client.call_tool("fail", {"message": "out of paper"}, task=True)
    equal(await refused(failing.result()), "out of paper", "the failure")
    status = await failing.status()
    equal((status.status, "out of paper" in status.statusMessage), ("failed", True), "status")
    ok("a task that fails says why")

    spin = await client.call_tool("spin", {"ms": 600_000}, task=True)
    await spin.cancel()
    equal((await spin.status()).status, "cancelled", "status")
    ok("cancel() stops a busy tool")


async def main(target: list[str]) -> None:
    async with Client(transport_to(target), timeout=PATIENCE) as client:
        ok(f"connect over {target[0]}")
        await plain(client)
        await tasks(client)


asyncio.run(main(sys.argv[1:]))
