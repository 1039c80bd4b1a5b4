"""Drives the real Claude Code against the host, with a scripted model:

    python claude_code.py --binary TOOLYARD --plugins PLUGINS [--only CASE…]

Claude Code declares tasks only in a terminal, so most cases run it in a pseudo terminal.
"""

import re
import subprocess
import time
from datetime import datetime

from cases import Case, Cases, ClientLimit, add_plugin, check, equal, remove_plugin
from claude import CALL, PROGRAM, RESULT, Claude
from host import QUICK_BRIDGE, Host, Token, free_port
from model import Missing, Model
from tap import Tap
from terminal import DOWN, ENTER, ESCAPE

YES = r"<result>\s*yes\s*</result>"

cases = Cases()


def start(case: Case, config: str = "", token: Token | None = None) -> tuple[Host, Model, Claude]:
    """A host, and Claude Code in a terminal with its model."""
    host, model = case.host(config), case.model()
    claude = Claude(case, host, model, token=token)
    claude.open()
    return host, model, claude


@cases.case("task")
def task(case: Case) -> str:
    """A call becomes a task, and the model reads its result in a notification."""
    host, model, claude = start(case)
    id, _ = claude.start_task("a", "wait", ms=5000)
    model.notification("waited 5000 ms", RESULT)
    host.wait("task.ended", task=id, status="completed")
    equal(host.runs("wait"), 1, "runs")
    return "the result came in a task-notification"


@cases.case("question")
def question(case: Case) -> str:
    """A task asks; the person answers a card."""
    host, model, claude = start(case)
    id, _ = claude.start_task("a", "confirm", question="Is the sky blue?")
    claude.answer_yes("Is the sky blue?")
    model.notification(YES, RESULT)
    equal(len(host.audit("question.asked", task=id)), 1, "questions")
    equal(len(host.audit("question.answered", task=id, reason="answered")), 1, "answers")
    return "the answer on the card reached the task"


@cases.case("question-in-call")
def question_in_call(case: Case) -> str:
    """A plain call asks for a text; the person answers a card."""
    _, model, claude = start(case)
    claude.ask_for("a", "ask", question="Which colour?")
    claude.terminal.wait("Which colour?", CALL)
    claude.terminal.wait("Accept", CALL)
    claude.terminal.keys("green", DOWN, ENTER)
    equal(model.result("a", CALL).strip(), "green", "the result")
    return "the answer on the card reached the call"


@cases.case("approval")
def approval(case: Case) -> str:
    """The person approves a call of a tool with `confirm-by = "person"`."""
    host, model, claude = start(case)
    claude.ask_for("a", "guard_echo", text="approved words")
    claude.terminal.wait("Shows a text.", CALL)
    equal(host.runs("guard_echo"), 0, "runs before the approval")
    claude.answer_yes("approved words")
    host.wait("call.ended", tool="guard_echo", outcome="ok")
    model.wait("the echo", lambda e: "approved words" in e.text and "CALL#" not in e.text, RESULT)
    equal(len(host.audit("approval.given")), 1, "approvals")
    return "the card shows the words of the operator and the arguments"


@cases.case("approval-operator", transports=("http",))
def approval_operator(case: Case) -> str:
    """The operator approves a call; the card names the page of the console, which `stdio` does not have."""
    host, model = case.host("", f"console.listen=127.0.0.1:{free_port()}"), case.model()
    claude = Claude(case, host, model)
    claude.open()
    id, _ = claude.start_task("a", "operated_echo", text="operated words")
    claude.terminal.wait(f"/q/{id}", CALL)
    equal(host.runs("operated_echo"), 0, "runs before the approval")
    host.approve(id)
    host.wait("task.ended", task=id, status="completed")
    # The client asks about the task again once its card is closed.
    claude.terminal.keys(ESCAPE)
    model.notification("operated words", 60)
    return "the card shows the address of the page; after the approval and Esc, the result came"


@cases.case("stop")
def stop(case: Case) -> str:
    """TaskStop stops the guest, which computes without pause."""
    host, _, claude = start(case)
    id, local = claude.start_task("a", "spin", ms=600_000)
    claude.call("b", "TaskStop", task_id=local)
    ended = host.wait("call.ended", tool="spin", task=id)
    equal((ended["outcome"], ended["cause"]), ("stopped", "cancelled"), "the end of the run")
    equal(len(host.events("task.cancelled", task=id, reason="request")), 1, "cancellations by the client")
    [cancelled] = host.audit("task.cancelled", task=id)
    after = _seconds(ended["timestamp"]) - _seconds(cancelled["at"])
    check(after < 2, f"the guest ran for {after} s after the cancellation")
    return f"the run ended {after * 1000:.0f} ms after the cancellation"


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


