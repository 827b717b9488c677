"""Laws about values: outputs and gradients equal the formula's, even for difficult inputs."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from normkernels.launch import INTERPRETED
from torch import Tensor

from .cases import Case
from .law import FAMILIES, law, nearest, pairs, paths, small
from .measure import (
    BRAIN,
    DEVICE,
    EPS,
    FLOAT,
    HALF,
    SUM_SHARE,
    UNIT,
    Run,
    Setting,
    Skip,
    as_tuple,
    close,
    draw,
    fused,
    identical,
    learned,
    leaves,
    normal_like,
    relative,
    rms,
    rounded,
    row_floor,
    run,
    sum_floor,
    term_floor,
    truth,
)


def agree(
    case: Case,
    inputs: dict[str, Any],
    actual: Run,
    exact: Run,
    eager: Run,
    extra: dict[str, Any] | None = None,
) -> None:
    """Compare outputs and gradients with float64, and with the same formula run eagerly."""
    inner = inputs[case.rows[0]].dtype
    again = (case.roundings - 1) * 1.3 * relative(inner)
    # Interpreted, a bfloat16 is cut off: twice as far off as rounded, and always to the same side.
    cut = INTERPRETED and BRAIN in (value.dtype for value in eager.outputs + eager.dys)
    times = 1 + case.roundings if cut or (INTERPRETED and inner == BRAIN) else 1
    extra = extra or {}
    both = zip(actual.outputs, exact.outputs, eager.outputs, strict=True)
    for i, (y, ref, rival) in enumerate(both):
        name = f"output {i}"
        floor = row_floor(ref)
        lost = row_floor(ref, again) if case.cancels else 0.0
        close(name, y, ref, rival.dtype, again, floor + lost + extra.get(name, 0.0))
        no_worse(name, y, ref, rival, floor, times)
    for name, grad in actual.grads.items():
        ref, rival = exact.grads[name], eager.grads[name]
        assert (grad is None) == (ref is None), f"gradient of {name} is {grad}"
        if grad is None or ref is None or rival is None:
            continue
        lost = 0.0
        if name in case.rows:
            floor = row_floor(ref) + term_floor(case, inputs, name, exact)
            lost = row_floor(ref, again) if name in case.keeps else 0.0
        else:
            # What llama's order rounded before the gain is in every term of the gain's gradient.
            summed = sum_floor(exact, ref)
            floor = summed + 8 * again * summed / SUM_SHARE
        name, dtype = f"gradient of {name}", inputs[name].dtype
        close(name, grad, ref, dtype, 0.0, floor + lost + extra.get(name, 0.0))
        sums = 0.0 if name[12:] in case.rows else extra.get(name, 0.0)
        no_worse(name, grad, ref, rival, floor + sums, times)


def no_worse(
    what: str, actual: Tensor, ref: Tensor, rival: Tensor, floor: Any, times: float
) -> None:
    """Fail if the error is more than 1.5 × that of eager PyTorch.

    Eager may be right by luck, or all zero. Nobody can promise better than the true value rounded
    to the dtype, up to what float32 loses in sums: so much error is always allowed.
    """
    if not actual.numel() or not ref.isfinite().all() or not actual.isfinite().all():
        return
    best = rounded(ref, actual.dtype) - ref
    ours, theirs = actual.double() - ref, rival.double() - ref
    floor = floor if isinstance(floor, float) else float(floor.max())
    for kind, size in (("largest", lambda e: e.abs().max()), ("typical", rms)):
        promised = max(float(size(best)), UNIT[actual.dtype] * float(size(ref)))
        allowed = 1.5 * max(times * float(size(theirs)), promised) + floor
        assert size(ours) <= allowed, (
            f"{what}: {kind} error {size(ours):.3g}; eager PyTorch's is {size(theirs):.3g}, "
            f"one rounding's is {promised:.3g}"
        )


def is_short(case: Case, setting: Setting) -> bool:
    """Return whether interpretation is fast: a few rows, or many short ones."""
    return setting.m <= 200 and 0 < setting.m * setting.n <= 2000


@law(pairs, quick=is_short)
def formula(case: Case, setting: Setting) -> None:
    """Outputs and all gradients agree with the formula at least as well as eager PyTorch's."""
    compare_with_formula(case, draw(case, setting))


