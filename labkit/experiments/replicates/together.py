"""The training loop for several models at once: the records that each alone would leave.

It follows `labkit.training.train` line by line: the same order of observers and of a model's own
hooks, the same stop before the backward pass of a loss that is not finite. Sums run in another
order, so that numbers differ by rounding, which training lets grow.

`seconds` and `cpu_seconds` of the loop are shared out among the records by their steps: they add
up to what all took together. A record's provenance says how many those were (`together`), and
whether their steps were CUDA graphs (`graphs`).
"""

import time
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from labkit.experiments.replicates.alike import structure
from labkit.experiments.replicates.graph import Captured
from labkit.experiments.replicates.optimizer import TOGETHER
from labkit.experiments.replicates.stack import NotTogether, Stack
from labkit.experiments.replicates.step import Batch, Step
from labkit.experiments.run import CPU, Run, execute, gpu
from labkit.probes import make_probe
from labkit.provenance import provenance
from labkit.training import Observer, Record, TrainConfig, _checked

LOOK_EVERY = 50  # steps between two looks whether any row goes on; a look waits for the GPU


def execute_together(runs: Sequence[Run], device: str = CPU) -> list[Record]:
    """Train runs of one structure as one batched model; one record a run, in order.

    Where the model cannot be batched they train one after another, as `execute` does it, and
    their provenance says why (`alone`). Where memory ends they train in halves.
    """
    if len({structure(run) for run in runs}) > 1:
        raise ValueError(
            "runs train together when they differ only in seeds, first values and the optimizer's "
            f"numbers; got {runs[0]} and others; `tasks` groups them"
        )
    records = _in_parts(runs, device)
    for run, record in zip(runs, records, strict=True):
        record.provenance["seed"] = run.seed
    return records


def _in_parts(runs: Sequence[Run], device: str) -> list[Record]:
    if len(runs) < 2:
        return [execute(run, device=device) for run in runs]
    refusal = None
    try:
        return _together(runs, device)
    except NotTogether as error:
        refusal = str(error)
    except torch.OutOfMemoryError:
        pass
    # Not within `except`: there the error holds the frames, and so the tensors, of what failed.
    if refusal is None:
        half = len(runs) // 2
        return [*_in_parts(runs[:half], device), *_in_parts(runs[half:], device)]
    records = [execute(run, device=device) for run in runs]
    for record in records:
        record.provenance["alone"] = refusal
    return records


def _together(runs: Sequence[Run], device: str) -> list[Record]:
    if device not in (CPU, gpu()):
        raise ValueError(f"these runs train on {device!r}, but torch sees {gpu()!r} here")
    models = []
    for run in runs:
        torch.manual_seed(run.seed)
        models.append(run.model.build().to(CPU if device == CPU else "cuda"))
    corpus = runs[0].data.load()
    streams = [corpus.train(run.seed) for run in runs]
    seen = corpus if device == CPU else corpus.to("cuda")
    observers = [[make_probe(name, seen) for name in run.probes] for run in runs]
    return train_together(models, streams, [run.train for run in runs], observers)


def train_together(
    models: Sequence[nn.Module],
    streams: Sequence[Iterable[Batch]],
    configs: Sequence[TrainConfig],
    observers: Sequence[Sequence[Observer]],
) -> list[Record]:
    """Train models of one structure in place, each on its own batches; one record a model.

    The configs may differ in all numbers, not in `steps` or `optimizer`. NotTogether where these
    models cannot be one batched model, before any step; later, where a batch is unlike the first.
    """
    if len({structure(config) for config in configs}) > 1:
        raise NotTogether("the optimizers are two kinds, or train for different steps")
    if configs[0].optimizer not in TOGETHER:
        raise NotTogether(f"{configs[0].optimizer} is not among the batched optimizers")
    records = [
        _record(model, config, len(models)) for model, config in zip(models, configs, strict=True)
    ]
    for model, watching in zip(models, observers, strict=True):
        for observer in watching:
            observer.start(model)
        model.train()
    batches = [_checked(stream) for stream in streams]
    wall, cpu = time.perf_counter(), time.process_time()
    step, history, graphs = _train(models, batches, configs, observers)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    taken = [_finish(record, losses) for record, losses in zip(records, history.T, strict=True)]
    for row, (record, model) in enumerate(zip(records, models, strict=True)):
        record.provenance["graphs"] = graphs
        share = taken[row] / sum(taken)
        record.seconds = wall * share
        predictions = len(record.losses) * step.targets[row].numel()
        record.predictions_per_second = predictions / max(record.seconds, 1e-9)
        if record.diverged_at is not None:
            model.zero_grad(set_to_none=True)
        began = time.process_time()
        for observer in observers[row]:
            record.probes[observer.name] = observer.result(model)
        record.cpu_seconds = cpu * share + time.process_time() - began
    return records


def _record(model: nn.Module, config: TrainConfig, rows: int) -> Record:
    origin = provenance(model) | {"norms": "formulas", "together": rows}
    return Record(losses=[], steps=config.steps, provenance=origin)


def _train(
    models: Sequence[nn.Module],
    streams: Sequence[Iterator[Batch]],
    configs: Sequence[TrainConfig],
    observers: Sequence[Sequence[Observer]],
) -> tuple[Step, Tensor, str]:
    """Make all steps; give every loss, (steps, N), and what became of the CUDA graphs.

    Losses of rows that had stopped are among them.
    """
    batches = [next(stream) for stream in streams]
    for model, (inputs, _) in zip(models, batches, strict=True):
        if (prepare := getattr(model, "before_training", None)) is not None:
            place = next(model.parameters()).device
            parts = inputs if isinstance(inputs, tuple) else (inputs,)
            prepare(*(None if part is None else part.to(place) for part in parts))
    decays = [
        config.weight_decay if getattr(model, "weight_decay_allowed", lambda: True)() else 0.0
        for model, config in zip(models, configs, strict=True)
    ]
    step = Step(Stack(models), configs, decays, batches)
    device = step.losses.device
    look, move = Captured(step.look, device), Captured(step.move, device)
    watching = [[one for one in group if _watches(one)] for group in observers]
    history = step.losses.new_full((configs[0].steps, len(models)), torch.nan)
    for i in range(configs[0].steps):
        step.put(i, batches if i == 0 else [next(stream) for stream in streams])
        look()
        history[i] = step.losses
        if any(watching):
            for row, alive in enumerate(step.alive.tolist()):
                for observer in watching[row] if alive else ():
                    observer.after_backward(i, models[row])
        move()
        if i % LOOK_EVERY == 0 and not step.alive.any():
            break
    graphs = str(look if look.graph is None else move)
    return step, history.cpu(), graphs  # waits for the GPU


def _watches(observer: Observer) -> bool:
    return type(observer).after_backward is not Observer.after_backward


def _finish(record: Record, losses: Tensor) -> int:
    """Cut a row's losses where it stopped; give the steps that it took, the last one included."""
    steps = int(losses.isfinite().long().cumprod(dim=0).sum())
    record.losses = losses[:steps].tolist()
    record.diverged_at = steps if steps < len(losses) else None
    return min(steps + 1, len(losses))
