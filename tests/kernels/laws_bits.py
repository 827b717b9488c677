"""Laws about bits: results must be bit for bit the same under irrelevant changes."""

from collections.abc import Iterable

import torch
from normkernels.launch import INTERPRETED
from torch import Tensor

from .cases import Case
from .law import law, paths, small
from .measure import (
    Run,
    Setting,
    Skip,
    as_tuple,
    draw,
    filled_with_nan,
    fused,
    identical,
    learned,
    leaves,
    normal_like,
)


def identical_runs(actual: Run, before: Run) -> None:
    """Fail if two runs differ in any bit."""
    for i, (one, two) in enumerate(zip(actual.outputs, before.outputs, strict=True)):
        identical(f"output {i}", one, two)
    for name in before.grads:
        identical(f"gradient of {name}", actual.grads[name], before.grads[name])


def similar_runs(actual: Run, before: Run) -> None:
    """Fail if bits differ; on a GPU, where layouts change the order of sums, allow rounding."""
    if INTERPRETED:
        return identical_runs(actual, before)
    both = [*zip(actual.outputs, before.outputs, strict=True)]
    both += [(actual.grads[name], before.grads[name]) for name in before.grads]
    for one, two in both:
        if one is None or two is None or not one.numel():
            assert one is None or one.shape == two.shape
            continue
        step = 4 * torch.finfo(one.dtype).eps
        largest = float(two.abs().nan_to_num(0).max())
        sums = 1e-6 * two.numel() ** 0.5 if one.ndim == 1 else 2e-6
        torch.testing.assert_close(one, two, rtol=step, atol=sums * largest, equal_nan=True)


@law(paths)
def repeat(case: Case, setting: Setting) -> None:
    """The same call gives the same bits."""
    inputs = draw(case, setting)
    before = fused(case, inputs)
    for _ in range(1 if INTERPRETED else 20):
        identical_runs(fused(case, inputs, dys=before.dys), before)


@law(paths)
def alone(case: Case, setting: Setting) -> None:
    """A row gives the same bits alone as in any batch, in its outputs and in its gradient."""
    inputs, m = draw(case, setting), setting.m
    batch = fused(case, inputs)
    for rows in ([0], [m - 1], [*range(1, m, 2)][::-1]):
        some = {n: v[rows].clone() if n in case.rows else v for n, v in inputs.items()}
        actual = fused(case, some, dys=tuple(dy[rows].clone() for dy in batch.dys))
        for i, (y, of_batch) in enumerate(zip(actual.outputs, batch.outputs, strict=True)):
            identical(f"output {i}, rows {rows} of {m}", y, of_batch[rows])
        for name in case.rows:
            theirs = batch.grads[name]
            assert theirs is not None
            identical(f"gradient of {name}, {rows} of {m}", actual.grads[name], theirs[rows])


@law(paths)
def prefilled(case: Case, setting: Setting) -> None:
    """Memory that is allocated full of NaN changes no bit: all of it is written."""
    for m in (setting.m, 1, 0):
        inputs = draw(case, Setting(m, setting.n, setting.dtype))
        before = fused(case, inputs)
        with filled_with_nan():
            actual = fused(case, inputs, dys=before.dys)
        for value in (*actual.outputs, *actual.grads.values()):
            assert value is None or not value.isnan().any()
        identical_runs(actual, before)


@law(paths)
def untouched(case: Case, setting: Setting) -> None:
    """Inputs and incoming gradients keep their bits; results share no memory with them.

    A second backward through the same graph gives the first one's gradients.
    """
    inputs = draw(case, setting)
    given = leaves(case, inputs)
    outputs = as_tuple(case.function(**given, **case.options))
    dys = normal_like(outputs)
    kept = [dy.clone() for dy in dys] + [y.detach().clone() for y in outputs]
    copies = {n: v.clone() for n, v in inputs.items() if isinstance(v, Tensor)}
    names = learned(case, inputs)
    learning = [given[n] for n in names]
    first = torch.autograd.grad(outputs, learning, dys, retain_graph=True, allow_unused=True)
    again = [None if grad is None else grad.clone() for grad in first]
    second = torch.autograd.grad(outputs, learning, dys, allow_unused=True)
    for name, copy in copies.items():
        identical(f"input {name} afterwards", inputs[name], copy)
    for i, (value, copy) in enumerate(zip([*dys, *outputs], kept, strict=True)):
        identical(f"incoming gradient or output {i} afterwards", value.detach(), copy)
    for name, one, two, three in zip(names, first, again, second, strict=True):
        identical(f"gradient of {name}, kept", one, two)
        identical(f"gradient of {name}, second time", three, two)
    before = [v for v in (*inputs.values(), *dys) if isinstance(v, Tensor)]
    made = [v for n, v in zip(names, first, strict=True) if v is not None and n not in case.passes]
    separate(before, outputs, made)
    torch.autograd.backward(as_tuple(case.function(**given, **case.options)), dys)
    separate(*[[leaf.grad] for leaf in learning if leaf.grad is not None])


def separate(*groups: Iterable[Tensor]) -> None:
    """Fail if two groups of tensors share memory."""
    seen: set[int] = set()
    for group in groups:
        places = {v.untyped_storage().data_ptr() for v in group if v.numel()}
        assert not places & seen, "results share memory"
        seen |= places


