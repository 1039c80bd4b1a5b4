"""A program in a pseudo terminal, with its screen as text."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path

ROWS, COLUMNS = 50, 140
ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # Sequences with parameters, such as colours and moves of the cursor.
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # Titles and colour queries.
    r"|\x1b[PX^_].*?\x1b\\|\x1b[ -/]*[0-~]",
    re.DOTALL,
)
# A terminal answers these queries, and some programs wait for it.
REPLIES = {
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?62;22c",
    b"\x1b]10;?": b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
    b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
}
ENTER, ESCAPE, SPACE, UP, DOWN, INTERRUPT = "\r", "\x1b", " ", "\x1b[A", "\x1b[B", "\x03"


class NotShown(Exception):
    """The screen did not show a text in time."""


class Terminal:
    """A program in a pseudo terminal. A thread reads its output all the time, or it would block."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._output = b""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                data = b""
            if not data:
                return
            for query, reply in REPLIES.items():
                if query in data:
                    os.write(self._master, reply)
            with self._changed:
                self._output += data
                self._changed.notify_all()

    def mark(self) -> int:
        """The end of the output so far, to wait for later output only."""
        with self._changed:
            return len(self._output)

    def text(self, since: int = 0) -> str:
        """The output without escape sequences and spaces: programs move the cursor instead of printing spaces."""
        with self._changed:
            output = self._output[since:]
        return re.sub(r"\s+", "", ESCAPES.sub("", output.decode(errors="replace")))

    def wait(self, text: str, seconds: float, since: int = 0) -> None:
        """Waits until the output has this text; spaces do not count."""
        wanted = re.sub(r"\s+", "", text)
        deadline = time.monotonic() + seconds
        while wanted not in (seen := self.text(since)):
            left = deadline - time.monotonic()
            if left <= 0 or self.process.poll() is not None:
                raise NotShown(f"the screen does not show {text!r}; its end: {seen[-600:]!r}")
            with self._changed:
                self._changed.wait(min(left, 0.5))

    def shows(self, text: str, seconds: float) -> bool:
        """Whether the output has this text within this time."""
        try:
            self.wait(text, seconds)
        except NotShown:
            return False
        return True

    def keys(self, *keys: str) -> None:
        """Presses keys, with pauses: programs take keys that arrive together for a paste."""
        for key in keys:
            time.sleep(0.6)
            os.write(self._master, key.encode())

    def quit(self) -> None:
        """Quits by Ctrl-C, as a person does; kills the program if that does not help."""
        for _ in range(3):
            if self.process.poll() is None:
                try:
                    self.keys(INTERRUPT)
                except OSError:
                    break
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def kill(self) -> None:
        """Kills the program with its children."""
        if self.process.poll() is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
