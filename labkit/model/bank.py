"""Many small perceptrons at once: one tensor for a weight of all of them, each with its own rate.

    x ← act(N(x W + b)) for every layer but the last, whose x W + b are the logits
    W (models, in, out), b (models, 1, out), x (models, rows, in)

All models see all their rows in each step (no noise of sampling), under Adam with betas 0.9 and
0.99 and a rate that falls linearly to 0. A norm is a function of (models, rows, features), and must
not mix models. For demonstrations that take seconds; what is recorded is a Run. Source of the
optimizer: Kingma and Ba 2015, arXiv 1412.6980.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

Bank = list[tuple[Tensor, Tensor]]  # a weight and a bias for each layer
Norm = Callable[[Tensor], Tensor]
BETAS, EPS = (0.9, 0.99), 1e-8


def draw_bank(widths: Sequence[int], seeds: Sequence[int]) -> Bank:
    """Draw the models of these seeds: weights of variance 1 / inputs, biases 0.

    Raises:
        ValueError: there is no layer, or no seed.
    """
    if len(widths) < 2 or not seeds:
        raise ValueError(
            f"a bank needs inputs, outputs and seeds, got widths {list(widths)} and "
            f"{len(seeds)} seeds"
        )
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    return [
        (
            torch.stack([torch.randn(i, o, generator=g) for g in generators]) / i**0.5,
            torch.zeros(len(seeds), 1, o),
        )
        for i, o in pairwise(widths)
    ]


def run_bank(
    bank: Bank,
    x: Float[Tensor, "models rows inputs"],
    norm: Norm = lambda x: x,
    activation: Norm = lambda x: x,
) -> Float[Tensor, "models rows outputs"]:
    """Return the logits of each model."""
    for weight, bias in bank[:-1]:
        x = activation(norm(torch.baddbmm(bias, x, weight)))
    weight, bias = bank[-1]
    return torch.baddbmm(bias, x, weight)


def train_bank(
    bank: Bank,
    x: Float[Tensor, "models rows inputs"],
    classes: Int[Tensor, "models rows"],
    rates: Sequence[float],
    steps: int,
    norm: Norm = lambda x: x,
    activation: Norm = lambda x: x,
    shuffled: bool = False,
) -> Bank:
    """Train each model on all its rows at its own peak rate; return the trained bank.

    Where rows are `shuffled`, each step has them in a new order (by torch's random state), the
    same for all models: a norm that takes neighbours together has others each time.

    Raises:
        ValueError: there is not one rate for each model.
    """
    if len(rates) != len(bank[0][0]):
        raise ValueError(f"{len(bank[0][0])} models need a rate each, got {len(rates)} rates")
    parameters = [part.clone().requires_grad_() for layer in bank for part in layer]
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]
    rate = torch.tensor(rates).view(-1, 1, 1)
    trained = list(zip(parameters[::2], parameters[1::2], strict=True))
    for step in range(1, steps + 1):
        order = torch.randperm(x.shape[1]) if shuffled else slice(None)
        logits = run_bank(trained, x[:, order], norm, activation)
        # The sum over models, so that no model's gradient depends on how many there are.
        seen = classes[:, order].flatten()
        losses = F.cross_entropy(logits.flatten(0, 1), seen, reduction="sum")
        gradients = torch.autograd.grad(losses / x.shape[1], parameters)
        now = rate * (1 - (step - 1) / steps)
        with torch.no_grad():
            for p, g, (first, second) in zip(parameters, gradients, moments, strict=True):
                first.lerp_(g, 1 - BETAS[0])
                second.lerp_(g * g, 1 - BETAS[1])
                size = (second / (1 - BETAS[1] ** step)).sqrt() + EPS
                p -= now * first / (1 - BETAS[0] ** step) / size
    return [(weight.detach(), bias.detach()) for weight, bias in trained]


def judge_bank(
    logits: Float[Tensor, "models rows outputs"], classes: Int[Tensor, "models rows"]
) -> tuple[list[float], list[float]]:
    """Return each model's mean cross-entropy (nats), and the share of rows that it gets right."""
    losses = F.cross_entropy(logits.flatten(0, 1), classes.flatten(), reduction="none")
    right = (logits.argmax(dim=-1) == classes).float().mean(dim=1)
    return losses.view(classes.shape).mean(dim=1).tolist(), right.tolist()
