"""Drives the real Codex against the host, with a scripted model:

    python codex.py --binary TOOLYARD --plugins PLUGINS [--only CASE…]

Codex opens sessions of 2025-06-18 and declares no tasks, so the host hands its long calls off.
"""

import json
import os
import re
import subprocess
import time
from pathlib import Path

from cases import Case, Cases, ClientLimit, add_plugin, check, equal, only, remove_plugin
from host import QUICK_BRIDGE, Host, Token
from model import Missing, Model
from tap import Tap
from terminal import ENTER, ESCAPE, UP, Terminal

PROGRAM = only(Path(__file__).parent, "node_modules/@openai/codex-*/vendor/*/bin/codex")
# Seconds for a start, a call, and a result after a restart, on the slowest machine.
START, CALL, RESULT = 90, 60, 120
TASK = re.compile(r'"task_id": "([0-9a-f-]{36})"')

cases = Cases()


class Codex:
    """Codex with a home folder of its own. `timeout` is its limit for a call, in seconds."""

    def __init__(
        self,
        case: Case,
        host: Host,
        model: Model,
        name: str = "codex",
        token: Token | None = None,
        timeout: int | None = None,
    ) -> None:
        self.case = case
        self.model = model
        home = case.folder / name
        self.folder = home / "work"
        self.folder.mkdir(parents=True)
        (home / ".codex").mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "TMPDIR": str(home),
            "HOME": str(home),
            "CODEX_HOME": str(home / ".codex"),
            "STUB_KEY": "dummy",
        }
        lines = [
            'model = "scripted"',
            'model_provider = "stub"',
            "[model_providers.stub]",
            'name = "stub"',
            f'base_url = "{model.url}/v1"',
            'wire_api = "responses"',
            'env_key = "STUB_KEY"',
            f'[projects."{self.folder}"]',
            'trust_level = "trusted"',
        ]
        (home / ".codex/config.toml").write_text("\n".join(lines) + "\n")
        more = []
        if token:
            self.environment["TOKEN"] = token.secret
            more += ["--token-env", "TOKEN"]
        host.connect("codex", self.environment, self.folder, *more)
        # The person has allowed the tools of this server.
        keys = {"default_tools_approval_mode": '"approve"'} | ({"tool_timeout_sec": timeout} if timeout else {})
        self.arguments = [part for key, value in keys.items() for part in ("-c", f"mcp_servers.toolyard.{key}={value}")]

    def open(self) -> None:
        """Starts it in a terminal, and waits until it offers the tools of the host to the model."""
        # Its background server would outlive the test.
        command = [str(PROGRAM), "--no-alt-screen", "--no-daemon", *self.arguments]
        self.terminal = Terminal(command, self.folder, self.environment)
        self.case.at_end(self.terminal.kill)
        self.terminal.wait("Ask Codex", START)
        for _ in range(20):
            self.prompt("Are the tools there?")
            if self.model.has_tool("wait", 3):
                return
        raise Missing("Codex does not offer the tools of the host to the model")

    def prompt(self, text: str) -> None:
        self.terminal.keys(text, ENTER)

    def ask_for(self, tag: str, tool: str, **arguments: object) -> None:
        self.prompt(directive(tag, tool, **arguments))

    def call(self, tag: str, tool: str, **arguments: object) -> str:
        """Has the model call a tool; returns the result that it reads."""
        self.ask_for(tag, tool, **arguments)
        return self.model.result(tag, CALL)

    def start_exec(self, *arguments: str) -> subprocess.Popen:
        """Starts `codex exec`, which runs one prompt without a terminal."""
        command = [str(PROGRAM), "exec", "--skip-git-repo-check", *self.arguments, *arguments]
        run = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.case.at_end(run.kill)
        return run

    def exec(self, *arguments: str) -> None:
        equal(self.start_exec(*arguments).wait(240), 0, "the status of codex exec")


def directive(tag: str, tool: str, **arguments: object) -> str:
    return f"CALL#{tag} {tool} {json.dumps(arguments)}"


def start(case: Case, config: str = QUICK_BRIDGE, token: Token | None = None) -> tuple[Host, Model, Codex]:
    """A host, and Codex in a terminal with its model."""
    host, model = case.host(config), case.model()
    codex = Codex(case, host, model, token=token)
    codex.open()
    return host, model, codex


def outcome(model: Model, text: str, seconds: float = RESULT) -> None:
    """Waits until the model reads the outcome of a task that was handed off."""
    model.wait(f"{text!r}", lambda e: e.kind == "result" and "is done" in e.text and text in e.text, seconds)


def handed_off(model: Model, tag: str = "a") -> str:
    """The id of the task as which a call was handed off."""
    text = model.result(tag, CALL)
    match = TASK.search(text)
    check("is still running" in text and match, f"the call was not handed off: {text}")
    return match[1]


