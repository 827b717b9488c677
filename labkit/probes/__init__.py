"""Probes by name: measurements during training, or of the trained model.

look.py         observe a model without changing it; outputs of its layers
trained.py      loss and accuracy; functions of a trained transformer and one held-out batch
whole_set.py    loss and accuracy of the training set, too, with its own statistics
gradients.py    norms of gradients, by layer and step
fluctuation.py  fluctuation of batch statistics
landscape.py    loss and gradient along a gradient step, and shifts of inputs
norm_maps.py    the maps from norms' inputs to their outputs
attention.py    sharpness of attention: logits, entropy, maps
updates.py      change of a model's outputs by a training step
weights.py      condition numbers and lengths of trained weights, nGPT's learned scales
tokens.py       differences between tokens, by layer and step
early.py        early readout of the stream (logit lens)
voice.py        a text model's own text during training
timing.py       step times of two recipes; a copy with folded norms
diagnosis.py    from symptoms to causes: the book's training problems in a run

A run lists the names of its probes. `PROBES` maps a name to the module with that observer, and the
module's own `PROBES` makes it from a corpus. A module is imported when one of its observers is
made, so a run without probes imports none. Every result is plain numbers in lists and dicts.
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
    "pace": "timing",
}


def make_probe(name: str, corpus: "Corpus") -> "Observer":
    """Make the observer called `name` for a corpus."""
    if name not in PROBES:
        raise ValueError(explain_unknown("probe", name, PROBES))
    return import_module(name_module(name)).PROBES[name](corpus)


def name_module(name: str) -> str:
    """Return the name of the module with the observer called `name`."""
    return f"{__name__}.{PROBES[name]}"
