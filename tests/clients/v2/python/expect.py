"""Checks, each printed as a line."""

from collections.abc import Awaitable

from mcp import MCPError


def ok(what: str) -> None:
    print(f"ok {what}", flush=True)


def equal(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what}: expected {expected!r}, found {found!r}")


def true(condition: object, what: str) -> None:
    # Unlike `assert`, this also works under `python -O`.
    if not condition:
        raise AssertionError(what)


async def refused(request: Awaitable[object], code: int) -> MCPError:
    """The error response of a request, which must have this code."""
    try:
        answer = await request
    except MCPError as error:
        equal(error.code, code, f"code of the error {error.message!r}")
        return error
    raise AssertionError(f"expected error {code}, found {answer!r}")
