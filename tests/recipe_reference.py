"""A whole transformer from explicit formulas, in float64, with another model's parameters.

What stands between the sublayers comes from a row of recipe_equations.py. Nothing calls labkit.
"""

from collections.abc import Callable
from typing import Any

import torch
from recipe_equations import Map, Row, Site, unit
from torch import Tensor

# torch's RMSNorm takes the machine epsilon of what it computes in, here float64
EPS = {"layer": 1e-5, "rms": 2.0**-52, "rms-gemma": 1e-6}


def norm(
    kind: str, eps: float | None, x: Tensor, learned: Callable[[str], Tensor | None]
) -> Tensor:
    """Apply a norm; `learned` contains its parameters by name, None if it has none."""
    weight, bias = learned("weight"), learned("bias")
    eps = EPS.get(kind) if eps is None else eps
    if kind == "layer":
        centred = x - x.mean(-1, keepdim=True)
        y = centred / ((centred**2).mean(-1, keepdim=True) + eps).sqrt()
    elif kind in ("rms", "rms-gemma"):
        y = x / ((x**2).mean(-1, keepdim=True) + eps).sqrt()
        weight = weight if kind == "rms" else 1 + weight
    else:
        y = torch.tanh(learned("alpha") * x)
        if kind == "derf":
            y = torch.erf(learned("alpha") * x + learned("shift"))
    return y * weight + (0 if bias is None else bias)


def turn(x: Tensor) -> Tensor:
    """Rotate (batch, time, heads, channels): pairs (i, i + half) as complex numbers."""
    half = x.shape[-1] // 2
    angle = torch.outer(
        torch.arange(x.shape[1], dtype=x.dtype),
        10_000.0 ** (-torch.arange(half, dtype=x.dtype) / half),
    )
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.exp(1j * angle)[:, None]
    return torch.cat((turned.real, turned.imag), dim=-1)


