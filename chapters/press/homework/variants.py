"""Draw each student's numbers from the release's seed, the homework and the student's id.

    EPS = draw.choice([1e-5, 1e-6])       one of these
    DIM = draw.integers(6, 12)            low <= n < high, as torch.randint has it
    SCALE = draw.uniform(0.5, 2.0)        four significant digits, so that it reads well
    SHIFTS = draw.normal(3, scale=2.0)    a list of three

Each name has a stream of its own: a variable that is added moves no other. The numbers come from
sha256, so they are the same on every machine and in every version of Python.
"""

import ast
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from press.homework.private import Private

RULE = "a `variant` cell may contain only lines such as EPS = draw.choice([1e-5, 1e-6])"


def draw_variants(private: Private, student: str = "") -> dict[str, Any]:
    """Draw a student's numbers; without a roster every student is ""."""
    return {
        name: draw_value(source, Stream(private.seed, private.homework, student, name))
        for name, source in private.variants.items()
    }


def write_literal_cell(source: str, values: Mapping[str, Any]) -> str:
    """Fill a variant cell with the drawn numbers: EPS = 1e-05; comments stay."""
    lines = source.split("\n")
    for node in reversed(ast.parse(source).body):
        assert isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        name, last = node.targets[0].id, (node.end_lineno or node.lineno) - 1
        tail = lines[last].encode()[node.end_col_offset :].decode()
        lines[node.lineno - 1 : last + 1] = [f"{name} = {values[name]!r}{tail}"]
    return "\n".join(lines)


def read_sources(cell: str, line: int = 1) -> dict[str, str]:
    """Read a variant cell as {NAME: "draw.…(…)"}; ValueError if a line is anything else."""
    found: dict[str, str] = {}
    for node in ast.parse(cell).body:
        where = f"line {line + node.lineno - 1}: "
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                if name in found:
                    raise ValueError(
                        f"{where}a variant must be assigned only once, but {name} is assigned "
                        "twice; delete one line"
                    )
                source = ast.unparse(call)
                try:
                    draw_value(source, Stream(0, "", "", name))
                except ValueError as error:
                    raise ValueError(f"{where}{error}") from error
                found[name] = source
            case _:
                raise ValueError(f"{where}{RULE}; got {ast.unparse(node)!r}")
    return found


class Stream:
    """Random numbers that depend only on the given words."""

    def __init__(self, *words: object):
        self._words = "\0".join(map(str, words))
        self._count = 0

    def draw_unit(self) -> float:
        """Draw a number u with 0 <= u < 1."""
        self._count += 1
        digest = hashlib.sha256(f"{self._words}\0{self._count}".encode()).digest()
        return int.from_bytes(digest[:6], "big") / 2**48

    def choice(self, options: Sequence[Any]) -> Any:
        """Draw an item from a list."""
        return options[int(self.draw_unit() * len(options))]

    def integers(self, low: int, high: int, *shape: int) -> Any:
        """Draw integers, low <= n < high: one, or nested lists of that shape."""
        check_order(low, high)
        return _fill_shape(shape, lambda: low + int(self.draw_unit() * (high - low)))

    def uniform(self, low: float, high: float, *shape: int) -> Any:
        """Draw numbers between low and high."""
        check_order(low, high)
        return _fill_shape(shape, lambda: _round_number(low + self.draw_unit() * (high - low)))

    def normal(self, *shape: int, scale: float = 1.0) -> Any:
        """Draw normal numbers by the Box–Muller method."""
        return _fill_shape(shape, lambda: _round_number(scale * self._draw_normal()))

    def _draw_normal(self) -> float:
        radius = math.sqrt(-2 * math.log(1 - self.draw_unit()))
        return radius * math.cos(2 * math.pi * self.draw_unit())


def draw_value(source: str, stream: Stream) -> Any:
    """Compute `draw.choice([…])` and the like without executing anything; ValueError otherwise."""
    call = ast.parse(source, mode="eval").body
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="draw"), attr=how)):
            if how not in ("choice", "integers", "uniform", "normal"):
                raise ValueError(
                    f"draw has only choice, integers, uniform and normal; got {source!r}"
                )
        case _:
            raise ValueError(f"{RULE}; got {source!r}")
    try:
        arguments = [ast.literal_eval(value) for value in call.args]
        named = {each.arg or "**": ast.literal_eval(each.value) for each in call.keywords}
        return getattr(stream, how)(*arguments, **named)
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"draw.{how} needs plain numbers and lists as arguments, but {source!r} does not work "
            f"({error})"
        ) from error


def check_order(low: float, high: float) -> None:
    """Refuse bounds in the wrong order."""
    if not low < high:
        raise ValueError(f"a draw needs low < high, got low={low!r} and high={high!r}")


def _fill_shape(shape: tuple[int, ...], one: Callable[[], Any]) -> Any:
    def level(sizes: Iterator[int]) -> Any:
        rest = list(sizes)
        return [level(iter(rest[1:])) for _ in range(rest[0])] if rest else one()

    return level(iter(shape))


def _round_number(number: float) -> float:
    return float(f"{number:.4g}")
