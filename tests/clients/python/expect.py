"""Checks, each printed as a line."""

from collections.abc import Awaitable

from mcp import McpError, types

RELATED_TASK = "io.modelcontextprotocol/related-task"
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


def ok(what: str) -> None:
    print(f"ok {what}", flush=True)


def equal(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what}: expected {expected!r}, found {found!r}")


def true(condition: object, what: str) -> None:
    # Unlike `assert`, this also works under `python -O`.
    if not condition:
        raise AssertionError(what)


async def refused(request: Awaitable[object], code: int) -> types.ErrorData:
    """The error response of a request, which must have this code."""
    try:
        answer = await request
    except McpError as error:
        equal(error.error.code, code, f"code of the error {error.error.message!r}")
        return error.error
    raise AssertionError(f"expected error {code}, found {answer!r}")


def of_task(result: types.CallToolResult, task_id: str) -> types.CallToolResult:
    """Checks that a result names its task, and returns it without the name."""
    equal((result.meta or {}).get(RELATED_TASK), {"taskId": task_id}, "the result names its task")
    return result.model_copy(update={"meta": None})
