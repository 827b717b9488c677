"""Update the files of the repository that `labkit book tables` writes.

The tables of norms, recipes and symptoms stand in chapters/tables.md, between `<!-- norms -->` and
`<!-- /norms -->` and so on, so that a code host shows them too, and building the site needs no
torch. The data of the block explorer and of the cover, and README's picture, come from the records;
the picture holds its own alternative text, with the numbers in it, and that text is what is
compared. When git got the rows of data/locks is read off git once.
chapters/START.ipynb is what a reader opens first.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat

from labkit import plots
from labkit.describe import list_extras
from labkit.experiments import ladder
from labkit.experiments.ladder import comparing
from labkit.experiments.store import Store
from labkit.norms import NORMS, facts
from labkit.placements import RECIPES
from labkit.plots.figure import Figure
from labkit.probes.diagnosis import SYMPTOMS
from labkit.system.files import write_whole
from press.book.chapters import KERNEL, LANGUAGE, find_chapters, format_number
from press.book.facts import format_table
from press.book.files import Red
from press.book.locking import write_commits
from press.book.saving import ALONE
from press.site import explorer
from press.site.outline import Book, read_outlines

# Where the book says what a recipe was made against, and whether it helps.
TREATED = {
    recipe: place
    for place, recipes in {
        "02": "post pre",
        "04": "qk",
        "05": "deepnorm",
        "06": "hybrid hybrid*",
        "07": "dyt derf",
        "08": "ngpt",
        "09": "none",
        "08#Handicaps of the published baseline": "overwritten",
        "A#Highways": "highway",
        "A#ResNet v1 and v2": "resnet-v1 resnet-v2",
        "C#Norms on what is written": "output olmo2 sandwich peri",
        "C#Gemma's two answers to large logits": "gemma2 gemma3",
        "C#Against idle late blocks": "mix-ln lns resi-dual",
        "C#Post-Norm with help": "keel admin b2t realformer",
        "C#Norms inside the branch": "sub-ln normformer",
        "C#First blocks": "first-qkv-pre embed-norm",
        "E#Table 4: sixteen placements": "qkvc-post qkc-post qk-post kv-post kc-post pre-qkv-post "
        "pre-qkv-pre pre-qk-pre qkv-pre post-pre pre-post",
    }.items()
    for recipe in recipes.split()
}
TEX = {"·": r"\cdot ", "²": "^2", "₁": "_1", "′": "'", "…": r"\dots ", "|": r"\vert ",
       "√ℓ": r"\sqrt{\ell}", "Σ": r"\textstyle\sum"}  # fmt: skip
PAGE = Path("chapters") / "tables.md"
PICTURE = Path("chapters") / "_static" / "ladder.svg"
RUNG = "S"
START = Path("chapters") / "START.ipynb"
COVER = Path("chapters") / "index.md"
NEEDS = re.compile(r"^\*\*(?:Prerequisites|Goals)\.\*\*.*?(?=\n\n)", re.M | re.S)
ABOUT = """# Normalization in Transformers: a Lab Book

Almost every transformer normalizes its activations, and papers disagree about how, where and why.
Each chapter asks one such question, derives what to expect, and measures it. All results are
included: read first, run later."""
HOW = """## How to run

Open a chapter, then choose *Run All Cells*. Its runs are stored with the book, so this takes
seconds. If you change a cell and run it again, your machine trains whatever has no stored run.
Click the three dots of a folded cell to open it. Type an answer in the cell of an exercise and
press Shift+Enter: the folded cell below checks it.

