"""Call somebody else's code by what its arguments are called."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

# What an argument is, by its name, in the order in which names are tried.
ROLES: dict[str, str] = {
    "context": r"context|ctx",
    "cos_sin": r"position_embeddings|cos_sin|rope_cache",
    "cos": r"cos",
    "sin": r"sin",
    "angles": r"angles?|freqs?(_cis)?|rope|rotary(_angles)?|theta",
    "positions": r"position_ids|positions?|cache_position|pos",
    "causal": r"(is_)?causal",
    "mask": r"(attn_|src_|attention_|tgt_|causal_)?mask",
    "make_norm": r"make_norm|norm_factory|norm_cls|norm_class|norm_layer|make|factory|norm_fn|mk.*",
    "attention": r"attention|attn|mha|self_attn|self_attention|att|mixer",
    "feed_forward": r"feed_?forward|ffn|mlp|ff|feedforward",
    "sublayer": r"f|fn|func|sublayer|layer|module|branch|sub|block_fn|inner|net",
    "entry": r"entry|e|x0|block_input|x_in|x_block|origin|embedding|h0",
    "second": r"r|total|second|dual|residual|acc|stream2|sum|running|xs?_d(ual)?|x_f",
    "prev": r"prev.*|.*scores|.*logits|past_att.*",
    "omega": r"omega|ω|w|weight",
    "lambda": r"lam(bda)?_?|λ|res_?scale|scale|resid_scale",
    "alpha": r"alpha|a|α|share|lr",
    "beta": r"beta|β",
    "gate": r"gate|t|transform|carry",
    "unit": r"unit|normalize|l2|l2_norm|sphere",
    "sublayers": r"(n_|num_)?sublayers|l_total|total_sublayers",
    "depth": r"depth|(n_|num_)?(blocks|layers)|n_layer|num_hidden_layers",
    "number": r"number|layer|ell|ℓ|layer_(number|num|no)|block_number",
    "index": r"index|idx|block|i|(layer|block)_?(index|idx|id)",
    "sublayer_index": r"sublayer_(index|idx|id|number)",
    "place": r"place",
    "config": r"config|cfg|conf|args|hparams|hp|c",
    "dim": r"dim|d_?model|width|hidden_size|n_embd|d|size|channels|features|emb(ed)?(_dim)?",
    "kv_heads": r"(n_|num_)?(kv_|key_value_)heads?|num_key_value_heads|n_kv.*",
    "heads": r"(n_|num_)?(attention_)?heads?|nhead|n_head|h",
    "hidden": r"hidden(_dim)?|ffn?(_dim)?|d_?ff|dim_feedforward|intermediate_size|(mlp|inner)_dim",
    "head_dim": r"head_dim|d_head|d_k",
    "norm_out": r"norm_?(out|2|b|_after|_post)|(out|post)_?norm|m|ln_?2|outer(_norm)?|n2",
    "norm": r"norm(_?1|_?in|_?a|_before|_pre)?|n1?|ln(_?1)?|pre_?norm|in_?norm|inner_norm",
    "dropout": r"dropout|drop|p_drop|p|attn_drop|resid_drop|dropout_rate",
}  # fmt: skip
_COMPILED = {role: re.compile(pattern, re.IGNORECASE) for role, pattern in ROLES.items()}


def parameters(fn: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """List what a callable takes; None when nothing can be read."""
    try:
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return None


def role_of(name: str, among: Mapping[str, Any] | set[str]) -> str | None:
    """Return which of some roles a name means."""
    return next((r for r in _COMPILED if r in among and _COMPILED[r].fullmatch(name)), None)


def plain(p: inspect.Parameter) -> bool:
    """Return whether it is one named argument."""
    return p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)


def bind(
    fn: Callable[..., Any],
    known: Mapping[str, Any],
    order: tuple[str, ...] = (),
    *,
    fill: Any = None,
) -> tuple[list[Any], dict[str, Any], set[str]]:
    """Choose arguments: by name, then `order` for required ones with unknown names.

    It returns positional arguments, keyword arguments and the roles that were given.
    """
    listed = parameters(fn)
    if listed is None:
        return [known[r] for r in order if r in known], {}, set(order) & set(known)
    names = [p for p in listed if plain(p)]
    roles: dict[str, str] = {}
    for p in names:
        role = role_of(p.name, set(known) - set(roles.values()))
        if role:
            roles[p.name] = role
    for p in names:
        free = [r for r in order if r in known and r not in roles.values()]
        if p.name not in roles and p.default is p.empty and free:
            roles[p.name] = free[0]
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for p in names:
        given = p.name in roles
        if not given and p.default is not p.empty:
            continue
        value = known[roles[p.name]] if given else fill
        if p.kind is p.POSITIONAL_ONLY or (
            p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty and not kwargs
        ):
            args.append(value)
        else:
            kwargs[p.name] = value
    if any(p.kind is p.VAR_POSITIONAL for p in listed):
        args += [known[r] for r in order if r in known and r not in roles.values()]
        roles |= {f"*{r}": r for r in order if r in known}
    return args, kwargs, set(roles.values())
