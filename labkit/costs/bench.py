"""Time labkit beside plain PyTorch, in one process, turn about: `labkit bench norms|training`.

norms       ratio = rival's time / labkit's time                    (above 1: labkit is faster)
training    ratio = time of labkit.train / time of the other        (above 1: the other is faster)
            a loop by hand

A norm that PyTorch does not have is held against its own formula, one operation after another.

What is compared runs one after the other, in alternating order, so that a busy machine slows
all of it. These are programs to look at, not tests: no number here makes a build fail.
"""

import copy
import inspect
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from timeit import timeit
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.model import ModelConfig
from labkit.norms import NORMS, PowerNorm, facts, layer_norm, make_norm
from labkit.norms.power_norm import group_scaled
from labkit.training import Batch, TrainConfig, train

SIZES = ((64, 128), (4096, 1024))
LARGE = (16384, 4096)
# PyTorch's own module of the same norm, where it has one.
TORCH: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm1d,
    "layer": nn.LayerNorm,
    "rms": nn.RMSNorm,
    "instance": nn.InstanceNorm1d,
    "group": lambda dim: nn.GroupNorm(8, dim),
    "none": nn.Identity,
}
POSITIONS = 16  # of each sample, where a norm averages over positions


def paired(
    ours: Callable[[], object], theirs: Callable[[], object], turns: int, inner: int = 1
) -> list[tuple[float, float]]:
    """Time both turn about, `inner` calls at a time: seconds per call, (ours, theirs)."""
    timers = [partial(timeit, call, number=inner) for call in (ours, theirs)]
    return [(a / inner, b / inner) for a, b in zip(*take_turns(timers, turns), strict=True)]


def take_turns(timers: Sequence[Callable[[], float]], turns: int) -> list[list[float]]:
    """Call all in alternating order and list what each returned; a first turn warms up."""
    took: list[tuple[Callable[[], float], list[float]]] = [(timer, []) for timer in timers]
    for turn in range(turns + 1):
        for timer, seconds in reversed(took) if turn % 2 else took:
            seconds.append(timer())
    return [seconds[1:] for _, seconds in took]


def compute_quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
    return low, middle, high


def format_row(
    name: str, pairs: list[tuple[float, float]], shown: Callable[[float], float], form: str
) -> str:
    """Write one line: median (quartiles) of both sides, and of the ratio pair by pair."""
    cells = []
    for side in (0, 1):
        low, middle, high = compute_quartiles([shown(pair[side]) for pair in pairs])
        cells.append(f"{middle:{form}} ({low:{form}}–{high:{form}})")
    low, middle, high = compute_quartiles([theirs / ours for ours, theirs in pairs])
    return f"{name:<28} {cells[0]:>24} {cells[1]:>24}   {middle:5.2f} ({low:.2f}–{high:.2f})"


def build_formula(name: str, norm: Any) -> Callable[[Tensor], Tensor]:
    """Return a module's formula as a function of its input, with the module's own parameters."""
    if name == "power":
        return lambda x: _power_steps(norm, x)
    if name == "prep-batch":
        layer, rep = norm.layer, build_formula("rep-batch", norm.rep)
        return lambda x: 0.5 * layer_norm(x, layer.weight, layer.bias) + 0.5 * rep(x)
    function = facts(name).function
    assert function is not None, f"{name} needs a function, or a line here"
    names = [key for key in inspect.signature(function).parameters if hasattr(norm, key)]
    return lambda x: function(x, **{key: getattr(norm, key) for key in names})


def _power_steps(norm: PowerNorm, x: Tensor) -> Tensor:
    """Take one warm-up call of PowerNorm, its own backward and running means included."""
    scaled = group_scaled(x, norm.groups, norm.eps)
    square = scaled.detach().square().mean(dim=0)
    z = scaled / (square + norm.eps).sqrt()

    def correct_gradient(g: Tensor) -> Tensor:
        g = g - (1 - norm.backward_decay) * norm.error * z.detach()
        norm.error.add_((g * z.detach()).mean(dim=0))
        return g

    if z.requires_grad:
        z.register_hook(correct_gradient)
    norm.calls += 1
    running = norm.running_square.lerp_(square, 1 / int(norm.calls))
    running.lerp_(square, 1 - norm.forward_decay)
    return norm.weight * z + norm.bias


