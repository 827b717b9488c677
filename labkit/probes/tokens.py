"""Differences between the tokens of a batch, by layer and step.

    share = Σ |x − mean of all tokens|² / Σ |x|²      of the stream after the embedding, each block
    path  = ∏ 1/r      r: the divisor of a token's sum, over the norms of Post-Norm's sublayers

At a share of 1 tokens have nothing in common; at 0 they are all the same vector. The path is the
factor of the embedding along Post-Norm's skip connections; 1 without Post-Norm.
"""

import math
from collections.abc import Callable
from contextlib import ExitStack
from copy import deepcopy
from typing import Any

from torch import Tensor, nn

from labkit.corpora import Corpus
from labkit.model import Transformer
from labkit.placements import PostNorm
from labkit.probes.gradients import EARLY
from labkit.probes.look import Watcher, residual_streams, untouched
from labkit.training import Observer


def token_share(model: Transformer, tokens: Tensor) -> dict[str, Any]:
    """Return the share (one number per layer) and the path, from a copy in float64.

    In float32 tokens that differ by less than a ten-millionth would be rounded to one vector.
    """
    copy, factors = deepcopy(model).double(), [1.0]

    def keep_factor(norm: nn.Module, args: tuple) -> None:
        factors.append(1 / args[0].var(dim=-1, correction=0).sqrt().mean().item())

    with ExitStack() as hooks, untouched(copy, training=False):
        for step in copy.modules():
            if isinstance(step, PostNorm):
                norm = step.get_submodule("norm")
                hooks.enter_context(norm.register_forward_pre_hook(keep_factor))
        streams = [x.flatten(0, -2) for x in residual_streams(copy, tokens)]
    shares = [((x - x.mean(0)).square().sum() / x.square().sum()).item() for x in streams]
    return {"share": shares, "path": math.prod(factors)}


class TokenShare(Watcher):
    """`token_share` before the given steps, from 0: {"step": {"share": […], "path": …}}."""

    def after_backward(self, step: int, model: nn.Module) -> None:
        """Measure at the chosen steps."""
        if step in self.steps and isinstance(model, Transformer):
            self.seen[str(step)] = token_share(model, self.batch[0])


PROBES: dict[str, Callable[[Corpus], Observer]] = {
    "token-share": lambda corpus: TokenShare("token-share", EARLY, corpus.held_out["validation"][0])
}
