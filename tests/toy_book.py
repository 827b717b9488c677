"""A book for tests: chapters with the same kinds of outputs as real ones, without training."""

import io
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat

from labkit.display import CLAIM
from labkit.system.files import write_whole
from press import cli
from press.book import chapters, state
from press.book.keys import key_of, parts_of

REPOSITORY = Path(__file__).resolve().parents[1]
PATHS = f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'chapters'}"  # of labkit and press
HEADER = '''# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# {title}

{prose}
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from IPython.display import display


def publish(bundle, **about):
    display(bundle, raw=True, metadata={{"labkit": about}})


def claim(name, values, verdict="holds", tolerance=0.1, criterion="> 0", weak=False):
    card = {{
        "id": name, "statement": f"The mean is {{sum(values) / len(values):.3f}}.",
        "source": "a toy", "published": None, "values": values,
        "interval": [min(values), max(values)], "criterion": criterion, "kind": "at",
        "verdict": verdict, "weak": weak, "tolerance": tolerance, "seeds": len(values),
    }}
    data = {{"text/plain": card["statement"], "text/html": f"<p>{{card['statement']}}</p>"}}
    publish({{**data, "application/vnd.labkit.claim+json": card}}, kind="claim", id=name)


def figure(numbers):
    publish(
        {{"image/png": "iVBORw0KGgo=", "text/plain": "A line."}},
        kind="figure", caption="Look.", data=numbers, provenance={{"seeds": [0]}},
    )


'''

CELLS = """# %%
publish({"text/plain": "3 s"}, kind="volatile", cpu_seconds=3.0, runs=4, stored=1)
print("loss 1.2345 at", object())

# %%
figure([0.0, 1.0, 2.0])

# %%
claim("CLAIM", [1.0, 1.2, 1.1])
"""


def chapter_text(name: str, prose: str = "Some words.", cells: str = CELLS) -> str:
    """Write a chapter with one claim, named after the chapter."""
    return HEADER.format(title=name, prose=prose) + cells.replace("CLAIM", f"{name[:2]}-mean")


def make_book(root: Path, **chapters: str) -> Path:
    """Write a book; its chapters are given as c01_name=text."""
    (root / "chapters").mkdir(parents=True)
    (root / "pyproject.toml").write_text(
        '[project.optional-dependencies]\nbook = ["nbformat==5.11.1", "no-such-thing==1"]\n'
    )
    for name, text in chapters.items():
        (root / "chapters" / f"{name[1:]}.py").write_text(text)
    return root


def command(root: Path, *words: str, **options) -> "subprocess.Popen[str]":
    """Start `labkit` in a book's folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "labkit", *words],
        cwd=root,
        env={**os.environ, "PYTHONPATH": PATHS},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def run(root: Path, *words: str) -> tuple[int, str]:
    """Run `labkit` in a book's folder, in this process; return its exit code and its output."""
    said = io.StringIO()
    with chdir(root), redirect_stdout(said), redirect_stderr(said), patch("os.nice"):
        nice = os.environ.get("LABKIT_NICE")
        status = cli.main(list(words))
    if nice is None:
        os.environ.pop("LABKIT_NICE", None)  # `book runs` gives way to others; this process goes on
    return status, said.getvalue()


def card(name: str = "01-mean", **other: Any) -> dict[str, Any]:
    """Make one claim as a cell publishes it."""
    values = other.get("values", [1.0, 1.2, 1.1])
    return {
        "id": name,
        "statement": f"The mean is {sum(values) / len(values):.3f}.",
        "source": "a toy",
        "published": None,
        "values": values,
        "interval": [min(values), max(values)],
        "criterion": "> 0",
        "kind": "at",
        "verdict": "holds",
        "weak": False,
        "tolerance": 0.1,
        "seeds": len(values),
        **other,
    }


def pretend(root: Path, name: str, *cards: dict[str, Any], size: str = "book") -> None:
    """Leave the files that executing a chapter would leave, without a kernel."""
    chapter = chapters.find_chapter(root, name)
    notebook = chapters.read_chapter(chapter)
    cell = notebook.cells[-1]
    cell.outputs = [claim_output(entry) for entry in cards]
    path = state.notebook_path(root, size, name)
    write_whole(path, nbformat.writes(notebook))
    key = key_of(parts_of(chapter, root, size))
    claims = [{**entry, "chapter": name, "cell": cell.id} for entry in cards]
    state.write_state(root, size, name, {"key": key, "ok": True, "claims": claims})


def claim_output(entry: dict[str, Any]) -> Any:
    """Wrap a claim as the output of a cell."""
    return nbformat.v4.new_output(
        "display_data",
        {"text/plain": entry["statement"], CLAIM: entry},
        metadata={"labkit": {"kind": "claim", "id": entry["id"]}},
    )
