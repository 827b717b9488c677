"""Keep the page of norms and recipes true: its tables are written from NORMS, RECIPES, SYMPTOMS.

They stand in chapters/tables.md, between `<!-- norms -->` and `<!-- /norms -->` and so on, so that
a code host shows them too, and building the site needs no torch.
"""

import re
from pathlib import Path

from press.book.facts import format_table
from press.book.files import Red

NAMES = ("norms", "recipes", "symptoms")
TEX = {"·": r"\cdot ", "²": "^2", "₁": "_1", "′": "'", "…": r"\dots ", "|": r"\vert ",
       "√ℓ": r"\sqrt{\ell}", "Σ": r"\textstyle\sum"}  # fmt: skip
PAGE = Path("chapters") / "tables.md"


def write_tables(root: Path, *, check: bool = False) -> list[str]:
    """Bring the tables up to date and name those that were not; with `check`, only look."""
    page = root / PAGE
    before = after = page.read_text(encoding="utf-8")
    made = {"norms": norms_table, "recipes": recipes_table, "symptoms": symptoms_table}
    stale = []
    for name in NAMES:
        start, end = find_span(after, name)
        table = f"\n{made[name]()}\n"
        if after[start:end] != table:
            stale.append(name)
            after = after[:start] + table + after[end:]
    if not check and after != before:
        page.write_text(after, encoding="utf-8")
    return stale


def find_span(text: str, name: str) -> tuple[int, int]:
    """Find where a table of the page begins and ends."""
    found = re.search(f"<!-- {name} -->(.*?)<!-- /{name} -->", text, re.S)
    if found is None:
        raise Red(
            f"{PAGE} has lost the marks of its table of {name}; put <!-- {name} --> and "
            f"<!-- /{name} --> where it belongs"
        )
    return found.span(1)


def norms_table() -> str:
    """Write NORMS as a Markdown table."""
    from labkit.norms import NORMS, facts

    rows = []
    for key, kind in NORMS.items():
        found = facts(key)
        equation = typeset_equation(found.equation)
        source = _escape_cell(found.source or "nothing is normed")
        rows.append((f"`{key}`", f"`{kind.__name__}`", equation, source))
    return format_table(("name", "class", "equation", "source"), rows)


def recipes_table() -> str:
    """Write RECIPES as a Markdown table: equations, half below half."""
    from labkit.describe import list_extras
    from labkit.placements import RECIPES

    rows = []
    for key, found in RECIPES.items():
        besides = [_escape_cell(line) for line in list_extras(found).split("\n") if line]
        if found.first is not None:
            which = "first block" if found.first_blocks == 1 else f"first {found.first_blocks:.0%}"
            equations = ", ".join(map(typeset_equation, found.first.equations))
            besides.insert(0, f"{which}: {equations}")
        if found.final_norm:
            besides.append("final norm")
        equations = "<br>".join(map(typeset_equation, found.equations))
        rows.append((f"`{key}`", equations, "; ".join(besides), _escape_cell(found.source)))
    return format_table(("name", "attention, feed-forward", "besides", "source"), rows)


def symptoms_table() -> str:
    """Write SYMPTOMS as a Markdown table: what one sees, the probe that tells, cause and fix."""
    from labkit.probes.diagnosis import SYMPTOMS

    rows = [
        (s.see, f"`{s.probe}`: {s.number} above {s.limit:g}", s.cause, s.fix, f"[[{s.chapter}]]")
        for s in SYMPTOMS
    ]
    return format_table(("you see", "probe", "cause", "fix", "chapter"), rows)


def typeset_equation(text: str) -> str:
    """Write "y = g · x / sqrt(d), at first" in TeX; parts without "=" stay words."""
    parts: list[str] = []
    for part in text.split(", "):
        if parts and parts[-1].count("(") > parts[-1].count(")"):
            parts[-1] += f", {part}"  # a comma between arguments
        else:
            parts.append(part)
    return ", ".join(f"${_write_tex(part)}$" if "=" in part else part for part in parts)


def _write_tex(formula: str) -> str:
    tex = re.sub(r"([A-Za-z]{2,})(?:_([A-Z]+))?", _write_name, formula)
    while (start := tex.find("\\sqrt(")) >= 0:
        end, depth = start + len("\\sqrt("), 1
        while depth:
            depth += {"(": 1, ")": -1}.get(tex[end], 0)
            end += 1
        tex = f"{tex[:start]}\\sqrt{{{tex[start + 6 : end - 1]}}}{tex[end:]}"
    for sign, command in TEX.items():
        tex = tex.replace(sign, command)
    return re.sub(" +", " ", tex)


def _write_name(match: re.Match[str]) -> str:
    if match[1] == "sqrt":
        return r"\sqrt"
    return rf"\mathrm{{{match[1]}}}" + (rf"_{{\mathrm{{{match[2]}}}}}" if match[2] else "")


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")
