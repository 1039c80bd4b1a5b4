"""A scripted model on loopback, for clients that need one.

It speaks the Messages API, which Claude Code uses, and the Responses API, which Codex uses. The prompt of a
test directs it, one directive a line:

    CALL#a wait {"ms": 5000}

calls the tool `wait` with these arguments once. The tag `a` is part of the id of the call, so a test finds
the result of each call by its tag. Without a directive, the model follows a result that says to call
`task_wait`. Else it answers with a short text.

The model records each text of the user and each result once, in their order. Tests look there, because the
record is exactly what a real model would read.
"""

import json
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIRECTIVE = re.compile(r"^CALL#(\w+) (\S+) (?=\{)", re.MULTILINE)
FOLLOW = re.compile(r"\bcall (\w*task_wait) (?:again )?with (?=\{)")
# Both APIs put the tag of a directive into the id of its call.
CALL_ID = re.compile(r"^call_(\w+)_[0-9a-f]{12}$")


@dataclass(frozen=True)
class Entry:
    """A text of the conversation: `kind` is "user", or "result" with the tag of its call."""

    kind: str
    tag: str | None
    text: str


@dataclass(frozen=True)
class Tool:
    """A tool that a request offers. Codex has the server of a tool in a namespace beside the name."""

    name: str
    namespace: str | None = None

    def answers_to(self, name: str) -> bool:
        return self.name == name or self.name.startswith("mcp__") and self.name.endswith(f"__{name}")


@dataclass(frozen=True)
class Call:
    """A call that the model makes."""

    id: str
    tool: Tool
    arguments: dict


class Missing(Exception):
    """The model did not read in time what a test waits for."""


class Model:
    """One scripted model with its record."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        # The tools of the last request that had any.
        self.tools: list[Tool] = []
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait(self, what: str, found: Callable[[Entry], bool], seconds: float) -> Entry:
        """The first entry that is `found`; `what` describes it in the error."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                for entry in self.entries:
                    if found(entry):
                        return entry
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    if time.monotonic() >= deadline:
                        raise Missing(f"the model did not read {what} within {seconds:.0f} s")

    def result(self, tag: str, seconds: float = 40) -> str:
        """The result of the call with this tag."""
        entry = self.wait(f"the result of call {tag}", lambda e: e.kind == "result" and e.tag == tag, seconds)
        return entry.text

    def notification(self, text: str, seconds: float) -> str:
        """The notification of a task with this text, or the Python expression of one."""
        pattern = re.compile(text)

        def found(entry: Entry) -> bool:
            return entry.kind == "user" and "task-notification" in entry.text and bool(pattern.search(entry.text))

        return self.wait(f"a notification with {text!r}", found, seconds).text

    def texts(self, pattern: str) -> list[str]:
        """The entries that match."""
        with self._changed:
            return [entry.text for entry in self.entries if re.search(pattern, entry.text)]

    def has_tool(self, name: str, seconds: float) -> bool:
        """Whether a request offers this tool within this time."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not any(tool.answers_to(name) for tool in self.tools):
                if time.monotonic() >= deadline:
                    return False
                self._changed.wait(max(0.0, deadline - time.monotonic()))
            return True

    def next(self, entries: list[Entry], tools: list[Tool], called: list[str]) -> Call | str:
        """Records a conversation; returns the next call or text. `called` are the ids of earlier calls."""
        with self._changed:
            known = set(self.entries)
            self.entries += [entry for entry in dict.fromkeys(entries) if entry not in known]
            if tools:
                self.tools = tools
            self._changed.notify_all()
        done = {match[1] for id in called if (match := CALL_ID.match(id))}
        for entry in entries:
            if entry.kind != "user":
                continue
            for match in DIRECTIVE.finditer(entry.text):
                tag, name = match.groups()
                tool = _offered(tools, name)
                if tool and tag not in done:
                    return _call(tag, tool, entry.text, match.end())
        last = entries[-1] if entries else None
        if last and last.kind == "result" and (match := FOLLOW.search(last.text)):
            if tool := _offered(tools, match[1]):
                return _call(f"wait{len(called)}", tool, last.text, match.end())
        return "Noted."


def _offered(tools: list[Tool], name: str) -> Tool | None:
    return next((tool for tool in tools if tool.answers_to(name)), None)


def _call(tag: str, tool: Tool, text: str, at: int) -> Call:
    arguments = json.JSONDecoder().raw_decode(text, at)[0]
    return Call(f"call_{tag}_{secrets.token_hex(6)}", tool, arguments)


def _text(content: object) -> str:
    """The text of a content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return json.dumps(content)
    return "\n".join(
        block["text"] if isinstance(block.get("text"), str) else f"[{block.get('type')}]" for block in content
    )