@cases.case("host-killed")
def host_killed(case: Case) -> str:
    """kill -9 of the host while a tool that resumes runs; the same session gets the result."""
    return _killed(case, parked=False)


@cases.case("host-killed-parked")
def host_killed_parked(case: Case) -> str:
    """The same, after the task has given up its run."""
    return _killed(case, parked=True)


def _killed(case: Case, parked: bool) -> str:
    host, model, claude = start(case)
    id, _ = claude.start_task("a", "keep_wait", ms=14_000)
    if parked:
        host.wait_parked(id)
    host.kill()
    host.restart()
    killed = time.monotonic()
    model.notification("waited 14000 ms", RESULT)
    host.wait("task.ended", task=id, status="completed")
    return f"the same session got the result, {time.monotonic() - killed:.0f} s after the restart"


@cases.case("host-killed-plain")
def host_killed_plain(case: Case) -> str:
    """kill -9 of the host while another tool runs; the model reads what happened."""
    host, model, claude = start(case)
    claude.start_task("a", "wait", ms=600_000)
    host.kill()
    host.restart()
    model.notification("stopped unexpectedly", RESULT)
    return "the model reads that the host stopped unexpectedly"


@cases.case("host-killed-asking")
def host_killed_asking(case: Case) -> str:
    """kill -9 of the host while a card is open; its answer reaches the next host."""
    host, model, claude = start(case)
    id, _ = claude.start_task("a", "keep_confirm", question="Is the sea deep?")
    claude.terminal.wait("Is the sea deep?", CALL)
    host.wait_parked(id)
    host.kill()
    host.restart()
    claude.answer_yes("Is the sea deep?")
    model.notification(YES, RESULT)
    equal(len(host.audit("question.answered", task=id, reason="answered")), 1, "answers")
    return "the answer on the card reached the next host"


@cases.case("continue")
def continue_ended(case: Case) -> str:
    """The client quits; the task ends without it; `--continue` brings the result."""
    host, model, claude = start(case)
    id, _ = claude.start_task("a", "keep_wait", ms=14_000)
    claude.terminal.quit()
    host.wait("task.ended", task=id, status="completed", seconds=RESULT)
    equal(model.texts("waited 14000 ms"), [], "results before the client continues")
    claude.open("--continue")
    model.notification("waited 14000 ms", RESULT)
    return "the task ended without the client, and --continue brought the result"


@cases.case("resume")
def resume_running(case: Case) -> str:
    """The client quits; `--resume` brings the result of a task that still runs."""
    host, model, claude = start(case)
    id, _ = claude.start_task("a", "wait", ms=40_000)
    session = claude.session()
    claude.terminal.quit()
    claude.open("--resume", session)
    equal(host.events("task.ended", task=id), [], "ends of the task before the client is back")
    model.notification("waited 40000 ms", RESULT)
    equal(host.runs("wait"), 1, "runs")
    return "--resume brought the result of a task that still ran"


@cases.case("continue-asking")
def continue_asking(case: Case) -> str:
    """The client is killed while a task asks; `--continue` shows the card again."""
    host, model, claude = start(case)
    id, _ = claude.start_task("a", "keep_confirm", question="Is snow white?")
    claude.terminal.wait("Is snow white?", CALL)
    claude.terminal.kill()
    host.wait_parked(id)
    claude.open("--continue", card="Accept")
    claude.answer_yes("Is snow white?")
    model.notification(YES, RESULT)
    return "--continue showed the card again, and its answer reached the task"


@cases.case("relay-killed", transports=("stdio",))
def relay_killed(case: Case) -> str:
    """kill -9 of the process that the client started; the background host ends the task."""
    host, model, claude = start(case)
    id, _ = claude.start_task("a", "keep_wait", ms=14_000)
    host.kill_relays()
    host.wait("task.ended", task=id, status="completed", seconds=RESULT)
    try:
        model.notification("waited 14000 ms", 10)
        return "the same session got the result"
    except Missing:
        claude.terminal.quit()
        claude.open("--continue")
        model.notification("waited 14000 ms", RESULT)
    raise ClientLimit("it does not start the server again; the task ended, and --continue brought the result")


