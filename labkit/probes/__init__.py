"""What to measure while a model trains, or once it has: observers by name.

look.py         look at a model and leave it as found; what its layers put out
evaluate.py     loss and accuracy
gradients.py    sizes of gradients
trained.py      functions of a trained transformer and one held-out batch
fluctuation.py  how much the statistics of batches scatter
updates.py      how far steps of training move what a model computes

`PROBES` maps a name to a way to make the observer from the corpus, so that a run can name what
it wants measured. Every result is plain numbers in lists and dicts.
"""

from collections.abc import Callable

from labkit.corpora import Corpus
from labkit.probes.evaluate import Evaluate
from labkit.probes.fluctuation import Fluctuation, mean_fluctuation
from labkit.probes.gradients import GradientNorms
from labkit.probes.look import outputs_of, residual_streams, untouched
from labkit.probes.trained import (
    TRAINED,
    OnTrained,
    layer_cosine,
    leakage,
    removal_cost,
    residual_rms,
)
from labkit.probes.updates import Drift, StepResponse, final_stream, step_response
from labkit.training import Observer

PROBES: dict[str, Callable[[Corpus], Observer]] = {
    "validation": lambda corpus: Evaluate("validation", corpus.held_out["validation"]),
    "test": lambda corpus: Evaluate("test", corpus.held_out["test"]),
    "test-batch-statistics": lambda corpus: Evaluate(
        "test-batch-statistics", corpus.held_out["test"], batch_statistics=True
    ),
    "gradient-at-start": lambda corpus: GradientNorms("gradient-at-start", (0,)),
    "fluctuation": Fluctuation,
    "step-response": lambda corpus: StepResponse("step-response", corpus.held_out["validation"][0]),
    "drift": lambda corpus: Drift(
        "drift", corpus.held_out["validation"][0], (1, 2, 4, 8, 16, 32, 64, 128)
    ),
    **{
        name: lambda corpus, name=name, measure=measure: OnTrained(
            name, corpus.held_out["test"][0], measure
        )
        for name, measure in TRAINED.items()
    },
}


def make_probe(name: str, corpus: Corpus) -> Observer:
    """Make the observer called `name` for a corpus."""
    if name not in PROBES:
        raise ValueError(f"unknown probe {name!r}; choose one of {', '.join(PROBES)}")
    return PROBES[name](corpus)


__all__ = [
    "PROBES",
    "Drift",
    "Evaluate",
    "Fluctuation",
    "GradientNorms",
    "OnTrained",
    "StepResponse",
    "final_stream",
    "layer_cosine",
    "leakage",
    "make_probe",
    "mean_fluctuation",
    "outputs_of",
    "removal_cost",
    "residual_rms",
    "residual_streams",
    "step_response",
    "untouched",
]
