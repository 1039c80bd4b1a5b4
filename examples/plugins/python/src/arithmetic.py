"""Lines of arithmetic, parsed by Python's own parser and calculated with fractions. Only the
operations that are named here are ever evaluated.
"""

import ast
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction


class Mistake(Exception):
    """An error in a line, with a message for its author."""


@dataclass
class Line:
    number: int
    text: str
    name: str | None
    expression: ast.expr


def read_number(text: str) -> Fraction:
    try:
        return Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        raise Mistake(f"`{text}` is not a number; 3, 0.25, 1e-3 and 1/3 are") from None


def make_exact(tree: ast.AST, text: str) -> None:
    """Restores numbers as they are written: the parser turns 0.1 into a float."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=float()):
                node.value = Fraction(ast.get_source_segment(text, node))
            case ast.Constant(value=int() as number) if not isinstance(number, bool):
                node.value = Fraction(number)


def whole(value: Fraction) -> int:
    if value.denominator != 1:
        raise Mistake(f"{value} should be a whole number")
    return value.numerator


def natural(value: Fraction) -> int:
    if value < 0:
        raise Mistake(f"{value} should not be negative")
    return whole(value)


def prime_count(value: Fraction) -> Fraction:
    """The number of primes up to a number: sieve of Eratosthenes, one byte per number."""
    most = natural(value)
    sieve = bytearray([1]) * (most + 1)
    sieve[:2] = bytes(len(sieve[:2]))
    for n in range(2, math.isqrt(most) + 1):
        if sieve[n]:
            sieve[n * n :: n] = bytes(len(range(n * n, most + 1, n)))
    return Fraction(sieve.count(1))


def smallest_factor(value: Fraction) -> Fraction:
    """By trial division, so a large prime takes long."""
    n = natural(value)
    if n < 2:
        raise Mistake(f"{n} has no prime factor")
    if n % 2 == 0:
        return Fraction(2)
    factor = 3
    while factor * factor <= n:
        if n % factor == 0:
            return Fraction(factor)
        factor += 2
    return Fraction(n)


def power(base: Fraction, exponent: Fraction) -> Fraction:
    return base ** whole(exponent)


OPERATORS: dict[type, Callable[..., Fraction | int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: power,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}

FUNCTIONS: dict[str, Callable[..., Fraction | int]] = {
    "abs": abs,
    "binomial": lambda n, k: math.comb(natural(n), natural(k)),
    "factorial": lambda n: math.factorial(natural(n)),
    "gcd": lambda *values: math.gcd(*map(whole, values)),
    "lcm": lambda *values: math.lcm(*map(whole, values)),
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
    "prime_count": prime_count,
    "round": lambda value, places=Fraction(0): round(value, whole(places)),
    "smallest_factor": smallest_factor,
}


class Sheet:
    """Names with their values, and the lines that use them."""

    def __init__(self, values: dict[str, Fraction], digits: int):
        self.values = values
        self.digits = digits
        self.functions = FUNCTIONS | {"sqrt": self.sqrt}

    def parse(self, number: int, text: str) -> Line:
        stripped = text.strip()
        try:
            tree = ast.parse(stripped)
            make_exact(tree, stripped)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise Mistake(f"line {number}: `{text}`: {getattr(error, 'msg', error)}") from None
        match tree.body:
            case [ast.Expr(value=expression)]:
                return Line(number, text, None, expression)
            case [ast.Assign(targets=[ast.Name(id=name)], value=expression)]:
                return Line(number, text, name, expression)
        raise Mistake(f"line {number}: `{text}`: write an expression, or `name = expression`")

    def unknown(self, lines: list[Line]) -> list[str]:
        """The names that are used before they have a value, in order."""
        known, unknown = set(self.values), {}
        for line in lines:
            called = {id(node.func) for node in ast.walk(line.expression) if isinstance(node, ast.Call)}
            for node in ast.walk(line.expression):
                if isinstance(node, ast.Name) and id(node) not in called and node.id not in known:
                    unknown[node.id] = None
            known.add(line.name)
        return list(unknown)

    def calculate(self, line: Line) -> Fraction:
        try:
            value = Fraction(self.evaluate(line.expression))
        except ZeroDivisionError:
            raise Mistake(f"line {line.number}: `{line.text}`: division by zero") from None
        except (Mistake, ArithmeticError, ValueError, TypeError, RecursionError) as error:
            raise Mistake(f"line {line.number}: `{line.text}`: {error}") from None
        if line.name:
            self.values[line.name] = value
        return value

    def evaluate(self, node: ast.expr) -> Fraction | int:
        match node:
            case ast.Constant(value=Fraction() as number):
                return number
            case ast.Name(id=name):
                return self.values[name]
            case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
                return OPERATORS[type(op)](self.evaluate(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](self.evaluate(left), self.evaluate(right))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in self.functions:
                return self.functions[name](*(Fraction(self.evaluate(arg)) for arg in args))
            case ast.Call(func=ast.Name(id=name)):
                raise Mistake(f"there is no function `{name}`; there are {', '.join(sorted(self.functions))}")
        raise Mistake("this is no arithmetic")

    def sqrt(self, value: Fraction) -> Fraction:
        """Exact if there is an exact root, otherwise to the requested digits."""
        if value < 0:
            raise Mistake("a negative number has no real square root")
        top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if Fraction(top, bottom) ** 2 == value:
            return Fraction(top, bottom)
        with localcontext(prec=self.digits + 2):
            return Fraction((Decimal(value.numerator) / Decimal(value.denominator)).sqrt())

    def exact(self, value: Fraction) -> str:
        return str(value)

    def decimal(self, value: Fraction) -> str:
        with localcontext(prec=self.digits):
            rounded = Decimal(value.numerator) / Decimal(value.denominator)
            rounded = rounded.normalize()
        return format(rounded, "f") if -6 <= rounded.adjusted() < self.digits else str(rounded)
