"""Runs FastMCP's client, without tasks, against a host with the bridge:

    python bridge.py PARAMS http URL

PARAMS is JSON: the `arguments` of the call, and the `timeout` of each request in seconds. The checks are
in ../python/bridged.py. FastMCP 3 and FastMCP 4 run this script.
"""

import asyncio
import json
import sys
from pathlib import Path

from fastmcp import Client

sys.path.append(str(Path(__file__).parents[1] / "python"))

from bridged import Result, check, handed_off  # noqa: E402


async def main(params: dict, url: str) -> None:
    async with Client(url, timeout=params["timeout"]) as client:

        async def call(name: str, arguments: dict) -> Result:
            result = await client.call_tool(name, arguments)
            check(result.data is None or result.data == result.structured_content, result)
            texts = [block.text for block in result.content if block.type == "text"]
            return Result(texts, result.structured_content, result.is_error)

        await handed_off(call, params["arguments"])


asyncio.run(main(json.loads(sys.argv[1]), sys.argv[3]))
