"""Texts of trained models at several of the ladder's losses, recorded by the probe `voice`.

    compare_texts(lab, rung, {name: (recipe, rate)})   a chapter's table: name, loss, text
    describe_voices(read)                              the models of the cover, as plain values

The runs are those of the ladder's first tuning seed with an additional probe, so they train in the
same way.
"""

import re
from collections.abc import Mapping
from typing import Any

from labkit.experiments import Experiment, Lab, ladder
from labkit.experiments.ladder.rates import Read
from labkit.experiments.run import Run
from labkit.placements import RECIPES
from labkit.placements.names import NAMES
from labkit.placements.slots import read_slots
from labkit.plots.tables import Table
from labkit.probes.voice import BEGINNING, LAST, STEPS

RUNG = "S"
PROBES = ("validation", "test", "voice")
# The models of the cover, in the order in which their texts stand there.
SPEAKERS = {
    "no norms": ("none", 0.01),
    "too fast": ("pre", 0.1),
    "stuck": ("post", 0.0316),
    "best": ("pre", 0.01),
}
RATES = (0.001, 0.00316, 0.00562, 0.01, 0.0178, 0.0316, 0.1)  # the map's columns
# What slots do not say: Mix-LN's first blocks are Post-Norm's, and all of nGPT's vectors are units.
ON_STREAM, HELD = ("mix-ln", "ngpt"), ("ngpt",)


def build_voice_run(rung: str, recipe: str, rate: float) -> Run:
    """Build the run of a recipe of the ladder with the probe `voice`."""
    base = ladder.build_base_run(rung, recipe)
    return ladder.configure_run(base, rate, ladder.TUNING_SEED, PROBES)


def compare_texts(lab: Lab, rung: str, speakers: Mapping[str, tuple[str, float]]) -> Table:
    """Show trained models' texts, each next to its loss: {name: (recipe, learning rate)}."""
    rows = []
    for name, (recipe, rate) in speakers.items():
        ((_, record),) = lab.run(Experiment(build_voice_run(rung, recipe, rate), {}))
        loss = record.probes["validation"]["loss"]
        rows.append(
            {
                "model": name,
                "loss (nats)": "diverged" if loss is None else f"{loss:.2f}",
                f"“{BEGINNING} …”": f"…{quote_text(record.probes['voice'][LAST])}",
            }
        )
    return Table(rows)


def quote_text(text: str) -> str:
    """Quote a model's text so that Markdown shows every character of it."""
    return re.sub(r"[^\w\s.,;:]|_", lambda found: f"&#{ord(found[0])};", text)


def describe_voices(read: Read) -> dict[str, Any]:
    """Return the cover's models, with their losses and their texts by step.

    Raises:
        ValueError: one of their runs has no record.
    """
    voices = {}
    for name, (recipe, rate) in SPEAKERS.items():
        record = read(build_voice_run(RUNG, recipe, rate))
        if record is None:
            raise ValueError(
                f"the cover needs the text of {recipe} at the learning rate {rate}, but that run "
                "has no record; train it with: make runs"
            )
        said = record.probes["voice"]
        voices[name] = {
            "recipe": NAMES[recipe],
            "rate": rate,
            "loss": record.probes["validation"]["loss"],
            "said": [said[str(step)] for step in STEPS] + [said[LAST]],
        }
    size = ladder.RUNGS[RUNG]
    model = ladder.build_base_run(RUNG, "pre").model.build()
    return {
        "beginning": BEGINNING,
        "steps": [*STEPS, size.steps],
        "blocks": size.depth,
        "width": size.dim,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "read": size.steps * size.batch * size.time,
        "voices": voices,
    }


def describe_map(rung: Mapping[str, Any]) -> dict[str, Any]:
    """Return each recipe's losses at RATES, sorted by the loss at the highest rate.

    `rung` is `labkit.leaderboard.explorer.describe_rung`'s. A loss is the mean over the seeds that
    tried a rate, None if one of them diverged; untried rates are missing. `stream`: a norm is on
    the stream. `held`: norms on queries and keys, or a cap, bound attention's logits.
    """
    rows = {}
    for recipe, described in rung["recipes"].items():
        slots = read_slots(RECIPES[recipe])
        capped = recipe in HELD or RECIPES[recipe].softcap is not None
        rows[recipe] = {
            "name": NAMES[recipe],
            "stream": recipe in ON_STREAM or bool({"middle", "end"} & {*slots}),
            "held": capped or {"q", "k"} <= {*slots},
            "losses": {rate: loss for rate, loss, *_ in described["tried"] if rate in RATES},
        }

    def place(recipe: str) -> float:
        loss = rows[recipe]["losses"][RATES[-1]]
        return float("inf") if loss is None else loss

    return {
        "rates": RATES,
        "lines": rung["lines"],
        "recipes": {recipe: rows[recipe] for recipe in sorted(rows, key=place)},
    }
