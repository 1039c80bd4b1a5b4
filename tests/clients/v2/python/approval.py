"""Calls a tool whose calls the operator approves, with the official Python client of the second generation:

    python approval.py URL

The call is a task that asks the client for nothing while it waits. Prints `waiting` as soon as the client sees that,
and then one line for each check; the first failure ends it with status 1.
"""

import sys

import anyio
from expect import equal, ok, true
from mcp import Client
from tasks import Detailed, Tasks


class Waiting(Tasks):
    """Says when the task waits for an answer that this client cannot give."""

    def saw(self, task: Detailed) -> None:
        if task.status == "input_required" and len(self.seen) == 1:
            equal(task.input_requests or {}, {}, "what the client is asked for")
            print("waiting", flush=True)


async def main(url: str) -> None:
    tasks = Waiting()
    async with Client(url, mode="auto", extensions=[tasks]) as client:
        echo = await client.call_tool("echo", {"text": "approved"})
        equal(echo.content[0].text, "approved", "echo")
        true("input_required" in [task.status for task in tasks.seen], "it waited")
        ok("a call waits for the operator, and the client for the call")


anyio.run(main, *sys.argv[1:])
