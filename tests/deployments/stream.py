"""Calls a host through a proxy with TLS, and requires that the proxy delays no event, passes on the end of a
connection, and hides every other path.

usage: stream.py PORT CERTIFICATE TOKEN ADMIN_PORT
"""

import http.client
import json
import socket
import ssl
import sys
import time

NAME = "tools.example.com"
STEPS = 4
STEP_MS = 300


class Connection(http.client.HTTPSConnection):
    """Connects to loopback, whichever name the URL has."""

    def connect(self):
        plain = socket.create_connection(("127.0.0.1", self.port), self.timeout)
        self.sock = self._context.wrap_socket(plain, server_hostname=self.host)


def connect(port, certificate):
    context = ssl.create_default_context(cafile=certificate)
    return Connection(NAME, port, timeout=30, context=context)


def call(connection, token, tool, arguments, more=None):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        **(more or {}),
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    if token:
        headers["Authorization"] = f"Bearer {token}"
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    connection.request("POST", "/mcp", json.dumps(body), headers)
    return connection.getresponse()


def events_arrive_at_once(port, certificate, token):
    connection = connect(port, certificate)
    began = time.monotonic()
    answer = call(connection, token, "count", {"steps": STEPS, "ms": STEP_MS}, {"progressToken": "p"})
    assert answer.status == 200, (answer.status, answer.read())
    assert answer.getheader("Content-Type").startswith("text/event-stream"), answer.getheaders()
    times = []
    last = None
    for line in answer:
        if line.startswith(b"data:"):
            times.append(round(time.monotonic() - began, 2))
            last = json.loads(line[5:])
    assert last["result"]["isError"] is False, last
    assert len(times) == STEPS + 1, times
    # One after each step, and the result. A proxy that collects events would send them together.
    gaps = [later - earlier for earlier, later in zip(times, times[1:-1])]
    assert all(gap > STEP_MS / 2000 for gap in gaps), times
    print("events after", times, "s")


def runs(admin_port):
    admin = http.client.HTTPConnection("127.0.0.1", admin_port, timeout=10)
    admin.request("GET", "/metrics")
    text = admin.getresponse().read().decode()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("toolyard_runs "))


def until_runs(admin_port, count):
    began = time.monotonic()
    while runs(admin_port) != count:
        assert time.monotonic() - began < 10, f"there are {runs(admin_port)} runs, not {count}"
        time.sleep(0.05)
    return round(time.monotonic() - began, 2)


def a_hang_up_ends_the_call(port, certificate, token, admin_port):
    connection = connect(port, certificate)
    # The host sends the head of the stream after `wire.stream-after`.
    answer = call(connection, token, "wait", {"ms": 600_000})
    until_runs(admin_port, 1)
    answer.close()
    connection.close()
    print("the call ended", until_runs(admin_port, 0), "s after the client hung up")


def strangers_are_refused(port, certificate):
    connection = connect(port, certificate)
    answer = call(connection, None, "echo", {"text": "x"})
    assert answer.status == 401 and answer.getheader("WWW-Authenticate"), answer.status
    answer.read()
    for path in ["/metrics", "/readyz", "/"]:
        connection = connect(port, certificate)
        connection.request("GET", path)
        assert connection.getresponse().status == 404, path


def main():
    port, certificate, token, admin_port = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    strangers_are_refused(port, certificate)
    events_arrive_at_once(port, certificate, token)
    a_hang_up_ends_the_call(port, certificate, token, admin_port)


main()
