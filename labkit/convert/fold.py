"""`fold_norms` merges trained norms with running statistics, which are affine, into linear maps.

    y = a ⊙ x + c,  z = W y + b    becomes    z = (W diag(a)) x + (W c + b)

So PRepBN costs nothing in evaluation. Source: Guo et al. 2024, arXiv 2405.11582.
"""

import itertools
from collections.abc import Iterable, Mapping

import torch
from torch import nn

from labkit.convert.find import find_obstacle, find_tie, list_norms, places_of, replace_modules
from labkit.convert.record import Conversion, Left, Swapped
from labkit.norms.batch_norm import BatchNorm
from labkit.norms.prep_batch_norm import PRepBatchNorm
from labkit.norms.rep_batch_norm import RepBatchNorm

Pairs = Mapping[str, str | Iterable[str]]
_FOLDABLE = (nn.BatchNorm1d, BatchNorm, RepBatchNorm, PRepBatchNorm)
_RULE = (
    "BatchNorm1d, BatchNorm, RepBatchNorm and PRepBatchNorm can be folded, and only into an "
    "nn.Linear that follows them"
)


def fold_norms(model: nn.Module, pairs: Pairs | None = None) -> Conversion:
    """Fold BatchNorm, RepBatchNorm and PRepBatchNorm into the linear maps that read them.

    `pairs` names them, {"norm": "fc1"} or {"norm": ["q", "k", "v"]}: all maps that read the norm's
    output, because they get its input after the fold. Without `pairs`, a norm in an nn.Sequential
    is folded if an nn.Linear follows it. The norm becomes nn.Identity and each map a new nn.Linear
    with a bias. The norms must be in evaluation mode. Everything is checked before the model is
    changed; `undo()` on the result restores the old modules.
    """
    places = places_of(model)
    named = {name: module for module, names in places.items() for name in names}
    wanted, left = (_find_pairs(pairs, named), {}) if pairs else _in_sequentials(places)
    if not wanted:
        raise ValueError(
            f"fold found nothing in {type(model).__name__}: only {_RULE} in an nn.Sequential; its "
            f"norms are {list_norms(model)}. For maps elsewhere, name the pairs, like "
            '{"blocks.0.norm": ["blocks.0.q", "blocks.0.k", "blocks.0.v"]}'
        )
    new: dict[nn.Module, nn.Module] = {}
    rows: list[Swapped] = []
    for norm, maps in wanted.items():
        for module in (norm, *maps):
            if reason := _explain_unfit(model, module, places, places[norm][0]):
                raise ValueError(reason)
        for linear in maps:
            if linear in new:
                raise ValueError(
                    f"each linear map must be paired with one norm, but {places[linear][0]} is "
                    "paired with two; pair it with the one that it follows"
                )
            new[linear] = _fold_norm(norm, linear).requires_grad_(linear.weight.requires_grad)
        into = ", ".join(places[linear][0] for linear in maps)
        kind = f"Identity, folded into {into}"
        rows.append(Swapped(places[norm][0], type(norm).__name__, kind, same="same in eval"))
        new[norm] = nn.Identity()
    rest = [Left(places[norm][0], type(norm).__name__, why) for norm, why in left.items()]
    return Conversion(model, rows, rest, replace_modules(model, places, new))


