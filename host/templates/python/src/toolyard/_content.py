"""The parts of a result that are not plain text."""

import base64
import json
from dataclasses import dataclass
from typing import Any

from ._wit import wit


@dataclass
class Image:
    """A picture for the model and the user."""

    data: bytes
    mime_type: str = "image/png"

    def _content(self) -> Any:
        return wit.Content_Image(wit.Media(self.data, self.mime_type, None, None))


@dataclass
class Audio:
    """A piece of sound."""

    data: bytes
    mime_type: str = "audio/wav"

    def _content(self) -> Any:
        return wit.Content_Audio(wit.Media(self.data, self.mime_type, None, None))


@dataclass
class File:
    """The content of a file, text or bytes. The result carries it whole (MCP: an embedded resource)."""

    uri: str
    data: str | bytes
    mime_type: str | None = None

    def _content(self) -> Any:
        data = self.data
        body = {"text": data} if isinstance(data, str) else {"blob": base64.b64encode(data).decode()}
        kind = {"mimeType": self.mime_type} if self.mime_type else {}
        return wit.Content_EmbeddedResource(json.dumps({"resource": {"uri": self.uri} | kind | body}))


@dataclass
class Link:
    """A link to a resource, which the client may read later."""

    uri: str
    name: str
    description: str | None = None
    mime_type: str | None = None

    def _content(self) -> Any:
        members = {"uri": self.uri, "name": self.name, "description": self.description, "mimeType": self.mime_type}
        return wit.Content_ResourceLink(json.dumps({key: value for key, value in members.items() if value is not None}))


# A tool may return one of these, or a list of them.
Content = str | Image | Audio | File | Link


def blocks(value: Any) -> list[Any]:
    """The content blocks of a result."""
    if isinstance(value, str):
        return [wit.Content_Text(wit.TextBlock(value, None, None))]
    if isinstance(value, list):
        return [block for each in value for block in blocks(each)]
    return [value._content()]