@cases.case("two-sessions")
def two_sessions(case: Case) -> str:
    """Two sessions of one principal with equal request ids do not cross."""
    host = case.host()
    tap = Tap(host)
    case.at_end(tap.close)
    first, second = case.model(), case.model()
    one = Claude(case, host, first, "one")
    two = Claude(case, host, second, "two")
    one.open()
    two.open()
    one.ask_for("a", "wait", ms=8000)
    two.ask_for("a", "wait", ms=9000)
    first.notification("waited 8000 ms", RESULT)
    second.notification("waited 9000 ms", RESULT)
    one.ask_for("b", "confirm", question="Is one odd?")
    two.ask_for("b", "confirm", question="Is two odd?")
    two.terminal.wait("Is two odd?", CALL)
    two.terminal.wait("Accept", CALL)
    two.terminal.keys(DOWN, DOWN, ENTER)
    one.answer_yes("Is one odd?")
    first.notification(YES, RESULT)
    second.notification(r"<result>\s*declined\s*</result>", RESULT)
    equal(first.texts("waited 9000 ms|two odd|declined") + second.texts("waited 8000 ms|one odd"), [], "crossed")
    shared = tap.shared_ids()
    check(shared or case.transport == "stdio", "the sessions sent no equal request ids")
    return f"calls with equal ids: {len(shared)}" if shared else "each got its own results and questions"


@cases.case("token-revoked", transports=("http",))
def token_revoked(case: Case) -> str:
    """The token is revoked in mid-task, and comes back later."""
    token, other = Token("ada"), Token("bob")
    host, model, claude = start(case, token.stanza() + other.stanza(), token)
    id, _ = claude.start_task("a", "keep_wait", ms=14_000)
    host.configure(other.stanza())
    host.wait("http.refused", status=401)
    refused = claude.call("b", "echo", text="refused words")
    check("refused words" not in refused, f"a call without a valid token: {refused}")
    host.wait("task.ended", task=id, status="completed", seconds=RESULT)
    equal(model.texts("waited 14000 ms"), [], "results without a valid token")
    host.configure(token.stanza() + other.stanza())
    claude.terminal.quit()
    claude.open("--continue")
    check("accepted words" in claude.call("c", "echo", text="accepted words"), "a call with the token")
    model.notification("waited 14000 ms", RESULT)
    return f"the task ended; with the token back, --continue brought the result; meanwhile: {refused[:90]}"


@cases.case("tool-added")
def tool_added(case: Case) -> str:
    """A plugin that comes in mid-session."""
    host, model, claude = start(case)
    check(not model.has_tool("csv_profile", 0), "the tool is there too early")
    add_plugin(host, "csv")
    check(_has_later(claude, "csv_profile", True), "the model does not see the new tool")
    check("a" in claude.call("a", "csv_profile", text="a\n1\n2"), "the result of the new tool")
    host.wait("call.ended", tool="csv_profile", outcome="ok")
    return "the model saw the tool without a restart, and called it"


@cases.case("tool-removed")
def tool_removed(case: Case) -> str:
    """A plugin that goes in mid-session."""
    host, _, claude = start(case)
    remove_plugin(host, "keep")
    if _has_later(claude, "keep_wait", False):
        return "the model no longer sees the tool"
    refused = claude.call("a", "keep_wait", ms=1)
    check("waited" not in refused, f"the removed tool answers: {refused}")
    equal(host.runs("keep_wait"), 0, "runs")
    raise ClientLimit(f"the model still sees the tool; its call says: {refused[:120]}")


def _has_later(claude: Claude, tool: str, wanted: bool) -> bool:
    """Whether a later prompt of the person offers the tool, or no longer does."""
    for _ in range(8):
        time.sleep(1)
        claude.model.tools = []
        claude.prompt("Which tools are there?")
        check(claude.model.has_tool("echo", CALL), "the model sees no tools")
        if claude.model.has_tool(tool, 0) == wanted:
            return True
    return False


@cases.case("hand-off")
def hand_off(case: Case) -> str:
    """`claude -p` declares no tasks: the host hands the call off, and the model follows `task_wait`."""
    host, model = case.host(QUICK_BRIDGE), case.model()
    Claude(case, host, model).print('CALL#a wait {"ms": 9000}')
    check("is still running" in model.result("a"), "the call was not handed off")
    model.wait("the result", lambda e: e.kind == "result" and "is done" in e.text and "waited 9000 ms" in e.text, CALL)
    equal(host.runs("wait"), 1, "runs")
    return f"handed off; the model called task_wait {len(model.texts('is still running|is done')) - 1} times"


if __name__ == "__main__":
    found = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
    cases.main("claude-code", re.split(r"\s", found)[0], __doc__.splitlines()[0])
