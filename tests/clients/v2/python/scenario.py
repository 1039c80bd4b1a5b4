"""Runs the official Python client of the second generation against a host:

    python scenario.py auto|legacy http URL
    python scenario.py auto|legacy stdio COMMAND [ARG…]

The host serves the `probe` plugin; its calls of `wait`, `fail` and `protocol_error`
become tasks at once if possible. The client has the tasks extension in every mode, and
omits it in a handshake. Prints one line for each check; the first failure ends it with
status 1.
"""

import logging
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import mcp_types as types
from expect import equal, ok, refused, true
from mcp import Client, StdioServerParameters
from mcp.client import IncomingMessage
from tasks import IDENTIFIER, Created, Tasks, cancel, get, update

PATIENCE = 120
STATELESS = "2026-07-28"
METHOD_NOT_FOUND = -32601
MISSING_CAPABILITY = -32021
UNKNOWN = "6b1f0d7e-0000-4000-8000-000000000000"


@dataclass
class Person:
    """Accepts every question, and records the questions and the notifications."""

    asked: list[str] = field(default_factory=list)
    changed: anyio.Event = field(default_factory=anyio.Event)

    async def elicited(self, _context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        kind = params.requested_schema["properties"]["answer"]["type"]
        return types.ElicitResult(action="accept", content={"answer": True if kind == "boolean" else "forty-two"})

    async def told(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()


def text(result: types.CallToolResult) -> str:
    return result.content[0].text


async def plain(client: Client, person: Person) -> None:
    tools = []
    cursor = None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        if (cursor := page.next_cursor) is None:
            break
    equal(len({tool.name for tool in tools}), 12, "tools")
    ok("list_tools")

    echo = await client.call_tool("echo", {"text": "Grüße, 世界 🌍"})
    equal(text(echo), "Grüße, 世界 🌍", "echo")
    ok("call_tool")

    steps: list[float] = []

    async def progressed(progress: float, _total: float | None, _message: str | None) -> None:
        steps.append(progress)

    counted = await client.call_tool("count", {"steps": 4, "ms": 200}, progress_callback=progressed)
    equal(text(counted), "counted 4", "count")
    true(steps and steps == sorted(set(steps)), f"progress rises: {steps}")
    ok(f"call_tool with progress, {len(steps)} of 4 steps heard of")

    equal(text(await client.call_tool("ask", {"question": "Six times nine?"})), "forty-two", "ask")
    equal(person.asked, ["Six times nine?"], "the question came once")
    ok("a question is answered")

    await refused(client.call_tool("no-such-tool", {}), types.INVALID_PARAMS)
    ok("an unknown tool is refused")


async def resolved(client: Client, person: Person, tasks: Tasks) -> None:
    """Calls that become tasks, which the extension polls to their end."""
    before = len(person.asked)
    batch = await client.call_tool("batch", {"steps": 3, "ms": 5})
    equal(text(batch), "counted 3", "batch")
    equal([task.status for task in tasks.created], ["working"], "it was a task")
    equal((tasks.seen[-1].status, tasks.seen[-1].task_id), ("completed", tasks.created[0].task_id), "its end")
    ok("a task is asked about to its result")

    confirmed = await client.call_tool("confirm", {"question": "Sure?"})
    equal(text(confirmed), "yes", "confirm")
    equal(person.asked[before:], ["Sure?"], "the question came once")
    true("input_required" in [task.status for task in tasks.seen], "it was asked for in `tasks/get`")
    ok("a task's question is answered by tasks/update")

    # 26T-13: in the other revision this counts as a failure.
    failed = await client.call_tool("fail", {"message": "out of paper"})
    equal((failed.is_error, text(failed)), (True, "out of paper"), "fail")
    equal(tasks.seen[-1].status, "completed", "a failure of the tool")
    error = await refused(client.call_tool("protocol_error", {"code": 7, "message": "no sense"}), 7)
    equal((tasks.seen[-1].status, error.message), ("failed", "no sense"), "a failure of the request")
    equal(len(tasks.created), 4, "all of them were tasks")
    ok("failures: of the tool, and of the request")


async def by_hand(client: Client) -> None:
    """A task that the extension does not poll."""
    session = client.session
    created = await session.call_tool("wait", {"ms": 600_000}, allow_claimed=True)
    true(isinstance(created, Created), f"{created!r}")
    seen = await get(session, created.task_id)
    equal((seen.status, seen.created_at, seen.ttl_ms), ("working", created.created_at, created.ttl_ms), "the task")
    await update(session, created.task_id, {"nobody-asked": {"action": "decline"}})
    for _ in range(2):
        await cancel(session, created.task_id)
    with anyio.fail_after(PATIENCE):
        while (seen := await get(session, created.task_id)).status == "working":
            await anyio.sleep(0.02)
    equal(seen.status, "cancelled", "status")
    ok("cancelled, twice, which is once")
    for request in (get(session, UNKNOWN), update(session, UNKNOWN, {}), cancel(session, UNKNOWN)):
        await refused(request, types.INVALID_PARAMS)
    ok("unknown tasks are refused")


async def hearing(client: Client, person: Person, stateless: bool) -> None:
    """Notifications about the component NEWCOMER, which is copied into the folder."""
    newcomer, plugins = Path(os.environ["NEWCOMER"]), Path(os.environ["PLUGINS"])

    def arrive() -> None:
        partial = plugins / f".{newcomer.name}.partial"
        shutil.copyfile(newcomer, partial)
        partial.rename(plugins / newcomer.name)

    with anyio.fail_after(PATIENCE):
        if stateless:
            async with client.listen(tools_list_changed=True) as subscription:
                equal(subscription.honored.tools_list_changed, True, "what is granted")
                arrive()
                await anext(subscription)
        else:
            arrive()
            await person.changed.wait()
    ok("tools/list_changed is heard")


async def main(mode: str, kind: str, *target: str) -> None:
    complaints = Complaints()
    logging.getLogger().addHandler(complaints)
    person, tasks = Person(), Tasks()
    server = target[0] if kind == "http" else StdioServerParameters(command=target[0], args=list(target[1:]))
    stateless = mode == "auto"
    async with Client(
        server,
        mode=mode,
        client_info=types.Implementation(name="toolyard-tests-python", version="2"),
        elicitation_callback=person.elicited,
        message_handler=person.told,
        extensions=[tasks],
    ) as client:
        equal(client.protocol_version, STATELESS if stateless else "2025-11-25", "the revision")
        equal(client.server_info.name, "toolyard", "the server")
        offered = client.server_capabilities.extensions or {}
        equal(offered.get(IDENTIFIER), {} if stateless else None, "the extension")
        ok(f"connect in mode {mode} over {kind}")
        await plain(client, person)
        if stateless:
            await resolved(client, person, tasks)
            await by_hand(client)
        else:
            await refused(client.call_tool("batch", {"steps": 1, "ms": 0}), METHOD_NOT_FOUND)
            equal(tasks.created, [], "tasks")
            ok("what is only ever a task is refused to who knows none")
        await hearing(client, person, stateless)
    equal(complaints.found, [], "complaints of the client")
    ok("the client had nothing to complain about")
    if stateless:
        async with Client(server, mode=mode) as client:
            await refused(client.call_tool("batch", {"steps": 1, "ms": 0}), MISSING_CAPABILITY)
            await refused(get(client.session, UNKNOWN), MISSING_CAPABILITY)
        ok("tasks are not for who does not say that it knows them")


class Complaints(logging.Handler):
    """The warnings in the log of the client."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


anyio.run(main, *sys.argv[1:])
