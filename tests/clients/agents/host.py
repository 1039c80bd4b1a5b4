"""Starts, kills and restarts the host under test, and reads its log and audit.

Over HTTP this module starts `toolyard serve`. Over stdio the client starts it, from the entry that `toolyard
connect` writes; then the host is the background host of `--detach`.
"""

import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from terminal import ENTER, Terminal

# Copies of the plugin `probe`: tools that resume, and tools that the caller or the operator approves.
MANIFESTS = {
    "keep": 'prefix = "keep"\n[task]\ndurability = "resume"\n',
    "guard": 'prefix = "guard"\n[tools.echo]\nconfirm = "ask"\nconfirm-by = "person"\n'
    'confirm-message = "Shows a text."\n',
    "operated": 'prefix = "operated"\n[tools.echo]\nconfirm = "ask"\nconfirm-message = "Shows a text."\n',
}
# The host has a row of 100 s for Claude Code over HTTP, so it needs a row of its own. Over stdio a client sends
# no User-Agent, so there the setting counts.
QUICK_BRIDGE = """
[bridge]
after = "3s"
wait = "20s"
[[bridge.clients]]
name = "claude-code*"
after = "3s"
wait = "20s"
"""


class Absent(Exception):
    """The host did not log in time what a test waits for."""


@dataclass
class Token:
    """A bearer token, and its stanza in the configuration."""

    name: str

    def __post_init__(self) -> None:
        self.secret = f"toolyard_{secrets.token_urlsafe(32)}"

    def stanza(self) -> str:
        digest = hashlib.sha256(self.secret.encode()).hexdigest()
        return f'[[auth.tokens]]\nname = "{self.name}"\nsha256 = "{digest}"\n'


def environment(folder: Path) -> dict[str, str]:
    """The environment of a host, whose home is this folder."""
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(folder), "TMPDIR": str(folder)}


class Shared:
    """The compiled plugins, which all cases copy."""

    def __init__(self, binary: Path, plugins: Path, folder: Path) -> None:
        self.binary = binary.resolve()
        self.available = plugins.resolve()
        self.plugins = folder / "plugins"
        self.data = folder / "data"
        self.plugins.mkdir()
        self.data.mkdir(mode=0o700)
        component = self.available / "probe.wasm"
        shutil.copy(component, self.plugins)
        for name, manifest in MANIFESTS.items():
            shutil.copy(component, self.plugins / f"{name}.wasm")
            (self.plugins / f"{name}.toml").write_text(manifest)
        command = [self.binary, "tools", "--plugins", self.plugins, "--data", self.data]
        subprocess.run(command, env=environment(folder), check=True, capture_output=True, timeout=300)


