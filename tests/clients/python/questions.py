"""Runs the official Python client against a host, and answers the host's questions:

    python questions.py http URL
    python questions.py stdio COMMAND [ARG…]

The host serves the plugin `probe` and the fixture `script`. Prints one line for
each check; the first failure ends it with status 1.
"""

import json
import sys

import anyio
from connect import PATIENCE, Connection, connect
from expect import RELATED_TASK, equal, of_task, ok, true
from mcp import types
from mcp.types import CallToolResult

FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


class Client:
    """Answers with `answer`, and records the questions."""

    def __init__(self, answer: types.ElicitResult) -> None:
        self.answer = answer
        self.asked: list[object] = []

    async def elicited(self, _context, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params)
        return self.answer

    async def sampled(self, _context, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        self.asked.append(params)
        content = types.TextContent(type="text", text="Red.")
        return types.CreateMessageResult(role="assistant", model="none", content=content)

    def callbacks(self) -> dict:
        return {"elicitation_callback": self.elicited, "sampling_callback": self.sampled}


def accepted(**content) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


async def followed(connection: Connection, name: str, arguments: dict) -> tuple[str, CallToolResult]:
    """A task from its creation to its result, including its questions."""
    task = (await connection.tasks.call_tool_as_task(name, arguments)).task
    result: CallToolResult | None = None
    with anyio.fail_after(PATIENCE.total_seconds()):
        async for status in connection.tasks.poll_task(task.taskId):
            if status.status == "input_required":
                # The questions arrive during this await.
                result = await connection.tasks.get_task_result(task.taskId, CallToolResult)
    last = await connection.tasks.get_task_result(task.taskId, CallToolResult)
    true(result in (None, last), "the result is the same each time")
    return task.taskId, last


async def asking(target: list[str]) -> None:
    client = Client(accepted(answer="forty-two"))
    async with connect(target, **client.callbacks()) as connection:
        plain = await connection.session.call_tool("ask", {"question": "Six times nine?"})
        equal(plain.content[0].text, "forty-two", "ask")
        equal(client.asked[0].message, "Six times nine?", "the question")
        ok("call_tool: ask is answered in the middle of the call")

        task_id, result = await followed(connection, "ask", {"question": "And as a task?"})
        equal(of_task(result, task_id).content[0].text, "forty-two", "ask")
        equal(len(client.asked), 2, "each question came once")
        equal(client.asked[1].meta.model_dump()[RELATED_TASK], {"taskId": task_id}, "it names its task")
        ok("call_tool_as_task: ask is answered by way of the result")
        equal(connection.complaints, [], "complaints of the client")


async def confirming(target: list[str]) -> None:
    for answer, said in (
        (accepted(answer=True), "yes"),
        (accepted(answer=False), "no"),
        (types.ElicitResult(action="decline"), "declined"),
        (types.ElicitResult(action="cancel"), "cancelled"),
    ):
        client = Client(answer)
        async with connect(target, **client.callbacks()) as connection:
            _, result = await followed(connection, "confirm", {"question": "Sure?"})
            equal(result.content[0].text, said, answer.action)
            equal(connection.complaints, [], "complaints of the client")
        ok(f"confirm, answered with {answer.action}: {said}")


async def sampling(target: list[str]) -> None:
    client = Client(accepted(ok=True))
    message = {"role": "user", "content": {"type": "text", "text": "Which?"}}
    questions = [
        {"key": "form", "method": "elicitation/create", "params": {"message": "?", "requestedSchema": FORM}},
        {"key": "model", "method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 9}},
    ]
    async with connect(target, **client.callbacks()) as connection:
        steps = {"steps": [{"ask": questions}]}
        plain = await connection.session.call_tool("script", steps)
        _, result = await followed(connection, "script", steps)
        for came in (plain, result):
            [answers] = json.loads(came.content[0].text)
            equal(answers["form"], {"action": "accept", "content": {"ok": True}}, "the form")
            equal(answers["model"]["content"]["text"], "Red.", "the model")
        equal(len(client.asked), 4, "each question came once")
        equal(connection.complaints, [], "complaints of the client")
    ok("a form and a sampling at once, in a call and in a task")


async def silent(target: list[str]) -> None:
    async with connect(target) as connection:
        plain = await connection.session.call_tool("ask", {"question": "?"})
        true(plain.isError and "not supported" in plain.content[0].text, f"{plain}")
    ok("a client that cannot be asked is not")


async def main(target: list[str]) -> None:
    await asking(target)
    await confirming(target)
    await sampling(target)
    await silent(target)


anyio.run(main, sys.argv[1:])
