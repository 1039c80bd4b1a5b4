"""Findings in which the suite is wrong and the host is right, from the file `expected`. Standard library only."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from harness import Table

FILE = Path(__file__).resolve().with_name("expected")


@dataclass
class Entry:
    suite: str
    finding: str
    verdict: str
    reason: str
    found: bool = field(default=False)

    @property
    def is_pattern(self) -> bool:
        return "*" in self.suite + self.finding


class Expected:
    def __init__(self) -> None:
        lines = FILE.read_text(encoding="utf-8").splitlines()
        rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
        self.entries = [Entry(*row) for row in rows]

    def finding(self, table: Table, suite: str, version: str, transport: str, finding: str, remark: str) -> None:
        """A line for a finding of a suite: expected, with the reason, or failed."""
        for entry in self.entries:
            if fnmatchcase(suite, entry.suite) and fnmatchcase(finding, entry.finding):
                entry.found = True
                table.line(suite, version, transport, finding, entry.verdict, entry.reason)
                return
        table.line(suite, version, transport, finding, "failed", f"new: {remark}"[:600])

    def vanished(self, table: Table, suite: str, version: str, transport: str) -> None:
        """A line for each entry of a suite that ran and did not find it."""
        for entry in self.entries:
            if entry.suite == suite and not entry.is_pattern and not entry.found:
                remark = "not found any more: take it out of the file `expected`"
                table.line(suite, version, transport, entry.finding, "ok", remark)
