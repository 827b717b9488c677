"""DeepNorm's step after the sublayer: y = LayerNorm(α · x + branch), with α on the skip only.

The sum is rounded to the wider dtype of x and branch, and saved for the backward pass. Its gradient
dz goes to the branch unchanged and to the skip multiplied by α. Bytes per value: read x and branch,
write the sum and y (4s forward); read dy and the sum, write dbranch and dx (4s backward).

The kernel is `add_norm`'s, whose residual is the skip. Source: Wang et al. 2022, arXiv 2203.00555.
Formula: `normkernels.formulas.deep_norm`.
"""

from torch import Tensor

from normkernels.add_norm import sum_norm
from normkernels.checks import check_parameters, check_rows


def deep_norm(
    x: Tensor,
    branch: Tensor,
    alpha: float,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return LayerNorm(alpha · x + branch) in the wider dtype of the two. Shapes (…, N)."""
    check_rows("deep_norm", x, eps, branch=branch)
    check_parameters("deep_norm", x, x.shape[-1], weight=weight, bias=bias)
    return sum_norm(branch, x, weight, bias, eps, float(alpha), True, True, True, 0.0, False)[0]
