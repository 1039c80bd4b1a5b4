"""Does to the letter what the first text of each result asks for, as a model without any other knowledge:

    python follow.py NAME ARGUMENTS http URL

If the text says "call NAME with {…}", that is the next call. Prints as JSON the seconds that the first call
took, the number of calls after it, the names of all calls, and the result whose text asks for none.
"""

import json
import sys
import time
from dataclasses import asdict

import anyio
from bridge import of
from bridged import instruction
from connect import connect


async def main(name: str, arguments: dict, target: list[str]) -> None:
    calls: list[str] = []
    next_call: tuple[str, dict] | None = (name, arguments)
    after: float | None = None
    async with connect(target) as connection:
        begun = time.monotonic()
        while next_call is not None:
            name, arguments = next_call
            result = of(await connection.session.call_tool(name, arguments))
            after = after or time.monotonic() - begun
            calls.append(name)
            print(f"ok {name}: {result.texts[0]}", flush=True)
            next_call = instruction(result.texts[0], arguments)
    print(json.dumps({"after": after, "waits": len(calls) - 1, "calls": calls, "result": asdict(result)}))


anyio.run(main, sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:])
