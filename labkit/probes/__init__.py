"""What to measure while a model trains, or once it has: observers by name.

look.py         look at a model and leave it as found; what its layers put out
trained.py      loss and accuracy; functions of a trained transformer and one held-out batch
gradients.py    sizes of gradients, by layer and step
fluctuation.py  how much the statistics of batches scatter
landscape.py    what a step along the gradient meets, and how inputs shift
norm_maps.py    what norms do to the numbers that enter them
attention.py    how sharp attention is: logits, entropy, maps
updates.py      how far steps of training move what a model computes
weights.py      condition numbers and lengths of trained weights, nGPT's learned scales
tokens.py       how different tokens still are, by layer and step
timing.py       what a step costs beside another recipe's; what folding norms away saves
diagnosis.py    from symptoms to causes: which of the book's troubles does a run have?

`PROBES` maps a name to a way to make the observer from the corpus, so that a run can name what
it wants measured. Every result is plain numbers in lists and dicts.
"""

from collections.abc import Callable

import torch

from labkit.corpora import Corpus
from labkit.corpora.base import Batch
from labkit.probes.attention import (
    AttentionMaps,
    SharpnessBySteps,
    attention_sharpness,
    sharpness,
)
from labkit.probes.fluctuation import Fluctuation
from labkit.probes.gradients import GradientNorms, GradientProfile
from labkit.probes.landscape import STEPS, GradientShift, InputShift, Landscape
from labkit.probes.look import residual_streams
from labkit.probes.norm_maps import NormMaps
from labkit.probes.timing import Folding, Pace
from labkit.probes.tokens import TokenShare
from labkit.probes.trained import (
    Evaluate,
    OnTrained,
    activation_extremes,
    layer_cosine,
    mean_share,
    measure_leakage,
    removal_cost,
    residual_rms,
)
from labkit.probes.updates import StepResponse, step_response
from labkit.probes.weights import lengths, measure_weights, sphere_scales
from labkit.system.unknown import explain_unknown
from labkit.training import Observer

# The first steps of a run, one by one; then fewer.
EARLY = (*range(11), *range(12, 21, 2), 24, 28, 32, 40, 50, 60, 80, 100, 120, 140)

PROBES: dict[str, Callable[[Corpus], Observer]] = {
    "validation": lambda corpus: Evaluate("validation", corpus.held_out["validation"]),
    "test": lambda corpus: Evaluate("test", corpus.held_out["test"]),
    "test-batch-statistics": lambda corpus: Evaluate(
        "test-batch-statistics", corpus.held_out["test"], batch_statistics=True
    ),
    "gradient-at-start": lambda corpus: GradientNorms("gradient-at-start", (0,)),
    "gradient-by-steps": lambda corpus: GradientNorms("gradient-by-steps", EARLY),
    "token-share": lambda corpus: TokenShare(
        "token-share", EARLY, corpus.held_out["validation"][0]
    ),
    "gradient-profile": lambda corpus: GradientProfile("gradient-profile", (1, 2, 5, 20, 100)),
    "fluctuation": Fluctuation,
    "step-response": lambda corpus: StepResponse(
        "step-response", batch=corpus.held_out["validation"][0]
    ),
    **{
        name: lambda corpus, name=name, kind=kind: kind(
            name, STEPS, _join_batches(corpus.held_out["validation"])
        )
        for name, kind in {
            "landscape": Landscape,
            "gradient-shift": GradientShift,
            "input-shift": InputShift,
        }.items()
    },
    **{
        name: lambda corpus, name=name, measure=measure: OnTrained(
            name, corpus.held_out["test"][0], measure
        )
        for name, measure in {
            "residual-rms": residual_rms,
            "layer-cosine": layer_cosine,
            "removal-cost": removal_cost,
            "activation-extremes": activation_extremes,
            "leakage": measure_leakage,
            "attention": attention_sharpness,
            "mean-share": mean_share,
            "weights": measure_weights,
            "sphere-scales": sphere_scales,
        }.items()
    },
    "norm-maps": lambda corpus: NormMaps(corpus.held_out["test"][0]),
    "folding": lambda corpus: Folding(_join_batches(corpus.held_out["test"])),
    "pace": lambda corpus: Pace(next(corpus.train(0))),
    "attention-by-steps": lambda corpus: SharpnessBySteps(corpus.held_out["test"][0]),
    "attention-maps": lambda corpus: AttentionMaps(corpus.held_out["test"][0]),
}


def _join_batches(batches: list[Batch]) -> Batch:
    return torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])


def make_probe(name: str, corpus: Corpus) -> Observer:
    """Make the observer called `name` for a corpus."""
    if name not in PROBES:
        raise ValueError(explain_unknown("probe", name, PROBES))
    return PROBES[name](corpus)


__all__ = [
    "PROBES",
    "Evaluate",
    "lengths",
    "make_probe",
    "residual_streams",
    "sharpness",
    "step_response",
]
