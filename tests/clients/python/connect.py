"""Clients of the host under test, each with its notifications and errors."""

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.session import RequestResponder

# Longer than any step takes on the slowest machine.
PATIENCE = timedelta(seconds=60)


@dataclass
class Connection:
    """An initialized client."""

    session: ClientSession
    capabilities: types.ServerCapabilities
    notices: list[types.ServerNotification] = field(default_factory=list)
    complaints: list[object] = field(default_factory=list)

    @property
    def tasks(self):
        """The tasks of 2025-11-25, which this package calls experimental."""
        return self.session.experimental


class Complaints(logging.Handler):
    """Collects log records: the client logs messages that it cannot parse, and continues."""

    def __init__(self, complaints: list[object]) -> None:
        super().__init__(logging.WARNING)
        self.complaints = complaints

    def emit(self, record: logging.LogRecord) -> None:
        self.complaints.append(record.getMessage())


@asynccontextmanager
async def connect(target: list[str], **callbacks) -> AsyncIterator[Connection]:
    """Connects to ["http", URL] or ["stdio", COMMAND, ARG…]; with callbacks, the client
    declares the matching capabilities."""
    notices: list[types.ServerNotification] = []
    complaints: list[object] = []

    async def hear(message: object) -> None:
        match message:
            case types.ServerNotification():
                notices.append(message)
            case RequestResponder():
                pass  # Answered by a callback.
            case _:
                complaints.append(message)

    handler = Complaints(complaints)
    # The root logger, because the client logs under several names.
    log = logging.getLogger()
    async with (
        transport_to(target) as (read, write, *_),
        ClientSession(read, write, PATIENCE, message_handler=hear, **callbacks) as session,
    ):
        initialized = await session.initialize()
        log.addHandler(handler)
        try:
            yield Connection(session, initialized.capabilities, notices, complaints)
        finally:
            # Ignore messages that are logged while the streams are closed.
            log.removeHandler(handler)


def transport_to(target: list[str]):
    match target:
        case ["http", url]:
            return streamable_http_client(url)
        case ["stdio", command, *args]:
            return stdio_client(StdioServerParameters(command=command, args=args))
        case _:
            sys.exit("usage: scenario.py http URL | stdio COMMAND [ARG…]")