@torch.no_grad()
def _fold_norm(norm: nn.Module, linear: nn.Linear) -> nn.Linear:
    """Return the map that equals `linear(norm(x))` in evaluation, in the dtype of `linear`."""
    inner = norm.rep if isinstance(norm, PRepBatchNorm) else norm  # PRepBN evaluates its RepBN
    assert isinstance(inner, nn.modules.batchnorm._BatchNorm)
    if inner.running_mean is None or inner.running_var is None:
        raise ValueError(
            f"fold needs running statistics, but this {type(norm).__name__} has none; make it "
            "with track_running_stats=True"
        )
    if linear.in_features != inner.num_features:
        raise ValueError(
            f"fold needs a linear map whose inputs are the norm's {inner.num_features} features, "
            f"got one of {linear.in_features} features"
        )
    # float64, because the fold is made once and its error is in every later result.
    slope = torch.rsqrt(inner.running_var.double() + inner.eps)
    slope = slope if inner.weight is None else inner.weight.double() * slope
    offset = -slope * inner.running_mean.double()
    offset = offset if inner.bias is None else inner.bias.double() + offset
    slope = slope + inner.eta.double() if isinstance(inner, RepBatchNorm) else slope
    matrix = linear.weight
    folded = nn.Linear(
        linear.in_features, linear.out_features, device=matrix.device, dtype=matrix.dtype
    )
    bias = matrix.double() @ offset
    folded.weight.copy_(matrix.double() * slope)
    folded.bias.copy_(bias if linear.bias is None else bias + linear.bias.double())
    return folded.train(linear.training)


def _find_pairs(pairs: Pairs, named: dict[str, nn.Module]) -> dict[nn.Module, list[nn.Linear]]:
    if not isinstance(pairs, Mapping):
        raise TypeError(
            'pairs must be a mapping from a norm to its linear maps, like {"norm": ["q", "k"]}, '
            f"got {pairs!r}"
        )
    wanted: dict[nn.Module, list[nn.Linear]] = {}
    for name, into in pairs.items():
        names = [into] if isinstance(into, str) else list(into)
        if missing := [each for each in (name, *names) if each not in named]:
            raise ValueError(
                f"pairs may name only modules of the model, which has no {', '.join(missing)}; "
                "model.named_modules() lists them"
            )
        maps = [named[each] for each in names]
        if not maps or not all(isinstance(module, nn.Linear) for module in maps):
            kinds = ", ".join(type(module).__name__ for module in maps) or "nothing"
            raise TypeError(f"{name} must be paired with nn.Linear modules, got {kinds}")
        if not isinstance(named[name], _FOLDABLE):
            raise TypeError(
                f"{name} is {type(named[name]).__name__}, which cannot be folded: only {_RULE}, "
                "because in evaluation they are a fixed affine map of the last axis"
            )
        wanted[named[name]] = [module for module in maps if isinstance(module, nn.Linear)]
    return wanted


def _in_sequentials(
    places: dict[nn.Module, list[str]],
) -> tuple[dict[nn.Module, list[nn.Linear]], dict[nn.Module, str]]:
    """Pair each norm with the Linear that follows it; list the other norms with a reason."""
    wanted: dict[nn.Module, list[nn.Linear]] = {}
    for module in places:
        parts = [*module._modules.values()] if isinstance(module, nn.Sequential) else []
        for norm, after in itertools.pairwise(parts):
            if isinstance(norm, _FOLDABLE) and isinstance(after, nn.Linear):
                wanted[norm] = [after]
    norms = [module for module in places if isinstance(module, _FOLDABLE)]
    inner = {part for norm in norms for part in norm.modules() if part is not norm}
    left: dict[nn.Module, str] = {
        norm: "no nn.Linear follows it in an nn.Sequential"
        for norm in norms
        if norm not in wanted and norm not in inner
    }
    return wanted, left


def _explain_unfit(
    model: nn.Module, module: nn.Module, places: dict[nn.Module, list[str]], norm: str
) -> str:
    """Return why a norm or a map cannot be folded, or ""."""
    name = places[module][0]
    if isinstance(module, _FOLDABLE) and module.training:
        return f"{name} is in training mode; call model.eval() before folding"
    if places[module][1:]:
        return f"{name} is used in {len(places[module])} places; fold it by hand"
    if reason := find_obstacle(module):
        return f"{name} cannot be folded: {reason}"
    if other := find_tie(model, module):
        return f"{name} cannot be folded for {norm}: its parameter is tied to {other}"
    return ""
