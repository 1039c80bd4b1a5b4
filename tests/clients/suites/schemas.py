"""Checks arguments against the schema of their tool, without the host's validation. Standard library only."""

import json
import subprocess

from harness import Host, environment

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


class Schemas:
    """The input schemas of a host's tools."""

    def __init__(self, host: Host) -> None:
        command = [str(host.bench.binary), "tools", "--json", *host.arguments()]
        lines = subprocess.run(command, cwd=host.folder, env=environment(), capture_output=True, check=True).stdout
        tools = [json.loads(line) for line in lines.splitlines()]
        self.tools = {tool["tool"]: tool["inputSchema"] for tool in tools if "tool" in tool}

    def fault(self, finding: dict) -> str | None:
        """Why the arguments of a finding do not fit; `None` if they do, or it is no call of a tool."""
        name, arguments = finding["target"], finding["evidence"].get("input")
        if name == "CallToolRequest":
            # The fuzzer cuts long evidence off.
            params = arguments.get("params", {}) if isinstance(arguments, dict) else {}
            name, arguments = params.get("name"), params.get("arguments", {})
        schema = self.tools.get(name)
        return fault(schema, arguments, name) if schema else None


def fault(schema: dict, value: object, path: str) -> str | None:
    """The first fault of a value. Knows the keywords that the shipped plugins use, except patterns."""
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return f"{path} is not of type {kind}"
    if isinstance(value, str) and not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        return f"{path} has a wrong length"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            return f"{path} is out of range"
    if not isinstance(value, dict):
        return None
    properties = schema.get("properties", {})
    if lacking := [key for key in schema.get("required", []) if key not in value]:
        return f"{path} lacks {lacking[0]}"
    for key, part in value.items():
        if key not in properties and schema.get("additionalProperties") is False:
            return f"{path} has no property {key}"
        if key in properties and (found := fault(properties[key], part, f"{path}.{key}")):
            return found
    return None
