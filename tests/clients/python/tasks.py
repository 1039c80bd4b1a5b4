"""Tasks from creation to result: successful and failing ones."""

import anyio
from connect import PATIENCE, Connection
from expect import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RELATED_TASK, equal, of_task, ok, refused, true
from mcp import types
from mcp.types import CallToolResult


async def ended(connection: Connection, task_id: str) -> list[types.GetTaskResult]:
    """Polls a task until it has ended; returns what it saw."""
    with anyio.fail_after(PATIENCE.total_seconds()):
        return [status async for status in connection.tasks.poll_task(task_id)]


async def created(connection: Connection, name: str, arguments: dict, **more) -> types.Task:
    return (await connection.tasks.call_tool_as_task(name, arguments, **more)).task


async def succeeding(connection: Connection) -> list[str]:
    """Returns the ids of all tasks that it made."""
    session, tasks = connection.session, connection.tasks

    task = await created(connection, "wait", {"ms": 300}, ttl=60_000)
    equal(task.status, "working", "a new task")
    equal(task.ttl, 60_000, "ttl")
    ok("create: wait as a task")

    seen = await tasks.get_task(task.taskId)
    equal((seen.taskId, seen.createdAt, seen.ttl), (task.taskId, task.createdAt, 60_000), "get_task")
    ok("get_task right after the creation")

    # Sent while the task runs: the answer waits for its end.
    result = await tasks.get_task_result(task.taskId, CallToolResult)
    plain = await session.call_tool("wait", {"ms": 300})
    equal(of_task(result, task.taskId), plain, "the result")
    equal((await tasks.get_task(task.taskId)).status, "completed", "status")
    ok("get_task_result waits, and is what the plain call gives")

    equal(await tasks.get_task_result(task.taskId, CallToolResult), result, "the result again")
    ok("get_task_result can be repeated")

    ids = [task.taskId]
    ids.append(await polled(connection, "wait", {"ms": 350}, "waited 350 ms"))
    ids.append(await polled(connection, "batch", {"steps": 3, "ms": 20}, "counted 3"))
    ids.append(await reporting(connection))

    await refused(session.call_tool("batch", {"steps": 1, "ms": 0}), METHOD_NOT_FOUND)
    ok("batch, which is only ever a task, is refused as a plain call")
    await refused(created(connection, "echo", {"text": "x"}), METHOD_NOT_FOUND)
    ok("echo, which is never a task, is refused as a task")
    await refused(created(connection, "wait", {"ms": "soon"}), INVALID_PARAMS)
    ok("no task is made of wrong arguments")
    return ids


async def polled(connection: Connection, name: str, arguments: dict, text: str) -> str:
    task = await created(connection, name, arguments)
    statuses = [status.status for status in await ended(connection, task.taskId)]
    true(all(status == "working" for status in statuses[:-1]), f"while it runs: {statuses}")
    equal(statuses[-1], "completed", "at its end")
    result = await connection.tasks.get_task_result(task.taskId, CallToolResult)
    equal(of_task(result, task.taskId).content, [types.TextContent(type="text", text=text)], "the result")
    ok(f"poll_task: {name} as a task, {len(statuses)} polls")
    return task.taskId


async def reporting(connection: Connection) -> str:
    """The client has no callback for the progress of a task, but receives it on any
    stream (H-21)."""
    token = "counting"
    arguments = {"steps": 4, "ms": 150}
    task = await created(connection, "count", arguments, meta={"progressToken": token})
    await connection.tasks.get_task_result(task.taskId, CallToolResult)
    reports = [
        notice.root.params
        for notice in connection.notices
        if isinstance(notice.root, types.ProgressNotification) and notice.root.params.progressToken == token
    ]
    steps = [report.progress for report in reports]
    true(steps and steps == sorted(set(steps)), f"progress rises: {steps}")
    for report in reports:
        meta = report.meta.model_dump() if report.meta else {}
        equal(meta.get(RELATED_TASK), {"taskId": task.taskId}, "progress names its task")
    ok(f"progress: count as a task, {len(steps)} of 4 steps heard of")
    return task.taskId


async def failing(connection: Connection) -> list[str]:
    session, tasks = connection.session, connection.tasks

    task = await created(connection, "fail", {"message": "out of paper"})
    last = (await ended(connection, task.taskId))[-1]
    equal(last.status, "failed", "status")
    true("out of paper" in (last.statusMessage or ""), f"says why: {last.statusMessage}")
    result = await tasks.get_task_result(task.taskId, CallToolResult)
    equal(result.isError, True, "isError")
    equal(of_task(result, task.taskId), await session.call_tool("fail", {"message": "out of paper"}), "the result")
    ok("fail: the task is failed, says why, and its result is what the plain call gives")

    wrong = {"code": -32050, "message": "the request makes no sense"}
    faulty = await created(connection, "protocol_error", wrong)
    equal((await ended(connection, faulty.taskId))[-1].status, "failed", "status")
    from_task = await refused(tasks.get_task_result(faulty.taskId, CallToolResult), wrong["code"])
    from_call = await refused(session.call_tool("protocol_error", wrong), wrong["code"])
    equal(from_task, from_call, "the error")
    equal(from_task.message, wrong["message"], "its message")
    ok("protocol_error: get_task_result is refused just as the plain call is")
    return [task.taskId, faulty.taskId]


async def cancelling(connection: Connection) -> list[str]:
    tasks = connection.tasks

    spin = await created(connection, "spin", {"ms": 600_000})
    waited: list[types.ErrorData] = []

    async def wait() -> None:
        waited.append(await refused(tasks.get_task_result(spin.taskId, CallToolResult), INTERNAL_ERROR))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        # Sends the request for the result before the cancellation.
        await anyio.wait_all_tasks_blocked()
        cancelled = await tasks.cancel_task(spin.taskId)
        equal((cancelled.taskId, cancelled.status), (spin.taskId, "cancelled"), "cancel_task")
        ok("cancel_task stops a busy tool")
    asked = await refused(tasks.get_task_result(spin.taskId, CallToolResult), INTERNAL_ERROR)
    equal(asked, waited[0], "to who waited and to who asks later")
    true("cancelled" in asked.message, asked.message)
    ok("get_task_result says so, to who waited and to who asks later")

    # A tool that would soon have ended anyway: its late result changes nothing.
    brief = await created(connection, "wait", {"ms": 400})
    await tasks.cancel_task(brief.taskId)
    later = await created(connection, "wait", {"ms": 600})
    await tasks.get_task_result(later.taskId, CallToolResult)
    for task in (spin, brief):
        equal((await tasks.get_task(task.taskId)).status, "cancelled", "status")
    ok("cancelled tasks stay cancelled")

    for task in (later, spin):
        await refused(tasks.cancel_task(task.taskId), INVALID_PARAMS)
    ok("cancel_task of a finished and of a cancelled task is refused")
    return [spin.taskId, brief.taskId, later.taskId]
