"""Runs the official Python client, without tasks, against a host with the bridge (see bridged.py):

    python bridge.py PARAMS http URL

PARAMS is JSON: the `arguments` of the call, and the `timeout` of each request in seconds.
"""

import json
import sys
from datetime import timedelta

import anyio
from bridged import Result, handed_off
from connect import connect
from mcp import types


def of(result: types.CallToolResult) -> Result:
    """The result without the names that this client gives."""
    texts = [block.text for block in result.content if block.type == "text"]
    return Result(texts, result.structuredContent, result.isError)


async def main(params: dict, target: list[str]) -> None:
    timeout = timedelta(seconds=params["timeout"])
    async with connect(target) as connection:

        async def call(name: str, arguments: dict) -> Result:
            return of(await connection.session.call_tool(name, arguments, read_timeout_seconds=timeout))

        await handed_off(call, params["arguments"])


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]), sys.argv[2:])
