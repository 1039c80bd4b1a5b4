"""mcp-use with a timeout of 5 s, on the first generation of the Python client: mcp_use_timeout.py URL [TOKEN]

As openai_timeout.py, in one session.
"""

import asyncio
import json
import sys
import time
from datetime import timedelta

from cases import texts
from mcp_use import MCPClient

LIMIT = timedelta(seconds=5)
ARGUMENTS = {"ms": 8000}


async def main(url: str, tokens: list[str]) -> None:
    headers = {"Authorization": f"Bearer {token}" for token in tokens}
    client = MCPClient({"mcpServers": {"toolyard": {"url": url, "headers": headers}}})
    try:
        session = await client.create_session("toolyard")
        outcomes = []
        for _ in range(2):
            begun = time.monotonic()
            try:
                text = texts((await session.call_tool("wait", ARGUMENTS, read_timeout_seconds=LIMIT)).content)
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
            outcomes.append({"text": text, "seconds": time.monotonic() - begun})
    finally:
        await client.close_all_sessions()
    print(json.dumps(outcomes))


asyncio.run(main(sys.argv[1], sys.argv[2:]))
