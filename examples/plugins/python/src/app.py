"""Exact arithmetic for models, which are bad at it: fractions without rounding, and statistics."""

import statistics
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from arithmetic import Mistake, Sheet, read_number
from toolyard import INVALID_PARAMS, Reply, RpcError, ToolError, Tools, ask, progress, tool

__all__ = ["Tools"]  # what the component exports


@dataclass
class Value:
    line: Annotated[str, "The line as it was given."]
    exact: Annotated[str, "The value as an integer or a fraction such as 1/3."]
    decimal: Annotated[str, "The same as a decimal number, rounded if it has to be."]


@dataclass
class Calculation:
    values: Annotated[list[Value], "One for each line."]
    title: str | None = None


@tool(title="Calculate exactly", read_only=True, open_world=False)
def calculate(
    lines: Annotated[list[str], 'Lines such as "rate = 19/100" and "1200 * (1 + rate)"; # begins a comment.'],
    given: Annotated[dict[str, str], "Values of names, as texts so that they are exact."] = {},
    digits: Annotated[int, "The most digits of a decimal.", {"minimum": 1, "maximum": 1000}] = 20,
    title: Annotated[str, "A heading for the result."] = "",
) -> Reply[Calculation]:
    """Calculates line by line with exact fractions. There are + - * / // % **, comparisons of two
    values by min and max, abs, round, sqrt, factorial, gcd, lcm, binomial, prime_count (of the
    primes up to a number) and smallest_factor. Later lines may use the names that earlier
    lines set. The tool asks the user for names without a value.
    """
    for name in given:
        if not name.isidentifier():
            raise RpcError(INVALID_PARAMS, f"`{name}` in `given` is not a name", {"argument": f"/given/{name}"})
    try:
        sheet = Sheet({name: read_number(text) for name, text in given.items()}, digits)
        parsed = [sheet.parse(number, line) for number, line in enumerate(lines, start=1)]
        sheet.values |= answers(sheet.unknown(parsed))
        values = []
        for number, line in enumerate(parsed, start=1):
            exact = sheet.calculate(line)
            values.append(Value(line.text, sheet.exact(exact), sheet.decimal(exact)))
            progress(number, len(parsed), line.text[:80])
    except Mistake as mistake:
        raise ToolError(str(mistake)) from None
    shown = [f"{value.line}  →  {value.exact}" + decimals(value) for value in values]
    return Reply("\n".join([title] * bool(title) + shown), Calculation(values, title or None))


def decimals(value: Value) -> str:
    return "" if value.exact == value.decimal else f" ≈ {value.decimal}"


def answers(names: list[str]) -> dict[str, Fraction]:
    """Asks the user for missing values with one form, which has a field for each name."""
    if not names:
        return {}
    fields = {name: Annotated[str, f"The value of `{name}`, such as 0.19 or 19/100", {"minLength": 1}] for name in names}
    filled = ask("values", "The calculation needs values for these names.", fields)
    if filled is None:
        raise ToolError("The user gave no values for " + ", ".join(f"`{name}`" for name in names) + ".")
    return {name: read_number(filled[name]) for name in names}


@dataclass
class Description:
    count: int
    sum: float
    mean: float
    minimum: float
    maximum: float
    median: float
    deviation: Annotated[float, "The standard deviation of a sample; 0 for a single number."]
    quantiles: Annotated[list[float], "The cut points between parts of equal size."]


@tool(title="Describe numbers", read_only=True, open_world=False)
def describe_numbers(
    values: Annotated[list[float], {"minItems": 1}],
    parts: Annotated[int, "Into how many parts the quantiles cut.", {"minimum": 2, "maximum": 100}] = 4,
) -> Description:
    """Summarises many numbers: sum, mean, median, deviation, quantiles."""
    single = len(values) == 1
    described = Description(
        count=len(values),
        sum=float(sum(map(Fraction, values))),
        mean=statistics.fmean(values),
        minimum=min(values),
        maximum=max(values),
        median=statistics.median(values),
        deviation=0.0 if single else statistics.stdev(values),
        quantiles=[] if single else statistics.quantiles(values, n=parts),
    )
    progress(1, 1)
    return described