def _forward_backward(
    call: Callable[[Tensor], Tensor], x: Tensor, top: Tensor, leaves: list[nn.Parameter]
) -> Callable[[], object]:
    def run_once() -> None:
        x.grad = None
        for leaf in leaves:
            leaf.grad = None
        call(x).backward(top)

    return run_once


def benchmark_norms(
    large: bool = False, turns: int = 25, sizes: Sequence[tuple[int, int]] = SIZES
) -> None:
    """Print milliseconds of forward and backward for each norm module, and for its rival."""
    print("norms: milliseconds, forward and backward, float32, median (quartiles)")
    print("rival: torch's module where there is one (marked torch), else the formula")
    print(f"{'':<28} {'labkit':>24} {'rival':>24}   ratio")
    for rows, dim in (*sizes, *([LARGE] if large else [])):
        few = rows * dim > 2**24
        inner = max(1, min(100, 2**22 // (rows * dim)))
        for name in NORMS:
            ours, shape = make_norm(name, dim), (rows, dim)
            if name == "instance":  # in torch's layout, since torch has no other
                ours, shape = NORMS[name](dim), (rows // POSITIONS, dim, POSITIONS)
            x, top = torch.randn(shape, requires_grad=True), torch.randn(shape)
            own = list(ours.parameters())
            if name in TORCH:
                rival = TORCH[name](dim)
                theirs = _forward_backward(rival, x, top, list(rival.parameters()))
            else:
                theirs = _forward_backward(build_formula(name, ours), x, top, own)
            calls = _forward_backward(ours, x, top, own), theirs
            pairs = paired(*calls, max(2, turns // 5) if few else turns, inner)
            label = f"{name} ({rows}, {dim}){' torch' if name in TORCH else ''}"
            print(format_row(label, pairs, lambda s: 1e3 * s, ".3f"), flush=True)


def loop_by_hand(model: nn.Module, batches: Iterable[Batch], config: TrainConfig) -> None:
    """Train as one would by hand."""
    optimizer = torch.optim.AdamW(model.parameters(), config.lr, config.betas, fused=True)
    model.train()
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


def benchmark_training(
    turns: int = 9,
    steps: int = 12,
    widths: Sequence[int] = (32, 64, 128, 256),
    depth: int = 6,
    batch: int = 16,
    context: int = 64,
) -> None:
    """Print what a step of labkit.train costs, and what it costs another loop, as ratios.

    Times are the processor's, which other programs on the machine spoil less than the clock's.
    """
    config = TrainConfig(steps=steps, lr=1e-3, schedule="constant")
    loops = (partial(train, progress=False), loop_by_hand)
    print(
        f"training: {depth} blocks, {batch} × {context} tokens, {steps} steps a turn, {turns} turns"
    )
    print("processor time, milliseconds a step; ratio labkit / other: min, median, max over turns")
    print(f"{'':<12} {'labkit':>8}{'by hand':>26}")
    for width in widths:
        start = ModelConfig(dim=width, depth=depth, context=context).build()
        tokens = torch.randint(start.config.vocab, (steps, 2, batch, context))
        drawn: list[Batch] = [(inputs, targets) for inputs, targets in tokens]
        timers = [partial(_time_loop, loop, start, drawn, config) for loop in loops]
        ours, theirs = np.array(take_turns(timers, turns))
        low, middle, high = np.quantile(ours / theirs, (0, 0.5, 1))
        spent = 1e3 * np.median(ours) / steps
        print(f"width {width:<6} {spent:8.1f} {low:10.2f} {middle:7.2f} {high:7.2f}", flush=True)


def _time_loop(
    loop: Callable[..., object], start: nn.Module, drawn: list[Batch], config: TrainConfig
) -> float:
    """Train a copy of the model and return the processor's seconds."""
    model = copy.deepcopy(start)
    began = time.process_time()
    loop(model, drawn, config)
    return time.process_time() - began
