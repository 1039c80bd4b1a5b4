from toolyard import Tools, tool

__all__ = ["Tools"]  # what the component exports


@tool()
def echo(text: str) -> str:
    """Returns its text."""
    return text