class Reference:
    """The whole model of one row, computed from a Transformer's parameters."""

    def __init__(self, row: Row, model: torch.nn.Module):
        self.row, self.config = row, model.config
        self.parameters = dict(model.named_parameters())
        self.norm = row.norm or model.config.norm

    def logits(self, tokens: Tensor, source: Tensor | None = None) -> Tensor:
        memory = None if source is None else self.stack("encoder", source, None)
        y = self.stack("blocks", tokens, memory) @ self.parameters["output.weight"].T
        if "sphere" in self.row.more:
            y = y * self.parameters["s_z.weight"] * self.config.dim**0.5
        return (
            self.row.output_cap * torch.tanh(y / self.row.output_cap) if self.row.output_cap else y
        )

    def named_norm(self, path: str) -> Map:
        return lambda x: self.normed(self.norm, x, lambda n: self.parameters.get(f"{path}.{n}"))

    def normed(self, kind: str, x: Tensor, learned: Callable[[str], Tensor | None]) -> Tensor:
        return norm(kind, self.config.norm_eps, x, learned)

    def stack(self, name: str, tokens: Tensor, memory: Tensor | None) -> Tensor:
        config, more = self.config, self.row.more
        scale = self.parameters.get(
            "embedding_scale", torch.tensor(float(config.dim)).double() ** 0.5
        )
        x = self.parameters["embedding.weight"][tokens] * scale
        if "sphere" in more:
            x = unit(x)
        if "embedding norm" in more:
            x = self.named_norm("embedding_norm")(x)
        run: dict[str, Any] = {"total": x, "memory": memory, "scores": {}}
        encoder = {"encoder": config.depth, "decoder": 0}.get(
            config.kind, config.encoder_depth or config.depth
        )
        decoder = 0 if config.kind == "encoder" else config.depth
        stack = "encoder" if name == "encoder" or config.kind == "encoder" else "decoder"
        depth = encoder if stack == "encoder" else decoder
        kinds = ["attention", "feed_forward"]
        if memory is not None:
            kinds.insert(1, "cross_attention")
        for block in range(depth):
            run["entry"] = x
            first = self.row.first is not None and block < self.row.first_blocks(depth)
            row = self.row.first if first else self.row
            for kind in kinds:
                path = f"{name}.{block}.{kind}"
                site = Site(
                    f=self.sublayer(row, path, kind, stack, run),
                    N=self.named_norm(f"{path}.norm"),
                    M=self.named_norm(f"{path}.norm_out"),
                    learned=lambda name, path=path: self.parameters[f"{path}.{name}"],
                    kind=kind,
                    block=block,
                    blocks=depth,
                    sublayers=depth * len(kinds),
                    stack=stack,
                    encoder=encoder,
                    decoder=decoder,
                    run=run,
                )
                x = (row.feed_forward if kind == "feed_forward" else row.attention)(x, site)
        end = self.named_norm("encoder_norm" if name == "encoder" else "final_norm")
        if "second stream" in more:
            return x + end(run["total"])
        return end(x) if self.row.final else x

    def sublayer(self, row: Row, path: str, kind: str, stack: str, run: dict[str, Any]) -> Map:
        def weight(name: str) -> Tensor | None:
            return self.parameters.get(f"{path}.sublayer.{name}")

        if kind == "feed_forward":
            return lambda x: self.feed_forward(x, weight)
        causal = stack == "decoder" and kind == "attention"
        return lambda x: self.attention(x, weight, row, kind, causal, run)

    def feed_forward(self, x: Tensor, weight: Callable[[str], Tensor]) -> Tensor:
        up = x @ weight("up.weight").T
        if self.config.activation == "swiglu":
            gate = x @ weight("gate.weight").T
            if "sphere" in self.row.more:
                s_u, s_v = weight("s_uv.weight").view(2, -1)
                up, gate = up * s_u * x.shape[-1] ** 0.5, gate * s_v * x.shape[-1] ** 0.5
            hidden = up * gate / (1 + torch.exp(-gate))
        else:
            hidden = up * (1 + torch.erf(up * 0.5**0.5)) / 2
        if "inner norm" in self.row.more:
            hidden = self.normed(self.norm, hidden, lambda n: weight(f"inner_norm.{n}"))
        return hidden @ weight("down.weight").T

    def attention(self, x, weight, row: Row, kind: str, causal: bool, run) -> Tensor:
        heads, more, cross = self.config.heads, self.row.more, kind == "cross_attention"
        kv_heads = self.config.kv_heads or heads
        size = self.config.dim // heads

        def split(name: str, y: Tensor) -> Tensor:
            y = y @ weight(f"{name}.weight").T
            return self.head_norm(name, y, weight, row, size, cross)

        read = run["memory"] if cross else x
        q, k, v = split("q", x), split("k", read), split("v", read)
        if not cross:
            q, k = turn(q), turn(k)
        shared = [head * kv_heads // heads for head in range(heads)]
        k, v, scale = k[:, :, shared], v[:, :, shared], size**-0.5
        if "sphere" in more:
            s = (weight("s_qk.weight") * self.config.dim**0.5).view(heads, size)
            q, k, scale = s * unit(q), s * unit(k), size**0.5
        scores = torch.einsum("bqhc,bkhc->bhqk", q, k) * scale
        if "chain" in more:
            scores = run["scores"][kind] = scores + run["scores"].get(kind, 0)
        if row.cap:
            scores = row.cap * torch.tanh(scores / row.cap)
        if causal:
            later = torch.arange(k.shape[1]) > torch.arange(q.shape[1])[:, None]
            scores = scores.masked_fill(later, -torch.inf)
        odds = torch.exp(scores - scores.amax(-1, keepdim=True))
        mixed = torch.einsum("bhqk,bkhc->bqhc", odds / odds.sum(-1, keepdim=True), v)
        mixed = self.head_norm("c", mixed.flatten(-2), weight, row, size, cross)
        if "head gain" in more:
            mixed = mixed * weight("head_gain")[:, None]
        return mixed.flatten(-2) @ weight("out.weight").T

    def head_norm(self, name: str, y: Tensor, weight, row: Row, size: int, cross: bool) -> Tensor:
        """Split into heads and normalize q, k, v or c, if the row says so."""
        wanted = name in row.heads and not (cross and row.heads == "c")
        kind = self.norm if row.heads == "c" or row.norm else "rms"

        def normed(z: Tensor) -> Tensor:
            return self.normed(kind, z, lambda n: weight(f"norm_{name}.{n}")) if wanted else z

        if "width" in self.row.more:
            return normed(y).unflatten(-1, (-1, size))
        return normed(y.unflatten(-1, (-1, size)))
