"""The tasks of 2026-07-28, as an extension for a client without them.

If the response to a call is a task, this extension polls it until it ends. Questions of
the task go to the client's own callbacks.
"""

from typing import Any, Literal

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.client import ClaimContext, ClientExtension, ClientRequestContext, ResultClaim
from mcp.client.session import ClientSession
from pydantic import TypeAdapter

IDENTIFIER = "io.modelcontextprotocol/tasks"

QUESTION = TypeAdapter(types.InputRequest)


class Created(types.Result):
    """The response to a call that has become a task."""

    result_type: Literal["task"]
    task_id: str
    status: str
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None


class Detailed(types.Result):
    """A task with its result or its questions."""

    result_type: Literal["complete"]
    task_id: str
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None
    result: types.CallToolResult | None = None
    error: types.ErrorData | None = None
    input_requests: dict[str, dict[str, Any]] | None = None


class Acknowledged(types.Result):
    result_type: Literal["complete"]


class Which(types.RequestParams):
    task_id: str


class Answers(Which):
    input_responses: dict[str, Any]


class Get(types.Request[Which, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"


class Update(types.Request[Answers, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    name_param = "taskId"


class Cancel(types.Request[Which, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    name_param = "taskId"


async def get(session: ClientSession, task_id: str) -> Detailed:
    return await session.send_request(Get(params=Which(task_id=task_id)), Detailed)


async def update(session: ClientSession, task_id: str, answers: dict[str, Any]) -> Acknowledged:
    params = Answers(task_id=task_id, input_responses=answers)
    return await session.send_request(Update(params=params), Acknowledged)


async def cancel(session: ClientSession, task_id: str) -> Acknowledged:
    return await session.send_request(Cancel(params=Which(task_id=task_id)), Acknowledged)


async def answered(session: ClientSession, requests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The answers of the client's callbacks to the questions."""
    answers = {}
    for key, request in requests.items():
        context = ClientRequestContext(session=session, request_id=key, meta=None)
        answer = await session.dispatch_input_request(context, QUESTION.validate_python(request))
        if isinstance(answer, types.ErrorData):
            raise MCPError.from_error_data(answer)
        answers[key] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return answers


class Tasks(ClientExtension):
    """Polls calls that have become tasks to their end, and records their states."""

    identifier = IDENTIFIER

    def __init__(self) -> None:
        self.created: list[Created] = []
        self.seen: list[Detailed] = []

    def claims(self) -> list[ResultClaim]:
        return [ResultClaim(result_type="task", model=Created, resolve=self.finish)]

    def saw(self, task: Detailed) -> None:
        """Is called for each state of a task."""

    async def finish(self, created: Created, context: ClaimContext) -> types.CallToolResult:
        self.created.append(created)
        session = context.session
        while True:
            task = await get(session, created.task_id)
            self.seen.append(task)
            self.saw(task)
            match task.status:
                case "completed":
                    return task.result
                case "failed":
                    raise MCPError.from_error_data(task.error)
                case "cancelled":
                    raise MCPError(types.INTERNAL_ERROR, "the task was cancelled")
                case "input_required" if task.input_requests:
                    await update(session, task.task_id, await answered(session, task.input_requests))
                # Without questions the client waits, for the tool or for an operator's answer.
                case "working" | "input_required":
                    await anyio.sleep((task.poll_interval_ms or 100) / 1000)
