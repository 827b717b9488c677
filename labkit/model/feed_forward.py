"""Feed-forward sublayers: one for all tokens, or several experts of which each token uses a few.

    FeedForward         down(act(up x)), or down(silu(gate x) · up x) for SwiGLU
    MixtureOfExperts    Σ over the k chosen experts e of w_e · FeedForward_e(x)
                        p = softmax(router x),  chosen: the k largest p_e,  w_e = p_e / their sum

Sources: Shazeer 2020, arXiv 2002.05202 (SwiGLU); Jiang et al. 2024, arXiv 2401.04088 (this
routing: Mixtral); Fedus et al. 2021, arXiv 2101.03961 (balance loss); Zoph et al. 2022, arXiv
2202.08906 (z-loss). No biases.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from labkit.context import Context, apply_norm
from labkit.norms.unit import Scale
from labkit.system.unknown import explain_unknown

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """Transform each token separately: down(act(up x)), or for SwiGLU down(silu(gate x) · up x).

    `inner_norm` makes a norm of the hidden values, between the activation and `down`: NormFormer
    (arXiv 2110.09456), Sub-LN (arXiv 2210.06423).
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        activation: str,
        inner_norm: Callable[[int], nn.Module] | None = None,
    ):
        super().__init__()
        if activation not in (names := ("swiglu", *ACTIVATIONS)):
            raise ValueError(explain_unknown("activation", activation, names))
        self.gate = nn.Linear(dim, hidden, bias=False) if activation == "swiglu" else None
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.activation = ACTIVATIONS.get(activation)
        self.inner_norm = None if inner_norm is None else inner_norm(hidden)

    def forward(
        self, x: Float[Tensor, "*leading dim"], context: Context | None = None
    ) -> Float[Tensor, "*leading dim"]:
        """Apply the matrices; the context only provides padding to norms over tokens."""
        if self.gate is not None:
            inner = F.silu(self.gate(x)) * self.up(x)
        else:
            assert self.activation is not None
            inner = self.activation(self.up(x))
        if self.inner_norm is not None:
            inner = apply_norm(self.inner_norm, inner, context)
        return self.down(inner)


class AuxiliaryLoss(NamedTuple):
    """A router's two training losses, added to the model's; both have gradients to the router."""

    balance: Float[Tensor, ""]  # 1 if probabilities are uniform; larger if few experts do the work
    z: Float[Tensor, ""]  # mean over tokens of logsumexp(router x)²


class MixtureOfExperts(nn.Module):
    """Send each token to its `chosen` most probable experts and sum their weighted outputs.

    The weights of the chosen experts are renormalized to sum to 1, as in Mixtral: they are the
    softmax over the chosen logits only. No token is dropped, however many an expert gets. Padding
    goes to no expert: its output is 0, and it counts in neither loss.
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        activation: str,
        experts: int,
        chosen: int = 2,
        inner_norm: Callable[[int], nn.Module] | None = None,
    ):
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(
            FeedForward(dim, hidden, activation, inner_norm) for _ in range(experts)
        )
        self._loss: AuxiliaryLoss | None = None

    def forward(
        self, x: Float[Tensor, "*leading dim"], context: Context | None = None
    ) -> Float[Tensor, "*leading dim"]:
        """Route each real token, run every expert once on its tokens, add the weighted outputs."""
        flat = x.reshape(-1, x.shape[-1])
        real = None if context is None or context.padding is None else context.padding.flatten()
        tokens = flat if real is None else flat[real]
        weights, indices = self.route_tokens(tokens)
        expert, order = indices.flatten().sort(stable=True)
        counts = torch.bincount(expert, minlength=len(self.experts)).tolist()
        parts = tokens[order // self.chosen].split(counts)  # a token's assignments lie together
        made = torch.cat([run(part) for run, part in zip(self.experts, parts, strict=True)])
        made = made[order.argsort()].unflatten(0, (-1, self.chosen))
        mixed = (made.to(weights.dtype) * weights[..., None]).sum(dim=1).to(made.dtype)
        if real is not None:
            mixed = mixed.new_zeros(flat.shape).masked_scatter(real[:, None], mixed)
        return mixed.view(x.shape)

    def route_tokens(self, tokens: Float[Tensor, "token dim"]) -> tuple[Tensor, Tensor]:
        """Return the weights (summing to 1) and indices of each token's experts; store losses."""
        logits = self.router(tokens)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        probabilities = logits.softmax(dim=-1)
        top, indices = probabilities.topk(self.chosen, dim=-1)
        self._loss = _compute_losses(logits, probabilities, indices)
        return top / top.sum(dim=-1, keepdim=True), indices

    def auxiliary_loss(self) -> AuxiliaryLoss:
        """Return (balance, z) of the last forward pass, unweighted, with their gradients.

        They share the pass's graph: add them to the model's loss before its backward pass.
        balance = experts · Σ_e fraction_e · mean probability_e, where the fractions of the
        assignments sum to 1: so it is 1 when all is uniform, whatever `chosen` is. transformers
        counts the share of tokens, whose sum is `chosen`: its value is `chosen` times this one.
        """
        if self._loss is None:
            raise ValueError(
                "auxiliary_loss needs a forward pass, but none was run; call the module first"
            )
        return self._loss

    def __getstate__(self) -> dict[str, Any]:
        # A copy or a file cannot hold the graph of a loss.
        return {**self.__dict__, "_loss": None}


def _compute_losses(
    logits: Float[Tensor, "token expert"],
    probabilities: Float[Tensor, "token expert"],
    indices: Float[Tensor, "token chosen"],
) -> AuxiliaryLoss:
    tokens, experts = logits.shape
    counts = torch.bincount(indices.flatten(), minlength=experts).to(logits.dtype)
    fraction = counts / max(indices.numel(), 1)
    mean_probability = probabilities.sum(dim=0) / max(tokens, 1)
    z = torch.logsumexp(logits, dim=-1).square().sum() / max(tokens, 1)
    return AuxiliaryLoss(experts * (fraction * mean_probability).sum(), z)


class SphereFeedForward(FeedForward):
    """SwiGLU with a learned scale on each of its two hidden vectors."""

    def __init__(self, dim: int, hidden: int):
        super().__init__(dim, hidden, "swiglu")
        self.s_uv = Scale(2 * hidden, 1.0, 1.0)
        self.root = dim**0.5

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Scale u and v, then gate: each entry of W·h is a cosine, about 1/sqrt(d)."""
        assert self.gate is not None
        s_u, s_v = (self.s_uv() * self.root).chunk(2)
        return self.down(s_u * self.up(x) * F.silu(s_v * self.gate(x)))
