"""Run one implementation on one input, compare it with the formula, and put the rest in words."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from labkit.check import causes
from labkit.check.formula import Formula
from labkit.check.spec import Shape, Spec
from labkit.check.subject import Runner, Subject


class Broken(Exception):
    """Say that a law does not hold: the message and, where known, the likely cause."""

    def __init__(self, message: str, cause: str = ""):
        super().__init__(message)
        self.message, self.cause = message, cause


class Untested(Exception):
    """Say that a law does not apply to what was handed in."""


@dataclass(frozen=True)
class Case:
    """One input; `eps` is the one that is passed (None: left to the implementation)."""

    x: Tensor
    about: str
    weight: Tensor | None = None
    bias: Tensor | None = None
    eps: float | None = None
    groups: int = 1

    def __str__(self) -> str:
        eps = "" if self.eps is None else f", eps={self.eps:g}"
        kind = str(self.x.dtype).removeprefix("torch.")
        return f"x of shape {tuple(self.x.shape)}, {kind}{eps} ({self.about})"


class Exam:
    """Hold what all laws use: the subject, the formula, the inputs and what was found so far."""

    def __init__(self, subject: Subject, spec: Spec, seed: int, eps: float | None):
        self.subject, self.spec, self.seed = subject, spec, seed
        self.dim = subject.dim or spec.dim
        takes = subject.ranks(self.dim)
        self.shapes = tuple(s for s in spec.shapes(self.dim) if takes(s))
        self.takes = takes
        self.usual_eps = (
            (spec.documented_eps[0] if eps is None else eps) if subject.sets_eps else None
        )
        self.eps_given = eps is not None
        self.groups = subject.groups or (3 if spec.formula.pool == "group" else 1)
        self.found: list[tuple[str, Formula]] = []  # explanations of laws that failed before
        self.unexplained = False

    def generator(self, law: str) -> torch.Generator:
        """Make the law's own random stream, whatever ran before it."""
        return torch.Generator().manual_seed(zlib.crc32(f"{law} {self.seed}".encode()))

    def case(
        self,
        draw: torch.Generator,
        shape: Shape | None = None,
        about: str = "ordinary numbers",
        *,
        gain: bool = False,
        shift: bool = False,
        scale: float = 1.0,
        offset: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> Case:
        """Draw an input whose statistics differ along every axis, and parameters to go with it."""
        shape = self.shapes[0] if shape is None else shape
        x = torch.randn(shape, generator=draw, dtype=torch.float64)
        for axis in range(x.ndim):
            along = [1] * x.ndim
            along[axis] = x.shape[axis]
            x = x * (0.6 + 0.8 * torch.rand(along, generator=draw, dtype=torch.float64))
            x = x + 0.5 * torch.randn(along, generator=draw, dtype=torch.float64)
        features = shape[self.spec.formula.features]
        weight = torch.randn(features, generator=draw, dtype=torch.float64) + 0.5
        bias = torch.randn(features, generator=draw, dtype=torch.float64)
        return Case(
            (x * scale + offset).to(dtype),
            about,
            weight.to(self.parameter_dtype(dtype)) if gain and self.subject.has_weight else None,
            bias.to(self.parameter_dtype(dtype)) if shift and self.subject.has_bias else None,
            self.usual_eps,
            self.groups,
        )

    def parameter_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Keep batch norm's parameters and statistics in float32, as in mixed precision."""
        mixed = self.spec.name == "batch_norm"
        return torch.promote_types(dtype, torch.float32) if mixed else dtype

    def open(self, case: Case, **options: Any) -> Runner:
        """Make a runner for a case; say it when the implementation cannot even be set up."""
        options.setdefault("eps", case.eps)
        features = case.x.shape[self.spec.formula.features]
        weight, bias = (p if p is None else p.clone() for p in (case.weight, case.bias))
        dtype = self.parameter_dtype(case.x.dtype)
        if dtype != case.x.dtype and self.subject.has_running:
            options.setdefault("running", (torch.zeros(features), torch.ones(features)))
        try:
            return self.subject.open(
                features,
                dtype,
                weight=weight,
                bias=bias,
                groups=case.groups,
                **options,
            )
        except Exception as error:
            raise Broken(f"preparing it for {case} raised {_describe(error)}") from error

    def run(self, case: Case, runner: Runner | None = None, training: bool = True) -> Tensor:
        """Call the implementation on a copy of the input and look at what kind of thing came."""
        runner = self.open(case) if runner is None else runner
        return self.call(runner, same_layout_copy(case.x), str(case), training)

    def call(self, runner: Runner, x: Tensor, about: str, training: bool = True) -> Tensor:
        """Call the implementation on `x` itself; a wrong kind of result breaks the law."""
        shape = x.shape
        try:
            y = runner(x, training)
        except Exception as error:
            raise Broken(f"on {about} your code raised {_describe(error)}") from error
        except (SystemExit, KeyboardInterrupt) as error:
            raise Broken(f"on {about} your code raised {type(error).__name__}") from error
        if y is None or y is ...:
            raise Broken(f"on {about} your code returned {y}: not answered yet?")
        if not isinstance(y, Tensor):
            raise Broken(f"on {about} your code returned a {type(y).__name__}, not a tensor")
        if y.shape != shape:
            raise Broken(
                f"on {about} the result has shape {tuple(y.shape)}; a norm keeps the input's shape",
                "a mean or variance without keepdim=True, or parameters on the wrong axis",
            )
        return y

    def truth(self, case: Case, formula: Formula | None = None, eps: float | None = None) -> Tensor:
        """Evaluate the formula, or another one, on a case."""
        eps = self.subject.expected_eps(case.eps, case.x.dtype) if eps is None else eps
        formula = self.spec.formula if formula is None else formula
        return formula(case.x, case.weight, case.bias, eps, case.groups)

    def compare(
        self, cases: Sequence[Case], rtol: float = 2e-5, atol: float = 2e-5, cause: str = ""
    ) -> None:
        """Hold what comes on each case against the formula; explain the first that differs."""
        came = [self.run(case) for case in cases]
        self.judge(cases, came, rtol, atol, cause)

    def judge(
        self,
        cases: Sequence[Case],
        came: Sequence[Tensor],
        rtol: float,
        atol: float,
        cause: str = "",
    ) -> None:
        """Compare outcomes with the formula; `cause` is said where no known mistake fits."""
        for case, y in zip(cases, came, strict=True):
            expected = self.truth(case)
            if self._close(case, y, expected, rtol, atol):
                continue

            def explains(wrong: Formula) -> bool:
                return all(
                    self._close(c, y, self.truth(c, wrong), rtol, atol)
                    for c, y in zip(cases, came, strict=True)
                )

            raise Broken(
                describe(case, y, expected), self.diagnose(explains, pairs=not cause) or cause
            )

    def diagnose(self, explains: Callable[[Formula], bool], pairs: bool = True) -> str:
        """Find a known mistake that explains what came, first among those found before."""
        pairs = pairs and not self.unexplained
        found = causes.diagnose(self.spec.formula, explains, tuple(self.found), pairs)
        if found is None:
            self.unexplained = self.unexplained or pairs  # look at pairs once only: they are many
            return ""
        if found not in self.found:
            self.found.append(found)
        return found[0]

    def _close(self, case: Case, y: Tensor, expected: Tensor, rtol: float, atol: float) -> bool:
        """Allow `rtol` of the parts that were added up, and `atol` of the largest of them.

        Besides, x may count as known to four units in the last place of its computation: where
        the spread is small beside the mean, every right implementation magnifies that.
        """
        eps = self.subject.expected_eps(case.eps, case.x.dtype)
        computed = torch.promote_types(case.x.dtype, torch.float32)
        magnified = self.spec.formula.sensitivity(case.x, case.weight, eps, case.groups)
        known = 4 * torch.finfo(computed).eps * magnified
        shift = self.truth(replace(case, weight=None)) - self.truth(
            replace(case, weight=None, bias=None)
        )
        parts = (expected - shift).abs() + shift.abs()
        finite = parts[parts.isfinite()]
        allowed = (
            rtol * parts
            + atol * (finite.max() if finite.numel() else 0.0)
            + known
            + min(atol, 1e-6)
        )
        return bool(((y.double() - expected).abs() <= allowed).all())


def same_layout_copy(x: Tensor) -> Tensor:
    """Copy a tensor with its strides, so that a view stays the same kind of view."""
    copy = torch.empty(0, dtype=x.dtype)
    return copy.set_(x.untyped_storage().clone(), x.storage_offset(), x.size(), x.stride())


def describe(case: Case, came: Tensor, expected: Tensor, what: str = "") -> str:
    """Say which input, what came and what was expected, at the entry that is furthest off."""
    where = causes.largest_difference(came.detach(), expected.detach())
    place = f"position {where}" if where else "the only position"
    return (
        f"on {case}{what}, at {place} came {came[where].item():.6g}, "
        f"expected {expected[where].item():.6g}"
    )


def _describe(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__
