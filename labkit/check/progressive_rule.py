"""PRepBN in float64: how much of each branch a training call takes, and what each gives.

y = λ · LN(x) + (1 − λ) · (BN(x) + eta · x)      λ from 1 to 0 over `steps` calls
"""

from dataclasses import dataclass

import torch
from torch import Tensor

STEPS = 4


@dataclass(frozen=True)
class Blend:
    """Say every decision of the mixture."""

    share: str = "falls"  # | rises | constant | late | early | root
    warm: int = 0
    steps: int = STEPS
    eta: str = "times x"  # | none | one
    rep: str = "batch"  # | layer
    layer: str = "last"  # the axis of layer norm's statistics | batch

    def at(self, call: int) -> float:
        """Return λ at a training call, counted from 0."""
        done = max(0, call - self.warm + {"late": -1, "early": 1}.get(self.share, 0))
        left = max(0.0, 1.0 - done / self.steps)
        shares = {"rises": 1.0 - left, "constant": 1.0, "half": 0.5, "squared": left**2}
        return shares.get(self.share, left)

    def __call__(self, x: Tensor, call: int, eps: float, own: dict[str, Tensor]) -> Tensor:
        """Evaluate in float64, channels on axis 1; the parameters of both branches are in `own`."""
        rows = x.double().movedim(1, -1)
        layer = standard(rows, (-1,), eps) * own["layer weight"] + own["layer bias"]
        tokens = tuple(range(rows.ndim - 1))
        rep = standard(rows, tokens, eps) * own["weight"] + own["bias"]
        rep = rep + {"none": 0.0, "one": 1.0}.get(self.eta, own["eta"]) * rows
        share = self.at(call)
        return (share * layer + (1 - share) * rep).movedim(-1, 1)


MISTAKES = (
    ("λ is reversed: it starts at 1, all layer norm, and falls to 0", {"share": "rises"}),
    ("λ stays at 1: the schedule does not advance", {"share": "constant"}),
    ("λ stays at ½", {"share": "half"}),
    ("λ falls along another curve; it is linear", {"share": "squared"}),
    ("λ is counted down before it is used: the first call has λ = 1", {"share": "early"}),
    ("λ lags by one call", {"share": "late"}),
    ("eta · x is missing in the RepBN branch", {"eta": "none"}),
)


def standard(rows: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    """Standardize along some axes."""
    centred = rows - rows.mean(axes, keepdim=True)
    return centred / (centred.square().mean(axes, keepdim=True) + eps).sqrt()


def neutral(dim: int) -> dict[str, Tensor]:
    """Return the parameters that a module starts with."""
    one, zero = torch.ones(dim).double(), torch.zeros(dim).double()
    return {"layer weight": one, "layer bias": zero, "weight": one, "bias": zero,
            "eta": torch.ones(()).double()}  # fmt: skip
