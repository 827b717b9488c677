"""Time replicates that train together beside the same ones, one after another.

    labkit bench replicates            a Markdown table; on the GPU that torch sees, else here

    time    of one replicate's step: batches, loss, gradient, update; no probes, no set-up
            (together: one rehearsed step)
    ratio   one after another / together (above 1: together is faster), median over paired turns

Both sides run in one process, turn about. On a CPU they are timed in processor time, which other
programs on the machine spoil less; on a GPU in wall time. A program to look at, not a test.
"""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

import torch

from labkit.corpora import Text
from labkit.costs.bench import compute_quartiles, take_turns
from labkit.experiments.replicates.graphs import GraphStep
from labkit.experiments.replicates.groups import estimate_need
from labkit.experiments.replicates.stack import Stack
from labkit.experiments.replicates.step import Step
from labkit.experiments.run import CPU, Run
from labkit.model import ModelConfig
from labkit.system.share import limit_memory, read_fraction
from labkit.training import TrainConfig, train

# Widths, depths and windows that chapters train, the smallest to the largest of profile cpu.
SIZES = ((32, 4, 16, 32), (64, 4, 16, 32), (128, 6, 16, 64))
REPLICATES = (1, 4, 16, 64)
STEPS = 4  # of each training


def print_table(
    device: str,
    sizes: Sequence[tuple[int, int, int, int]] = SIZES,
    replicates: Sequence[int] = REPLICATES,
    turns: int = 5,
    steps: int = STEPS,
    recipe: str = "pre",
) -> None:
    """Print the table in Markdown, a line as soon as it is measured."""
    torch.set_num_threads(1)
    if device != CPU:
        limit_memory(read_fraction())
    clock = "processor time" if device == CPU else "wall time"
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"One replicate's step in milliseconds of {clock} (recipe {recipe}, {device}, torch")
    print(f"{torch.__version__}, {torch.get_num_threads()} threads, {steps} steps a turn,")
    print(f"{turns} turns; load of the machine {load}): median (quartiles).\n")
    print("| model | replicates | MB each | one after another | together | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for size in sizes:
        run = build_run(*size, steps, recipe)
        asked = estimate_need(run)
        if asked.reason:
            raise ValueError(f"models of recipe {recipe!r} train alone: {asked.reason}")
        for many in replicates:
            pairs = time_pairs(run, many, device, turns, Step if device == CPU else GraphStep)
            cells = [_format_cell([1e3 * pair[side] / steps for pair in pairs]) for side in (0, 1)]
            ratio = _format_cell([a / b for a, b in pairs])
            label = "dim {}, depth {}, batch {} × {}".format(*size)
            print(f"| {label} | {many} | {asked.each / 1e6:.1f} | {' | '.join(cells)} | {ratio} |")


def build_run(dim: int, depth: int, batch: int, time: int, steps: int, recipe: str) -> Run:
    """Build a run of a size: nothing but its steps."""
    model = ModelConfig(recipe, dim=dim, depth=depth, context=time)
    return Run(model, Text(batch=batch, time=time), TrainConfig(steps, clip=1.0), probes=())


def time_pairs(
    run: Run, many: int, device: str, turns: int, kind: type[Step] = Step
) -> list[tuple[float, float]]:
    """Time both sides turn about: seconds for all steps of one replicate."""
    steps, few = run.train.steps, min(many, 4)  # alone each costs the same: time some of them
    place = CPU if device == CPU else "cuda"
    corpus = run.data.load()
    drawn = [list(islice(corpus.train(seed), steps)) for seed in range(many)]
    models = [run.model.build().to(place) for _ in range(many + few)]
    rows = [[own[i] for own in drawn] for i in range(steps)]
    step = kind(Stack(models[few:]), [run.train] * many, [0.0] * many, rows[0])

    def step_together() -> None:
        for i, batches in enumerate(rows):
            step.place_batches(i, batches)
            step.compute_gradients()
            step.note_losses()
            step.update_models()

    def one_after_another() -> None:
        for model, own in zip(models[:few], drawn, strict=False):
            moved = ((x.to(place), y.to(place)) for x, y in own)
            train(model, moved, run.train, progress=False)

    timers = [partial(_time_call, call, device) for call in (one_after_another, step_together)]
    pairs = zip(*take_turns(timers, turns), strict=True)
    return [(alone / few, together / many) for alone, together in pairs]


def _time_call(call: Callable[[], None], device: str) -> float:
    clock = time.process_time if device == CPU else time.perf_counter
    wait = (lambda: None) if device == CPU else torch.cuda.synchronize
    wait()
    began = clock()
    call()
    wait()
    return clock() - began


def _format_cell(values: Sequence[float]) -> str:
    low, median, high = compute_quartiles(values)
    return f"{median:.2f} ({low:.2f}–{high:.2f})"
