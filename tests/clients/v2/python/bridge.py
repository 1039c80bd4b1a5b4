"""Runs the official Python client of the second generation, without tasks, against a host with the bridge:

    python bridge.py auto|legacy PARAMS http URL

PARAMS is JSON: the `arguments` of the call, and the `timeout` of each request in seconds. The checks are
in ../../python/bridged.py.
"""

import json
import sys
from pathlib import Path

import anyio
from mcp import Client

sys.path.append(str(Path(__file__).parents[2] / "python"))

from bridged import Result, handed_off  # noqa: E402


async def main(mode: str, params: dict, url: str) -> None:
    async with Client(url, mode=mode, read_timeout_seconds=params["timeout"]) as client:

        async def call(name: str, arguments: dict) -> Result:
            result = await client.call_tool(name, arguments)
            texts = [block.text for block in result.content if block.type == "text"]
            return Result(texts, result.structured_content, result.is_error)

        await handed_off(call, params["arguments"])


anyio.run(main, sys.argv[1], json.loads(sys.argv[2]), sys.argv[4])
