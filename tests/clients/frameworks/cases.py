"""The cases that each framework runs against a host with `bridge.after = 3s`. Standard library only.

A driver has a function that calls a tool and returns an `Outcome`, one that lists the tools, and the ways in
which its framework reports errors and questions. Each case prints one line.
"""

import json
import re
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib.metadata import version

PROGRAM = {"program": "{total: (map(.n) | add)}", "input": [{"n": 20}, {"n": 22}]}
SHIPPED = {"append_note", "ask", "confirm", "csv_profile", "echo", "fetch", "jq", "read_file", "wait"}
# Without authentication, clients of 2026-07-28 have no `task_list`.
HOST_TOOLS = {"task_wait", "task_cancel"}


@dataclass
class Outcome:
    """The result of a call, as the framework gives it."""

    text: str
    structured: object = None
    # "result", "error" for a result that says so, or the name of the exception.
    kind: str = "result"


@dataclass
class Framework:
    client: str
    version: str
    call: Callable[[str, dict], Awaitable[Outcome]]
    names: Callable[[], Awaitable[list[str]]]
    # How the framework reports a tool's error and a JSON-RPC error.
    tool_error: str = "error"
    rpc_error: str = "error"
    # The questions that its handler was asked; None if the framework has no handler.
    asked: list[str] | None = None
    # Whether the framework has its own tasks, so that no call is handed off.
    tasks: bool = False
    failed: int = field(default=0, init=False)

    def line(self, case: str, verdict: str, remark: str) -> None:
        fields = (self.client, self.version, "HTTP", case, verdict, " ".join(remark.split()))
        self.failed += verdict == "failed"
        print("\t".join(fields), flush=True)


class Unexpected(Exception):
    pass


def expect(condition: object, what: object) -> None:
    # Unlike `assert`, this also works under `python -O`.
    if not condition:
        raise Unexpected(f"unexpected: {what}")


def instruction(text: str, tool: str) -> dict:
    """The arguments of the call of this tool that a text asks the model for."""
    found = re.search(rf"call {tool} (?:again )?with (?=\{{)", text)
    expect(found, text)
    return json.JSONDecoder().raw_decode(text, found.end())[0]


async def collected(framework: Framework, outcome: Outcome) -> tuple[Outcome, int]:
    """Does as the texts say until the result has come; returns it and the number of calls."""
    calls = 0
    while "is still running" in outcome.text:
        expect(calls < 20, f"still running after {calls} calls: {outcome.text}")
        outcome = await framework.call("task_wait", instruction(outcome.text, "task_wait"))
        calls += 1
    return outcome, calls


async def listed(framework: Framework) -> str:
    names = await framework.names()
    missing = (SHIPPED if framework.tasks else SHIPPED | HOST_TOOLS) - set(names)
    expect(not missing, f"not listed: {sorted(missing)}")
    return f"{len(names)} tools"


async def structured(framework: Framework) -> str:
    outcome = await framework.call("jq", PROGRAM)
    value = outcome.structured
    if value is None:
        # The framework passes structured content on as text.
        value = json.loads(outcome.text)
    expect(value == {"outputs": [{"total": 42}], "truncated": False}, outcome)
    return "structured content" if outcome.structured is not None else "structured content, as text"


async def tool_error(framework: Framework) -> str:
    outcome = await framework.call("fail", {"message": "out of paper"})
    expect("out of paper" in outcome.text and outcome.kind == framework.tool_error, outcome)
    return "a result" if outcome.kind == "error" else outcome.kind


async def rpc_error(framework: Framework) -> str:
    outcome = await framework.call("no_such_tool", {})
    expect("no_such_tool" in outcome.text and outcome.kind == framework.rpc_error, outcome)
    return f"{'a result' if outcome.kind == 'error' else outcome.kind}: {outcome.text[:80]}"


async def question(framework: Framework, tool: str, answer: str, result: str) -> tuple[str, str]:
    text = f"Which word does {tool} get?"
    outcome = await framework.call(tool, {"question": text})
    if framework.asked is not None:
        expect(framework.asked == [text] and outcome.text == result, (framework.asked, outcome))
        framework.asked.clear()
        return "ok", "asked by elicitation"
    # Without a handler the model gets the question, and answers it with a tool.
    expect(text in outcome.text, outcome)
    arguments = instruction(outcome.text, "task_answer")
    arguments["content"] = {key: answer for key in arguments["content"]}
    outcome = await framework.call("task_answer", arguments)
    if result not in outcome.text:
        outcome = await framework.call("task_wait", {"task_id": arguments["task_id"]})
    expect("is done" in outcome.text and outcome.text.endswith(result), outcome)
    return "client", "no elicitation: asked by a text, answered with task_answer"


async def handed_off(framework: Framework) -> str:
    begun = time.monotonic()
    outcome = await framework.call("wait", {"ms": 7000})
    after = time.monotonic() - begun
    if framework.tasks:
        expect(outcome.text == "waited 7000 ms" and after >= 7, outcome)
        return f"a task of the protocol, {after:.1f} s"
    expect(2.9 <= after < 7 and "Nothing has failed" in outcome.text, (after, outcome))
    outcome, calls = await collected(framework, outcome)
    total = time.monotonic() - begun
    expect("is done" in outcome.text and outcome.text.endswith("waited 7000 ms"), outcome)
    expect(total >= 7, f"{total} s are too few")
    return f"handed off after {after:.1f} s, result after {calls} task_wait and {total:.1f} s"


async def guarded(framework: Framework, case: str, run: Callable[[], Awaitable[object]]) -> None:
    try:
        done = await run()
    except Exception as error:
        traceback.print_exc()
        framework.line(case, "failed", f"{type(error).__name__}: {error}"[:600])
    else:
        framework.line(case, *(done if isinstance(done, tuple) else ("ok", done)))


async def run(framework: Framework) -> None:
    """Runs all cases; the caller closes the framework and then calls `end`."""
    cases = {
        "list": lambda: listed(framework),
        "structured output": lambda: structured(framework),
        "tool error": lambda: tool_error(framework),
        "JSON-RPC error": lambda: rpc_error(framework),
        "question (ask)": lambda: question(framework, "ask", "blue", "blue"),
        "question (confirm)": lambda: question(framework, "confirm", True, "yes"),
        "7 s call": lambda: handed_off(framework),
    }
    for case, body in cases.items():
        await guarded(framework, case, body)


def end(framework: Framework) -> None:
    sys.exit(1 if framework.failed else 0)


def raised(error: BaseException) -> Outcome:
    """An exception of a call, without the groups around it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return Outcome(str(error), kind=type(error).__name__)


def texts(blocks: list) -> str:
    """The texts of content blocks, as objects or as dictionaries."""
    found = (block.get("text") if isinstance(block, dict) else getattr(block, "text", None) for block in blocks)
    return "\n".join(text for text in found if text is not None)


def answer_to(schema: dict) -> dict:
    """An answer that fits a form: yes, and the word "blue"."""
    by_type = {"boolean": True, "string": "blue"}
    return {key: by_type[field["type"]] for key, field in schema["properties"].items()}


def installed(package: str) -> str:
    return version(package)
