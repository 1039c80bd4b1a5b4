"""Claude Code with a home folder of its own, in a pseudo terminal or without one."""

import json
import os
import re
import subprocess
from pathlib import Path

from cases import Case, check, equal, only
from host import Host, Token
from model import Missing, Model
from terminal import DOWN, ENTER, SPACE, Terminal

PROGRAM = only(Path(__file__).parent, "node_modules/@anthropic-ai/claude-code-*/claude")
SWITCHES = (
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
)
# Seconds for a start, a call, and a result after a restart, on the slowest machine.
START, CALL, RESULT = 90, 60, 120
# Seconds in which a card comes without a prompt, if it does.
CARD = 10


class Claude:
    """Claude Code with a home folder of its own."""

    def __init__(self, case: Case, host: Host, model: Model, name: str = "claude", token: Token | None = None) -> None:
        self.model = model
        self.case = case
        home = case.folder / name
        self.folder = home / "work"
        self.folder.mkdir(parents=True)
        self.environment = {
            "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "TMPDIR": str(home),
            "HOME": str(home),
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "dummy",
            # Otherwise the tools are not in the request.
            "ENABLE_TOOL_SEARCH": "false",
        } | dict.fromkeys(SWITCHES, "1")
        # Without these keys, the dialogs of a first start appear.
        project = {"hasTrustDialogAccepted": True, "allowedTools": [], "mcpServers": {}}
        seed = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
            "projects": {str(self.folder): project},
        }
        (home / ".claude.json").write_text(json.dumps(seed))
        self.arguments = ["--allowedTools", "mcp__toolyard__*,TaskStop"]
        if host.transport == "http":
            server = {"type": "http", "url": host.url}
            if token:
                server["headers"] = {"Authorization": f"Bearer {token.secret}"}
            (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"toolyard": server}}))
            self.arguments += ["--mcp-config", "mcp.json", "--strict-mcp-config"]
        else:
            host.connect("claude-code", self.environment, self.folder)

    def open(self, *arguments: str, card: str | None = None) -> None:
        """Starts it in a terminal, and waits until it offers the tools of the host to the model, or shows this card."""
        self.model.tools = []
        command = [str(PROGRAM), *self.arguments, *arguments]
        self.terminal = Terminal(command, self.folder, self.environment)
        self.case.at_end(self.terminal.kill)
        self.terminal.wait("❯", START)
        # A card takes the keys of the prompt below.
        if card and self.terminal.shows(card, CARD):
            return
        for _ in range(20):
            self.prompt("Are the tools there?")
            if self.model.has_tool("wait", 3):
                return
        raise Missing("Claude Code does not offer the tools of the host to the model")

    def prompt(self, text: str) -> None:
        self.terminal.keys(text, ENTER)

    def call(self, tag: str, tool: str, **arguments: object) -> str:
        """Has the model call a tool; returns the result that it reads."""
        self.ask_for(tag, tool, **arguments)
        return self.model.result(tag, CALL)

    def ask_for(self, tag: str, tool: str, **arguments: object) -> None:
        self.prompt(f"CALL#{tag} {tool} {json.dumps(arguments)}")

    def start_task(self, tag: str, tool: str, **arguments: object) -> tuple[str, str]:
        """Has the model call a tool that becomes a task; returns the ids of host and client."""
        text = self.call(tag, tool, **arguments)
        match = re.search(r'started server-side task (\S+)\..*TaskStop with task_id "(\w+)"', text, re.DOTALL)
        check(match, f"the result names no task: {text}")
        return match[1], match[2]

    def print(self, prompt: str) -> None:
        """Runs one prompt without a terminal, where it declares no tasks."""
        command = [str(PROGRAM), *self.arguments, "-p", prompt]
        run = subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        self.case.at_end(run.kill)
        equal(run.wait(180), 0, "the status of claude -p")

    def answer_yes(self, question: str, since: int = 0) -> None:
        """Waits for the card with a yes-or-no question, and accepts it with "yes"."""
        self.terminal.wait(question, CALL, since)
        self.terminal.wait("Accept", CALL, since)
        self.terminal.keys(SPACE, DOWN, ENTER)

    def session(self) -> str:
        """The id of its only session, from the file that has the conversation."""
        [file] = self.folder.parent.glob(".claude/projects/*/*.jsonl")
        return file.stem
