"""The cover: models that complete a sentence, and a map of all recipes and learning rates.

data/cover.json has their texts and losses; `labkit book tables` writes it from the records. The
page has all of it in its HTML. voices.js moves the training step, and keeps the answers and the map
for after the reader's bet; where no script runs, the answers and the map are in sight.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path

from press.book.facts import Json
from press.book.files import read_json

PATH = Path("data") / "cover.json"
# What the models are called in the bet, and what the reader is told afterwards, in HTML.
CHOICES = {
    "best": "Pre-Norm at its best learning rate",
    "too fast": "Pre-Norm at too high a learning rate",
    "no norms": "no norms at all",
    "stuck": "Post-Norm at too high a learning rate",
}
TOLD = {
    "best": "A norm before each sublayer, and none on the residual stream, the sum that runs "
    "through all blocks.",
    "too fast": "Nothing diverges, but attention’s logits grow until each character looks at only "
    'one other (<a href="04_qk_norm.html">chapter 04</a>).',
    "no norms": "At a careful learning rate it does nearly as well as Pre-Norm. At higher rates it "
    'diverges: see its row in the map (<a href="10_choosing_a_norm.html">chapter 10</a>).',
    "stuck": "At this learning rate Pre-Norm still learns. Early in training this model wrote "
    "short words and then lost them: it is stuck on letter frequencies and knows only how often "
    'each character occurs (<a href="02_pre_and_post_norm.html">chapter 02</a>).',
}
LOST = 0.1  # nats above which a loss is as good as that of letter frequencies
MARKS = {
    "stream": '<span role="img" aria-label="norm on the stream">◆</span>',
    "held": '<span role="img" aria-label="logits bounded">●</span>',
}
CELL = '<td class="{kind}" style="--depth: {depth:.0f}%">{text}</td>'


def format_data(described: Json) -> str:
    """Write data as compact JSON, one voice or recipe per line, so that diffs are readable."""
    lines = []
    for name, value in described.items():
        text = _write(value)
        if name in ("voices", "recipes"):
            rows = ",\n".join(f"{_write(key)}:{_write(row)}" for key, row in value.items())
            text = f"{{\n{rows}}}"
        lines.append(f"{_write(name)}:{text}")
    return "{" + ",\n".join(lines) + "}\n"


def _write(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_data(root: Path) -> Json:
    """Read the cover's data; raise Red if they are missing."""
    return read_json(root / PATH, "write it with `labkit book tables`")


def draw_voices(root: Path) -> str:
    """Draw the texts, choices below each, the slider of training steps and the answer."""
    data = read_data(root)
    steps = data["steps"]
    options = "".join(
        f'<option value="{name}">{text}</option>'
        for name, text in CHOICES.items()
        if name in data["voices"]
    )
    voices = "".join(
        draw_voice(number, name, voice, data["beginning"], options)
        for number, (name, voice) in enumerate(data["voices"].items(), 1)
    )
    return f"""<div class="labkit-voices" data-steps="{_quote(steps)}">
<div class="step"><label for="labkit-step">training step</label>
<input id="labkit-step" type="range" min="0" max="{len(steps) - 1}" value="{len(steps) - 1}">
<output for="labkit-step">{steps[-1]:,}</output></div>
<ol>{voices}</ol>
<button type="button">Show which is which</button>
<p class="score" role="status"></p>
</div>"""


def draw_voice(number: int, name: str, voice: Json, beginning: str, options: str) -> str:
    """Draw one model's text, the reader's choice, and the description of the model."""
    return f"""<li data-is="{name}" data-said="{_quote(voice["said"])}">
<blockquote>{beginning}<span>{html.escape(voice["said"][-1])}</span> …</blockquote>
<label>Text {number} is <select><option value="">…</option>{options}</select></label>
<p class="told"><b>{html.escape(voice["recipe"])}, learning rate {voice["rate"]}: a final loss of
{voice["loss"]:.2f} nats.</b> {TOLD[name]}</p></li>"""


def _quote(value: object) -> str:
    return html.escape(json.dumps(value, ensure_ascii=False))


