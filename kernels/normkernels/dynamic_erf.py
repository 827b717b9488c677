"""Derf, dynamic erf: squash each value with the error function; no statistics at all.

    y = weight · erf(alpha · x + shift) + bias

    z = alpha · x + shift,  u = weight · dy · 2/√π · exp(−z²)
    dx = alpha · u                dalpha = Σ u · x        dshift = Σ u
    dweight = Σ_rows dy · erf(z)  dbias = Σ_rows dy

The kernels are in `squash` and `squash_backward`. Bytes per value: 2s forward, 3s backward. Source:
Chen et al. 2025, arXiv 2512.10938. Formula: `labkit.norms.dynamic_erf`.
"""

from torch import Tensor

from normkernels.squash import make_squash_function

_dynamic_erf = make_squash_function("dynamic_erf", erf=True)


def dynamic_erf(
    x: Tensor,
    alpha: Tensor | float = 0.5,
    shift: Tensor | float = 0.0,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Apply erf to alpha · x + shift, then gain and bias, with one rounding at the end.

    `alpha` and `shift` are numbers, or tensors with one element, which get gradients.
    """
    return _dynamic_erf(x, alpha, shift, weight, bias)
