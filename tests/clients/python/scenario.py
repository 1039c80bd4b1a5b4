"""Runs the official Python client against a host:

    python scenario.py http URL
    python scenario.py stdio COMMAND [ARG…]

The host serves the `probe` plugin.
Prints one line for each check; the first failure ends it with status 1.
"""

import sys

import anyio
from connect import connect
from expect import equal, ok
from owners import again, listing, strangers, unknown
from plain import plain
from tasks import cancelling, failing, succeeding


async def main(target: list[str]) -> None:
    async with connect(target) as connection:
        ok(f"connect over {target[0]}")
        await plain(connection)
        ids = await succeeding(connection)
        ids += await failing(connection)
        ids += await cancelling(connection)
        if target[0] == "http":
            ids += await strangers(target, connection)
        await unknown(connection)
        await listing(connection, ids)
        equal(connection.complaints, [], "complaints of the client")
        ok("the client had nothing to complain about")
    if target[0] == "stdio":
        await again(target, ids[0])


anyio.run(main, sys.argv[1:])
