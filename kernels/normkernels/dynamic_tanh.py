"""DyT, dynamic tanh: squash each value; no statistics at all.

    y = weight · tanh(alpha · x) + bias

    z = alpha · x,  u = weight · dy · (1 − tanh²(z))
    dx = alpha · u    dalpha = Σ u · x    dweight = Σ_rows dy · tanh(z)    dbias = Σ_rows dy

The kernels are in `squash` and `squash_backward`. Bytes per value: 2s forward, 3s backward. Source:
Zhu et al. 2025, arXiv 2503.10622. Formula: `labkit.norms.dynamic_tanh`.
"""

from torch import Tensor

from normkernels.squash import make_squash_function

_dynamic_tanh = make_squash_function("dynamic_tanh", erf=False)


def dynamic_tanh(
    x: Tensor,
    alpha: Tensor | float = 0.5,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Apply tanh to alpha · x, then gain and shift, with one rounding at the end.

    `alpha` is a number, or a tensor with one element, which gets a gradient.
    """
    return _dynamic_tanh(x, alpha, 0.0, weight, bias)
