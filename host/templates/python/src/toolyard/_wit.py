"""The types of the contract. Their module has the short name only in a world without other modules called `types`."""

try:
    from wit_world.imports import toolyard_plugin_types as wit
except ImportError:
    from wit_world.imports import types as wit

__all__ = ["wit"]
