"""A proxy that writes down what passes, with times: for cases that are about the wire. Standard library only.

It passes bytes on as they come. A connection that one side closes is closed on the other, so that the host sees
when a client gives up.
"""

import asyncio
import json
import threading
import time
from dataclasses import dataclass, field


@dataclass
class Event:
    """`kind` is "open", "request", "response", "closed by client" or "closed by host"."""

    at: float
    connection: int
    kind: str
    data: bytes = b""


@dataclass
class Proxy:
    """Listens at a free port of the loopback interface, in a thread of its own."""

    target: int
    port: int = 0
    events: list[Event] = field(default_factory=list)

    def __enter__(self) -> "Proxy":
        self.begun = time.monotonic()
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()
        self.thread = threading.Thread(target=self.serve, args=[ready], daemon=True)
        self.thread.start()
        ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)

    def serve(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self.accept, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self.loop.run_forever()

    def note(self, connection: int, kind: str, data: bytes = b"") -> None:
        self.events.append(Event(time.monotonic() - self.begun, connection, kind, data))

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = sum(event.kind == "open" for event in self.events)
        self.note(number, "open")
        host_reader, host_writer = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(
            self.copy(number, reader, host_writer, "request", "closed by client"),
            self.copy(number, host_reader, writer, "response", "closed by host"),
            return_exceptions=True,
        )

    async def copy(self, number: int, reader, writer, kind: str, end: str) -> None:
        try:
            while data := await reader.read(65536):
                self.note(number, kind, data)
                writer.write(data)
                await writer.drain()
            self.note(number, end)
        except OSError as error:
            self.note(number, end, type(error).__name__.encode())
        finally:
            writer.close()

    def messages(self) -> list[tuple[float, int, dict]]:
        """The JSON bodies of requests that arrived whole, each with its time and connection."""
        found = []
        for event in self.events:
            start = event.data.find(b"{") if event.kind == "request" else -1
            if start >= 0:
                try:
                    found.append((event.at, event.connection, json.loads(event.data[start:])))
                except ValueError:
                    continue
        return found

    def transcript(self) -> str:
        lines = []
        for event in self.events:
            text = event.data.decode(errors="replace").replace("\r\n", "\n    ")
            lines.append(f"{event.at:8.3f} connection {event.connection} {event.kind}\n    {text}".rstrip())
        return "\n".join(lines)
