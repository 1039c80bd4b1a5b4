from dataclasses import dataclass
from typing import Annotated

from toolyard import Reply, ToolError, Tools, ask, progress, sleep, tool

__all__ = ["Tools"]  # what the component exports


@dataclass
class Greeting:
    greeting: str


@tool("{{name}}", title="Greet", read_only=True)
def greet(name: Annotated[str, "The name to greet.", {"minLength": 1}] = "") -> Reply[Greeting]:
    """Greets a person; asks the user for the name if it is absent."""
    name = name or ask_for_name()
    for step in range(1, 4):
        sleep(20)  # the real work goes here
        progress(step, 3, "thinking of something nice")
    greeting = f"Hello, {name}!"
    return Reply(greeting, Greeting(greeting))


def ask_for_name() -> str:
    answer = ask("name", "Whom shall I greet?", {"name": Annotated[str, {"title": "Name"}]})
    if answer is None:
        raise ToolError("There is no name to greet: the user gave none.")
    return answer["name"]
