"""A connection between clients and the host, which records the calls that go through it."""

import json
import re
import socket
import threading

from host import Host

METHOD = re.compile(rb'"method":"tools/call"')
ID = re.compile(rb'"id":("[^"]*"|\d+)')


class Tap:
    """Stands before the host, over HTTP, and changes its `url`. Over stdio there is nothing to stand before."""

    def __init__(self, host: Host) -> None:
        # The bytes that each connection has sent.
        self._sent: list[bytearray] = []
        self._listener: socket.socket | None = None
        if host.transport == "http":
            self._target = host.port
            self._listener = socket.create_server(("127.0.0.1", 0))
            host.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/mcp"
            threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        if self._listener:
            self._listener.close()

    def shared_ids(self) -> set[str]:
        """The ids that more than one call had."""
        seen: set[str] = set()
        shared: set[str] = set()
        for sent in self._sent:
            for body in re.split(rb"POST /mcp", bytes(sent)):
                if METHOD.search(body) and (match := ID.search(body)):
                    id = json.loads(match[1])
                    (shared if id in seen else seen).add(id)
        return shared

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            sent = bytearray()
            self._sent.append(sent)
            for source, target, record in ((client, server, sent), (server, client, None)):
                threading.Thread(target=_pass_on, args=(source, target, record), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket, record: bytearray | None) -> None:
    try:
        while data := source.recv(65536):
            if record is not None:
                record += data
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        source.close()
        target.close()
