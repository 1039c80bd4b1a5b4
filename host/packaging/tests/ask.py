"""A small MCP client for the packaging tests: initialize, tools/list, and one call.

ask.py [OPTION…] -- COMMAND…     starts a server and speaks over its stdin and stdout
ask.py [OPTION…] --url URL       speaks Streamable HTTP to a running server

--tools N          requires at least N tools, and waits for them
--call NAME JSON   calls a tool
--expect TEXT      requires this text in the result of the call
--token TOKEN      the token for --url
--end HOW          ends the server by `eof` (default), by the signal `term`, or by `both`
--status N         requires this exit status (default 0); a signal has the negative of its number
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

SECONDS = 60


class Stdio:
    """A server that this client started. It has its own process group, as under most clients."""

    def __init__(self, command):
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        # A server that never answers must not stop the tests.
        self.watchdog = threading.Timer(SECONDS, lambda: os.killpg(self.child.pid, signal.SIGKILL))
        self.watchdog.start()

    def send(self, message):
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
        self.child.stdin.flush()

    def ask(self, message):
        self.send(message)
        for line in self.child.stdout:
            answer = json.loads(line)
            if answer.get("id") == message["id"] and "method" not in answer:
                return answer
        sys.exit(f"the server ended before it answered {message['method']}")

    def end(self, how, expected):
        if how != "eof":
            self.child.send_signal(signal.SIGTERM)
        if how != "term":
            self.child.stdin.close()
        status = self.child.wait(20)
        self.watchdog.cancel()
        # A launcher may end before the host does.
        until = time.monotonic() + 5
        while time.monotonic() < until:
            try:
                os.killpg(self.child.pid, 0)
            except ProcessLookupError:
                return None if status == expected else sys.exit(f"the server ended with {status}, not {expected}")
            time.sleep(0.05)
        os.killpg(self.child.pid, signal.SIGKILL)
        sys.exit("a process of the server still runs")


class Http:
    def __init__(self, url, token):
        self.url, self.headers = url, {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        if token:
            self.headers["Authorization"] = f"Bearer {token}"

    def send(self, message):
        request = urllib.request.Request(self.url, json.dumps(message).encode(), self.headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            if session := response.headers.get("Mcp-Session-Id"):
                self.headers["Mcp-Session-Id"] = session
            return response.read().decode()

    def ask(self, message):
        text = self.send(message)
        lines = [line[5:] for line in text.splitlines() if line.startswith("data:")] or [text]
        answers = [json.loads(line) for line in lines if line.strip()]
        return next(answer for answer in answers if answer.get("id") == message["id"])

    def end(self, *_):
        """The server goes on."""


def main():
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("--tools", type=int, default=0)
    options.add_argument("--call", nargs=2)
    options.add_argument("--expect", default="")
    options.add_argument("--url")
    options.add_argument("--token")
    options.add_argument("--end", choices=["eof", "term", "both"], default="eof")
    options.add_argument("--status", type=int, default=0)
    options.add_argument("command", nargs="*")
    options = options.parse_args()
    server = Http(options.url, options.token) if options.url else Stdio(options.command)

    def ask(number, method, params):
        answer = server.ask({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return answer["result"] if "result" in answer else sys.exit(f"{method}: {answer['error']}")

    client = {"name": "packaging-test", "version": "1"}
    first = ask(1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
    print(f"initialized {first['serverInfo']['name']} {first['serverInfo']['version']}")
    server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    until = time.monotonic() + SECONDS
    while True:
        tools = [tool["name"] for tool in ask(2, "tools/list", {})["tools"]]
        if len(tools) >= options.tools:
            break
        if time.monotonic() > until:
            sys.exit(f"{len(tools)} tools, not {options.tools}: {tools}")
        time.sleep(0.05)
    print(f"{len(tools)} tools")
    if options.call:
        name, arguments = options.call
        result = json.dumps(ask(3, "tools/call", {"name": name, "arguments": json.loads(arguments)}))
        if options.expect not in result or '"isError": true' in result:
            sys.exit(f"{name} returned {result[:300]}")
        print(f"called {name}")
    server.end(options.end, options.status)


main()