def describe_models(root: Path) -> str:
    """Describe in one sentence the size of the models and their training data."""
    data = read_data(root)
    return (
        f"Each model is a transformer of {data['parameters']:,} parameters, with {data['blocks']} "
        f"blocks of width {data['width']}. It read {data['read'] / 1e6:.1f} million characters of "
        f"the addresses that presidents gave from 1790 on, in {data['steps'][-1]:,} training steps."
    )


# -- the map ----------------------------------------------------------------------------------
def draw_map(root: Path) -> str:
    """Draw a table of the losses of every recipe at every rate, with the sentence above it."""
    data = read_data(root)
    rates = [str(rate) for rate in data["rates"]]
    head = "".join(f'<th scope="col">{rate}</th>' for rate in rates)
    rows = "".join(
        f'<tr><th scope="row">{html.escape(row["name"])} '
        f"{''.join(mark for what, mark in MARKS.items() if row[what])}</th>"
        f"{''.join(draw_cell(row['losses'], rate, data['lines']) for rate in rates)}</tr>"
        for row in data["recipes"].values()
    )
    return f"""<div class="labkit-map"><p>{say_map(data)}</p>
<table><caption>Final validation loss in nats by recipe and learning rate. {MARKS["stream"]} A norm
is on the residual stream. {MARKS["held"]} Attention’s logits are bounded. A dash: not tried. A
cross: diverged.</caption><thead><tr><th scope="col">recipe</th>{head}</tr></thead>
<tbody>{rows}</tbody></table></div>"""


def draw_cell(losses: Mapping[str, float | None], rate: str, lines: Mapping[str, float]) -> str:
    """Draw a loss; lower losses have deeper colours."""
    if rate not in losses:
        return CELL.format(kind="untried", depth=0, text="–")
    if (loss := losses[rate]) is None:
        return CELL.format(
            kind="lost", depth=40, text='<span role="img" aria-label="diverged">×</span>'
        )
    kind = judge_loss(loss, lines)
    depth = {"lost": 40, "mumbles": 30, "speaks": 45 - 60 * (loss - 1.35)}[kind]
    return CELL.format(kind=kind, depth=max(depth, 12), text=f"{loss:.2f}")


def judge_loss(loss: float | None, lines: Mapping[str, float]) -> str:
    """Classify a model: it speaks (beats trigram counts), mumbles, or is lost."""
    if loss is None or loss > lines["letter frequencies"] - LOST:
        return "lost"
    return "speaks" if loss < lines["trigram counts"] else "mumbles"


def say_map(data: Json) -> str:
    """Describe the map in words, with its own numbers."""
    recipes, high, best = [*data["recipes"].values()], str(data["rates"][-1]), "0.01"

    def speaking(rows: list[Json], rate: str) -> int:
        return sum(judge_loss(row["losses"][rate], data["lines"]) == "speaks" for row in rows)

    on = [row for row in recipes if row["stream"]]
    off = [row for row in recipes if not row["stream"]]
    first = 0
    while recipes[first]["held"]:
        first += 1
    return (
        f"<b>Every learning rate.</b> A row is a recipe for placing norms, and a column is a "
        f"learning rate. The loss is the cross-entropy in nats (natural logarithm): lower is "
        f"better. Blue cells have a lower loss than a table of trigram counts "
        f"({data['lines']['trigram counts']:.2f} nats), orange cells a higher one, and red cells "
        f"are no better than letter frequencies ({data['lines']['letter frequencies']:.2f}). At "
        f"{best}, {speaking(recipes, best)} of {len(recipes)} recipes are blue. At ten times that "
        f"rate, {speaking(recipes, high)} are: {speaking(off, high)} of the {len(off)} without a "
        f"norm on the residual stream, and {speaking(on, high)} of the {len(on)} with one. In "
        f"that column, the {first} lowest losses belong to recipes that keep attention’s logits "
        f"bounded. A cell is one run or the mean of three (each text above is from one run), so "
        f"this map is a first look."
    )
