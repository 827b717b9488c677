"""A book for tests: chapters that publish what real ones do, without training anything."""

from pathlib import Path

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
profile = "cpu"
seed = 0

# %%
from IPython.display import display


def publish(data, **about):
    display(data, raw=True, metadata={{"labkit": about}})


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
        kind="figure", alt="A line.", caption="Look.", data=numbers, provenance={{"commit": "c0ffee"}},
    )


'''

CELLS = """# %%
publish({"text/plain": "3 s"}, kind="volatile", cpu_seconds=3.0, declared=10.0, runs=4, stored=1)
print("loss 1.2345 at", object())

# %%
figure([0.0, 1.0, 2.0])

# %%
claim("CLAIM", [1.0, 1.2, 1.1])
"""


def chapter_text(name: str, prose: str = "Some words.", cells: str = CELLS) -> str:
    """Write a chapter whose one claim bears its name."""
    return HEADER.format(title=name, prose=prose) + cells.replace("CLAIM", f"{name[:2]}-mean")


def make_book(root: Path, **chapters: str) -> Path:
    """Lay out a book; chapters are given as c01_name=text."""
    (root / "chapters").mkdir(parents=True)
    (root / "pyproject.toml").write_text(
        '[project.optional-dependencies]\nbook = ["nbformat==5.11.1", "no-such-thing==1"]\n'
    )
    for name, text in chapters.items():
        (root / "chapters" / f"{name[1:]}.py").write_text(text)
    return root
