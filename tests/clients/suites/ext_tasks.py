"""The official requester of the tasks extension, in both generations; the host is killed and started in between."""

import hashlib
import subprocess
from pathlib import Path

from expected import Expected
from harness import Bench, Host, Process, Table, progress

HERE = Path(__file__).resolve().parent
# Both generations take about a minute on an idle machine.
PATIENCE = 300
TOKEN = "token-of-ext-tasks"
# Without a principal, a task of 2025-11-25 belongs to its session, which ends with the host.
PRINCIPAL = f"""[[auth.tokens]]
name = "ext-tasks"
sha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"
scopes = ["tools"]
"""
KEEP = 'prefix = "keep"\n\n[task]\ndurability = "resume"\n'


def run(bench: Bench, table: Table, expected: Expected) -> None:
    # A copy of `probe` whose tools resume.
    keep = bench.folder / "keep.wasm"
    keep.write_bytes((bench.plugins / "probe.wasm").read_bytes())
    for generation in ("v1", "v2"):
        progress(f"ext-tasks {generation}")
        settings = ["tasks.poll-interval=200ms"]
        with bench.host(settings, ["probe"], {keep: KEEP}, PRINCIPAL) as host:
            follow(table, expected, host, generation)


def follow(table: Table, expected: Expected, host: Host, generation: str) -> None:
    """Passes the lines on, and restarts the host where the driver asks for it."""
    command = ["node", HERE / "typescript/ext_tasks.mjs", generation, host.url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": {"TOKEN": TOKEN}}
    log = host.folder / f"ext-tasks-{generation}.log"
    lines = found = 0
    driver = Process(command, host.folder, log, **pipes)
    with driver.limited(PATIENCE) as expired:
        for line in driver.child.stdout:
            fields = line.decode().rstrip("\n").split("\t")
            if fields == ["@restart"]:
                host.kill()
                host.start()
                driver.child.stdin.write(b"started\n")
                driver.child.stdin.flush()
                continue
            lines += 1
            if fields[4:5] == ["failed"]:
                found += 1
                suite, version, transport, case, _, remark = fields
                expected.finding(table, suite, version, transport, case, remark)
            else:
                table.line(*fields)
    status = driver.child.wait()
    if expired.is_set() or not lines or (status and not found):
        end = log.read_text(errors="replace")[-600:]
        table.line(f"ext-tasks {generation}", "", "HTTP", "driver", "failed", f"ended with {status}: {end}")
    elif not expired.is_set():
        expected.vanished(table, f"ext-tasks {generation}", version_of(fields), "HTTP")


def version_of(fields: list[str]) -> str:
    return fields[1] if len(fields) > 1 else ""