@law(small)
def noticed(case: Case, setting: Setting) -> None:
    """Changing a tensor in place that backward needs gives an error, not a wrong gradient."""
    inputs = draw(case, setting)
    before = fused(case, inputs)
    outputs = [f"output {i}" for i in range(len(before.outputs))]
    for changed in (*learned(case, inputs), *outputs):
        given = leaves(case, inputs)
        held = {n: v * 1 if n in learned(case, inputs) else v for n, v in given.items()}
        results = as_tuple(case.function(**held, **case.options))
        target = results[int(changed[7:])] if changed in outputs else held[changed]
        with torch.no_grad():
            target.add_(1)
        names = learned(case, inputs)
        try:
            actual = torch.autograd.grad(results, [given[n] for n in names], before.dys)
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error), error
        else:
            for name, grad in zip(names, actual, strict=True):
                identical(f"gradient of {name} after {changed} changed", grad, before.grads[name])


@law(small)
def shared(case: Case, setting: Setting) -> None:
    """Parameters used by two calls get the sum of both gradients."""
    one, two = draw(case, setting), draw(case, setting, seed=3)
    names = [n for n in learned(case, one) if n not in case.rows]
    given = leaves(case, one)
    other = {n: given[n] if n not in case.rows else v for n, v in two.items()}
    first, second = fused(case, one), fused(case, two | {n: one[n] for n in names})
    results = as_tuple(case.function(**given, **case.options))
    results += as_tuple(case.function(**other, **case.options))
    sums = torch.autograd.grad(results, [given[n] for n in names], first.dys + second.dys)
    for name, grad in zip(names, sums, strict=True):
        both = first.grads[name] + second.grads[name]
        torch.testing.assert_close(grad, both, rtol=1e-6, atol=1e-6)


# --- Layouts ---


def among_nan(x: Tensor) -> Tensor:
    """Return the same values surrounded by NaN: every other row, misaligned."""
    wide = x.new_full((2 * x.shape[0], *x.shape[1:-1], x.shape[-1] + 5), float("nan"))
    view = wide[::2, ..., 3:-2] if x.ndim > 1 else wide.flatten()[1 : 2 * x.shape[0] : 2]
    return view.copy_(x)


def spread(x: Tensor) -> Tensor:
    """Return the same parameter as every third element of a tensor filled with NaN."""
    wide = x.new_full((*x.shape[:-1], 3 * x.shape[-1] + 1), float("nan"))
    return wide[..., 1::3].copy_(x)


def turned(x: Tensor) -> Tensor:
    """Return the same values, with adjacent values a whole column apart in memory."""
    return x.transpose(0, -1).contiguous().transpose(0, -1)


@law(paths)
def strides(case: Case, setting: Setting) -> None:
    """The memory layout of tensors, and the memory around them, do not affect results."""
    inputs = draw(case, setting)
    dense = fused(case, inputs)
    every = set(learned(case, inputs)) & set(case.rows)
    parameters = {n for n in learned(case, inputs) if n not in case.rows and inputs[n].ndim}
    groups = [(among_nan, {name}) for name in every] + [(turned, every), (spread, parameters)]
    for layout, names in groups:
        moved = {n: layout(v) if n in names else v for n, v in inputs.items()}
        similar_runs(fused(case, moved, dys=dense.dys), dense)
    for layout in (among_nan, turned):
        dys = tuple(layout(dy) for dy in dense.dys)
        similar_runs(fused(case, inputs, dys=dys), dense)


@law(paths)
def expanded(case: Case, setting: Setting) -> None:
    """An expanded row, or a gradient expanded from one number, gives the same as copies."""
    inputs = draw(case, setting)
    many = {
        n: v[:1].expand(v.shape) if n in case.rows else v for n, v in inputs.items()
    }  # fmt: skip
    copies = {n: v.clone(memory_format=torch.contiguous_format) if n in case.rows else v
              for n, v in many.items()}  # fmt: skip
    dense = fused(case, copies)
    thin = tuple(y.new_full((), 0.7).expand(y.shape) for y in dense.outputs)
    thick = fused(case, inputs, dys=tuple(dy.contiguous() for dy in thin))
    similar_runs(fused(case, many, dys=dense.dys), dense)
    similar_runs(fused(case, inputs, dys=thin), thick)


@law(small)
def shapes(case: Case, setting: Setting) -> None:
    """Any axes may precede the last; (N,) is one row."""
    inputs = draw(case, Setting(6, setting.n))
    if any(inputs[name].ndim != 2 for name in case.rows):
        raise Skip("takes one shape only")
    flat = fused(case, inputs)
    for fold in (
        lambda x: x.view(2, 3, -1),
        lambda x: x.view(1, 6, 1, -1),
        lambda x: x.view(2, 3, -1).transpose(0, 1).contiguous().transpose(0, 1),
    ):
        folded = {n: fold(v) if n in case.rows else v for n, v in inputs.items()}
        actual = fused(case, folded, dys=tuple(fold(dy) for dy in flat.dys))
        assert all(
            y.shape == fold(of).shape for y, of in zip(actual.outputs, flat.outputs, strict=True)
        )
        assert all(y.is_contiguous() for y in actual.outputs)
        unfolded = {n: g.reshape(6, -1) if n in case.rows else g for n, g in actual.grads.items()}
        outputs = tuple(y.reshape(6, -1) for y in actual.outputs)
        similar_runs(Run(outputs, flat.dys, unfolded), flat)
    row = {n: v[0] if n in case.rows else v for n, v in inputs.items()}
    actual = fused(case, row, dys=tuple(dy[0] for dy in flat.dys))
    for i, y in enumerate(actual.outputs):
        identical(f"output {i} of one row", y, flat.outputs[i][0])
    for empty in ((0, 3), (3, 0, 2)):
        nothing = {n: v.new_empty(*empty, v.shape[-1]) if n in case.rows else v
                   for n, v in inputs.items()}  # fmt: skip
        actual = fused(case, nothing)
        assert all(y.shape[:-1] == empty for y in actual.outputs)
        assert all(not actual.grads[n].any() for n in actual.grads if n not in case.rows)
