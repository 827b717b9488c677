"""What a recipe leaves open: the norm's kind, the activation, positions, heads, the block's place.

With a config these are settled, but for what it does not say; without one, hints are read from
the module, and every choice is offered, the likeliest first.
"""

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from torch import nn

from labkit.check.blocks.design import Design, design_of
from labkit.check.blocks.halves import FIRST, is_first
from labkit.check.blocks.names import Found
from labkit.check.blocks.norms import EPS, USUAL_EPS
from labkit.model.config import ModelConfig
from labkit.placements import RECIPES

if TYPE_CHECKING:
    from labkit.check.blocks.module import ModuleExam

HEADS = (
    "heads", "num_heads", "n_heads", "nhead", "n_head", "num_attention_heads", "n_attn_heads", "h",
)  # fmt: skip
_INDEX = ("block", "block_index", "block_idx", "layer_index", "layer_idx", "index", "layer_id")
_DEPTH = ("depth", "num_layers", "n_layers", "n_layer", "num_hidden_layers", "layers")
_EPS = ("eps", "epsilon", "variance_epsilon", "norm_eps", "layer_norm_eps")


def attribute(module: nn.Module, names: tuple[str, ...]) -> int | None:
    """Find a whole number by its name, in the module, what it holds, or their configs."""
    for one in module.modules():
        for holder in (one, getattr(one, "config", None), getattr(one, "place", None)):
            if isinstance(holder, nn.Module) and holder is not one:
                continue
            for name in names:
                value = getattr(holder, name, None)
                if isinstance(value, int) and not isinstance(value, bool):
                    return value
    return None


def default_config(recipe: str, **changes: object) -> ModelConfig:
    """Return the small config that classes and functions are tried with."""
    usual = {"dim": 16, "heads": 2, "hidden": 20, "depth": 6, "context": 16}
    return ModelConfig(**{"recipe": recipe, **usual, **changes})  # pyright: ignore[reportArgumentType]


def neutral_designs(
    exam: "ModuleExam",
    recipe: str,
    config: ModelConfig | None,
    index: int | None,
    depth: int | None = None,
) -> list[Design]:
    """List the right designs that a module may follow; the first is the likeliest."""
    module, found = exam.module, exam.found
    made = []
    configs = [config] if config is not None else _configs(module, found, recipe, depth)
    rotary = ["half", "pairs", ""]
    if not exam.roles & {"context", "angles", "cos_sin", "cos"}:
        rotary = ["", "half", "pairs"]
    for one in configs:
        for place in _places(module, recipe, one, index):
            base = design_of(recipe, one, place)
            base = replace(base, inside=replace(base.inside, **_heads(found, one, config is None)))
            for eps, turn, activation, scales in product(
                _eps(module, base, one),
                rotary,
                _activations(module, base, config is not None),
                _scales(exam, base),
            ):
                made.append(_with(base, eps, turn, activation, scales, one))
    if config is None and not RECIPES[recipe].sphere:
        usual = made[0].inside.causal
        made += [replace(d, inside=replace(d.inside, causal=not usual)) for d in made[:12]]
    return made


def _with(
    base: Design,
    eps: tuple[float, float],
    turn: str,
    activation: str,
    scales: tuple,
    config: ModelConfig,
) -> Design:
    i = base.inside
    same = config.norm_eps is None
    inside = replace(
        i, rotary=turn, activation=activation, sphere_scales=scales,
        eps=eps[1] if same else i.eps, inner_eps=eps[0] if same else i.inner_eps,
    )  # fmt: skip
    return replace(base, inside=inside, eps=eps[0] if same else base.eps)


