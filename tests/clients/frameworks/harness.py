"""Starts hosts and drivers, and ends them in every case. Standard library only.

`run.py` here and in `../suites` use it. A host runs on copies of the plugins in a temporary folder, with its
log in `host.log` there.
"""

import argparse
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# Longer than a step takes on the slowest machine, in seconds.
PATIENCE = 120
VERDICTS = ("ok", "client", "suite", "skipped", "failed")
ADDRESS = re.compile(r"serves (http://127\.0\.0\.1:(\d+)/mcp)")
PR_SET_PDEATHSIG = 1
# Loaded once, because a child must not load it after the fork.
LIBC = ctypes.CDLL(None)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def end_with_parent() -> None:
    """On Linux, the kernel kills the child if this process is killed itself."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def environment() -> dict[str, str]:
    """Without variables that change a host or a client, and without the user's own files."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TOOLYARD_")}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "NO_PROXY": "127.0.0.1"}


def until(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> object:
    """Waits until the condition holds, and returns its value."""
    deadline = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {patience} s")
        time.sleep(0.02)
    return value


class Process:
    """A child in a process group of its own, which is killed as a whole."""

    def __init__(self, command: list[str], folder: Path, log: Path, **options) -> None:
        with log.open("ab") as stderr:
            self.child = subprocess.Popen(
                [str(part) for part in command],
                cwd=folder,
                env=environment() | options.pop("env", {}),
                stderr=stderr,
                start_new_session=True,
                preexec_fn=end_with_parent,
                **{"stdin": subprocess.DEVNULL, "stdout": stderr} | options,
            )

    def kill(self) -> None:
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()

    @contextmanager
    def limited(self, patience: float) -> Iterator[threading.Event]:
        """Kills the process at the end, and after this time; the event is set if the time was too short."""
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            self.kill()

        timer = threading.Timer(patience, expire)
        timer.start()
        try:
            yield expired
        finally:
            timer.cancel()
            self.kill()


class Host:
    """`toolyard serve` in a folder of its own, at a free port that it keeps when it starts again."""

    def __init__(self, bench: "Bench", folder: Path, settings: list[str], config: str) -> None:
        self.bench, self.folder, self.settings = bench, folder, settings
        self.log = folder / "host.log"
        self.port = 0
        self.process: Process | None = None
        (folder / "toolyard.toml").write_text(config)

    def arguments(self) -> list[str]:
        arguments = ["--plugins", self.folder / "plugins", "--data", self.folder / "data", "--log", "info"]
        for setting in self.settings:
            arguments += ["--set", setting]
        return [str(argument) for argument in arguments]

    def start(self) -> "Host":
        seen = self.log.stat().st_size if self.log.exists() else 0
        listen = ["--listen", f"127.0.0.1:{self.port}"]
        command = [self.bench.binary, "serve", *self.arguments(), *listen]
        self.process = Process(command, self.folder, self.log)

        def address() -> re.Match | None:
            if self.process.child.poll() is not None:
                raise RuntimeError(f"the host ended:\n{self.log.read_text()[-2000:]}")
            return ADDRESS.search(self.log.read_bytes()[seen:].decode())

        self.port = int(until(address, "the start of the host")[2])
        return self

    def kill(self) -> None:
        if self.process:
            self.process.kill()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"


class Bench:
    """The binary, the plugins, and a folder that has them compiled."""

    def __init__(self, binary: Path, plugins: Path, folder: Path) -> None:
        self.binary, self.plugins, self.folder = binary, plugins, folder
        self.ready: dict[tuple, Path] = {}

    def plugin_folder(self, folder: Path, names: list[str] | None, extra: dict[Path, str | None]) -> None:
        folder.mkdir(parents=True)
        for component in sorted(self.plugins.glob("*.wasm")):
            if names is None or component.stem in names:
                self.install(component, folder, component.stem)
        for component, manifest in extra.items():
            shutil.copy(component, folder / component.name)
            if manifest is not None:
                (folder / component.name).with_suffix(".toml").write_text(manifest)

    @staticmethod
    def install(component: Path, folder: Path, name: str) -> None:
        shutil.copy(component, folder / f"{name}.wasm")
        manifest = component.with_suffix(".toml")
        if manifest.exists():
            shutil.copy(manifest, folder)
        # The folder that the manifest may grant.
        (folder / name).mkdir(exist_ok=True)

    @contextmanager
    def host(
        self,
        settings: list[str],
        names: list[str] | None = None,
        extra: dict[Path, str | None] | None = None,
        config: str = "",
    ) -> Iterator[Host]:
        """A host with the plugins of these names, or all, and extra components with their manifests."""
        folder = Path(tempfile.mkdtemp(prefix="host-", dir=self.folder))
        self.plugin_folder(folder / "plugins", names, extra or {})
        host = Host(self, folder, settings, config)
        self.compile(host, (*(names or ["*"]), *map(str, extra or {})))
        try:
            yield host.start()
        finally:
            host.kill()

    def compile(self, host: Host, key: tuple) -> None:
        """Compiles once for each set of components, and copies the outcome."""
        data = host.folder / "data"
        if key not in self.ready:
            progress("compiling the components")
            command = [self.binary, "tools", *host.arguments()]
            with host.log.open("ab") as log:
                subprocess.run(command, cwd=host.folder, env=environment(), stdout=log, stderr=log, check=True)
            self.ready[key] = host.folder.with_name(f"{host.folder.name}-data")
            shutil.copytree(data, self.ready[key])
        else:
            shutil.copytree(self.ready[key], data)
        data.chmod(0o700)


class Table:
    """The lines of all drivers, printed at once; remembers whether one failed."""

    def __init__(self) -> None:
        self.failed = 0
        self.lines = 0

    def line(self, *fields: str) -> None:
        """client, version, transport, case, verdict, remark"""
        fields = tuple(" ".join(str(field).split()) for field in fields)
        if len(fields) != 6 or fields[4] not in VERDICTS:
            fields = (*(*fields, *[""] * 6)[:4], "failed", f"not a line of a driver: {fields}")
        self.lines += 1
        self.failed += fields[4] == "failed"
        print("\t".join(fields), flush=True)

    def run(self, client: str, command: list[str], folder: Path, log: Path, patience: float, env=None) -> None:
        """Runs a driver that prints lines; if it fails otherwise, that is a line too."""
        progress(client)
        before, failed = self.lines, self.failed
        driver = Process(command, folder, log, stdout=subprocess.PIPE, env=env or {})
        try:
            output, _ = driver.child.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            driver.kill()
            output, _ = driver.child.communicate()
            self.line(client, "", "", "driver", "failed", f"did not end within {patience} s")
        finally:
            driver.kill()
        lines = output.decode(errors="replace").splitlines()
        for line in lines:
            if "\t" in line:
                self.line(*line.split("\t"))
        with log.open("a") as end:
            # Some clients log on stdout.
            end.writelines(f"{line}\n" for line in lines if "\t" not in line)
        status = driver.child.returncode
        if self.lines == before or (status and self.failed == failed):
            end = log.read_text(errors="replace")[-600:] if log.exists() else ""
            self.line(client, "", "", "driver", "failed", f"ended with {status}: {end}")


def stop_on_signals() -> None:
    """SIGTERM ends the program as Ctrl-C does, so that every `finally` runs."""

    def stop(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)


def main(names: list[str], run: Callable[[Bench, Table, list[str], argparse.Namespace], None], more=()) -> None:
    """The command line of both entries. `run` gets the names to run, in order."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=Path, required=True, help="the host")
    parser.add_argument("--plugins", type=Path, required=True, help="a folder with the shipped plugins")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="run these only")
    parser.add_argument("--logs", type=Path, help="keep the logs in this folder")
    for name, options in more:
        parser.add_argument(name, **options)
    options = parser.parse_args()
    stop_on_signals()
    table = Table()
    with tempfile.TemporaryDirectory(prefix="toolyard-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary).resolve()
        bench = Bench(options.binary.resolve(), options.plugins.resolve(), folder)
        try:
            run(bench, table, [name for name in names if name in options.only], options)
        finally:
            if options.logs:
                for log in folder.rglob("*.log"):
                    target = options.logs / log.relative_to(folder)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(log, target)
    progress(f"{table.lines} cases, {table.failed} failed")
    sys.exit(1 if table.failed else 0)