@cases.case("task")
def task(case: Case) -> str:
    """A long call: the host hands it off, and the model follows `task_wait`."""
    host, model = case.host(QUICK_BRIDGE), case.model()
    Codex(case, host, model).exec(directive("a", "wait", ms=8000))
    handed_off(model)
    outcome(model, "waited 8000 ms")
    equal(host.runs("wait"), 1, "runs")
    raise ClientLimit("it declares no tasks; the call was handed off, and task_wait brought the result")


@cases.case("question")
def question(case: Case) -> str:
    """A tool asks; the person answers a form."""
    host, model, codex = start(case, config="")
    codex.ask_for("a", "confirm", question="Is the sky blue?")
    codex.terminal.wait("Is the sky blue? Yes", CALL)
    codex.terminal.keys(ENTER)
    check(model.result("a", CALL).rstrip().endswith("yes"), f"the result: {model.result('a')}")
    equal(len(host.events("question.asked")), 1, "questions")
    return "the answer in the form reached the tool"


@cases.case("question-exec")
def question_exec(case: Case) -> str:
    """A tool asks, and there is no terminal."""
    host, model = case.host(), case.model()
    Codex(case, host, model).exec(directive("a", "confirm", question="Is the sky blue?"))
    text = model.result("a").rstrip()
    check(text.endswith("declined"), f"the result: {text}")
    raise ClientLimit("codex exec declines by itself")


@cases.case("approval")
def approval(case: Case) -> str:
    """The person approves a call of a tool with `confirm-by = "person"`."""
    host, model, codex = start(case, config="")
    codex.ask_for("a", "guard_echo", text="approved words")
    codex.terminal.wait("Shows a text.", CALL)
    equal(host.runs("guard_echo"), 0, "runs before the approval")
    # The form begins at "False".
    codex.terminal.keys(UP, ENTER)
    check("approved words" in model.result("a", CALL), f"the result: {model.result('a')}")
    equal(len(host.audit("approval.given")), 1, "approvals")
    return "the form shows the words of the operator"


@cases.case("stop")
def stop(case: Case) -> str:
    """Esc stops the guest, which computes without pause."""
    host, _, codex = start(case, config="")
    codex.ask_for("a", "spin", ms=600_000)
    codex.terminal.wait("Calling toolyard.spin", CALL)
    codex.terminal.keys(ESCAPE)
    ended = host.wait("call.ended", tool="spin")
    equal((ended["outcome"], ended["cause"]), ("stopped", "cancelled"), "the end of the run")
    host.wait("call.refused", tool="spin", reason="The request was cancelled")
    return f"the run ended after {ended['ms'] / 1000:.1f} s, by the cancellation"


@cases.case("host-killed")
def host_killed(case: Case) -> str:
    """kill -9 of the host after the hand-off; the same session gets the result of a tool that resumes."""
    host, model, codex = start(case)
    codex.ask_for("a", "keep_wait", ms=20_000)
    id = handed_off(model)
    host.wait_parked(id)
    host.kill()
    host.restart()
    for attempt in range(4):
        text = codex.call(f"b{attempt}", "task_wait", task_id=id)
        if TASK.search(text) or "is done" in text:
            break
    outcome(model, "waited 20000 ms")
    host.wait("task.ended", task=id, status="completed")
    return f"the same session got the result; calls of task_wait that failed first: {attempt}"


@cases.case("host-killed-asking")
def host_killed_asking(case: Case) -> str:
    """kill -9 of the host while a form is open; its answer reaches the next host."""
    token = Token("ada") if case.transport == "http" else None
    host, model, codex = start(case, QUICK_BRIDGE + (token.stanza() if token else ""), token)
    codex.ask_for("a", "keep_confirm", question="Is the sea deep?")
    codex.terminal.wait("Is the sea deep?", CALL)
    id = handed_off(model)
    host.wait_parked(id)
    host.kill()
    host.restart()
    codex.terminal.keys(ENTER)
    host.wait("task.ended", task=id, status="completed")
    # The call of task_wait that was under way ended with its host.
    text = codex.call("b", "task_wait", task_id=id).rstrip()
    equal(len(host.audit("question.answered", task=id, reason="answered")), 1, "answers")
    if text.endswith("cancelled"):
        raise ClientLimit("it cancels the form when its call ends with the host; task_wait brought that result")
    check(text.endswith("yes"), f"the result: {text}")
    return "the answer reached the next host, and the same session got the result"


@cases.case("continue")
def continue_ended(case: Case) -> str:
    """The client is killed after the hand-off; `codex exec resume` brings the result."""
    host, model = case.host(QUICK_BRIDGE), case.model()
    codex = Codex(case, host, model)
    run = codex.start_exec(directive("a", "keep_wait", ms=14_000))
    id = handed_off(model)
    run.kill()
    run.wait()
    host.wait("task.ended", task=id, status="completed", seconds=RESULT)
    equal(model.texts("waited 14000 ms"), [], "results before the client continues")
    codex.exec("resume", "--last", directive("b", "task_wait", task_id=id))
    outcome(model, "waited 14000 ms")
    return "the task ended without the client, and exec resume brought the result"


