"""Probes by name: measurements during training, or of the trained model.

look.py         look at a model and leave it as found; what its layers put out
trained.py      loss and accuracy; functions of a trained transformer and one held-out batch
whole_set.py    loss and accuracy of the training set, too, with its own statistics
gradients.py    sizes of gradients, by layer and step
fluctuation.py  how much the statistics of batches scatter
landscape.py    what a step along the gradient meets, and how inputs shift
norm_maps.py    what norms do to the numbers that enter them
attention.py    how sharp attention is: logits, entropy, maps
updates.py      how far steps of training move what a model computes
weights.py      condition numbers and lengths of trained weights, nGPT's learned scales
tokens.py       how different tokens still are, by layer and step
early.py        answers read off the stream before its end
voice.py        what a model of text writes while it trains
timing.py       what a step costs beside another recipe's; what folding norms away saves
diagnosis.py    from symptoms to causes: which of the book's troubles does a run have?

A run names what it wants measured. `PROBES` says which module has the observer of that name, and
the module's own `PROBES` makes it from a corpus. A module is imported when one of its observers is
made: who measures nothing needs none of them. Every result is plain numbers in lists and dicts.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from labkit.system.unknown import explain_unknown

if TYPE_CHECKING:
    from labkit.corpora import Corpus
    from labkit.training import Observer

__all__ = ["PROBES", "make_probe", "name_module"]

PROBES: dict[str, str] = {
    "validation": "trained",
    "test": "trained",
    "test-batch-statistics": "trained",
    "contrast": "trained",
    "whole-set": "whole_set",
    "residual-rms": "trained",
    "layer-cosine": "trained",
    "removal-cost": "trained",
    "activation-extremes": "trained",
    "largest-output": "trained",
    "leakage": "trained",
    "mean-share": "trained",
    "gradient-at-start": "gradients",
    "gradient-by-steps": "gradients",
    "gradient-profile": "gradients",
    "gradient-extremes": "gradients",
    "token-share": "tokens",
    "fluctuation": "fluctuation",
    "step-response": "updates",
    "landscape": "landscape",
    "gradient-shift": "landscape",
    "input-shift": "landscape",
    "attention": "attention",
    "attention-by-steps": "attention",
    "attention-maps": "attention",
    "weights": "weights",
    "sphere-scales": "weights",
    "norm-maps": "norm_maps",
    "early-judged": "early",
    "voice": "voice",
    "folding": "timing",
    "pace": "timing",
}


def make_probe(name: str, corpus: "Corpus") -> "Observer":
    """Make the observer called `name` for a corpus."""
    if name not in PROBES:
        raise ValueError(explain_unknown("probe", name, PROBES))
    return import_module(name_module(name)).PROBES[name](corpus)


def name_module(name: str) -> str:
    """Name the module that has the observer called `name`."""
    return f"{__name__}.{PROBES[name]}"
