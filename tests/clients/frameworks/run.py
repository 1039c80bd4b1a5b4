"""Runs agent frameworks as clients of a host over HTTP, without a model:

    run.py --binary TOOLYARD --plugins FOLDER [--only NAME…] [--logs FOLDER]

Prints a line for each case, separated by tabs: client, version, transport, case, verdict, remark. The verdict
is `ok`, `client` (the client does not support it), `skipped` or `failed`. Fails if a case failed. Packages:
`../install.sh frameworks`.
"""

import argparse
import shutil
from pathlib import Path

import timeouts
from harness import Bench, Table, main

HERE = Path(__file__).resolve().parent
# A driver takes about 20 s on an idle machine.
PATIENCE = 180
# A name, the environment, the script and its arguments after the URL; or a function.
DRIVERS = {
    "langchain": ("first", "langchain_client.py", []),
    "mcp-use": ("first", "mcp_use_client.py", []),
    "mcp-use-timeout": ("first", timeouts.mcp_use, []),
    "openai-agents": ("second", "openai_client.py", []),
    "openai-timeout": ("second", timeouts.openai_agents, []),
    "pydantic-ai": ("second", "pydantic_client.py", []),
    "agent-framework": ("second", "agent_framework_client.py", []),
    "fastmcp": ("second", "fastmcp_client.py", []),
    "strands": ("strands", "strands_client.py", []),
    "strands-tasks": ("strands", "strands_client.py", ["tasks"]),
    "ai-sdk": ("typescript", "ai_sdk_client.mjs", []),
}
# Clients that send usage reports or look for updates otherwise.
QUIET = {
    "MCP_USE_ANONYMIZED_TELEMETRY": "false",
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}


def interpreter(environment: str) -> Path:
    if environment != "typescript":
        return HERE / environment / ".venv/bin/python"
    # A package, where there is one for this machine.
    node = HERE / environment / "node_modules/.bin/node"
    return node if node.exists() else Path(shutil.which("node") or "node")


def installed(environment: str) -> bool:
    packages = "node_modules" if environment == "typescript" else ".venv"
    return (HERE / environment / packages / ".installed").exists()


def run(bench: Bench, table: Table, names: list[str], _options: argparse.Namespace) -> None:
    for name in names:
        environment, script, arguments = DRIVERS[name]
        if not installed(environment):
            table.line(name, "", "HTTP", "all", "skipped", "not installed: run install.sh frameworks")
            continue
        if callable(script):
            script(bench, table, interpreter(environment), QUIET)
            continue
        folder = HERE / environment if environment == "typescript" else HERE
        with bench.host(["bridge.after=3s"]) as host:
            command = [interpreter(environment), folder / script, host.url, *arguments]
            home = host.folder / "home"
            home.mkdir()
            log = host.folder / f"{name}.log"
            table.run(name, command, home, log, PATIENCE, QUIET | {"HOME": str(home)})


if __name__ == "__main__":
    main(list(DRIVERS), run)
