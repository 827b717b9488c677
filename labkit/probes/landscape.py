"""Smoothness of the loss: loss and gradient along a gradient step, and shifts of inputs.

All three probes use one fixed batch of an image classifier, in training mode, at chosen steps.

landscape       L(θ − ηg) and ‖g(θ − ηg) − g‖ / ‖g‖ for several η, g = ∇L(θ)
gradient-shift  ‖G' − G‖ / ‖G‖ for each matrix: G its gradient, G' the same once all parameters
                before it have made their step. Both: Santurkar et al. 2018, arXiv 1805.11604
input-shift     change of the mean and deviation of each ReLU's input in one step, in
                units of that deviation: root mean square over units
"""

from collections.abc import Callable
from contextlib import ExitStack

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from labkit.corpora import Corpus
from labkit.corpora.base import Batch
from labkit.probes.look import Watcher, join_batches
from labkit.training import Observer

Weights = dict[str, Tensor]
STEPS = tuple(range(20, 400, 40))  # steps of the measurements
RATES = tuple(0.025 * 2**i for i in range(6))  # step sizes along the gradient: 0.025 … 0.8


def compute_gradient(model: nn.Module, weights: Weights, batch: Batch) -> tuple[float, Weights]:
    """Return loss and gradient at weights other than the model's own, which do not change."""
    at = {name: value.detach().clone().requires_grad_() for name, value in weights.items()}
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the same noise, where a layer draws some
        logits = functional_call(model, {**at, **buffers}, (batch[0],))
    loss = F.cross_entropy(logits.flatten(0, -2), batch[1].flatten())
    found = torch.autograd.grad(loss, list(at.values()))
    return loss.item(), dict(zip(at, found, strict=True))


def measure_length(parts: Weights) -> float:
    """Return the length of a gradient given as several tensors."""
    return sum(part.double().square().sum().item() for part in parts.values()) ** 0.5


def measure_distance(a: Weights, b: Weights) -> float:
    """Return the length of a − b."""
    return measure_length({name: a[name] - b[name] for name in a})


def copy_weights(model: nn.Module) -> Weights:
    """Copy the model's weights."""
    return {name: value.detach().clone() for name, value in model.named_parameters()}


class Landscape(Watcher):
    """Loss and change of the gradient along the gradient, by step: {"step": {"loss": …}}."""

    def after_backward(self, step: int, model: nn.Module) -> None:
        """Measure along the gradient from the current weights."""
        if step not in self.steps:
            return
        here = copy_weights(model)
        loss, g = compute_gradient(model, here, self.batch)
        losses, changes = [loss], []
        for rate in RATES:
            there = {name: value - rate * g[name] for name, value in here.items()}
            loss, moved = compute_gradient(model, there, self.batch)
            losses.append(loss)
            changes.append(measure_distance(moved, g) / max(measure_length(g), 1e-30))
        self.seen[str(step)] = {
            "rates": [0.0, *RATES], "loss": losses, "change": changes,
        }  # fmt: skip


class GradientShift(Watcher):
    """Change of a matrix's gradient by the step of the parameters before it: {"step": [...]}."""

    before: Weights

    def after_backward(self, step: int, model: nn.Module) -> None:
        """Store the weights before a chosen step, and compare after it."""
        if step - 1 in self.steps:
            self.seen[str(step - 1)] = self._compare_gradients(model, copy_weights(model))
        if step in self.steps:
            self.before = copy_weights(model)

    def _compare_gradients(self, model: nn.Module, after: Weights) -> list[float]:
        g = compute_gradient(model, self.before, self.batch)[1]
        mixed, shifts = dict(self.before), []
        for i, name in enumerate(self.before):
            if i and g[name].ndim == 2:  # nothing lies before the first matrix
                moved = compute_gradient(model, mixed, self.batch)[1][name]
                shifts.append(((moved - g[name]).norm() / g[name].norm().clamp(min=1e-30)).item())
            mixed[name] = after[name]
        return shifts


class InputShift(Watcher):
    """Shift of the distribution of each ReLU's input in one step: {"step": [...]}."""

    before: list[tuple[Tensor, Tensor]]

    def after_backward(self, step: int, model: nn.Module) -> None:
        """Measure the distributions at a chosen step and at the next."""
        now = self._collect_distributions(model, step) if {step, step - 1} & set(self.steps) else []
        if step - 1 in self.steps:
            self.seen[str(step - 1)] = [
                (((m - m0) ** 2 + (s - s0) ** 2) / s0.clamp(min=1e-6) ** 2).mean().sqrt().item()
                for (m0, s0), (m, s) in zip(self.before, now, strict=True)
            ]
        if step in self.steps:
            self.before = now

    def _collect_distributions(self, model: nn.Module, step: int) -> list[tuple[Tensor, Tensor]]:
        seen: list[tuple[Tensor, Tensor]] = []

        def keep_moments(layer: nn.Module, args: tuple[Tensor, ...]) -> None:
            seen.append((args[0].mean(dim=0), args[0].std(dim=0)))

        rectifiers = [part for part in model.modules() if isinstance(part, nn.ReLU)]
        buffers = {name: value.clone() for name, value in model.named_buffers()}
        weights = dict(model.named_parameters())
        with torch.no_grad(), torch.random.fork_rng(devices=[]), ExitStack() as hooks:
            torch.manual_seed(step)  # other noise at every step, as in training
            for layer in rectifiers:
                hooks.enter_context(layer.register_forward_pre_hook(keep_moments))
            functional_call(model, {**weights, **buffers}, (self.batch[0],))
        return seen


def make_on_held_out(name: str, kind: type[Watcher]) -> Callable[[Corpus], Observer]:
    """Return a function that makes one of the three probes, on all held-out images as one batch."""
    return lambda corpus: kind(name, STEPS, join_batches(corpus.held_out["validation"]))


PROBES = {
    name: make_on_held_out(name, kind)
    for name, kind in {
        "landscape": Landscape,
        "gradient-shift": GradientShift,
        "input-shift": InputShift,
    }.items()
}
