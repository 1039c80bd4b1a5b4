"""mcpcheck, the agent security harness, and mcp-fuzzer: each writes a report in JSON, which becomes lines."""

import json
import shlex
from collections import Counter
from importlib import metadata
from pathlib import Path

from expected import Expected
from harness import Bench, Host, Process, Table, progress
from schemas import Schemas

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".venv"
# The longest takes about 70 s on an idle machine.
PATIENCE = 600
REVISIONS = ("2025-11-25", "2026-07-28")


class NoReport(Exception):
    pass


def version(package: str) -> str:
    packages = [str(path) for path in ENVIRONMENT.glob("lib/python*/site-packages")]
    found = next(iter(metadata.distributions(name=package, path=packages)), None)
    return found.version if found else ""


def report(host: Host, name: str, program: str, arguments: list, file: str) -> dict:
    """Runs a suite, and reads the report that it writes. Its exit code says only that it has findings."""
    folder = host.folder / name
    folder.mkdir()
    log = host.folder / f"{name}.log"
    command = [ENVIRONMENT / "bin" / program, *arguments]
    suite = Process(command, folder, log, env={"HOME": str(folder), "NO_COLOR": "1"})
    with suite.limited(PATIENCE) as expired:
        suite.child.wait()
    if expired.is_set():
        raise NoReport(f"did not end within {PATIENCE} s")
    try:
        return json.loads((folder / file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        end = log.read_text(errors="replace")[-400:]
        raise NoReport(f"ended with {suite.child.returncode}, no report ({error}): {end}") from error


def mcpcheck(bench: Bench, table: Table, expected: Expected) -> None:
    progress("mcpcheck")
    suite, of = "mcpcheck", version("jbt-mcpcheck")
    with bench.host([]) as host:
        options = ["--json", "--output", "report.json", "--probe", "all", "--legacy-probes"]
        try:
            found = report(host, suite, "mcpcheck", [host.url, *options], "report.json")
        except NoReport as error:
            table.line(suite, of, "HTTP", "report", "failed", str(error))
            return
    for check in found["checks"]:
        codes = Counter(finding["code"] for finding in check["failures"] + check["warnings"])
        for code, count in codes.items():
            expected.finding(table, suite, of, "HTTP", code, f"{count} times: {check['summary']}")
        if not codes:
            verdict = "ok" if check["status"] == "pass" else "failed"
            table.line(suite, of, "HTTP", check["name"], verdict, check["summary"])
    expected.vanished(table, suite, of, "HTTP")


def security_harness(bench: Bench, table: Table, expected: Expected) -> None:
    of = version("agent-security-harness")
    for revision in REVISIONS:
        suite = f"agent-security-harness {revision}"
        progress(suite)
        with bench.host([]) as host:
            options = ["test", "mcp", "--transport", "http", "--url", host.url, "--report", "report.json"]
            # Without the option it opens a session.
            options += ["--protocol-version", revision] if revision == REVISIONS[1] else []
            try:
                found = report(host, f"harness-{revision}", "agent-security", options, "report.json")
            except NoReport as error:
                table.line(suite, of, "HTTP", "report", "failed", str(error))
                continue
        results = found["results"]
        passed = [result for result in results if result["passed"]]
        table.line(suite, of, "HTTP", "passed", "ok" if passed else "failed", f"{len(passed)} tests")
        skipped = [result["test_id"] for result in results if not result["passed"] and result["not_evaluated"]]
        remark = f"{len(skipped)} tests without a verdict, most for want of a fixture: {', '.join(skipped)}"
        table.line(suite, of, "HTTP", "inconclusive", "skipped", remark)
        # The suite takes a refusal with its URL for an answer; the host's log knows better.
        fetched = [line for line in host.log.read_text().splitlines() if 'tool="fetch"' in line]
        if any('outcome="ok"' in line for line in fetched):
            table.line(suite, of, "HTTP", "fetch", "failed", "the tool reached an address without a grant")
        for result in results:
            if not result["passed"] and not result["not_evaluated"]:
                expected.finding(table, suite, of, "HTTP", result["test_id"], result["details"])
        expected.vanished(table, suite, of, "HTTP")


def fuzzer(bench: Bench, table: Table, expected: Expected) -> None:
    common = ["--runs-per-type", "5", "--timeout", "10", "--seed", "7", "--output-dir", "out"]
    for revision in REVISIONS:
        options = ["--mode", "all", "--runs", "5", "--spec-schema-version", revision, "--security-audit", *common]
        with bench.host([]) as host:
            target = ["--protocol", "streamablehttp", "--endpoint", host.url]
            fuzzed(table, expected, host, revision, "HTTP", [*target, *options])
            alive(table, host, revision)
    options = ["--mode", "protocol", "--protocol-phase", "aggressive", *common]
    with bench.host([]) as host:
        # The fuzzer starts its own host, on the folders of this one.
        host.kill()
        target = ["--protocol", "stdio", "--endpoint", shlex.join([str(bench.binary), "stdio", *host.arguments()])]
        fuzzed(table, expected, host, "stdio", "stdio", [*target, *options])


def fuzzed(table: Table, expected: Expected, host: Host, name: str, transport: str, options: list) -> None:
    suite, of = f"mcp-fuzzer {name}", version("mcp-fuzzer")
    progress(suite)
    try:
        found = report(host, f"fuzzer-{name}", "mcp-fuzzer", options, "out/findings.json")
    except NoReport as error:
        table.line(suite, of, transport, "report", "failed", str(error))
        return
    kinds: dict[str, list[dict]] = {}
    schemas = Schemas(host)
    for finding in found["findings"]:
        kind = f"{finding['category']} {finding['kind']} {finding['target']}"
        if finding["category"] == "accepted_malformed" and (fault := schemas.fault(finding)):
            # Worse than expected: the host must refuse such arguments.
            kind += f": {fault}"
        kinds.setdefault(kind, []).append(finding)
    for kind, findings in sorted(kinds.items()):
        first = json.dumps(findings[0]["evidence"], ensure_ascii=False)
        expected.finding(table, suite, of, transport, kind, f"{len(findings)} times, such as {first}")
    table.line(suite, of, transport, "report", "ok", f"{found['count']} findings of {len(kinds)} kinds")
    expected.vanished(table, suite, of, transport)


def alive(table: Table, host: Host, revision: str) -> None:
    """The host of a fuzzer lives, and has logged neither a panic nor an error."""
    suite, of = f"mcp-fuzzer {revision}", version("mcp-fuzzer")
    log = host.log.read_text(errors="replace")
    lives = host.process is not None and host.process.child.poll() is None
    bad = [line for line in log.splitlines() if "panicked" in line or " ERROR " in line]
    verdict = "ok" if lives and not bad else "failed"
    table.line(suite, of, "HTTP", "host afterwards", verdict, bad[0] if bad else "runs" if lives else "ended")