def _configs(module: nn.Module, found: Found, recipe: str, depth: int | None) -> list[ModelConfig]:
    heads = attribute(module, HEADS)
    gated = "gate" in found.matrices or "gate+up" in found.matrices
    gated = gated or len(found.matrices.get("up", [])) == 2 or len(found.matrices.get("#", [])) == 3
    kinds = ["layer", "rms"] if _like_layer_norm(module, found) else ["rms", "layer"]
    if RECIPES[recipe].norm is None:
        names = {type(m).__name__.lower() for m in module.modules()}
        gemma = any("gemma" in name and "norm" in name for name in names)
        kinds = ["rms-gemma", *kinds] if gemma else kinds
    else:
        kinds = kinds[:1]
    guesses = [heads] if heads else [n for n in (2, 4, 1, 8) if found.dim % (2 * n) == 0]
    kv = attribute(module, ("kv_heads", "num_kv_heads", "n_kv_heads", "num_key_value_heads"))
    return [
        ModelConfig(
            recipe=recipe, norm=kind, dim=found.dim, hidden=found.hidden, heads=n,
            kv_heads=None if RECIPES[recipe].sphere else kv,
            depth=depth or attribute(module, _DEPTH) or 6,
            activation="swiglu" if gated else "gelu",
        )
        for n in guesses for kind in kinds
    ]  # fmt: skip


def _like_layer_norm(module: nn.Module, found: Found) -> bool:
    names = {type(m).__name__.lower() for m in module.modules()}
    if any("rms" in name for name in names):
        return False
    return any("layernorm" in name for name in names) or any(
        "bias" in u.leaves for u in found.units
    )


def _heads(found: Found, config: ModelConfig, free: bool) -> dict[str, int]:
    """Take from the shapes the heads' width and, without a config, the number of key heads."""
    made = {"kv_heads": config.kv_heads or config.heads}
    q, k = (
        entries[0][2].shape[0]
        if len(entries := found.matrices.get(role, [])) == 1
        and isinstance(entries[0][1], nn.Linear)
        else 0
        for role in "qk"
    )
    if q and q % config.heads == 0:
        made["head_dim"] = q // config.heads
        if free and k and k % made["head_dim"] == 0 and config.heads % (k // made["head_dim"]) == 0:
            made["kv_heads"] = k // made["head_dim"]
    return made


def _places(module: nn.Module, recipe: str, config: ModelConfig, index: int | None) -> list[int]:
    """Return which block of the stack it may be."""
    if index is not None:
        return [index]
    hint = attribute(module, _INDEX)
    if hint is not None and 0 <= hint < config.depth:
        return [hint]
    if recipe == "lns":
        return [*range(1, config.depth), 0][: max(1, config.depth - 1)]
    if recipe in FIRST:
        general = config.depth - 1
        return [general, 0] if is_first(recipe, 0, config.depth) else [general]
    return [0]


def _eps(module: nn.Module, base: Design, config: ModelConfig) -> list[tuple[float, float]]:
    """Return eps of the norms on the stream, and of those inside attention."""
    if config.norm_eps is not None:
        return [(config.norm_eps, config.norm_eps)]
    own = [
        float(value)
        for one in module.modules()
        for name in _EPS
        if isinstance(value := getattr(one, name, None), int | float)
    ]
    both = []
    for kind in (base.norm, base.inside.kind):
        usual = EPS.get(kind, USUAL_EPS)
        among = [usual] if usual in own else []
        both.append(list(dict.fromkeys([*among, *own, usual, 1e-5]))[:2])
    return [*product(both[0], both[1] if base.inside.normed else both[1][:1])]


def _activations(module: nn.Module, base: Design, settled: bool) -> list[str]:
    near = {"gelu": ["gelu", "gelu-tanh"]}
    own = base.inside.activation
    if settled:
        return near.get(own, [own])
    names = {type(m).__name__.lower() for m in module.modules()}
    first = next((a for a in ("silu", "gelu", "relu") if a in names), "")
    usual = ["silu", "gelu", "gelu-tanh", "relu"]
    usual = usual if base.inside.gated else ["gelu", "gelu-tanh", "relu", "silu"]
    return list(dict.fromkeys([*([first] if first else []), *usual]))


def _scales(exam: "ModuleExam", base: Design) -> list[tuple[float, float]]:
    """Return value / parameter of nGPT's s_qk and α: as its code stores them, or as they are."""
    if not base.inside.sphere:
        return [(1.0, 1.0)]
    root = exam.found.dim**0.5
    shares = [u.name for u in exam.found.units if "alpha" in u.name.lower()]
    first = next((v for n, v in exam.initial.items() if shares and n.startswith(shares[0])), 0.0)
    share = [round(n, 9) for n in (0.05 * root, 1.0, *([0.05 / first] if first else []))]
    return [*product((root, 1.0), dict.fromkeys(share))]
