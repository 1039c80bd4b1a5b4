"""The OpenAI Agents SDK with its own timeout of 5 s: openai_timeout.py URL [TOKEN]

Calls a tool of 8 s, and again with the same arguments, as a model does after an error. Follows a hand-off. Prints JSON:
the outcomes, each with the seconds of its first answer.
"""

import asyncio
import json
import sys
import time

from agents.mcp import MCPServerStreamableHttp
from cases import instruction, texts

ARGUMENTS = {"ms": 8000}


async def main(url: str, tokens: list[str]) -> None:
    headers = {"Authorization": f"Bearer {token}" for token in tokens}
    outcomes = []
    for _ in range(2):
        begun = time.monotonic()
        # A new connection for each, as a program that handles the error makes.
        async with MCPServerStreamableHttp({"url": url, "headers": headers}) as server:
            seconds = None
            try:
                text = texts((await server.call_tool("wait", ARGUMENTS)).content)
                seconds = time.monotonic() - begun
                while "is still running" in text:
                    text = texts((await server.call_tool("task_wait", instruction(text, "task_wait"))).content)
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
        outcomes.append({"text": text, "seconds": seconds or time.monotonic() - begun})
    print(json.dumps(outcomes))


asyncio.run(main(sys.argv[1], sys.argv[2:]))
