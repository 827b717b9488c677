"""The whole of a block as the checker writes it down, and its reference: streams from weights."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor

from labkit.check.blocks import inside as calc
from labkit.check.blocks.halves import INSIDE, SIDES, Bench, Half, halves, move
from labkit.check.blocks.inside import Inside, Weights
from labkit.check.blocks.norms import EPS, FORMULAS, USUAL_EPS, normed
from labkit.model.config import ModelConfig


@dataclass(frozen=True)
class Design:
    """Two steps, what is inside their sublayers, and the norm."""

    attention: Half
    feed_forward: Half
    inside: Inside
    norm: str
    eps: float
    options: tuple[tuple[str, float], ...] = ()
    merged: str = ""  # "N", "M", "all": a norm that both halves use in place of their own

    @property
    def sides(self) -> tuple[Half, Half]:
        """Return both halves in their order."""
        return self.attention, self.feed_forward

    def with_sides(self, attention: Half, feed_forward: Half) -> "Design":
        """Replace both halves."""
        return replace(self, attention=attention, feed_forward=feed_forward)

    def text(self) -> str:
        """Write both steps."""
        names = zip(SIDES, self.sides, strict=True)
        return "; ".join(f"{side}: x ← {half.text}" for side, half in names)


@dataclass(frozen=True)
class Out:
    """What a block gives: the stream and, where a recipe has them, second stream and scores."""

    stream: Tensor
    second: Tensor | None = None
    scores: Tensor | None = None


@dataclass(frozen=True)
class Case:
    """One input; `r` is a second stream, `prev` the logits of the block before."""

    x: Tensor
    about: str
    r: Tensor | None = None
    prev: Tensor | None = None
    silent: tuple[str, ...] = ()  # the halves whose sublayer writes 0

    def __str__(self) -> str:
        kind = str(self.x.dtype).removeprefix("torch.")
        return f"x of shape {tuple(self.x.shape)}, {kind} ({self.about})"


def design_of(recipe: str, config: ModelConfig, index: int) -> Design:
    """Write down the block that a recipe and a config ask for."""
    kind = config.norm_name
    if kind not in FORMULAS:
        raise ValueError(
            f"a block is checked with a norm of one vector ({', '.join(FORMULAS)}), got {kind!r}; "
            "check that norm by itself, by the check of its name or by check.own"
        )
    if config.experts is not None:
        raise ValueError("a block with experts cannot be checked; leave config.experts out")
    eps = EPS.get(kind, USUAL_EPS) if config.norm_eps is None else config.norm_eps
    encoder = config.kind == "encoder"
    first, second = halves(recipe, index, config.depth)
    inside = Inside(
        config.heads,
        config.kv_heads or config.heads,
        config.dim // config.heads,
        causal=not encoder,
        softcap=config.attention_cap if recipe == "gemma2" else config.softcap,
        chain="sum" if recipe == "realformer" else "",
        head_gain="before W_O" if recipe == "normformer" else "",
        activation="silu" if config.activation == "swiglu" else config.activation,
        gated=config.activation == "swiglu",
        inner="after" if recipe in ("normformer", "sub-ln") else "",
        inner_kind=kind,
        inner_eps=eps,
        **_norms_inside(recipe, config, kind, eps),
    )
    if recipe == "ngpt":
        inside = replace(inside, sphere="qk", scale="√h")
    return Design(first, second, inside, kind, eps, tuple(config.norm_kw))


def _norms_inside(recipe: str, config: ModelConfig, kind: str, eps: float) -> dict[str, Any]:
    """Return which of q, k, v, c are normalized, by the recipe or else by the config."""
    if recipe not in INSIDE:
        asked = config.norms_inside(None)
        if asked is None:
            return {}
        return {
            "normed": asked.tensors,
            "kind": asked.norm,
            "eps": _eps(asked.norm, config),
            "share": asked.share,
            "gain": asked.gain,
            "after_rope": asked.after_rope,
            "times": asked.times,
            "temperature": asked.temperature or "",
        }
    own = {"sub-ln": kind, "gemma3": "rms-gemma"}.get(recipe, "rms")
    return {
        "normed": INSIDE[recipe],
        "kind": own,
        "eps": _eps(own, config),
        "share": "width" if recipe in ("olmo2", "sub-ln") else "head",
    }


def _eps(kind: str, config: ModelConfig) -> float:
    return EPS.get(kind, USUAL_EPS) if config.norm_eps is None else config.norm_eps


def bench_of(design: Design, w: Weights, side: str, f: Callable[[Tensor], Tensor]) -> Bench:
    """Lay out what one half works with, made from weights."""

    def norm(letter: str, x: Tensor) -> Tensor:
        owner = "attention" if design.merged in (letter, "all") else side
        letter = "N" if design.merged == "all" else letter
        leaves = calc.leaves(w, f"{owner}.{letter}")
        return normed(design.norm, x, leaves, design.eps, dict(design.options))

    vectors: dict[str, Any] = {
        letter: w[f"{side}.{letter}"] for letter in "ωλ" if f"{side}.{letter}" in w
    }
    if f"{side}.a" in w:
        vectors["raw"] = w[f"{side}.a"] * design.inside.sphere_scales[1]
        vectors["a"] = vectors["raw"].abs()
    if f"{side}.T" in w:
        vectors["T"] = lambda x: 1 / (1 + (-calc.linear(x, w, f"{side}.T")).exp())
        vectors["linear"] = lambda x: calc.linear(x, w, f"{side}.T")
    return Bench(f, {letter: partial(norm, letter) for letter in "NM"}, vectors)


def reference(design: Design, w: Weights, case: Case) -> Out:
    """Evaluate the block on a case."""
    scores: list[Tensor] = []

    def attend(x: Tensor) -> Tensor:
        y, made = calc.attention(design.inside, w, x, case.prev)
        scores.append(made)
        return y

    def feed(x: Tensor) -> Tensor:
        return calc.feed_forward(design.inside, w, x)

    return run_halves(
        design,
        case,
        bench_of(design, w, "attention", attend),
        bench_of(design, w, "feed-forward", feed),
        scores,
    )


def run_halves(
    design: Design, case: Case, first: Bench, second: Bench, scores: list[Tensor]
) -> Out:
    """Pass a case through both steps."""
    y, r = move(design.attention, first, case.x, case.x, case.r)
    y, r = move(design.feed_forward, second, y, case.x, r)
    dual = bool(design.attention.second or design.feed_forward.second)
    chain = scores[0] if scores and design.inside.chain else None
    return Out(y, r if dual else None, chain)
