"""Four tools for a desk: the weather from a REST API, a chart as an image, sorting files with a form, and work that
continues from a stored state.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from bars import draw
from toolyard import (
    CannotContinue,
    Content,
    Image,
    Reply,
    ToolError,
    Tools,
    ask,
    continue_with,
    effects,
    http,
    progress,
    restored,
    tool,
)

__all__ = ["Tools"]  # what the component exports


@dataclass
class Weather:
    city: str
    celsius: float
    sky: str


@tool(title="Weather", read_only=True, open_world=True)
def weather(city: Annotated[str, "The name of the city.", {"minLength": 1}]) -> Reply[Weather]:
    """Says how warm it is in a city, and what the sky is like."""
    answer = http.get(os.environ["WEATHER_URL"] + "/v1/now", params={"city": city}, timeout=10)
    if answer.status_code != 200:
        raise ToolError(f"the weather service answered {answer.status_code}: {answer.text.strip()}")
    said = answer.json()
    now = Weather(said["city"], said["celsius"], said["sky"])
    return Reply(f"{now.city}: {now.celsius:g} °C, {now.sky}", now)


@dataclass
class Bar:
    label: str
    value: Annotated[float, {"minimum": 0}]


@tool(title="Chart", read_only=True, open_world=False)
def chart(
    title: Annotated[str, "The title of the chart."],
    values: Annotated[list[Bar], "The bars, from left to right.", {"minItems": 1, "maxItems": 24}],
) -> list[Content]:
    """Draws a bar chart as a PNG image."""
    largest = max(values, key=lambda bar: bar.value)
    count = "1 bar" if len(values) == 1 else f"{len(values)} bars"
    text = f'{count}, the largest is "{largest.label}" with {largest.value:g}'
    return [Image(draw(title, [bar.value for bar in values]), "image/png"), text]


Choice = Literal["keep", "later", "trash"]


@dataclass
class Moved:
    file: str
    to: Choice


@dataclass
class Sorted:
    moved: list[Moved]


@tool(title="Sort the inbox", destructive=False)
def triage() -> Reply[Sorted]:
    """Asks what to do with each text file of the inbox, and moves it into the folder of that choice."""
    inbox = Path("/inbox")
    files = sorted(inbox.glob("*.txt"))
    if not files:
        return Reply("the inbox is empty", Sorted([]))
    choices = ask("triage", "What shall happen to these files?", {file.stem: Choice for file in files})
    if choices is None:
        raise ToolError("nothing was sorted: you gave no answer")
    effects()  # from here on the host does not run the call again
    moved = []
    for done, file in enumerate(files, start=1):
        choice = choices[file.stem]
        target = inbox / choice / file.name
        if target.exists():
            raise ToolError(f"{target} exists already; {file.name} stays in the inbox")
        target.parent.mkdir(exist_ok=True)
        file.rename(target)
        moved.append(Moved(file.name, choice))
        progress(done, len(files), f"{file.stem}: {choice}")
    return Reply(f"{len(moved)} files sorted", Sorted(moved))


PARTS_PER_RUN = 2


@dataclass
class Steps:
    """The state between the runs, and the result."""

    done: Annotated[list[int], "The numbers of the parts that are done."] = field(default_factory=list)
    runs: Annotated[int, "The number of runs so far."] = 0


@tool(title="Work in parts", read_only=True, open_world=False)
def steps(parts: Annotated[int, "The number of parts.", {"minimum": 1, "maximum": 1000}]) -> Reply[Steps]:
    """Does a number of parts, and continues in a fresh run after every two of them."""
    steps = restored(Steps) or Steps()
    steps.runs += 1
    refusal = None
    while len(steps.done) < parts:
        part = len(steps.done) + 1
        steps.done.append(part)  # the real work goes here
        progress(part, parts)
        if refusal is None and part < parts and part % PARTS_PER_RUN == 0:
            try:
                continue_with(steps)
            except CannotContinue as error:
                refusal = error  # the call does not resume, so this run does all parts
    text = f"parts: {parts}, runs: {steps.runs}"
    return Reply(f"{text}; {refusal}" if refusal else text, steps)
