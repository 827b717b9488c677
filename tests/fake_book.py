"""A book of two chapters and an appendix, as built but not executed, for tests of the site."""

import json
import re
import shutil
from pathlib import Path

from labkit.display import CLAIM
from labkit.statistics.seeds import t_interval
from press.site.sphinx_sources import SITE_SOURCES, TEACHING

REPOSITORY = Path(__file__).parents[1]
PNG = (  # one grey pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)
ONE, TWO = "01_batchnorm_vs_layernorm", "02_pre_and_post_norm"
SHELF = "A_skips"
PROVENANCE = {
    "device": "cpu",
    "cpu": "Example CPU (R) @ 2.4_GHz *turbo*",
    "threads": 1,
    "python": "3.11.2",
    "torch": "2.13.0",
    "labkit": "1.0.0",
    "commit": "0123456789abcdef",
    "seeds": [0, 1, 2, 3, 4],
    "cpu_seconds": 41.5,
    "runs": 10,
}


def claim(identifier: str, chapter: str, verdict: str, values: list, **more) -> dict:
    mean = sum(values) / len(values)
    return {
        "statement": f"The measured difference is {mean:.3f}, <b>markup</b> & all.",
        "wording": "The measured difference is {mean:.3f}, <b>markup</b> & all.",
        "source": "Xiong et al. (2020), Figure 3",
        "published": None,
        "values": values,
        "interval": list(t_interval(values)),
        "criterion": "> 0",
        "kind": "at",
        "verdict": verdict,
        "weak": False,
        "tolerance": 0.01,
        "seeds": len(values),
        "chapter": chapter,
        "sort": "law" if more.get("kind") == "exact" else "finding",
    } | more


CLAIMS = {
    "01-bn-fails-at-batch-2": claim(
        "01-bn-fails-at-batch-2", ONE, "holds", [0.41, 0.52, 0.47, 0.50, 0.49], published=0.106
    ),
    "01-cnn-hides-it": claim(
        "01-cnn-hides-it", ONE, "contradicted", [-0.03, -0.02, -0.04, -0.03, -0.035], kind="best"
    ),
    "02-post-needs-warm-up": claim(
        "02-post-needs-warm-up", TWO, "holds", [0.90, 0.95, 0.99, 0.91, 0.97], criterion="> 0.5"
    ),
    "02-post-ends-lower": claim(
        "02-post-ends-lower", TWO, "not-seen", [0.03, -0.04, 0.02, 0.05, -0.01], weak=True
    ),
    "02-pre-grows-with-depth": claim(
        "02-pre-grows-with-depth", TWO, "holds", [13.0], kind="exact", criterion="in [13, 13]"
    ),
}


def card(identifier: str) -> dict:
    return {
        "output_type": "display_data",
        "data": {
            "text/html": "<details>as a notebook shows it</details>",
            "text/plain": "card",
            CLAIM: {**CLAIMS[identifier], "id": identifier},
        },
        "metadata": {"labkit": {"kind": "claim", "id": identifier}},
    }


def figure(alt: str, caption: str, provenance: dict | None = PROVENANCE) -> list:
    facts = {"kind": "figure", "caption": caption, "data": [1.0]}
    return [
        {
            "output_type": "execute_result",
            "execution_count": 1,
            "data": {"image/png": PNG, "text/plain": alt},
            "metadata": {"labkit": facts | {"provenance": provenance}, "image/png": {"width": 480}},
        },
        {
            "output_type": "display_data",
            "data": {"text/markdown": caption, "text/plain": caption},
            "metadata": {"labkit": {"kind": "caption"}},
        },
    ]


def volatile(runs: int, seconds: float) -> list:
    facts = {"kind": "volatile", "cpu_seconds": seconds, "runs": runs}
    bar = {"name": "stderr", "output_type": "stream", "text": "100%|████| 10/10\n"}
    data = {"text/plain": "VOLATILE seconds"}
    return [bar, {"output_type": "display_data", "data": data, "metadata": {"labkit": facts}}]


def said(text: str) -> dict:
    return {"name": "stdout", "output_type": "stream", "text": text}


def notebook(*cells) -> dict:
    """Make a notebook of strings (markdown) and (source, tags, outputs) triples."""
    out = []
    for number, cell in enumerate(cells):
        base = {"id": f"c{number}", "metadata": {}}
        if isinstance(cell, str):
            out.append(base | {"cell_type": "markdown", "source": cell.splitlines(True)})
        else:
            source, tags, outputs = cell
            out.append(
                base
                | {"cell_type": "code", "source": source, "outputs": outputs}
                | {"execution_count": number, "metadata": {"tags": tags} if tags else {}}
            )
    metadata = {"kernelspec": {"name": "python3"}, "widgets": {"state": {}}}
    return {"cells": out, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


PROSE = (
    "Normalization subtracts a mean and divides by a spread; which numbers go into the two is the "
    "whole question. A batch of two has few of them, and the estimate wobbles from step to step. "
)
FIRST = notebook(
    "# BatchNorm vs LayerNorm\n\nWhich axis? As "
    "[Ioffe and Szegedy (2015)](https://arxiv.org/abs/1502.03167) say, and "
    "([Ba et al., 2016](https://arxiv.org/abs/1607.06450); "
    "[Wu and He, 2018](https://arxiv.org/abs/1803.08494)). "
    + PROSE * 3
    + "\n\n- one tensor, four averages\n- batches of two\n",
    ('size = "book"\nseed = 0', ["parameters"], []),
    ('size = "gpu"', ["injected-parameters"], []),
    "## By hand\n\nInline $\\mu = \\frac1d\\sum_i x_i$ and displayed\n\n"
    "$$y = \\gamma\\,\\frac{x-\\mu}{\\sqrt{\\sigma^2+\\epsilon}} + \\beta$$\n\n"
    "```{admonition} Predict\n:class: tip\nWrite the number down first.\n```\n",
    (
        "x = torch.tensor([3.0, 1.0, -1.0, 5.0])\nx.mean(), x.var(correction=0)",
        [],
        [said("2.0 5.0\n")],
    ),
    "## Measure\n\n" + PROSE * 2,
    (
        'records = lab.run(experiment)\nplots.curves(records, "loss")',
        [],
        volatile(10, 41.5)
        + figure("Two loss curves that cross.", "Batches of two: $B=2$ **fails**; see the dip."),
    ),
    (
        'claim("01-bn-fails-at-batch-2", "…")\nclaim("01-cnn-hides-it", "…")\nplots.both()',
        [],
        [
            card("01-bn-fails-at-batch-2"),
            card("01-cnn-hides-it"),
            *figure("Accuracy by batch size.", "The gap, first."),
            *figure("The same for a\nsmall CNN.", "The gap, second; from algebra.", None),
        ],
    ),
    "### Exercise 1\n\nShow that the mean vanishes.\n\n<details><summary>Hint</summary>\n\n"
    "Use $\\sum_i (x_i-\\mu)=0$.\n\n</details>\n",
    ("def my_norm(x): ...", ["exercise"], []),
    (
        "def my_norm(x):\n    return x - x.mean()\nmy_norm(x)",
        ["solution"],
        [said("solved\n"), *figure("A flat line.", "Flat.", None)],
    ),
    "See [the next chapter](02_pre_and_post_norm.ipynb), and "
    "[why warm-up](02_pre_and_post_norm.ipynb#why-warm-up).\n",
)
SECOND = notebook(
    "# Pre-Norm and Post-Norm\n\nWhy does Post-Norm need a warm-up? See "
    "[Xiong et al. (2020)](https://arxiv.org/abs/2002.04745). " + PROSE * 2,
    ('size = "book"\nseed = 0', ["parameters"], []),
    "## Why warm-up\n\n" + PROSE * 2 + "\n\n$$x_{l+1} = \\mathrm{LN}(x_l + f(x_l))$$\n",
    (
        'claim("02-post-needs-warm-up", "…")',
        ["hide-input"],
        [card("02-post-needs-warm-up"), card("02-post-ends-lower")],
    ),
    ("depths()", [], [card("02-pre-grows-with-depth"), *figure("A line.", "Growth by depth.")]),
    "Back to [chapter one](01_batchnorm_vs_layernorm.ipynb).\n",
    "## References\n\n```{bibliography}\n:filter: docname in docnames\n```\n",
)
THIRD = notebook("# Skips\n\n**Question.** Where were skips first?\n", "## Highways\n\n" + PROSE)


def make(root: Path) -> Path:
    """Write the book."""
    (root / "chapters").mkdir(parents=True, exist_ok=True)
    for name in (*SITE_SOURCES, *(f"{part}.md" for part in TEACHING)):
        target = root / "chapters" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / "chapters" / name, target)
    homework = root / "chapters" / "homework" / "index.md"  # it names chapters that are not here
    homework.write_text(re.sub(r"\(\.\./\w+\.ipynb\)", "(../index.md)", homework.read_text()))
    shutil.copytree(
        REPOSITORY / "chapters" / "_static", root / "chapters" / "_static", dirs_exist_ok=True
    )
    (root / "pyproject.toml").touch()
    (root / "data").mkdir(exist_ok=True)
    shutil.copy(REPOSITORY / "data" / "cover.json", root / "data" / "cover.json")
    executed = root / "build" / "book" / "book"
    executed.mkdir(parents=True, exist_ok=True)
    for name, content in ((ONE, FIRST), (TWO, SECOND), (SHELF, THIRD)):
        (root / "chapters" / f"{name}.py").write_text("# %%\n")
        (executed / f"{name}.ipynb").write_text(json.dumps(content))
    write_claims(root / "build" / "claims" / "book.json", "book", CLAIMS)
    return root


def write_claims(path: Path, size: str, claims: dict, provenance: dict = PROVENANCE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"schema": 1, "size": size, "provenance": provenance, "claims": claims}
    path.write_text(json.dumps(facts))
