"""Check a norm of your own, for which nobody has a reference: the laws that any norm must keep.

    print(check.own(MyNorm))                          a class, dim first; or a key of NORMS
    print(check.own(MyNorm, lambda x: …))             and a formula in float64, gains left out

A norm of the last axis maps each token by itself, keeps shape and dtype, stays finite, and has the
gradient that its values say. What it is blind to (scale, a constant) is no law but a property: the
notes say it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from labkit.check.guard import run_all, untouched_world
from labkit.check.report import Law, Report
from labkit.norms import make_norm

EACH, TOTAL = 8.0, 40.0  # seconds
DIM = 12
Formula = Callable[[Tensor], Tensor]


def own(
    given: str | type[nn.Module] | Callable[..., nn.Module],
    formula: Formula | None = None,
    *,
    seed: int = 0,
) -> Report:
    """Hold a norm over the last axis against what every norm must do.

    `given` makes the module when it is called with dim, or is a key of NORMS. `formula` takes
    float64 rows and gives what the norm should, before gains.
    """
    title = "check.own"
    make: Callable[[int], nn.Module]
    if isinstance(given, str):
        make, title = partial(make_norm, given), f"check.own {given.partition('@')[0]}"
    elif callable(given) and not isinstance(given, nn.Module):
        make, title = given, f"check.own {getattr(given, '__name__', 'norm')}"
    else:
        message = (
            "a norm's class is wanted, or a key of NORMS, so that it can be made for another dim; "
            f"got {type(given).__name__}"
        )
        return Report(title, (Law("a class", False, "", message),))
    laws: dict[str, Callable[[Callable[[int], nn.Module], torch.Generator], str]] = {
        "shape and dtype kept": _shapes,
        "input kept": _input_kept,
        "same result twice": _twice,
        "each token by itself": _tokens,
        "gradient": _gradient,
        "finite": _finite,
        "half precision": _half,
        "every parameter learns": _learns,
        "state saved": _state,
        "views": _views,
    }
    if formula is not None:
        laws["formula"] = partial(_formula, formula)

    def job(name: str) -> Law:
        generator = torch.Generator().manual_seed(seed)
        try:
            message = laws[name](make, generator)
        except Exception as error:  # whatever came, the reader gets a sentence
            message = f"it raised {type(error).__name__}: {error}"
        cause, _, said = message.rpartition(" | ")
        return Law(name, not message, cause, said)

    with untouched_world():
        done = run_all([partial(job, name) for name in laws], EACH, TOTAL)
        notes = run_all([partial(_properties, make)], EACH, EACH) if done and done[0].ok else []
    if len(done) < len(laws):
        late = list(laws)[len(done)]
        done.append(Law(late, False, "", f"not done within {EACH:g} s"))
    return Report(title, tuple(done), notes[0] if notes else ())


def _rows(generator: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return (2 * torch.randn(*shape, generator=generator, dtype=torch.float64) + 0.5).to(dtype)


def _shapes(make: Callable[[int], nn.Module], generator: torch.Generator) -> str:
    for dim in (DIM, 2, 33):
        norm = make(dim)
        for shape in ((5, dim), (3, 4, dim), (2, 3, 2, dim)):
            x = _rows(generator, *shape)
            y = norm(x)
            if y.shape != x.shape or y.dtype != x.dtype:
                return f"{tuple(shape)} float32 became {tuple(y.shape)} {y.dtype}"
    return ""


def _input_kept(make: Callable[[int], nn.Module], generator: torch.Generator) -> str:
    x = _rows(generator, 5, DIM)
    before = x.clone()
    make(DIM)(x)
    return "" if torch.equal(x, before) else "an operation in place | the input was changed"


def _twice(make: Callable[[int], nn.Module], generator: torch.Generator) -> str:
    norm, x = make(DIM), _rows(generator, 5, DIM)
    return "" if torch.equal(norm(x), norm(x)) else "a state or a random number | it differs"


def _tokens(make: Callable[[int], nn.Module], generator: torch.Generator) -> str:
    """Compare a token in a batch with the same token among others."""
    norm, x = make(DIM), _rows(generator, 4, 6, DIM)
    other = x.clone()
    other[0, 0] = 100 * _rows(generator, DIM)  # large: a maximum must notice it, too
    moved = (norm(x) - norm(other)).abs()
    moved[0, 0] = 0
    if moved.max() > 1e-5:
        where = "another example" if moved[1:].max() > 1e-5 else "another position"
        return (
            f"statistics over more than the last axis | one token changed, and one of {where} "
            f"moved by {moved.max().item():.2g}: in a language model it would see the future"
        )
    return ""


def _gradient(make: Callable[[int], nn.Module], generator: torch.Generator) -> str:
    """Compare autograd with finite differences in float64, for x and all parameters."""
    norm = make(DIM).double()
    x = _rows(generator, 3, DIM, dtype=torch.float64).requires_grad_()
    y = norm(x)
    if y.dtype != torch.float64:
        return f"float64 became {y.dtype}"
    weights = [p for p in norm.parameters() if p.requires_grad]
    for p in weights:
        p.data += 0.3 * torch.randn(p.shape, generator=generator, dtype=torch.float64)
    try:
        torch.autograd.gradcheck(lambda *_: norm(x), (x, *weights), eps=1e-6, atol=1e-5, rtol=1e-4)
    except Exception as error:
        text = " ".join(str(error).split())[:160]
        return (
            "a part is cut off (detach, no_grad, .item()) or computed in float32 | autograd and "
            f"finite differences disagree: {text}"
        )
    return ""


_HARD = {
    "zeros": lambda x: torch.zeros_like(x),
    "a constant": lambda x: torch.full_like(x, 3.0),
    "values of 1e-20": lambda x: 1e-20 * x,
    "values of 1e15": lambda x: 1e15 * x,
    "one outlier of 1e4": lambda x: torch.cat([x[:, :-1], torch.full_like(x[:, :1], 1e4)], dim=-1),
}


def _finite(make: Callable[[int], nn.Module], generator: torch.Generator) -> str:
    for name, change in _HARD.items():
        norm, x = make(DIM), change(_rows(generator, 5, DIM)).requires_grad_()
        y = norm(x)
        (slope,) = torch.autograd.grad(y.sum(), x)
        for what, values in (("result", y), ("gradient", slope)):
            if not values.isfinite().all():
                return f"no eps, or one in the wrong place | for {name} the {what} is not finite"
    return ""


def _half(make: Callable[[int], nn.Module], generator: torch.Generator) -> str:
    norm, x = make(DIM), _rows(generator, 64, DIM, dtype=torch.bfloat16)
    y, wide = norm(x), norm(x.float())
    if y.dtype != x.dtype:
        return f"bfloat16 became {y.dtype}: return y.to(x.dtype)"
    off = ((y.float() - wide).abs() / wide.abs().amax(dim=-1, keepdim=True)).max().item()
    return "" if off < 2**-6 else f"statistics in bfloat16 | off by {off:.2g} of the largest value"


def _learns(make: Callable[[int], nn.Module], generator: torch.Generator) -> str:
    norm, x = make(DIM), _rows(generator, 64, DIM)
    if not any(p.requires_grad for p in norm.parameters()):
        return ""
    target = _rows(generator, 64, DIM)
    (norm(x) - target).square().mean().backward()
    idle = [n for n, p in norm.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    return f"no gradient reaches {', '.join(idle)}" if idle else ""


def _state(make: Callable[[int], nn.Module], generator: torch.Generator) -> str:
    norm, again, x = make(DIM), make(DIM), _rows(generator, 5, DIM)
    for p in norm.parameters():
        p.data += 0.5 * torch.randn(p.shape, generator=generator)
    again.load_state_dict(norm.state_dict())
    same = torch.equal(norm(x), again(x))
    return "" if same else "a tensor that is no parameter and no buffer | a saved norm is another"


def _views(make: Callable[[int], nn.Module], generator: torch.Generator) -> str:
    norm, x = make(DIM), _rows(generator, DIM, 5).T
    return "" if torch.allclose(norm(x), norm(x.contiguous())) else "a transposed input differs"


def _formula(formula: Formula, make: Callable[[int], nn.Module], generator: torch.Generator) -> str:
    x = _rows(generator, 5, DIM, dtype=torch.float64)
    actual, wanted = make(DIM).double()(x), formula(x)
    off = ((actual - wanted).abs() / wanted.abs().max()).max().item()
    return "" if off < 1e-9 else f"the formula gives something else, by {off:.2g} of its largest"


def _properties(make: Callable[[int], nn.Module]) -> tuple[str, ...]:
    """Return what the norm is blind to, and how far its values reach."""
    generator = torch.Generator().manual_seed(1)
    norm, x = make(DIM), _rows(generator, 64, DIM)
    with torch.no_grad():
        y = norm(x)
        scale = torch.allclose(norm(100 * x), y, rtol=1e-3, atol=1e-4)
        shift = torch.allclose(norm(x + 5), y, rtol=1e-3, atol=1e-4)
        far = norm(1e6 * x).abs().max().item()
    said: list[Any] = [
        f"{'blind' if scale else 'not blind'} to scale",
        f"{'blind' if shift else 'not blind'} to a constant",
        f"a stream a million times as large leaves it with {far:.3g} at most",
    ]
    return tuple(said)