@law(small)
def same_rounding(case: Case, setting: Setting) -> None:
    """Values are rounded where the formula rounds them: nearly all have the bits of eager's.

    float16 is rounded to nearest everywhere. Two float32 computations end on different sides of a
    tie between two numbers of float16 in about one of a thousand values.
    """
    inputs = draw(case, Setting(200, setting.n, HALF))
    inputs |= {name: 1.37 * inputs[name] for name in case.rows}  # so that sums are not exact
    ours = as_tuple(case.function(**inputs, **case.options))
    theirs = as_tuple(case.formula(**inputs, **case.options))
    for i, (y, of_eager) in enumerate(zip(ours, theirs, strict=True)):
        share = float((y == of_eager).double().mean())
        assert share > 0.98, f"output {i}: {1 - share:.1%} of the values have other bits"


def compare_with_formula(
    case: Case, inputs: dict[str, Any], frozen: tuple[str, ...] = (), shaky: bool = False
) -> Run:
    """Run the kernel, the formula in float64 and the formula as written, and compare."""
    actual = fused(case, inputs, frozen=frozen)
    exact = truth(case, inputs, actual.dys, frozen)
    eager = run(case.formula, case, inputs, actual.dys, frozen)
    agree(case, inputs, actual, exact, eager, shaken(case, inputs, exact) if shaky else None)
    return actual


def shaken(case: Case, inputs: dict[str, Any], exact: Run) -> dict[str, Any]:
    """Return 4 × the change of the true results if float32 inputs change in their last bit.

    No float32 computation can be asked to know its inputs better than that; nor one that rounds a
    sum, to know that sum better than its dtype.
    """
    known = UNIT[inputs[case.rows[0]].dtype] if case.total and case.rounds_total else EPS
    generator = torch.Generator().manual_seed(2)
    change: dict[str, Any] = {}
    for _ in range(2):
        moved = {}
        for name, value in inputs.items():
            if name in case.rows:
                signs = torch.rand(value.shape, generator=generator).to(DEVICE).double() * 2 - 1
                value = value.double() * (1 + known * signs)
            moved[name] = value
        near = truth(case, moved, exact.dys)
        both = zip(near.outputs, exact.outputs, strict=True)
        results = [(f"output {i}", *two) for i, two in enumerate(both)]
        results += [(f"gradient of {n}", near.grads[n], ref) for n, ref in exact.grads.items()]
        for name, moved_result, ref in results:
            if ref is not None and ref.numel():
                off = (moved_result - ref).abs().nan_to_num(0.0)
                off = off.amax(-1, keepdim=True) if off.ndim else off
                change[name] = torch.maximum(4 * off, torch.as_tensor(change.get(name, 0.0)))
    return change


@law(small)
def mixed_rows(case: Case, setting: Setting) -> None:
    """Two activations may have two dtypes; every result and gradient has the formula's."""
    if len(case.rows) < 2 or case.name.startswith("qk"):
        raise Skip("has rows of one dtype")
    inputs = draw(case, setting)
    for dtypes in ((FLOAT, BRAIN), (BRAIN, FLOAT), (HALF, FLOAT)):
        rows = {name: inputs[name].to(d) for name, d in zip(case.rows, dtypes, strict=True)}
        compare_with_formula(case, inputs | rows)


@law(small)
def none(case: Case, setting: Setting) -> None:
    """Every optional parameter may be missing, alone and together with the others."""
    inputs = draw(case, setting)
    given = inspect.signature(case.function).parameters
    optional = [n for n in case.parameters if n in given and given[n].default is None]
    for missing in [[name] for name in optional] + [optional]:
        compare_with_formula(case, inputs | dict.fromkeys(missing))


