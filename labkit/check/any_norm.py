"""Check a norm without a reference implementation, against the laws of every norm.

    print(check.any_norm(MyNorm))                  a class, dim first; or a key of NORMS
    print(check.any_norm("my_norm.py"))            a file that defines one
    print(check.any_norm(my_norm))                 a function of x
    print(check.any_norm(MyNorm, lambda x: …))     and a formula in float64, gains left out

A norm over the last axis maps each token separately, keeps shape and dtype, stays finite, and has
gradients that agree with its values. Invariance (to scale, to a constant) is not a law but a
property, which the notes report.
"""

import runpy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from labkit.check import run
from labkit.check.block_subject import Called
from labkit.check.case import Broken
from labkit.check.precision import LOST, PROMOTES
from labkit.check.report import Law, Report
from labkit.check.subject import is_module, takes_size
from labkit.norms import make_norm

DIM = 12
Make = Callable[[int], nn.Module]
Formula = Callable[[Tensor], Tensor]
AnyNorm = str | Path | type[nn.Module] | Callable[..., Any]


def any_norm(given: AnyNorm, formula: Formula | None = None, *, seed: int = 0) -> Report:
    """Check a norm over the last axis against the laws of every norm.

    `given` is a class or function that makes the module from dim, a key of NORMS, a file that
    defines one module, or a function of x. `formula` maps float64 rows to the expected result
    before gains.
    """
    laws = dict(LAWS)
    if formula is not None:
        laws["formula"] = lambda make, generator: _match_formula(formula, make, generator)
    name = getattr(given, "__name__", "norm")
    name = Path(given).name.partition("@")[0] if isinstance(given, str | Path) else name

    def attempt(name: str, law: Callable[..., None], make: Make) -> Law | None:
        return run.try_law(name, law, make, torch.Generator().manual_seed(seed))

    return run.try_all(
        f"check.any_norm {name}", lambda: _read_maker(given), laws, _list_properties, attempt
    )


# --- the submitted code ---


def _read_maker(given: AnyNorm) -> Make:
    """Return a function that makes the module for a given dim."""
    if isinstance(given, Path) or (isinstance(given, str) and given.endswith(".py")):
        return _load_module(Path(given))
    if isinstance(given, str):
        make_norm(given, DIM)  # an unknown key raises here, once
        return partial(make_norm, given)
    if isinstance(given, nn.Module) or not callable(given):
        raise Broken(
            "a norm must be a class or a key of NORMS, so that it can be made for different "
            f"dims; got {type(given).__name__}: pass a module that takes any dim as a function, "
            "lambda x: module(x)"
        )
    try:
        factory = isinstance(given, type) or isinstance(given(DIM), nn.Module)
    except Exception:
        factory = False
    if isinstance(given, type) and is_module(given) and not takes_size(given):
        name = given.__name__
        raise Broken(
            f"a norm's class must take dim, the size of the last axis, but {name} takes no size: "
            f"pass a function of x, lambda x: {name}()(x)"
        )
    if factory:
        return given
    if (came := given(torch.ones(2, DIM))) is None or came is ...:
        raise Broken(f"your code returned {came}: not answered yet?")
    return lambda dim: Called(given)


def _load_module(path: Path) -> Make:
    """Run a file and return the only module class that it defines."""
    if not path.is_file():
        raise Broken(
            f"a norm's file must exist, but there is no {path}; `labkit leaderboard --starter "
            "my_norm.py` writes a template"
        )
    names = runpy.run_path(str(path))
    kinds = [
        kind
        for kind in names.values()
        if is_module(kind) and isinstance(kind, type) and kind.__module__ == names["__name__"]
    ]
    if len(kinds) != 1:
        raise Broken(
            f"a norm's file must define one nn.Module, but {path.name} defines {len(kinds)}: pass "
            "the class itself"
        )
    return kinds[0]


# --- laws: each takes a function that makes the norm, and raises Broken if it does not hold ---


