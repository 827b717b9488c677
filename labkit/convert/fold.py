"""`fold_norms`: once trained, a norm of running statistics is an affine map; merge it away.

    y = a ⊙ x + c,  z = W y + b    becomes    z = (W diag(a)) x + (W c + b)

So PRepBN costs nothing in evaluation. Source: Guo et al. 2024, arXiv 2405.11582.
"""

import itertools
from collections.abc import Mapping, Sequence

from torch import nn

from labkit.norms.batch_norm import BatchNorm
from labkit.norms.prep_batch_norm import PRepBatchNorm
from labkit.norms.rep_batch_norm import RepBatchNorm, fold

_FOLDABLE = (nn.BatchNorm1d, BatchNorm, RepBatchNorm, PRepBatchNorm)


def fold_norms(model: nn.Module, pairs: Mapping[str, Sequence[str]] | None = None) -> None:
    """Fold BatchNorm, RepBatchNorm and PRepBatchNorm into the linear maps that read them.

    `pairs` names them, {"norm": ["q", "k", "v"]}: all maps that read the norm's output. Without
    it a norm in an nn.Sequential is folded where an nn.Linear follows. The norm becomes
    nn.Identity and each map a new nn.Linear with a bias; norms must be in evaluation mode.
    """
    pairs = pairs or _find_pairs(model)
    if not pairs:
        raise ValueError(
            f"nothing to fold in {type(model).__name__}: only BatchNorm1d, BatchNorm, RepBatchNorm "
            "and PRepBatchNorm fold, and only where an nn.Linear follows in an nn.Sequential; "
            'elsewhere name the pairs, like {"blocks.0.norm": ["blocks.0.q", "blocks.0.k"]}'
        )
    new: dict[str, nn.Module] = {}
    for name, maps in pairs.items():
        norm = model.get_submodule(name)
        if norm.training:
            raise ValueError(f"{name} is in training mode; call model.eval() before folding")
        new[name] = nn.Identity()
        for reader in maps:
            linear = model.get_submodule(reader)
            if not isinstance(linear, nn.Linear):
                raise TypeError(f"{name} folds into an nn.Linear, got {type(linear).__name__}")
            new[reader] = fold(norm, linear).requires_grad_(linear.weight.requires_grad)
    for name, module in new.items():
        model.set_submodule(name, module)


def _find_pairs(model: nn.Module) -> dict[str, list[str]]:
    return {
        f"{path}.{at}".lstrip("."): [f"{path}.{after}".lstrip(".")]
        for path, parts in model.named_modules()
        if isinstance(parts, nn.Sequential)
        for (at, norm), (after, linear) in itertools.pairwise(parts.named_children())
        if isinstance(norm, _FOLDABLE) and isinstance(linear, nn.Linear)
    }
