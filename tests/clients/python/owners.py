"""The tasks that a client can see."""

from connect import Connection, connect
from expect import INVALID_PARAMS, equal, ok, refused
from mcp.types import CallToolResult
from tasks import created

# The most tasks on a page.
PAGE = 200
UNKNOWN = "11111111-2222-4333-8444-555555555555"


async def listing(connection: Connection, others: list[str]) -> None:
    ids = list(others)
    while len(ids) <= PAGE:
        ids.append((await created(connection, "wait", {"ms": 1})).taskId)
    listed: list[str] = []
    cursor = None
    pages = 0
    while pages == 0 or cursor is not None:
        page = await connection.tasks.list_tasks(cursor)
        listed.extend(task.taskId for task in page.tasks)
        cursor = page.nextCursor
        pages += 1
    equal(sorted(listed), sorted(ids), "every task once, and no other")
    equal(pages, 2, "pages")
    ok(f"list_tasks: {len(listed)} tasks on {pages} pages")

    await refused(connection.tasks.list_tasks("no cursor of yours"), INVALID_PARAMS)
    ok("list_tasks with a made-up cursor is refused")


async def unknown(connection: Connection) -> None:
    await all_refused(connection, UNKNOWN)
    await all_refused(connection, "no id at all")
    ok("unknown tasks are refused")


async def all_refused(connection: Connection, task_id: str) -> list[str]:
    requests = (
        connection.tasks.get_task(task_id),
        connection.tasks.get_task_result(task_id, CallToolResult),
        connection.tasks.cancel_task(task_id),
    )
    return [(await refused(request, INVALID_PARAMS)).message for request in requests]


async def strangers(target: list[str], mine: Connection) -> list[str]:
    """Over HTTP without authentication, a task belongs to its session."""
    async with connect(target) as other:
        task = await created(mine, "wait", {"ms": 600_000})
        asked = await all_refused(other, task.taskId)
        equal(asked, await all_refused(other, UNKNOWN), "nothing tells it from an unknown one")
        equal((await other.tasks.list_tasks()).tasks, [], "the list of the other")
        equal((await mine.tasks.get_task(task.taskId)).status, "working", "status")
        await mine.tasks.cancel_task(task.taskId)
        equal(other.complaints, [], "complaints of the other client")
    ok("sessions: a client can neither see nor cancel the tasks of another")
    return [task.taskId]


async def again(target: list[str], task_id: str) -> None:
    """Over stdio, a task belongs to the local user."""
    async with connect(target) as later:
        equal((await later.tasks.get_task(task_id)).status, "completed", "status")
        result = await later.tasks.get_task_result(task_id, CallToolResult)
        equal(result.content[0].text, "waited 300 ms", "the result")
        equal(later.complaints, [], "complaints of the client")
    ok("a later process still has the result")
