"""Draw each student's numbers from the release's seed, the homework and the student's id.

    EPS = draw.choice([1e-5, 1e-6])    one of these

Each name has a stream of its own: a variable that is added moves no other. The numbers come from
sha256, so they are the same on every machine and in every version of Python.
"""

import ast
import hashlib
from collections.abc import Mapping
from typing import Any

from press.homework.private import Private

RULE = "a `variant` cell may contain only lines such as EPS = draw.choice([1e-5, 1e-6])"


def draw_variants(private: Private, student: str = "") -> dict[str, Any]:
    """Draw a student's numbers; without a roster every student is ""."""
    return {
        name: draw_value(source, private.seed, private.homework, student, name)
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
    """Read a variant cell as {NAME: "draw.choice(…)"}; ValueError if a line is anything else."""
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
                    draw_value(source, name)
                except ValueError as error:
                    raise ValueError(f"{where}{error}") from error
                found[name] = source
            case _:
                raise ValueError(f"{where}{RULE}; got {ast.unparse(node)!r}")
    return found


def draw_value(source: str, *words: object) -> Any:
    """Compute `draw.choice([…])` without executing anything; ValueError if it is anything else.

    The item depends only on the words.
    """
    match ast.parse(source, mode="eval").body:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="draw"), attr="choice"),
            args=[options],
            keywords=[],
        ):
            pass
        case _:
            raise ValueError(f"{RULE}; got {source!r}")
    # The 1 stays: without it every student's numbers would be others.
    digest = hashlib.sha256("\0".join(map(str, (*words, 1))).encode()).digest()
    unit = int.from_bytes(digest[:6], "big") / 2**48
    try:
        listed = ast.literal_eval(options)
        return listed[int(unit * len(listed))]
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"draw.choice needs a list of plain values, but {source!r} does not work ({error})"
        ) from error