**No module named `labkit`?** It comes with the book: run `pip install path/to/the/book` on the
folder that has `pyproject.toml`. If you downloaded a single chapter, do the same and restart its
kernel."""


def write_all(root: Path, *, check: bool) -> list[str]:
    """Update all files; return the names of outdated ones. With `check`, write nothing."""
    files = list_files(root)
    stale = [name for name, path, text in files if update_file(path, text, check=check)]
    return [*stale, *write_commits(root, check=check), *write_picture(root, check=check)]


def update_file(path: Path, text: str | None, *, check: bool = False) -> bool:
    """Give a file its text, or remove it; return whether it changed. `check` writes nothing."""
    stale = text != (path.read_text(encoding="utf-8") if path.is_file() else None)
    if stale and not check and text is None:
        path.unlink()
    elif stale and not check:
        write_whole(path, text or "")
    return stale


def list_files(root: Path) -> Iterator[tuple[str, Path, str | None]]:
    """Yield name, path and text of each file; a table comes with the page around it."""
    page = root / PAGE
    for name, make in TABLES.items():
        text = page.read_text(encoding="utf-8")  # with the tables before this one
        start, end = find_span(text, name)
        yield f"the table of {name}", page, f"{text[:start]}\n{make()}\n{text[end:]}"
    yield from explorer.list_files(root)
    yield "START.ipynb", root / START, build_start(root)


def find_span(text: str, name: str) -> tuple[int, int]:
    """Find the beginning and end of a table in the page."""
    found = re.search(f"<!-- {name} -->(.*?)<!-- /{name} -->", text, re.S)
    if found is None:
        raise Red(
            f"{PAGE} must have marks for its table of {name}, but has none; put <!-- {name} --> "
            f"and <!-- /{name} --> where it belongs"
        )
    return found.span(1)


def norms_table() -> str:
    """Write NORMS as a Markdown table."""
    rows = []
    for key, kind in NORMS.items():
        found = facts(key)
        named = f"`{key}`, `{kind.__name__}`<br>{typeset_equation(found.equation)}"
        rows.append((named, cite_source(found.source) or "no normalization"))
    return format_table(("norm", "source"), rows)


def recipes_table() -> str:
    """Format RECIPES as a Markdown table: each name above its equations, in two halves."""
    rows = []
    for key, found in RECIPES.items():
        besides = [_escape_cell(line) for line in list_extras(found).split("\n") if line]
        lines = [f"`{key}`", *map(typeset_equation, found.equations)]
        if found.first is not None:
            which = "first block" if found.first_blocks == 1 else f"first {found.first_blocks:.0%}"
            lines += [f"{which}:", *map(typeset_equation, found.first.equations)]
        if found.final_norm:
            besides.append("final norm")
        place = f"[[{TREATED[key]}]]" if key in TREATED else ""
        rows.append(("<br>".join(lines), "; ".join(besides), cite_source(found.source), place))
    return format_table(("recipe", "other settings", "source", "treated in"), rows)


def symptoms_table() -> str:
    """Format SYMPTOMS as a Markdown table: symptom, diagnostic probe, cause and remedy."""
    rows = [
        (s.see, f"`{s.probe}`: {s.number} > {s.limit:g}", s.cause, s.fix, f"[[{s.chapter}]]")
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


def cite_source(text: str) -> str:
    """Write "Ba et al. 2016, arXiv 1607.06450, section 3" with its paper as a link."""
    cited = r"([^;]+?), arXiv (\d{4}\.\d{5})"
    return re.sub(cited, r"[\1](https://arxiv.org/abs/\2)", _escape_cell(text))


def _write_name(match: re.Match[str]) -> str:
    if match[1] == "sqrt":
        return r"\sqrt"
    return rf"\mathrm{{{match[1]}}}" + (rf"_{{\mathrm{{{match[2]}}}}}" if match[2] else "")


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")


TABLES = {"norms": norms_table, "recipes": recipes_table, "symptoms": symptoms_table}


def write_picture(root: Path, *, check: bool = False) -> list[str]:
    """Redraw the picture if its numbers differ from the records; with `check`, write nothing."""
    path, figure = root / PICTURE, draw_ladder(root)
    if path.is_file() and html.escape(figure.alt, quote=False) in path.read_text(encoding="utf-8"):
        return []
    if not check:
        figure.save(path)
    return ["README's picture"]


def draw_ladder(root: Path) -> Figure:
    """Draw the improvement of each arm's test loss over Pre-Norm, with intervals."""
    found = ladder.read_ladder([RUNG], ladder.ARMS, Store(root).read_recorded)
    leads = {arm: ladder.improvement(found, arm).get(RUNG) for arm in ladder.ARMS if arm != "pre"}
    shown = {arm: lead for arm, lead in leads.items() if lead and arm in RECIPES}
    names = {
        arm: arm if comparing.is_strict_report(found, arm, RUNG) else f"{arm} (preliminary)"
        for arm in sorted(shown, key=lambda arm: -shown[arm].mean)
    }
    return plots.dots(
        {name: shown[arm] for arm, name in names.items()},
        xlabel=f"improvement in test loss over Pre-Norm, size {RUNG} (nats); left of 0 is worse",
        caption="Each arm of the ladder at its own best learning rate.",
    )


def build_start(root: Path) -> str:
    """Build the notebook that a reader opens first, from the twins and the cover."""
    notebooks = {
        chapter.name: json.loads(chapter.twin.read_text(encoding="utf-8"))
        for chapter in find_chapters(root)
        if chapter.twin.is_file()
    }
    needs = "\n\n".join(NEEDS.findall((root / COVER).read_text(encoding="utf-8")))
    return format_start(read_outlines(notebooks), needs)


def format_start(book: Book, needs: str) -> str:
    """Describe the book, its chapters with their minutes, its requirements, and how to run it."""
    rows = []
    for one in book.values():
        link = f"[{format_number(one.number)} · {one.title}]({one.name}.ipynb)"
        rows.append((link, one.minutes, " ".join(one.questions)))
    chapters = f"## Chapters\n\n{format_table(('chapter', 'minutes', 'it asks'), rows)}"
    about = {"kernelspec": KERNEL, "language_info": LANGUAGE, "jupytext": ALONE}
    notebook = nbformat.v4.new_notebook(metadata=about)
    for number, source in enumerate((ABOUT, chapters, needs, HOW)):
        cell = nbformat.v4.new_markdown_cell(source, id=f"start-{number}")
        notebook.cells.append(cell)
    return nbformat.writes(notebook) + "\n"