@law(paths)
def frozen(case: Case, setting: Setting) -> None:
    """Frozen parameters have no gradient, and the gradients of the others keep their bits."""
    inputs = draw(case, setting)
    every = fused(case, inputs)
    names = learned(case, inputs)
    for group in {*((name,) for name in names), tuple(n for n in names if n not in case.rows)}:
        actual = fused(case, inputs, dys=every.dys, frozen=group)
        assert not set(actual.grads) & set(group)
        for name, grad in actual.grads.items():
            identical(f"gradient of {name} with {group} frozen", grad, every.grads[name])


@law(small)
def one_output(case: Case, setting: Setting) -> None:
    """Each of several outputs may be the only one that is used."""
    inputs = draw(case, setting)
    for i in range(len(as_tuple(case.function(**inputs, **case.options)))):
        for way in (case.function, case.formula):
            given = leaves(case, inputs)
            output = as_tuple(way(**given, **case.options))[i]
            names = learned(case, inputs)
            actual = torch.autograd.grad(
                output, [given[n] for n in names], normal_like([output]), allow_unused=True
            )
            if way is case.function:
                ours = dict(zip(names, actual, strict=True))
            else:
                for name, theirs in zip(names, actual, strict=True):
                    mine = ours[name]
                    mine = torch.zeros_like(given[name]) if mine is None else mine
                    theirs = torch.zeros_like(given[name]) if theirs is None else theirs
                    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


# --- Hard values ---


def _changed(inputs: dict[str, Any], names: tuple[str, ...], how: Any) -> dict[str, Any]:
    return {n: how(v.clone()) if n in names else v for n, v in inputs.items()}


def _rows(x: Tensor, value: float) -> Tensor:
    x[1::2] = value
    return x


def _gained(x: Tensor, value: float) -> Tensor:
    x.view(-1)[::2] = value
    return x


ROWS: dict[str, tuple[torch.dtype, Callable[[Tensor], Tensor]]] = {
    "offset 1e4": (FLOAT, lambda x: x + 1e4),
    "offset -300 bfloat16": (BRAIN, lambda x: x - 300),
    "constant rows": (FLOAT, lambda x: _rows(x, 3.1)),
    "constant rows float16": (HALF, lambda x: _rows(x, -0.3)),
    "zero rows": (FLOAT, lambda x: _rows(x, 0.0)),
    "zero rows bfloat16": (BRAIN, lambda x: _rows(x, 0.0)),
    "65504": (HALF, lambda x: _rows(x, 65504.0)),
    "alternating 65504": (HALF, lambda x: x.sign() * 65504),
    "1e15": (FLOAT, lambda x: 1e15 * x),
    "1e-4": (FLOAT, lambda x: 1e-4 * x),
    "1e-15": (FLOAT, lambda x: 1e-15 * x),
    "one large value": (FLOAT, lambda x: torch.where(torch.arange(x.shape[-1]).to(DEVICE) == 1,
                                                     3e4, 1e-2 * x)),
}  # fmt: skip


LONG = ("offset 1e4", "constant rows", "zero rows", "65504")


def hard_settings(case: Case) -> list[tuple[str, int]]:
    """Pair each kind of rows with short ones, and the worst kinds with rows in chunks."""
    lengths = [setting.n for (setting,) in paths(case)[::2]]
    return [(how, n) for how in ROWS for n in lengths if n < 4096 or how in LONG]


