"""Train several models at once with labkit's loop; their records are as if trained separately.

Sums have a different order than in separate training, so results differ by rounding errors, which
training amplifies. A record's provenance has the number of models trained together (`together`)
and, on a GPU, whether CUDA graphs were used (`graphs`).
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import nn

from labkit.experiments.replicates.alike import NotTogether, describe_structure
from labkit.experiments.replicates.graphs import GraphStep
from labkit.experiments.replicates.stack import Stack
from labkit.experiments.replicates.step import Step
from labkit.experiments.run import CPU, Run, execute_run, find_device
from labkit.probes import make_probe
from labkit.training import (
    Batch,
    Observer,
    Record,
    TrainConfig,
    train_models,
    weight_decay_of,
)


def make_step_of(stack: Stack, *words) -> Step:
    """Make the step of a stack; on a GPU, one that replays CUDA graphs."""
    return (GraphStep if stack.weights.is_cuda else Step)(stack, *words)


def execute_together(runs: Sequence[Run], device: str = CPU) -> list[Record]:
    """Train runs of the same structure as one batched model; return one record per run, in order.

    If the model cannot be batched, they train one after another with `execute_run`, and their
    provenance has the reason (`alone`). If memory is insufficient, they train in halves.
    """
    if len({describe_structure(run) for run in runs}) > 1:
        raise ValueError(
            "runs can train together only if they differ in nothing but seeds, initial values "
            f"and the optimizer's numbers; got {runs[0]} and others; group them with `group_runs`"
        )
    records = _in_parts(runs, device)
    for run, record in zip(runs, records, strict=True):
        record.provenance["seed"] = run.seed
    return records


def _in_parts(runs: Sequence[Run], device: str) -> list[Record]:
    if len(runs) < 2:
        return [execute_run(run, device=device) for run in runs]
    refusal = None
    try:
        return _train_batched(runs, device)
    except NotTogether as error:
        refusal = str(error)
    except torch.OutOfMemoryError:
        pass
    # Not within `except`, where the error keeps the frames, and so the tensors, of the failed call.
    if refusal is None:
        half = len(runs) // 2
        parts = (runs[:half], runs[half:])
        return [record for part in parts for record in _in_parts(part, device)]
    records = [execute_run(run, device=device) for run in runs]
    for record in records:
        record.provenance["alone"] = refusal
    return records


def _train_batched(runs: Sequence[Run], device: str) -> list[Record]:
    place, models = find_device(device), []
    for run in runs:
        torch.manual_seed(run.seed)
        models.append(run.model.build().to(place))
    corpus = runs[0].data.load()
    streams = [corpus.train(run.seed) for run in runs]
    seen = corpus if place == CPU else corpus.to(place)
    observers = [[make_probe(name, seen) for name in run.probes] for run in runs]
    return train_together(models, streams, [run.train for run in runs], observers)


def train_together(
    models: Sequence[nn.Module],
    streams: Sequence[Iterable[Batch]],
    configs: Sequence[TrainConfig],
    observers: Sequence[Sequence[Observer]],
    make_step: Callable[..., Step] = make_step_of,
) -> list[Record]:
    """Train models of the same structure in place, each on its own batches; one record per model.

    The configs may differ in all numbers, but not in `steps` or `optimizer`. NotTogether is raised
    before any step if these models cannot be one batched model.
    """
    decays = [weight_decay_of(model, config) for model, config in zip(models, configs, strict=True)]
    made: list[Step] = []

    def make(first: Sequence[Batch]) -> Step:
        made.append(make_step(Stack(models), configs, decays, first))
        return made[0]

    origin = {"norms": "formulas", "together": len(models)}
    records = train_models(make, models, streams, configs, observers, origin)
    if isinstance(made[0], GraphStep):
        for record in records:
            record.provenance["graphs"] = made[0].reason or "captured"
    return records
