"""Clients that give up: what they send, seen by a proxy, and what the host does. Standard library only."""

import hashlib
import json
import subprocess
from importlib import metadata
from pathlib import Path

from harness import PATIENCE, Bench, Host, Process, Table, progress
from proxy import Proxy

HERE = Path(__file__).resolve().parent
# The default of the OpenAI Agents SDK, in seconds. The tool takes 8 s.
LIMIT = 5
TOKEN = "token-of-the-frameworks"
PRINCIPAL = f"""[[auth.tokens]]
name = "python"
sha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"
scopes = ["tools"]
"""
KEEP = """[[bridge.clients]]
name = "python-httpx2*"
on-disconnect = "keep"
"""
# A name, the configuration and the tokens.
ANONYMOUS = ("anonymous", "", [])
AUTHENTICATED = ("principal", PRINCIPAL, [TOKEN])
KEPT = ("keep", PRINCIPAL + KEEP, [TOKEN])
# A client leaves the connection of a call that timed out in one of these ways.
CLOSES = "closes the connection"
STAYS = "keeps the connection open"


class Client:
    """A client with a script that makes the same call twice, and prints both outcomes."""

    def __init__(self, package: str, python: Path, script: str, environment: dict[str, str]) -> None:
        self.package, self.python, self.script, self.environment = package, python, script, environment
        packages = [str(path) for path in python.parents[1].glob("lib/python*/site-packages")]
        found = next(iter(metadata.distributions(name=package, path=packages)), None)
        self.version = found.version if found else ""

    def line(self, table: Table, case: str, verdict: str, remark: str) -> None:
        table.line(self.package, self.version, "HTTP", f"timeout of {LIMIT} s: {case}", verdict, remark)

    def outcomes(self, host: Host, url: str, tokens: list[str]) -> list[dict]:
        command = [self.python, HERE / self.script, url, *tokens]
        options = {"stdout": subprocess.PIPE, "env": self.environment | {"HOME": str(host.folder)}}
        driver = Process(command, host.folder, host.folder / "driver.log", **options)
        try:
            output, _ = driver.child.communicate(timeout=PATIENCE)
        finally:
            driver.kill()
        # Some clients log on stdout.
        return json.loads(output.splitlines()[-1])


def openai_agents(bench: Bench, table: Table, python: Path, environment: dict[str, str]) -> None:
    """2026-07-28, with default settings, for an anonymous caller and a principal, and with the one that keeps calls."""
    client = Client("openai-agents", python, "openai_timeout.py", environment)
    for setup in (ANONYMOUS, AUTHENTICATED, KEPT):
        gives_up(bench, table, client, setup, "2026-07-28", CLOSES)


def mcp_use(bench: Bench, table: Table, python: Path, environment: dict[str, str]) -> None:
    """2025-11-25, in a session."""
    client = Client("mcp-use", python, "mcp_use_timeout.py", environment)
    for setup in (ANONYMOUS, AUTHENTICATED):
        gives_up(bench, table, client, setup, "2025-11-25", STAYS)


def gives_up(bench: Bench, table: Table, client: Client, setup: tuple, revision: str, connection: str) -> None:
    name, config, tokens = setup
    progress(f"{client.package}, its timeout, {name}")
    with bench.host([], config=config) as host, Proxy(host.port) as proxy:
        try:
            first, second = client.outcomes(host, f"http://127.0.0.1:{proxy.port}/mcp", tokens)
            if setup is ANONYMOUS:
                client.line(table, "wire", *wire(proxy, revision, connection))
            client.line(table, name, *reaction(host, first, second, setup, connection))
        except Exception as error:
            client.line(table, name, "failed", f"{type(error).__name__}: {error}")
        (host.folder / "wire.log").write_text(proxy.transcript())


def wire(proxy: Proxy, revision: str, connection: str) -> tuple[str, str]:
    """The client closes the connection of the call or leaves it open, and sends nothing."""
    calls = [found for found in proxy.messages() if found[2]["method"] == "tools/call"]
    at, number, _ = calls[0]
    ends = [
        event.at - at for event in proxy.events if event.connection == number and event.kind == "closed by client"
    ]
    in_time = [end for end in ends if LIMIT - 0.2 < end < LIMIT + 2]
    seen = CLOSES if in_time else STAYS
    said = [found[2]["method"] for found in proxy.messages() if at < found[0] < calls[1][0]]
    # Another connection begins with this.
    said = [method for method in said if method != "server/discover"]
    spoken = any(revision.encode() in event.data for event in proxy.events if event.kind == "request")
    remark = f"{revision}: after {LIMIT} s the client {seen} and sends {', '.join(said) or 'nothing'}"
    return "ok" if seen == connection and not said and spoken and len(calls) >= 2 else "failed", remark


def reaction(host: Host, first: dict, second: dict, setup: tuple, connection: str) -> tuple[str, str]:
    """The second call has the result: it joins the first one, or is handed off before the client gives up. Only a client
    that does not show that it has given up gets nothing."""
    if "timed out" not in first["text"].lower():
        return "failed", f"the first call: {first}"
    ended = [line for line in host.log.read_text().splitlines() if 'event="call.ended" tool="wait"' in line]
    runs = sum('outcome="ok"' in line for line in ended)
    if connection == STAYS:
        silent = "timed out" in second["text"].lower()
        return "client" if silent else "failed", "it gives up without a word, so the equal call is a new run"
    answered = second["text"].endswith("waited 8000 ms") and second["seconds"] < LIMIT
    if not answered or runs > 1:
        return "failed", f"the second call: {second}; {runs} runs ended"
    after = f"after {second['seconds']:.1f} s"
    if setup is KEPT:
        return "ok", f"the host keeps the call; the equal call has its result {after}"
    return "ok", f"the host stops the call; the next one is handed off {after}, and its result is collected"