@cases.case("two-sessions")
def two_sessions(case: Case) -> str:
    """Two sessions with equal request ids do not cross."""
    host = case.host(QUICK_BRIDGE)
    tap = Tap(host)
    case.at_end(tap.close)
    models = [case.model(), case.model()]
    clients = [Codex(case, host, model, f"codex{index}") for index, model in enumerate(models)]
    runs = [client.start_exec(directive("a", "wait", ms=8000 + index)) for index, client in enumerate(clients)]
    for run in runs:
        equal(run.wait(RESULT), 0, "the status of codex exec")
    for index, model in enumerate(models):
        outcome(model, f"waited {8000 + index} ms")
        equal(model.texts(f"waited {8001 - index} ms"), [], "results of the other")
    shared = tap.shared_ids()
    check(shared or case.transport == "stdio", "the sessions sent no equal request ids")
    return f"calls with equal ids: {len(shared)}" if shared else "each got its own result"


@cases.case("token-revoked", transports=("http",))
def token_revoked(case: Case) -> str:
    """The token is revoked in mid-task, and comes back later."""
    token, other = Token("ada"), Token("bob")
    host, model, codex = start(case, QUICK_BRIDGE + token.stanza() + other.stanza(), token)
    codex.ask_for("a", "keep_wait", ms=40_000)
    id = handed_off(model)
    host.configure(QUICK_BRIDGE + other.stanza())
    refused = codex.call("b", "echo", text="refused words")
    check("refused words" not in refused, f"a call without a valid token: {refused}")
    host.wait("http.refused", status=401)
    host.wait("task.ended", task=id, status="completed", seconds=RESULT)
    equal(model.texts("waited 40000 ms"), [], "results without a valid token")
    host.configure(QUICK_BRIDGE + token.stanza() + other.stanza())
    codex.call("c", "task_wait", task_id=id)
    outcome(model, "waited 40000 ms")
    return f"the task ended; with the token back, the same session got the result; meanwhile: {refused[:120]}"


@cases.case("tool-added")
def tool_added(case: Case) -> str:
    """A plugin that comes in mid-session."""
    host, model, codex = start(case)
    check(not model.has_tool("csv_profile", 0), "the tool is there too early")
    add_plugin(host, "csv")
    if not has_later(codex, "csv_profile", True):
        raise ClientLimit("the model does not see the new tool in this session")
    check("a" in codex.call("a", "csv_profile", text="a\n1\n2"), "the result of the new tool")
    host.wait("call.ended", tool="csv_profile", outcome="ok")
    return "the model saw the tool without a restart, and called it"


@cases.case("tool-removed")
def tool_removed(case: Case) -> str:
    """A plugin that goes in mid-session."""
    host, _, codex = start(case)
    remove_plugin(host, "keep")
    if has_later(codex, "keep_wait", False):
        return "the model no longer sees the tool"
    refused = codex.call("a", "keep_wait", ms=1)
    check("waited" not in refused, f"the removed tool answers: {refused}")
    raise ClientLimit(f"the model still sees the tool; its call says: {refused[-120:]}")


def has_later(codex: Codex, tool: str, wanted: bool) -> bool:
    """Whether a later prompt of the person offers the tool, or no longer does."""
    for _ in range(6):
        time.sleep(1)
        codex.model.tools = []
        codex.prompt("Which tools are there?")
        check(codex.model.has_tool("echo", CALL), "the model sees no tools")
        if codex.model.has_tool(tool, 0) == wanted:
            return True
    return False


@cases.case("hand-off")
def hand_off(case: Case) -> str:
    """A call of 70 s, with the default settings: handed off, collected, and run once."""
    host, model = case.host(), case.model()
    Codex(case, host, model).exec(directive("a", "wait", ms=70_000))
    handed_off(model)
    outcome(model, "waited 70000 ms")
    equal(len(host.events("call.handed_off", tool="wait")), 1, "hand-offs")
    equal(host.runs("wait"), 1, "runs")
    return f"handed off; run once; the model called task_wait {len(model.texts('is done|is still running')) - 1} times"


@cases.case("rejoin")
def rejoin(case: Case) -> str:
    """The client gives up on a call before the hand-off, and repeats it: the call joins its task."""
    token = Token("ada") if case.transport == "http" else None
    host, model = case.host(token.stanza() if token else ""), case.model()
    codex = Codex(case, host, model, token=token, timeout=25)
    codex.exec(directive("a", "wait", ms=38_000) + "\n" + directive("b", "wait", ms=38_000))
    check("timed out" in model.result("a"), f"the first call: {model.result('a')}")
    check("waited 38000 ms" in model.result("b"), f"the second call: {model.result('b')}")
    equal(host.runs("wait"), 1, "runs")
    return "the client timed out after 25 s; the second call joined the task, and the tool ran once"


if __name__ == "__main__":
    found = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
    cases.main("codex", found.split()[-1], __doc__.splitlines()[0])
