"""Rules for a model's description; each error states the rule, the value and a fix."""

import math

from labkit.model.description import Description
from labkit.model.feed_forward import ACTIVATIONS
from labkit.model.init import INITS
from labkit.model.space import space_of
from labkit.norms import NORMS, make_norm
from labkit.placements import recipe
from labkit.system.unknown import explain_unknown

KINDS = ("decoder", "encoder", "encoder-decoder")
COUNTS = ("dim", "depth", "heads", "vocab", "context", "experts_per_token")
OPTIONAL_COUNTS = ("kv_heads", "hidden", "encoder_depth", "experts")


def check_config(config: Description) -> None:
    """Refuse invalid settings with a ValueError or TypeError that names the field."""
    _check_types(config)
    recipe(config.recipe)
    _check_names(config)
    _check_counts(config)
    _check_numbers(config)
    _check_norms(config)
    space_of(config.recipe).check_config(config)


def _check_types(config: Description) -> None:
    for field in ("recipe", "norm", "kind", "activation", "init", "qk_norm"):
        value = getattr(config, field)
        if not isinstance(value, str) and not (value is None and field in ("init", "qk_norm")):
            raise TypeError(f"{field} must be a string, got {value!r}")
    for field in ("tie", "final_norm"):
        value = getattr(config, field)
        if not isinstance(value, bool) and not (value is None and field == "final_norm"):
            raise TypeError(f"{field} must be True or False, got {value!r}")
    pairs = config.norm_kw
    if not isinstance(pairs, tuple) or not all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
    ):
        raise TypeError(
            'norm_kw must be a tuple of (name, value) pairs, such as (("bias", False),); '
            f"got {pairs!r}"
        )
    names = [name for name, _ in pairs] + ["eps"] * (config.norm_eps is not None)
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(
            "each option of a norm may be given only once, in norm_kw or as norm_eps; "
            f"{', '.join(twice)} is given twice"
        )


def _check_names(config: Description) -> None:
    for what, name, table in (
        ("norm", config.norm, NORMS),
        ("initialization", config.init or "normal", INITS),
        ("kind", config.kind, KINDS),
        ("activation", config.activation, ("swiglu", *ACTIVATIONS)),
    ):
        if name not in table:
            raise ValueError(explain_unknown(what, name, table))


def _check_counts(config: Description) -> None:
    for field in (*COUNTS, *OPTIONAL_COUNTS):
        value = getattr(config, field)
        if value is None and field in OPTIONAL_COUNTS:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{field} must be a whole number, got {value!r}")
        if value < 1:
            raise ValueError(f"{field} must be at least 1, got {value}")
    if config.dim % (2 * config.heads):
        raise ValueError(
            f"dim must be an even multiple of heads ({config.heads}), because rotary positions "
            f"rotate channels in pairs; got {config.dim}"
        )
    if config.heads % (config.kv_heads or config.heads):
        raise ValueError(
            f"heads ({config.heads}) must be a multiple of kv_heads ({config.kv_heads})"
        )
    if config.encoder_depth is not None and config.kind != "encoder-decoder":
        raise ValueError(
            f"encoder_depth applies only to kind='encoder-decoder', got kind={config.kind!r}; "
            "give a single stack only depth"
        )
    if config.experts is not None and config.experts_per_token > config.experts:
        raise ValueError(
            f"experts_per_token ({config.experts_per_token}) must be at most experts "
            f"({config.experts})"
        )


def _check_numbers(config: Description) -> None:
    above = ("embedding_size", "softcap", "logit_softcap", "qk_clip")
    for field in ("norm_eps", "balance", "router_z", *above):
        value = getattr(config, field)
        needed = field in ("balance", "router_z", "embedding_size")
        if value is None and not needed:
            continue
        if not isinstance(value, int | float):
            raise TypeError(f"{field} must be a number, got {value!r}")
        if field not in above:
            if not 0 <= value < math.inf:
                raise ValueError(f"{field} must be at least 0 and finite, got {value}")
        elif not 0 < value < math.inf:
            either = "" if needed else " (or None)"
            raise ValueError(f"{field} must be above 0 and finite{either}, got {value}")
    if config.alpha is None:
        return
    if config.norm_name not in ("dyt", "derf"):
        raise ValueError(
            f"alpha applies only to the norms dyt and derf, got norm {config.norm_name!r}; leave "
            "alpha out"
        )
    pair = config.alpha
    if (
        not isinstance(pair, tuple)
        or len(pair) != 2
        or not all(isinstance(a, int | float) and 0 < a < math.inf for a in pair)
    ):
        raise ValueError(
            "alpha must be a tuple of two positive numbers, for attention's norms and for all "
            f"others; got {pair!r}"
        )


def _check_norms(config: Description) -> None:
    """Make one norm of each kind in the model, which refuses invalid sizes."""
    asked, name = recipe(config.recipe), config.norm_name
    make_norm(name, config.dim, **config.norm_options)
    if asked.inner_norm:
        make_norm(name, config.hidden_dim, **config.norm_options)
        if config.experts is not None and getattr(NORMS[name], "takes_mask", False):
            raise ValueError(
                f"recipe {config.recipe!r} puts a norm inside each expert, which receives "
                "different tokens in every batch, so statistics over tokens are meaningless "
                f"there, got norm {name!r}; choose one that acts on each token separately"
            )
    inside = [p.heads for p in (asked.block, asked.first) if p is not None and p.heads]
    if config.qk_norm is not None and inside:
        raise ValueError(
            "qk_norm applies only to recipes without norms inside attention, but "
            f"{config.recipe!r} has them ({inside[0]}); leave qk_norm out, or choose another "
            "recipe"
        )
    for heads in inside or [None]:
        norms = config.norms_inside(heads)
        if norms is None:
            continue
        width = config.dim if norms.share == "width" else config.dim // config.heads
        make_norm(norms.norm, width, **config.options_of(norms.norm))
        if config.qk_clip is not None and set(norms.tensors) & set("qk"):
            raise ValueError(
                "QK-Clip scales W_q and W_k, but a norm of q or k cancels that scale "
                f"({heads or config.qk_norm}); use only one of the two"
            )