def _tag(id: str) -> str | None:
    match = CALL_ID.match(id)
    return match[1] if match else None


def _messages(model: Model, request: dict) -> list[dict]:
    """Answers a request of the Messages API, as events."""
    entries, called = [], []
    for message in request.get("messages", []):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            match block["type"], message["role"]:
                case "text", "user":
                    entries.append(Entry("user", None, block["text"]))
                case "tool_result", _:
                    entries.append(Entry("result", _tag(block["tool_use_id"]), _text(block.get("content", ""))))
                case "tool_use", _:
                    called.append(block["id"])
    tools = [Tool(tool["name"]) for tool in request.get("tools", [])]
    answer = model.next(entries, tools, called)
    if isinstance(answer, Call):
        start = {"type": "tool_use", "id": answer.id, "name": answer.tool.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
        reason = "tool_use"
    else:
        start = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": answer}
        reason = "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {
        "id": f"msg_{secrets.token_hex(6)}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", "scripted"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    if not request.get("stream"):
        block = start | ({"input": answer.arguments} if isinstance(answer, Call) else {"text": answer})
        return [message | {"content": [block], "stop_reason": reason}]
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


def _responses(model: Model, request: dict) -> list[dict]:
    """Answers a request of the Responses API, as events."""
    entries, called = [], []
    for item in request.get("input", []):
        match item.get("type"), item.get("role"):
            case "message", "user":
                entries.append(Entry("user", None, _text(item["content"])))
            case "function_call_output", _:
                entries.append(Entry("result", _tag(item["call_id"]), _text(item["output"])))
            case "function_call", _:
                called.append(item["call_id"])
    tools = []
    for tool in request.get("tools", []):
        if tool.get("type") == "namespace":
            tools += [Tool(inner["name"], tool["name"]) for inner in tool["tools"]]
        elif "name" in tool:
            tools.append(Tool(tool["name"]))
    answer = model.next(entries, tools, called)
    if isinstance(answer, Call):
        item = {
            "type": "function_call",
            "id": f"fc_{secrets.token_hex(6)}",
            "call_id": answer.id,
            "name": answer.tool.name,
            "arguments": json.dumps(answer.arguments),
        }
        if answer.tool.namespace:
            item["namespace"] = answer.tool.namespace
    else:
        content = [{"type": "output_text", "text": answer, "annotations": []}]
        item = {"type": "message", "id": f"msg_{secrets.token_hex(6)}", "role": "assistant", "content": content}
    id = f"resp_{secrets.token_hex(6)}"
    usage = {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    }
    return [
        {"type": "response.created", "response": {"id": id}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": id, "status": "completed", "output": [item], "usage": usage}},
    ]


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:
                pass  # The client was ended.

        def do_HEAD(self) -> None:
            self._send({})

        def do_GET(self) -> None:
            self._send({"data": [], "models": []})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = self.path.partition("?")[0]
            if path.endswith("/messages"):
                self._answer(_messages(model, json.loads(body)))
            elif path.endswith("/responses"):
                self._answer(_responses(model, json.loads(body)))
            else:
                self._send({"input_tokens": 1})

        def _answer(self, events: list[dict]) -> None:
            if len(events) == 1:
                self._send(events[0])
                return
            lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
            self._send("".join(lines), "text/event-stream")

        def _send(self, body: dict | str, kind: str = "application/json") -> None:
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
