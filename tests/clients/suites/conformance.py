"""The parts of the official conformance suite that tests/conformance does not run, with default settings."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from expected import Expected
from harness import Bench, Host, Process, Table, progress

FOLDER = Path(__file__).resolve().parents[2] / "conformance"
PACKAGES = FOLDER / "node_modules"
MANIFEST = FOLDER / "plugin/conformance.toml"
# A part takes about 20 s on an idle machine; a scenario that hangs takes 30 s.
PATIENCE = 600
# The time at the end of a scenario's folder, such as `-2026-11-21T15-12-18-313Z`.
TIME_CHARS = 25
# A check of the messages of each scenario, also of one that checks nothing else.
WIRE = "wire-schema-valid"
# A name, its arguments, and the number of scenarios.
PARTS = {
    "all": (["--suite", "all"], 65),
    "pending": (["--suite", "pending"], 17),
    "2025-03-26": (["--spec-version", "2025-03-26"], 1),
    "2025-06-18": (["--spec-version", "2025-06-18"], 27),
}


@dataclass
class Scenario:
    name: str
    checks: list[dict]

    def of(self, status: str) -> list[dict]:
        return [check for check in self.checks if check["status"] == status and check["id"] != WIRE]


def installed() -> bool:
    return (PACKAGES / ".installed").exists()


def run(bench: Bench, table: Table, expected: Expected, guest: Path) -> None:
    # Under the name of the manifest, whatever the file is called.
    component = bench.folder / "conformance.wasm"
    component.write_bytes(guest.read_bytes())
    package = json.loads((PACKAGES / "conformance-alpha/package.json").read_text())
    for part, (arguments, scenarios) in PARTS.items():
        with bench.host([], [], {component: MANIFEST.read_text()}) as host:
            part_of(table, expected, host, part, arguments, scenarios, package["version"])


def part_of(table, expected, host: Host, part: str, arguments: list[str], wanted: int, version: str) -> None:
    suite = f"conformance {part}"
    progress(suite)
    results = host.folder / "results"
    command = [PACKAGES / ".bin/node", PACKAGES / "conformance-alpha/dist/index.js", "server", "--url", host.url]
    process = Process([*command, *arguments, "--output-dir", results], host.folder, host.folder / "suite.log")
    with process.limited(PATIENCE) as expired:
        process.child.wait()
    if expired.is_set():
        table.line(suite, version, "HTTP", "suite", "failed", f"did not end within {PATIENCE} s")
    found = scenarios_in(results)
    statuses = Counter()
    for scenario in found:
        statuses.update(check["status"] for check in scenario.checks)
        judge(table, expected, suite, version, scenario)
    remark = f"{len(found)} scenarios; checks: {statuses['SUCCESS']} passed, {statuses['FAILURE']} failed"
    remark += f", {statuses['SKIPPED']} skipped, {statuses['WARNING']} warnings"
    complete = len(found) == wanted
    table.line(suite, version, "HTTP", "scenarios", "ok" if complete else "failed", remark)
    expected.vanished(table, suite, version, "HTTP")


def judge(table: Table, expected: Expected, suite: str, version: str, scenario: Scenario) -> None:
    """A line for each scenario that did not pass; a scenario that only skips is skipped."""
    wrong = [check for check in scenario.checks if check["status"] == "FAILURE"]
    skipped, passed = scenario.of("SKIPPED"), scenario.of("SUCCESS")
    first = (wrong or skipped or [{}])[0]
    text = first.get("errorMessage") or first.get("description") or ""
    if wrong:
        expected.finding(table, suite, version, "HTTP", scenario.name, text)
    elif skipped:
        remark = f"{len(passed)} checks passed, {len(skipped)} skipped: {text}"
        table.line(suite, version, "HTTP", scenario.name, "skipped", remark)
    elif not any(check["status"] == "SUCCESS" for check in scenario.checks):
        table.line(suite, version, "HTTP", scenario.name, "failed", "nothing was checked")


def scenarios_in(results: Path) -> list[Scenario]:
    found = []
    for file in sorted(results.glob("*/checks.json")):
        name = file.parent.name.removeprefix("server-")[:-TIME_CHARS]
        found.append(Scenario(name, json.loads(file.read_text())))
    return found
