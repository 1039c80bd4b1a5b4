"""Runs public test suites against a host:

    run.py --binary TOOLYARD --plugins FOLDER [--conformance COMPONENT] [--only NAME…] [--logs FOLDER]

Prints a line for each case, separated by tabs: suite, version, transport, case, verdict, remark. The verdict is
`ok`, `client` or `suite` (a finding in the file `expected`, with its reason), `skipped` or `failed`. Fails if a case
failed. The component is the fixture `conformance`. Packages: `../install.sh suites` and `../../conformance/install.sh`.
"""

import argparse
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "frameworks"))

import conformance
import ext_tasks
import scanners
from expected import Expected
from harness import Bench, Table, main

NAMES = ["ext-tasks", "mcpcheck", "harness", "fuzzer", "conformance"]
SCANNERS = {"mcpcheck": scanners.mcpcheck, "harness": scanners.security_harness, "fuzzer": scanners.fuzzer}


def run(bench: Bench, table: Table, names: list[str], options: argparse.Namespace) -> None:
    expected = Expected()
    for name in names:
        if why := missing(name, options):
            table.line(name, "", "HTTP", "all", "skipped", why)
        elif name in SCANNERS:
            SCANNERS[name](bench, table, expected)
        elif name == "ext-tasks":
            ext_tasks.run(bench, table, expected)
        else:
            conformance.run(bench, table, expected, options.conformance)


def missing(name: str, options: argparse.Namespace) -> str | None:
    if name in SCANNERS and not (HERE / ".venv/.installed").exists():
        return "not installed: run install.sh suites"
    if name == "ext-tasks" and not (HERE / "typescript/node_modules/.installed").exists():
        return "not installed: run install.sh suites"
    if name == "ext-tasks" and not shutil.which("node"):
        return "needs Node.js"
    if name == "conformance" and not conformance.installed():
        return "not installed: run tests/conformance/install.sh"
    if name == "conformance" and options.conformance is None:
        return "needs --conformance"
    return None


if __name__ == "__main__":
    component = ("--conformance", {"type": Path, "help": "the fixture `conformance`, a component"})
    main(NAMES, run, [component])
