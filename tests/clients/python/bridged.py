"""The check of clients without tasks on a host with the bridge, for each Python client.

The host serves the fixture `effects`. Imports no client, because each of them runs it.
"""

import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

NEW_CALL = re.compile(r"\bcall (\w+) (?:again )?with (?=\{)", re.IGNORECASE)
SAME_CALL = re.compile(r"\bcall (\w+) again with the same (\w+)", re.IGNORECASE)


@dataclass
class Result:
    """The result of a call, whatever the client names its parts."""

    texts: list[str]
    structured: dict | None
    is_error: bool


Call = Callable[[str, dict], Awaitable[Result]]


def instruction(text: str, last: dict) -> tuple[str, dict] | None:
    """The first call that a text asks for; `last` are the arguments of the previous call."""
    found = [match for pattern in (NEW_CALL, SAME_CALL) if (match := pattern.search(text))]
    first = min(found, key=lambda match: match.start(), default=None)
    if first is None:
        return None
    if first.re is SAME_CALL:
        name, field = first.groups()
        return name, {field: last[field]}
    return first[1], json.JSONDecoder().raw_decode(text, first.end())[0]


def check(condition: object, what: object) -> None:
    # Unlike `assert`, this also works under `python -O`.
    if not condition:
        raise AssertionError(what)


def ok(what: str) -> None:
    print(f"ok {what}", flush=True)


async def handed_off(call: Call, arguments: dict) -> None:
    """Calls `slow`, which has an output schema, until its result has come; prints a summary as JSON."""
    begun = time.monotonic()
    result = await call("slow", arguments)
    after = time.monotonic() - begun
    name, wait = instruction(result.texts[0], {}) or ("", {})
    check(not result.is_error and name == "task_wait", result)
    expected = {"task_id": wait["task_id"], "status": "working", "next_tool": name}
    check(result.structured == {"task_handoff": expected}, result)
    ok(f"the call is handed off after {after} s")

    waits = 0
    while "is still running" in result.texts[0]:
        result = await call(name, wait)
        waits += 1
    check("is done" in result.texts[0] and not result.is_error, result)
    outcome = {"key": arguments["key"], "attempt": 1, "word": None}
    check(result.structured == outcome, result)
    ok(f"task_wait has the result, at call {waits}")

    quick = await call("slow", arguments | {"key": f"{arguments['key']}-quick", "ms": 0})
    check(quick.structured == outcome | {"key": f"{arguments['key']}-quick"}, quick)
    ok("the client accepts the result of a short call, and a collected result is equal to it")
    print(json.dumps({"after": after, "waits": waits}))
