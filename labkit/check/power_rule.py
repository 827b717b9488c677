"""PowerNorm as a module, step by step in float64: forward, running φ and approximate backward.

s = x / sqrt(mean over each group of x² + eps)                  for each token
z = s / sqrt(v + eps) while t ≤ warmup, else s / sqrt(φ + eps)   v = mean of s² over real tokens
φ ← φ (t − 1)/t + v/t while t < warmup; then always φ ← 0.9 φ + 0.1 v
g = weight · dy;  g' = g − 0.1 e z;  e ← e + mean(g' z);  ds = g' / sqrt(v + eps)
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rule:
    """Say every decision; a known mistake changes one of them."""

    groups: int = 1
    warmup: int = 10_000
    eps: float = 1e-5
    scaled: bool = True  # is each token divided by its group's root mean square first
    centred: bool = False
    forward: str = "phi before"  # after the warm-up | phi after | batch
    warm: str = "batch"  # during the warm-up | phi
    last: int = 0  # the warm-up's last call, counted from `warmup`
    phi: str = "both"  # | decay only | average only | reversed | never
    backward: str = "batch"  # whose root divides the gradient | forward
    correction: str = "error"  # | none | exact | not kept | reversed | whole
    mask: str = "used"  # | ignored | inverted
    evaluation: str = "phi"  # | batch
    epsilon: str = "inside"  # | outside


MISTAKES: tuple[tuple[str, dict], ...] = (
    ("the tokens are not divided by their groups' root mean squares first", {"scaled": False}),
    ("the groups are ignored: the root mean square is that of the whole token", {"groups": 1}),
    ("the mean is subtracted; PowerNorm keeps it", {"centred": True}),
    ("after the warm-up the batch's mean square divides, not the running φ", {"forward": "batch"}),
    ("φ is updated before it divides; the one from before this call is wanted",
     {"forward": "phi after"}),
    ("φ divides during the warm-up; there the batch's own mean square does", {"warm": "phi"}),
    ("the warm-up ends one call too early: t ≤ warmup still uses the batch", {"last": -1}),
    ("the warm-up ends one call too late", {"last": 1}),
    ("φ is not averaged during the warm-up, only decayed", {"phi": "decay only"}),
    ("φ is only averaged during the warm-up, where the decay acts at every call",
     {"phi": "average only"}),
    ("the decay is the other way round: 0.9 weighs the old φ", {"phi": "reversed"}),
    ("φ is not updated", {"phi": "never"}),
    ("the backward pass divides by what the forward pass divided by (φ); this batch's root is "
     "wanted", {"backward": "forward"}),
    ("the backward pass leaves out the correction by the running error e", {"correction": "none"}),
    ("the backward pass is the exact one of the forward pass", {"correction": "exact"}),
    ("the running error e is not kept from call to call", {"correction": "not kept"}),
    ("the correction is weighed by 0.9 instead of 0.1", {"correction": "reversed"}),
    ("the correction is not weighed by 1 − 0.9", {"correction": "whole"}),
    ("the mask is ignored: padding counts in the mean square", {"mask": "ignored"}),
    ("the mask is inverted: True means a real token", {"mask": "inverted"}),
    ("the batch's own mean square is used in evaluation", {"evaluation": "batch"}),
    ("eps is added outside the root", {"epsilon": "outside"}),
)  # fmt: skip


def wrong_rules(right: Rule) -> list[tuple[str, Rule]]:
    """List the known mistakes as rules that differ from the right one."""
    wrong = [(sentence, replace(right, **change)) for sentence, change in MISTAKES]
    return [(sentence, rule) for sentence, rule in wrong if rule != right]


class Power:
    """Follow one rule from call to call."""

    def __init__(self, rule: Rule, dim: int):
        self.rule, self.calls = rule, 0
        self.phi = torch.ones(dim, dtype=torch.float64)
        self.error = torch.zeros(dim, dtype=torch.float64)

    def train(
        self, x: Tensor, weight: Tensor, bias: Tensor, top: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return y and the gradients of x, weight and bias; move φ and the error."""
        rule, tokens = self.rule, tuple(range(x.ndim - 1))
        self.calls += 1
        x = x.double().requires_grad_()
        weight, bias, top = weight.double(), bias.double(), top.double()
        scaled = self._scaled(x)
        square = self._square(scaled, mask)
        batch, before = square.detach(), self.phi
        self._move(batch)
        if self.calls <= rule.warmup + rule.last:
            divisor = square if rule.warm == "batch" else before
        else:
            kinds = {"phi before": before, "phi after": self.phi, "batch": square}
            divisor = kinds[rule.forward]
        root = self._root(divisor)
        exact = scaled / root
        z = exact.detach()
        y = z * weight + bias
        gradients = (top * z).sum(tokens), top.sum(tokens)
        g = weight * top
        if rule.correction == "exact":
            return y, torch.autograd.grad(exact, x, g)[0], *gradients
        share = {"reversed": 0.9, "whole": 1.0, "none": 0.0}.get(rule.correction, 0.1)
        g = g - share * self.error * z
        if rule.correction != "not kept":
            self.error = self.error + (g * z).mean(tokens)
        divides = self._root(batch) if rule.backward == "batch" else root.detach()
        return y, torch.autograd.grad(scaled, x, g / divides)[0], *gradients

    def evaluate(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return y in evaluation."""
        scaled = self._scaled(x.double())
        square = self.phi if self.rule.evaluation == "phi" else self._square(scaled, None)
        return scaled / self._root(square) * weight.double() + bias.double()

    def _root(self, square: Tensor) -> Tensor:
        eps = self.rule.eps
        return square.sqrt() + eps if self.rule.epsilon == "outside" else (square + eps).sqrt()

    def _scaled(self, x: Tensor) -> Tensor:
        x = x - x.mean(-1, keepdim=True) if self.rule.centred else x
        if not self.rule.scaled:
            return x * 1.0
        parts = x.unflatten(-1, (self.rule.groups, -1))
        return (parts / (parts.square().mean(-1, keepdim=True) + self.rule.eps).sqrt()).flatten(-2)

    def _square(self, scaled: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None or self.rule.mask == "ignored":
            return scaled.flatten(0, -2).square().mean(0)
        return scaled[~mask if self.rule.mask == "inverted" else mask].square().mean(0)

    def _move(self, square: Tensor) -> None:
        kind, t = self.rule.phi, self.calls
        if kind == "never":
            return
        if t < self.rule.warmup and kind != "decay only":
            self.phi = self.phi * (t - 1) / t + square / t
            if kind == "average only":
                return
        old = 0.1 if kind == "reversed" else 0.9
        self.phi = old * self.phi + (1 - old) * square