def _draw_rows(generator: Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return (2 * torch.randn(*shape, generator=generator, dtype=torch.float64) + 0.5).to(dtype)


def _keep_shapes(make: Make, generator: Generator) -> None:
    for dim in (DIM, 2, 33):
        norm = make(dim)
        for shape in ((5, dim), (3, 4, dim), (2, 3, 2, dim)):
            x = _draw_rows(generator, *shape)
            y = norm(x)
            if y.shape != x.shape or y.dtype != x.dtype:
                raise Broken(
                    "a norm must keep shape and dtype, but a float32 input of shape "
                    f"{tuple(shape)} gave {y.dtype} of shape {tuple(y.shape)}"
                )


def _input_kept(make: Make, generator: Generator) -> None:
    x = _draw_rows(generator, 5, DIM)
    before = x.clone()
    make(DIM)(x)
    if not torch.equal(x, before):
        raise Broken(
            "a norm must not change its input, but x was overwritten", "an operation in place"
        )


def _repeat_calls(make: Make, generator: Generator) -> None:
    norm, x = make(DIM), _draw_rows(generator, 5, DIM)
    if not torch.equal(norm(x), norm(x)):
        raise Broken(
            "two calls with the same input must give the same result, but they differ",
            "a state or a random number",
        )


def _compare_tokens(make: Make, generator: Generator) -> None:
    """Check that a token's result does not depend on the other tokens in the batch."""
    norm, x = make(DIM), _draw_rows(generator, 4, 6, DIM)
    other = x.clone()
    other[0, 0] = 100 * _draw_rows(generator, DIM)  # large, so that a maximum changes, too
    moved = (norm(x) - norm(other)).abs()
    moved[0, 0] = 0
    if moved.max() > 1e-5:
        where = "in another example" if moved[1:].max() > 1e-5 else "at another position"
        raise Broken(
            "a token's result must not depend on other tokens, but when one token changed, one "
            f"{where} moved by {moved.max().item():.2g}: a language model would see the future",
            "statistics over more than the last axis",
        )


def _check_gradients(make: Make, generator: Generator) -> None:
    """Compare autograd with finite differences in float64, for x and all parameters."""
    norm = make(DIM).double()
    x = _draw_rows(generator, 3, DIM, dtype=torch.float64).requires_grad_()
    if (kind := norm(x).dtype) != torch.float64:
        raise Broken(f"a norm must return the input's dtype, but returned {kind} for float64")
    weights = [p for p in norm.parameters() if p.requires_grad]
    for p in weights:
        p.data += 0.3 * torch.randn(p.shape, generator=generator, dtype=torch.float64)
    try:
        # Steps so wide that float32 inside, which half of all norms use, does no harm.
        torch.autograd.gradcheck(lambda *_: norm(x), (x, *weights), eps=1e-3, atol=1e-3, rtol=1e-2)
    except Exception as error:
        text = " ".join(str(error).split())[:160]
        raise Broken(
            f"autograd and finite differences must agree, but they do not: {text}",
            "a part is cut off (detach, no_grad, .item())",
        ) from error


_HARD = {
    "zeros": lambda x: torch.zeros_like(x),
    "a constant": lambda x: torch.full_like(x, 3.0),
    "values of 1e-20": lambda x: 1e-20 * x,
    "values of 1e15": lambda x: 1e15 * x,
    "one outlier of 1e4": lambda x: torch.cat([x[:, :-1], torch.full_like(x[:, :1], 1e4)], dim=-1),
}


def _stay_finite(make: Make, generator: Generator) -> None:
    for name, change in _HARD.items():
        norm, x = make(DIM), change(_draw_rows(generator, 5, DIM)).requires_grad_()
        y = norm(x)
        (slope,) = torch.autograd.grad(y.sum(), x)
        for what, values in (("result", y), ("gradient", slope)):
            if not values.isfinite().all():
                said = f"for {name} the {what} is not finite"
                raise Broken(said, "no eps, or one in the wrong place")


def _compare_half_precision(make: Make, generator: Generator) -> None:
    norm, rows = make(DIM), _draw_rows(generator, 64, DIM)
    eps = "an eps of the input's dtype, or statistics in bfloat16"
    for scale, cause in ((1.0, "statistics in bfloat16"), (1 / 64, eps)):
        x = (scale * rows).bfloat16()
        y, wide = norm(x), norm(x.float())
        if y.dtype != x.dtype:
            raise Broken(
                f"a norm must return the input's dtype, but returned {y.dtype} for bfloat16; "
                "return y.to(x.dtype)",
                PROMOTES,
            )
        off = ((y.float() - wide).abs() / wide.abs().amax(dim=-1, keepdim=True)).max().item()
        if not off < 2**-6:
            raise Broken(
                "the bfloat16 result must be close to the float32 result, but on rows multiplied "
                f"by {scale:g} it is off by {off:.2g} of the largest value",
                cause,
            )


def _learn_something(make: Make, generator: Generator) -> None:
    norm, x, target = make(DIM), _draw_rows(generator, 64, DIM), _draw_rows(generator, 64, DIM)
    if not any(p.requires_grad for p in norm.parameters()):
        return
    (norm(x) - target).square().mean().backward()
    idle = [n for n, p in norm.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    if idle:
        raise Broken(f"every parameter must receive a gradient, but none reaches {', '.join(idle)}")


def _restore_state(make: Make, generator: Generator) -> None:
    norm, again, x = make(DIM), make(DIM), _draw_rows(generator, 5, DIM)
    for p in norm.parameters():
        p.data += 0.5 * torch.randn(p.shape, generator=generator)
    again.load_state_dict(norm.state_dict())
    if not torch.equal(norm(x), again(x)):
        raise Broken(
            "a norm must give the same result after saving and loading, but the results differ",
            "a tensor that is neither a parameter nor a buffer",
        )


def _take_views(make: Make, generator: Generator) -> None:
    norm, x = make(DIM), _draw_rows(generator, DIM, 5).T
    if not torch.allclose(norm(x), norm(x.contiguous())):
        raise Broken(
            "a transposed input must give the same result as its contiguous copy, but the "
            "results differ"
        )


def _match_formula(formula: Formula, make: Make, generator: Generator) -> None:
    x = _draw_rows(generator, 5, DIM, dtype=torch.float64)
    actual, wanted = make(DIM).double()(x), formula(x)
    off = ((actual - wanted).abs() / wanted.abs().max()).max().item()
    if not off < (1e-6 if _loses_float64(make) else 1e-9):
        own, wanted = (_count_reach(f, x) for f in (make(DIM).double(), formula))
        said = f"the statistics run over {own} features of a row; the formula's run over {wanted}"
        raise Broken(
            f"the result must match the formula, but differs by {off:.2g} of its largest value",
            said if own != wanted else "",
        )


def _count_reach(function: Formula, x: Tensor) -> int:
    """Count the features of a row that change with its first one: those that share statistics."""
    other = x.clone()
    other[:, 0] += 1.0
    return int(((function(x) - function(other)).abs() > 1e-6).any(0).sum())


def _loses_float64(make: Make) -> bool:
    """Return whether float64 loses digits. Large rows differ by rounding only, not by eps."""
    norm = make(DIM).double()
    x = _draw_rows(torch.Generator().manual_seed(2), 5, DIM, dtype=torch.float64)
    rounding = (norm(3e3 * x) - norm(1e3 * x)).abs().max().item()
    return torch.equal(norm(x), make(DIM)(x.float()).double()) or 1e-9 < rounding < 1e-6


LAWS: dict[str, Callable[[Make, Generator], None]] = {
    "shape and dtype kept": _keep_shapes,
    "input kept": _input_kept,
    "same result twice": _repeat_calls,
    "each token by itself": _compare_tokens,
    "gradient": _check_gradients,
    "finite": _stay_finite,
    "half precision": _compare_half_precision,
    "every parameter learns": _learn_something,
    "state saved": _restore_state,
    "views": _take_views,
}


def _list_properties(make: Make) -> tuple[str, ...]:
    """Return the norm's invariances, and the number of features that share statistics."""
    generator = torch.Generator().manual_seed(1)
    try:
        norm, x = make(DIM), _draw_rows(generator, 64, DIM)
        with torch.no_grad():
            y = norm(x)
            scale = torch.allclose(norm(100 * x), y, rtol=1e-3, atol=1e-4)
            shift = torch.allclose(norm(x + 5), y, rtol=1e-3, atol=1e-4)
            far = norm(1e6 * x).abs().max().item()
            lost = _loses_float64(make)
    except Exception:  # a law has reported it
        return ()
    return (
        *([LOST] if lost else []),
        f"{'blind' if scale else 'not blind'} to scale",
        f"{'blind' if shift else 'not blind'} to a constant",
        f"a stream a million times as large leaves it with {far:.3g} at most",
    )