@law(
    hard_settings,
    lambda case, how, n: n < 200 and how in LONG and case.name in (*FAMILIES, "layer_norm"),
)
def hard_rows(case: Case, how: str, n: int) -> None:
    """Rows far from 0, without variance, all 0, huge or tiny give results as exact as possible."""
    dtype, change = ROWS[how]
    inputs = draw(case, Setting(3 if n > 4096 else 7, n, dtype))
    for name in case.rows:
        given = inputs | {name: change(inputs[name].clone())}
        if (
            case.total and case.rounds_total
        ):  # a sum of very different values is another law's matter
            given |= {n: torch.zeros_like(inputs[n]) for n in case.rows if n != name}
        eager = as_tuple(case.formula(**given, **case.options))
        if not all(y.isfinite().all() for y in eager):
            continue  # the sum is no number of the dtype
        actual = compare_with_formula(case, given, shaky=True)
        for value in actual.outputs:
            assert value.isfinite().all(), how


@law(lambda case: [(0.0, FLOAT), (1e-30, BRAIN), (-1e4, FLOAT)])
def hard_gains(case: Case, gain: float, dtype: torch.dtype) -> None:
    """Gains of 0 or nearly 0 lose nothing: x̂ is not computed by dividing y by the gain."""
    inputs = draw(case, Setting(7, nearest(case, 41), dtype))
    names = tuple(n for n in learned(case, inputs) if n not in case.rows)
    for group in dict.fromkeys([(name,) for name in names] + [names]):
        compare_with_formula(case, _changed(inputs, group, lambda g: _gained(g, gain)), shaky=True)


@law(paths)
def no_eps(case: Case, setting: Setting) -> None:
    """eps = 0 works wherever the formula does."""
    if "eps" not in inspect.signature(case.function).parameters:
        raise Skip("no eps")
    compare_with_formula(case, draw(case, setting) | {"eps": 0.0})
    compare_with_formula(case, draw(case, setting) | {"eps": 0.5})


@law(paths)
def one_bad_row(case: Case, setting: Setting) -> None:
    """A row that contains NaN or infinity affects only its own results."""
    inputs = draw(case, setting)
    clean = fused(case, inputs)
    bad = setting.m // 2
    others = torch.arange(setting.m, device=DEVICE) != bad
    for i, name in enumerate((*case.rows, "dy")):
        value = float("nan") if i % 2 else float("inf")
        spoilt, dys = dict(inputs), clean.dys
        if name == "dy":
            dys = tuple(dy.clone() for dy in dys)
            for dy in dys:
                dy[bad].view(-1)[0] = value
        else:
            spoilt[name] = inputs[name].clone()
            spoilt[name][bad].view(-1)[0] = value
        actual = fused(case, spoilt, dys=dys)
        eager = run(case.formula, case, spoilt, dys)
        for i, y in enumerate(actual.outputs):
            identical(f"output {i}, other rows", y[others], clean.outputs[i][others])
            assert torch.equal(y[bad].isfinite(), eager.outputs[i][bad].isfinite()), name
        for row in case.rows:
            mine, before, theirs = actual.grads[row], clean.grads[row], eager.grads[row]
            assert mine is not None and before is not None and theirs is not None
            identical(f"gradient of {row}, other rows", mine[others], before[others])
            assert mine[bad].isfinite().all() == theirs[bad].isfinite().all(), name


@law(paths)
def projections(case: Case, setting: Setting) -> None:
    """What the norm ignores has no gradient: dx is orthogonal to 1 or x where the true dx is."""
    inputs = draw(case, Setting(setting.m, setting.n))
    actual = fused(case, inputs)
    exact = truth(case, inputs, actual.dys)
    found = 0
    for name in case.rows:
        grad, ref, x = actual.grads[name], exact.grads[name], inputs[name].double()
        assert grad is not None and ref is not None
        for direction in (torch.ones_like(x), x):
            size = ref.norm(dim=-1) * direction.norm(dim=-1)
            if setting.n > 1 and ((ref * direction).sum(-1).abs() < 1e-5 * size).all():
                found += 1
                off = ((grad.double() - ref) * direction).sum(-1).abs() / size
                assert off.max() < 1e-6, f"gradient of {name}: share {off.max():.2g}"
    if not found:
        raise Skip("ignores neither mean nor size")
