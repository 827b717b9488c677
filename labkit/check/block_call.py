"""Call somebody else's code by what its arguments are called."""

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

# What an argument is, by its name; the first pattern that fits decides.
_ROLES: dict[str, str] = {
    "context": r"context|ctx",
    "cos_sin": r"position_embeddings|cos_sin|rope_cache",
    "cos": r"cos", "sin": r"sin",
    "angles": r"angles?|freqs?(_cis)?|rope|rotary(_angles)?|theta",
    "positions": r"position_ids|positions?|cache_position|pos",
    "causal": r"(is_)?causal",
    "key_padding_mask": r"(src_)?key_padding_mask", "padding": r"padding(_mask)?",
    "mask": r"(attn_|src_|attention_|tgt_|causal_)?mask",
    "make_norm": r"make_norm|norm_factory|norm_cls|norm_class|norm_layer|make|factory|norm_fn|mk.*",
    "attention": r"attention|attn|mha|self_attn|self_attention|att|mixer",
    "feed_forward": r"feed_?forward|ffn|mlp|ff",
    "sublayer": r"f|fn|func|sublayer|layer|module|branch|sub|block_fn|inner|net",
    "entry": r"entry|e|x0|block_input|x_in|x_block|origin|embedding|h0",
    "second": r"r|total|second|dual|residual|acc|stream2|sum|running|xs?_d(ual)?|x_f",
    "prev": r"prev.*|.*scores|.*logits|past_att.*",
    "omega": r"omega|ω|w|weight", "lambda": r"lam(bda)?_?|λ|res_?scale|scale|resid_scale",
    "alpha": r"alpha|a|α|share|lr", "gate": r"gate|t|transform|carry",
    "unit": r"unit|normalize|l2|l2_norm|sphere",
    "sublayers": r"(n_|num_)?sublayers|l_total|total_sublayers",
    "depth": r"depth|(n_|num_)?(blocks|layers)|n_layer|num_hidden_layers",
    "number": r"number|layer|ell|ℓ|layer_(number|num|no)|block_number",
    "index": r"index|idx|block|i|(layer|block)_?(index|idx|id)",
    "sublayer_index": r"sublayer_(index|idx|id|number)", "place": r"place",
    "config": r"config|cfg|conf|args|hparams|hp|c",
    "dim": r"dim|d_?model|width|hidden_size|n_embd|d|size|channels|features|emb(ed)?(_dim)?",
    "kv_heads": r"(n_|num_)?(kv_|key_value_)heads?|n_kv.*",
    "heads": r"(n_|num_)?(attention_)?heads?|nhead|n_head|h",
    "hidden": r"hidden(_dim)?|ffn?(_dim)?|d_?ff|dim_feedforward|intermediate_size|(mlp|inner)_dim",
    "head_dim": r"head_dim|d_head|d_k",
    "norm_out": r"norm_?(out|2|b|_after|_post)|(out|post)_?norm|m|ln_?2|outer(_norm)?|n2",
    "norm": r"norm(_?1|_?in|_?a|_before|_pre)?|n1?|ln(_?1)?|pre_?norm|in_?norm|inner_norm",
    "dropout": r"dropout|drop|p_drop|p|attn_drop|resid_drop|dropout_rate",
}  # fmt: skip
_COMPILED = {role: re.compile(pattern, re.IGNORECASE) for role, pattern in _ROLES.items()}


def arguments(fn: Callable[..., Any], *, starred: bool = False) -> list[inspect.Parameter]:
    """List the named arguments of a callable, or those like *args; none when they are unknown."""
    try:
        listed = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in listed if (p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)) == starred]


def role_of(name: str, among: Collection[str]) -> str | None:
    """Return which of some roles a name means."""
    return next((r for r in _COMPILED if r in among and _COMPILED[r].fullmatch(name)), None)


def roles(fn: Callable[..., Any], among: Collection[str]) -> list[str | None]:
    """Return what each named argument of a callable means, in their order."""
    return [role_of(p.name, among) for p in arguments(fn)]


def call(
    fn: Callable[..., Any], known: Mapping[str, Any], order: tuple[str, ...], fill: Any = None
) -> Any:
    """Call with what is known: by name, then `order` for required arguments of unknown names.

    A required argument for which nothing is left gets `fill`; *args gets the rest of `order`.
    """
    chosen: dict[str, str] = {}
    for p in arguments(fn):
        if role := role_of(p.name, known.keys() - set(chosen.values())):
            chosen[p.name] = role
    rest = [role for role in order if role in known and role not in chosen.values()]
    given: dict[str, Any] = {}
    for p in arguments(fn):
        if p.name not in chosen and p.default is p.empty and rest:
            chosen[p.name] = rest.pop(0)
        if p.name in chosen or p.default is p.empty:
            given[p.name] = known[chosen[p.name]] if p.name in chosen else fill
    open_end = any(p.kind is p.VAR_POSITIONAL for p in arguments(fn, starred=True))
    if open_end or not arguments(fn):
        return fn(*given.values(), *(known[role] for role in rest))
    first = [p.name for p in arguments(fn) if p.kind is p.POSITIONAL_ONLY and p.name in given]
    return fn(*(given.pop(name) for name in first), **given)
