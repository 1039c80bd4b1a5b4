"""Runs the cases of a client, each in a folder of its own, and prints one line for each.

The line has, with tabs between: client, version, transport, case, verdict, remark. The verdict is `ok`,
`client` (the client does not support it) or `failed`.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from host import Absent, Host, Shared, end_processes
from model import Missing, Model
from terminal import NotShown

TRANSPORTS = ("http", "stdio")


class ClientLimit(Exception):
    """The client does not support what a case tests; the text says what it does instead."""


def check(condition: object, what: object) -> None:
    # Unlike `assert`, this also works under `python -O`.
    if not condition:
        raise AssertionError(what)


def equal(found: object, expected: object, what: str) -> None:
    check(found == expected, f"{what}: expected {expected!r}, found {found!r}")


def only(folder: Path, pattern: str) -> Path:
    """The one file that matches: a program in the package for this platform."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        sys.exit(f"{folder} has {len(found)} files {pattern}: run install.sh agents")
    return found[0]


def add_plugin(host: Host, name: str) -> None:
    """Puts a plugin into the folder of a host that runs."""
    for file in (f"{name}.toml", f"{name}.wasm"):
        shutil.copy(host.available / file, host.plugins)
    host.wait("plugin.loaded", plugin=f"{name}.wasm", seconds=60)


def remove_plugin(host: Host, name: str) -> None:
    """Takes a plugin out of the folder of a host that runs."""
    for file in (f"{name}.wasm", f"{name}.toml"):
        (host.plugins / file).unlink()


class Case:
    """One case over one transport. It owns a folder, and closes what it started."""

    def __init__(self, shared: Shared, folder: Path, transport: str) -> None:
        self.shared = shared
        self.folder = folder
        self.transport = transport
        self._stack = ExitStack()
        folder.mkdir()
        self._stack.callback(end_processes, folder)

    def host(self, config: str = "", *settings: str) -> Host:
        host = Host(self.shared, self.folder, self.transport, config, *settings)
        self._stack.callback(host.close)
        return host

    def model(self) -> Model:
        model = Model()
        self._stack.callback(model.close)
        return model

    def at_end(self, action: Callable[[], object]) -> None:
        self._stack.callback(action)

    def close(self) -> None:
        self._stack.close()


class Cases:
    """The cases of a client by name, in the order of their definition."""

    def __init__(self) -> None:
        self.all: dict[str, tuple[Callable[[Case], str], tuple[str, ...]]] = {}

    def case(self, name: str, transports: tuple[str, ...] = TRANSPORTS):
        """Marks a function as a case; it returns the remark."""

        def add(run: Callable[[Case], str]) -> Callable[[Case], str]:
            self.all[name] = run, transports
            return run

        return add

    def main(self, client: str, version: str, description: str) -> None:
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--binary", type=Path, required=True, help="the host program")
        parser.add_argument("--plugins", type=Path, required=True, help="a folder with the plugins probe and csv")
        parser.add_argument("--only", nargs="+", choices=list(self.all), metavar="CASE", help=", ".join(self.all))
        parser.add_argument("--transport", choices=TRANSPORTS, help="only this one")
        parser.add_argument("--keep", action="store_true", help="keep the folder of a case that failed")
        options = parser.parse_args()
        # Ends the program by an exception, so that everything is closed.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: sys.exit(128 + number))
        root = Path(tempfile.mkdtemp(prefix="agents-"))
        failed: list[str] = []
        try:
            _say(f"{client}: compiling the plugins")
            base = root / "shared"
            base.mkdir()
            shared = Shared(options.binary, options.plugins, base)
            label = client, version
            for name, (run, transports) in self.all.items():
                for transport in transports:
                    if options.only and name not in options.only or options.transport not in (None, transport):
                        continue
                    folder = root / f"{name}-{transport}"
                    began = time.monotonic()
                    verdict, remark = _verdict(run, Case(shared, folder, transport))
                    _say(f"{client}: {name} over {transport}: {verdict} ({time.monotonic() - began:.0f} s)")
                    print(*label, transport, name, verdict, " ".join(remark.split()), sep="\t", flush=True)
                    if verdict == "failed":
                        failed.append(name)
                    if verdict != "failed" or not options.keep:
                        shutil.rmtree(folder, ignore_errors=True)
        finally:
            end_processes(root)
            if not (failed and options.keep):
                shutil.rmtree(root, ignore_errors=True)
            else:
                _say(f"{client}: the folder is {root}")
        sys.exit(1 if failed else 0)


def _verdict(run: Callable[[Case], str], case: Case) -> tuple[str, str]:
    try:
        return "ok", run(case)
    except ClientLimit as limit:
        return "client", str(limit)
    except (AssertionError, Absent, Missing, NotShown) as fault:
        _say(traceback.format_exc())
        return "failed", str(fault)
    except Exception as fault:  # One broken case must not hide the verdicts of the others.
        _say(traceback.format_exc())
        return "failed", f"{type(fault).__name__}: {fault}"
    finally:
        case.close()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
