"""Placements with a constant or learned factor that keeps deep stacks stable.

DeepNorm          x ← N(α·x + f(x))           α > 1 from the depth, with small initial weights
Keel              x ← M(α·x + f(N(x)))        α = number of sublayers
Admin             x ← N(ω ⊙ x + f(x))         ω from one profiling pass, then learned
LayerNormScaling  x ← x + f(N(x) / sqrt(ℓ))   ℓ = number of the block, from 1
ResidualScale     x ← λ ⊙ x + f(N(x))         λ learned, starts at 1 (NormFormer's feed-forward)
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from labkit.placements.step import ALONE, MakeNorm, Map, Place, Step


class DeepNormConstants(NamedTuple):
    """α multiplies the skip; β is the Xavier gain for value, output and feed-forward matrices."""

    alpha: float
    beta: float


def deepnorm_constants(stack: str, encoder: int, decoder: int) -> DeepNormConstants:
    """Return DeepNorm's α and β for one stack, given the number of blocks in each stack.

    Encoder only, N blocks: α = (2N)^(1/4), β = (8N)^(−1/4); decoder only, the same with M. Both:
    encoder 0.81 (N⁴M)^(1/16) and 0.87 (N⁴M)^(−1/16); decoder (3M)^(1/4) and (12M)^(−1/4). Source:
    Wang et al. 2022, arXiv 2203.00555, the table next to its figure 2.
    """
    if stack not in ("encoder", "decoder") or not (encoder if stack == "encoder" else decoder) > 0:
        raise ValueError(
            "deepnorm_constants needs stack='encoder' or stack='decoder', and at least one block "
            f"in it; got stack={stack!r}, encoder={encoder}, decoder={decoder}"
        )
    if stack == "decoder" and encoder:
        return DeepNormConstants((3 * decoder) ** 0.25, (12 * decoder) ** -0.25)
    if stack == "encoder" and decoder:
        both = (encoder**4 * decoder) ** (1 / 16)
        return DeepNormConstants(0.81 * both, 0.87 / both)
    blocks = encoder or decoder
    return DeepNormConstants((2 * blocks) ** 0.25, (8 * blocks) ** -0.25)


class DeepNorm(Step):
    """x ← N(α·x + f(x)): the skip has a larger weight than the branch; α grows with the depth."""

    equation, symbols = "N(α * x + f(x))", {"α": "alpha"}

    def __init__(self, make_norm: MakeNorm, sublayer: nn.Module, place: Place = ALONE):
        super().__init__(make_norm, sublayer, place)
        self.alpha = deepnorm_constants(place.stack, place.encoder, place.decoder).alpha

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Scale the skip, not the branch."""
        return N(self.alpha * x + f(x))


class Keel(Step):
    """x ← M(α·x + f(N(x))): Post-Norm with a heavily weighted skip, and a norm inside the branch.

    α is the number of sublayers. The first feed-forward has α = 1; the recipe makes the first
    attention of the stack plain Pre-Norm. Source: arXiv 2601.19895.
    """

    norms, equation, symbols = ("norm", "norm_out"), "M(α * x + f(N(x)))", {"α": "alpha"}

    def __init__(self, make_norm: MakeNorm, sublayer: nn.Module, place: Place = ALONE):
        super().__init__(make_norm, sublayer, place)
        first = place.block == 0 and place.kind == "feed-forward"
        self.alpha = 1.0 if first else float(place.sublayers)

    def step(self, x: Tensor, f: Map, N: Map, M: Map) -> Tensor:
        """Scale the skip, and normalize inside the branch and after the sum."""
        return M(self.alpha * x + f(N(x)))


class Admin(Step):
    """x ← N(ω ⊙ x + f(x)): a learned factor per channel on the skip.

    ω starts at sqrt(1 + Σ_{j<i} Var f_j), measured at initialization by `profile_writes`; before
    that it is 1. Source: Liu et al. 2020, arXiv 2004.08249.
    """

    equation, symbols = "N(ω * x + f(x))", {"ω": "omega"}

    def __init__(self, make_norm: MakeNorm, sublayer: nn.Module, place: Place = ALONE):
        super().__init__(make_norm, sublayer, place)
        self.omega = nn.Parameter(torch.ones(place.dim))

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Scale each channel of the skip."""
        return N(self.omega * x + f(x))


@torch.no_grad()
def profile_writes(stacks: list[list[Admin]], run: Callable[[], object]) -> None:
    """Set ω of each stack's steps, in order, from the outputs of one forward pass `run()`.

    The pass uses ω = 1 in all stacks, like the paper's; Var f is over all entries of a sublayer's
    output.
    """
    variances: dict[Admin, float] = {}
    steps = [step for stack in stacks for step in stack]

    def record_variance(one: Admin, module: nn.Module, args: tuple, output: Tensor) -> None:
        variances[one] = output.double().var(correction=0).item()

    for one in steps:
        # Also if ω was set before: a second profile must give the same result as the first.
        one.omega.fill_(1.0)
    hooks = [one.sublayer.register_forward_hook(partial(record_variance, one)) for one in steps]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    for stack in stacks:
        # ω² is the variance of the step's input: 1, plus that of each write so far.
        total = 1.0
        for one in stack:
            one.omega.fill_(total**0.5)
            total += variances[one]


class LayerNormScaling(Step):
    """x ← x + f(N(x) / sqrt(ℓ)): Pre-Norm in which deeper blocks read smaller copies.

    ℓ is the number of the block, from 1, for both of its norms. Do not combine it with output
    weights that shrink with depth. Source: Sun et al. 2025, arXiv 2502.05795.
    """

    equation, symbols = "x + f(N(x) / ℓ**0.5)", {"ℓ": "number"}

    def __init__(self, make_norm: MakeNorm, sublayer: nn.Module, place: Place = ALONE):
        super().__init__(make_norm, sublayer, place)
        self.number = place.block + 1

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Divide the normalized stream by the square root of the block's number, then apply f."""
        return x + f(N(x) / self.number**0.5)


class ResidualScale(Step):
    """x ← λ ⊙ x + f(N(x)): Pre-Norm with a learned factor per channel on the skip.

    λ starts at 1. NormFormer's feed-forward has it. Source: Shleifer et al. 2021, arXiv 2110.09456,
    which finds that it helps models of up to 355 million parameters, but not larger ones.
    """

    equation, symbols = "λ * x + f(N(x))", {"λ": "scale"}

    def __init__(self, make_norm: MakeNorm, sublayer: nn.Module, place: Place = ALONE):
        super().__init__(make_norm, sublayer, place)
        self.scale = nn.Parameter(torch.ones(place.dim))

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Scale each channel of the skip."""
        return self.scale * x + f(N(x))
