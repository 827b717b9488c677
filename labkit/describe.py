"""Describe a recipe or a norm: equations, parameters, costs, source (`labkit show NAME`)."""

import re
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from labkit.costs.operations import Cost, cost_of
from labkit.model import ModelConfig, Transformer
from labkit.model.init import ATTENTION
from labkit.norms import facts, make_norm
from labkit.norms.unit import Scale
from labkit.placements import ALIASES, Recipe, Step, recipe

_TORCHS = ("device", "dtype")  # options that every module of torch's has
_MATRICES = (*ATTENTION, "gate", "up", "down", "router", "output", "embedding")


@dataclass(frozen=True, repr=False)
class Description:
    """A recipe in full, readable as text."""

    title: str
    rows: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        wide = max(len(what) for what, _ in self.rows)
        lines = [self.title]
        for what, text in self.rows:
            first, *rest = text.split("\n")
            lines.append(f"  {what:<{wide}}  {first}")
            lines += [f"  {'':<{wide}}  {line}" for line in rest]
        return "\n".join(lines)

    __repr__ = __str__


def describe_recipe(name: str, config: ModelConfig | None = None) -> Description:
    """Describe the recipe called `name` at the sizes of `config` (default: ModelConfig()'s).

    Costs are those of one forward pass over a whole context, counted as it runs; they include the
    embedding's and final norms and the output matrix.
    """
    found = recipe(name)
    config = replace(config or ModelConfig(), recipe=name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Transformer(config).eval()
        tokens = torch.zeros(1, config.context, dtype=torch.long)
        pair = (tokens, tokens) if config.kind == "encoder-decoder" else (tokens,)
        cost = cost_of(model, *pair)
    return Description(
        f"{name}: {found.source}",
        tuple(
            (what, text)
            for what, text in (
                ("equations", _format_equations(found, config, model)),
                ("norm", _describe_norm(found, config, cost)),
                ("final norm", _final_norm(found, config)),
                ("around", list_extras(found)),
                ("initialization", config.init_name),
                ("learnable", _list_learnable(model)),
                ("cost", _format_cost(cost, config)),
                ("note", found.note),
                ("aliases", ", ".join(a for a, to in ALIASES.items() if to == name)),
            )
            if text
        ),
    )


def describe_norm(name: str, dim: int = 64, file: str = "") -> Description:
    """Describe the norm called `name`: equation, options, learnable parameters over `dim` values.

    The title contains its source; a reader's own norm has a `file`. Raises ValueError for a name
    that is not in NORMS.
    """
    found = facts(name)
    options = [f"{key}={start}" for key, start in found.options.items() if key not in _TORCHS]
    declared = not file or hasattr(found.module, "equation")
    learnable = {key: p.numel() for key, p in make_norm(name, dim).named_parameters()}
    return Description(
        f"{name}: {found.source or ('your own norm' if file else 'the identity')}",
        (
            ("equation", found.equation if declared else "not declared"),
            ("options", ", ".join(options) or "none"),
            ("learnable", ", ".join(f"{key} ({n:,})" for key, n in learnable.items()) or "nothing"),
            ("in a model", f"labkit show RECIPE --norm {file or name}"),
        ),
    )


def _format_equations(found: Recipe, config: ModelConfig, model: nn.Module) -> str:
    lines = list(found.equations)
    early = sum(found.placement(i, config.depth) is found.first for i in range(config.depth))
    if found.first is not None and early:
        which = "the first block" if early == 1 else f"the first {early} blocks"
        lines += [f"{which}, of {config.depth}:", *found.first.equations]
    elif found.first is not None:
        lines.append(f"(other first blocks only in deeper models: none of {config.depth})")
    if config.kind == "encoder-decoder":
        lines.append("the decoder's cross-attention is placed as its attention")
    if found.second_stream:
        lines.append("beside it r ← r + MHA(X), then r ← r + FFN(Y); the output reads X + N(r)")
    return "\n".join([*lines, *_list_constants(model)])


def _list_constants(model: nn.Module) -> list[str]:
    """List the values of the constants in the equations of each stack, first sublayer first."""
    values: dict[tuple[str, str], dict[str, None]] = {}
    for step in (module for module in model.modules() if isinstance(module, Step)):
        for letter, name in step.symbols.items():
            value, key = getattr(step, name), (letter, step.place.stack)
            if isinstance(value, int | float):
                values.setdefault(key, {})[f"{value:.4g}"] = None
            elif isinstance(value, Tensor):
                values.setdefault(key, {})[f"learned, starts at {_format_start(value)}"] = None
    several = len({stack for _, stack in values}) > 1
    return [
        f"{letter} = {', '.join(seen)}" + (f" in the {stack}" if several else "")
        for (letter, stack), seen in values.items()
    ]


def _final_norm(found: Recipe, config: ModelConfig) -> str:
    final = found.final_norm if config.final_norm is None else config.final_norm
    return "yes" if final else "no"


def _describe_norm(found: Recipe, config: ModelConfig, cost: Cost) -> str:
    if found.sphere:
        return "unit(x) = x / |x|"
    if not cost.norms:
        return "none"
    inside = found.block.heads
    own = f"; inside attention: {inside.format(norm=config.norm_name)}" if inside else ""
    return config.norm_name + own


_STARTS = {
    "deepnorm": "Xavier's rule; values, outputs and feed-forward drawn β times as large",
    "magneto": "Xavier's rule; values, outputs and feed-forward drawn √(ln 2N) times as large",
    "normal": "output matrices not shrunk",
}


def list_extras(found: Recipe) -> str:
    """Return the settings of a recipe other than its two steps, one per line."""
    parts = [
        (found.embedding_norm, "a norm on the embedding"),
        (found.embedding_scale, "a learned factor on the embedding"),
        ((found.block.heads or "").startswith("c "), "a norm on the heads' joined outputs"),
        (found.inner_norm, "a norm on the feed-forward's hidden vector"),
        (found.head_gain, "a learned gain for each head"),
        (found.second_stream, "a second stream r, the plain sum of writes; the output is x + N(r)"),
        (found.chain, "attention logits add up from block to block"),
        (found.sphere, "unit weights, unit stream, learned scales on q and k, u and v, logits"),
        (found.softcap is not None, f"attention logits bounded by {found.softcap}"),
        (found.logit_softcap is not None, f"output logits bounded by {found.logit_softcap}"),
        (found.profiled, "constants from a forward pass before training"),
        (found.norm, f"always the norm {found.norm}"),
        (found.init, f"initialization: {_STARTS.get(found.init or '', found.init)}"),
    ]
    return "\n".join(text for holds, text in parts if holds)


def _list_learnable(model: nn.Module) -> str:
    """List each parameter that is not a matrix: path without block number, shape, initial value."""
    seen: dict[tuple[str, str, str], int] = {}
    for path, parameter in model.named_parameters():
        if path.split(".")[-2:-1] and path.split(".")[-2] in _MATRICES and parameter.ndim == 2:
            continue
        owner = model.get_submodule(path.rpartition(".")[0])
        used = f" (used as {_format_start(owner())})" if isinstance(owner, Scale) else ""
        first = _format_start(parameter) + used
        key = (re.sub(r"\.\d+\.", ".*.", path), str(tuple(parameter.shape)), first)
        seen[key] = seen.get(key, 0) + 1
    wide = max((len(path) for path, _, _ in seen), default=0)
    return "\n".join(
        f"{count:>3} × {path:<{wide}} {shape} starts at {first}"
        for (path, shape, first), count in seen.items()
    )


def _format_start(parameter: Tensor) -> str:
    low, high = parameter.detach().min().item(), parameter.detach().max().item()
    return f"{low:.4g}" if low == high else "random values"


def _format_cost(cost: Cost, config: ModelConfig) -> str:
    share = cost.norm_operations / (cost.norm_operations + cost.matrix_flops)
    return (
        f"norms {cost.norm_operations:,.0f} operations a token, {share:.2%} of the model's "
        f"{cost.norm_operations + cost.matrix_flops:,.0f}\n"
        f"norms {cost.norm_bytes:,.0f} bytes a token moved, unfused, in bfloat16\n"
        f"({cost.norms} norms; dim {config.dim}, depth {config.depth}, heads {config.heads}, "
        f"context {config.context})"
    )