class Host:
    """The host of one case, with its own plugins and data."""

    def __init__(self, shared: Shared, folder: Path, transport: str, config: str = "", *settings: str) -> None:
        self.binary = shared.binary
        self.available = shared.available
        self.transport = transport
        self.plugins = folder / "plugins"
        self.data = folder / "data"
        self.config = folder / "toolyard.toml"
        self.config.write_text(config)
        shutil.copytree(shared.plugins, self.plugins)
        shutil.copytree(shared.data, self.data)
        self.data.chmod(0o700)
        sets = ["log.format=json", "audit.to=file", *settings]
        self.options = ["--config", self.config, "--plugins", self.plugins, "--data", self.data, "--log", "info"]
        self.options = [str(option) for option in self.options] + [f"--set={value}" for value in sets]
        self._environment = environment(folder)
        self._process: subprocess.Popen | None = None
        self._log = folder / "host.log"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        if transport == "http":
            self.start()

    def start(self) -> None:
        """Starts `toolyard serve` at the port of this case, and waits until it serves."""
        count = len(self.events("host.started"))
        with self._log.open("ab") as log:
            command = [str(self.binary), "serve", "--listen", f"127.0.0.1:{self.port}", *self.options]
            self._process = subprocess.Popen(
                command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.wait("host.started", count=count + 1, seconds=60)

    def restart(self) -> None:
        """Starts the host after `kill`; over stdio the relays of its clients do that."""
        if self.transport == "http":
            self.start()

    def kill(self) -> None:
        """Kills the host, as a crash would."""
        if self.transport == "http":
            self._process.kill()
            self._process.wait()
            return
        ids = self.background()
        if not ids:
            raise Absent("no background host runs")
        for id in ids:
            os.kill(id, signal.SIGKILL)
        # A relay may have started the next host already.
        _until(lambda: not set(ids) & set(self.background()), 10)

    def background(self) -> list[int]:
        """The process ids of the background hosts that run."""
        return background_hosts(self.data)

    def kill_relays(self) -> None:
        """Kills what the clients started over stdio; the background host goes on."""
        for id in _processes(self.data):
            if b"--detach" in _read(id, "cmdline"):
                os.kill(id, signal.SIGKILL)

    def close(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        end_background(self.data)

    def configure(self, config: str) -> None:
        """Changes the configuration of the host over HTTP, which reads it again."""
        count = len(self.events("config.reloaded"))
        self.config.write_text(config)
        self._process.send_signal(signal.SIGHUP)
        self.wait("config.reloaded", count=count + 1)

    def connect(self, client: str, environment: dict[str, str], folder: Path, *more: str) -> None:
        """Has `toolyard connect` add this host to a client."""
        target = ["--http", self.url, *more] if self.transport == "http" else self.options
        command = [self.binary, "connect", client, *target]
        subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True, timeout=60)

    def log(self) -> list[dict]:
        """The events of the log, of all starts of the host."""
        files = [self._log, *sorted(self.data.glob("detached/*.log"))]
        return [event for file in files if file.exists() for event in _lines(file)]

    def audit(self, action: str, **fields: object) -> list[dict]:
        """The audit entries of this action with these fields. The host writes them a moment after the change."""
        file = self.data / "audit.jsonl"

        def found() -> list[dict]:
            entries = _lines(file) if file.exists() else []
            return [entry for entry in entries if _matches(entry, {"action": action} | fields)]

        _until(found, 10)
        return found()

    def events(self, event: str, **fields: object) -> list[dict]:
        """The events of this name with these fields."""
        return [line for line in self.log() if _matches(line, {"event": event} | fields)]

    def wait(self, event: str, count: int = 1, seconds: float = 30, **fields: object) -> dict:
        """Waits until the log has this many such events; returns the last of them."""
        if not _until(lambda: len(self.events(event, **fields)) >= count, seconds):
            raise Absent(f"the host did not log {event} with {fields} within {seconds} s")
        return self.events(event, **fields)[count - 1]

    def runs(self, tool: str) -> int:
        """How many runs of this tool have ended."""
        return len(self.events("call.ended", tool=tool))

    def wait_parked(self, id: str) -> None:
        """Waits until a task has given up its run, to wait without one."""
        if not _until(lambda: self._task(id).get("parked"), 30):
            raise Absent(f"the task was not parked: {self._task(id)}")

    def approve(self, id: str) -> None:
        """Approves a call as the operator, at a terminal."""
        command = [str(self.binary), "approvals", "approve", id, *self.options]
        terminal = Terminal(command, self.data, self._environment)
        try:
            terminal.wait("Run it?", 60)
            terminal.keys("yes", ENTER)
            terminal.wait("approved", 60)
        finally:
            terminal.kill()

    def _task(self, id: str) -> dict:
        """The stored task."""
        command = [self.binary, "tasks", "show", id, "--json", *self.options]
        shown = subprocess.run(command, env=self._environment, capture_output=True, timeout=60, check=True)
        return json.loads(shown.stdout)


def background_hosts(folder: Path) -> list[int]:
    """The background hosts whose lock is below this folder."""
    return [id for lock in folder.rglob("detached/*.lock") if (id := _living(lock))]


def end_background(folder: Path) -> None:
    """Kills the background hosts below a folder. A relay may start another one, so it looks again."""
    for _ in range(3):
        ids = background_hosts(folder)
        if not ids:
            return
        for id in ids:
            try:
                os.kill(id, signal.SIGKILL)
            except ProcessLookupError:
                pass
        _until(lambda: not background_hosts(folder), 5)


def end_processes(folder: Path) -> None:
    """Kills each process with this folder in its command or environment: clients, their relays and hosts."""
    for id in _processes(folder):
        try:
            os.kill(id, signal.SIGKILL)
        except OSError:
            pass  # It has ended.


def _processes(folder: Path) -> list[int]:
    """The other processes with this folder in their command or environment."""
    ids = [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if entry.name != str(os.getpid())]
    name = str(folder).encode()
    return [id for id in ids if name in _read(id, "cmdline") or name in _read(id, "environ")]


def _read(id: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{id}/{name}").read_bytes()
    except OSError:
        return b""  # It has ended, or belongs to another user.


def _living(lock: Path) -> int | None:
    """The process id in a lock file, if it is a process of the host: ids are used again."""
    try:
        id = int(lock.read_text().split()[0])
        command = Path(f"/proc/{id}/cmdline").read_bytes()
        state = Path(f"/proc/{id}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError, IndexError):
        return None
    return id if str(lock.parent.parent).encode() in command and state != "Z" else None


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _lines(file: Path) -> list[dict]:
    """The complete JSON objects of a file, which a process may be writing."""
    events = []
    for line in file.read_text(errors="replace").splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            pass  # A message that is no event, or an incomplete line.
    return [event for event in events if isinstance(event, dict)]


def _matches(event: dict, fields: dict) -> bool:
    return all(event.get(name) == value for name, value in fields.items())


def _until(condition, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.1)
    return True
