"""Deliberate bugs in labkit that a claim of chapter 01, BatchNorm vs LayerNorm, must detect."""

from . import Break

BREAKS = [
    Break(
        idea="LayerNorm divides by d − 1, as Tensor.var does by default",
        path="labkit/norms/layer_norm.py",
        old="    variance = centred.square().mean(dim=-1, keepdim=True)",
        new="    variance = centred.var(dim=-1, keepdim=True)",
        claim="01-one-formula-four-axes",
    ),
    Break(
        idea="GroupNorm takes the number of groups for the size of a group",
        path="labkit/norms/group_norm.py",
        old="    groups = at_least_float32(x).reshape("
        "x.shape[0], num_groups, x[0:1].numel() // num_groups)",
        new="    num_groups = x.shape[1] // num_groups\n"
        "    groups = at_least_float32(x).reshape("
        "x.shape[0], num_groups, x[0:1].numel() // num_groups)",
        claim="01-group-norm-limits",
    ),
    Break(
        idea="folding forgets the skip of RepBN",
        path="labkit/convert/fold.py",
        old="    slope = slope + inner.eta.double() if isinstance(inner, RepBatchNorm) else slope",
        new="    slope = slope",
        claim="01-folded-network-is-equal",
    ),
]
