"""Special checks of LayerNorm, and of sums with a norm: functions without arguments."""

from dataclasses import replace

import torch
from normkernels import rms_norm_add_norm, rms_norm_gated

from .cases import NAMED
from .laws_formula import compare_with_formula
from .measure import BRAIN, DEVICE, Run, Setting, draw, fused, identical, rms, rounded, truth


def near(actual: Run, exact: Run, share: float = 2e-6) -> None:
    """Compare with float64: sums may lose `share` of each tensor's largest value."""
    outputs = zip(actual.outputs, exact.outputs, strict=True)
    both = [(f"output {i}", *pair) for i, pair in enumerate(outputs)]
    both += [(f"gradient of {n}", actual.grads[n], ref) for n, ref in exact.grads.items()]
    for name, one, ref in both:
        assert one is not None and ref is not None
        error, size = (one.double() - ref).abs().max(), ref.abs().max()
        assert error <= share * size, f"{name} is off by {error:.3g}, of {size:.3g}"


def check_the_norm_may_read_the_sum_before_rounding():
    """`round_sum=False`: the same h, a better y, gradients that miss h's rounding."""
    for name in ("add_rms_norm", "add_layer_norm"):
        case = NAMED[name]
        inputs = draw(case, Setting(5, 129, BRAIN))
        inputs |= {row: 1.37 * inputs[row] for row in case.rows}  # whose sum is not exact
        after = fused(case, inputs)
        before = fused(replace(case, options={"round_sum": False}), inputs, dys=after.dys)
        exact = truth(case, inputs, after.dys)
        (y, h), ref = before.outputs, exact.outputs[0]
        identical("h", h, after.outputs[1])
        assert rms(y.double() - ref) < rms(after.outputs[0].double() - ref)
        assert (y.double() != rounded(ref, BRAIN)).double().mean() < 0.01, "rounded once"
        near(Run((), (), before.grads), Run((), (), exact.grads), 2.0**-6)


def check_an_unused_norm_has_no_gradient_and_spreads_no_infinity():
    """If only the sum is used, the next norm's weight gets None, and other rows stay finite."""
    inputs = draw(NAMED["rms_norm_add_norm:gemma"], Setting(5, 129))
    inputs["residual"][0, 3] = float("inf")
    given = {name: value.requires_grad_() for name, value in inputs.items()}
    _, h = rms_norm_add_norm(**given, offset=1.0)
    h[1:].sum().backward()
    assert given["next_weight"].grad is None
    for name in ("x", "residual", "weight"):
        assert given[name].grad.isfinite().all(), name


def check_a_gate_far_below_zero_closes():
    """The product with the norm may not overflow before the sigmoid makes it 0."""
    x, gate = torch.zeros(2, 3, 8, device=DEVICE)
    x[:, 0], gate[:] = 1.0, -3e38
    assert not rms_norm_gated(x, gate).any()


def check_any_weight_of_the_skip():
    for alpha in (1.0, 0.5, -2.0, 0.0):
        case = replace(
            NAMED["deep_norm"],
            options={"alpha": alpha},
            total=lambda x, branch, alpha=alpha, **_: alpha * x + branch,
        )
        compare_with_formula(case, draw(case, Setting(5, 129)))


def check_rows_far_from_zero_keep_their_digits():
    """At offset 1e4, outputs and gradients are right for the given numbers."""
    for name, n in (("layer_norm", 41), ("layer_norm", 65536), ("add_layer_norm", 1536)):
        case = NAMED[name]
        inputs = draw(case, Setting(3, n))
        inputs |= {row: inputs[row].round() for row in case.rows[1:]}  # whose sum is exact
        inputs["x"] = 1e4 + (inputs["x"].round() if case.total else inputs["x"])
        actual = fused(case, inputs)
        near(actual, truth(case, inputs, actual.dys))


def check_a_first_chunk_far_from_the_mean_of_its_row():
    """Rows in chunks are centred by their first chunk, which may differ from all others."""
    for name in ("layer_norm", "add_layer_norm"):
        case = NAMED[name]
        inputs = draw(case, Setting(3, 65536))
        x = inputs["x"]
        x[0, :16384] += 1e4
        x[1, :16384] = 3.0
        x[2, 16384:] = -7.0
        inputs |= {row: torch.zeros_like(x) for row in case.rows[1:]}
        for off in (0.0, 1e4):
            given = inputs | {"x": x + off}
            actual = fused(case, given)
            exact = truth(case, given, actual.dys)
            for row in range(3):
                one, ref = (
                    Run((r.outputs[0][row],), (), {"x": r.grads["x"][row]})  # type: ignore[index]
                    for r in (actual, exact)
                )
                near(one, ref, 4e-6)


check_a_first_chunk_far_from_the_mean_of_its_row.slow = True  # type: ignore[attr-defined]
