"""Run one implementation on one input, compare it with the formula, and put the rest in words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from labkit.check import causes
from labkit.check.case import Broken, Case, describe, same_layout_copy, told
from labkit.check.formula import Formula
from labkit.check.inputs import Inputs
from labkit.check.spec import Spec
from labkit.check.subject import Runner, Subject


class Exam(Inputs):
    """Hold what all laws use: the subject, the formula, the inputs and what was found so far."""

    def __init__(self, subject: Subject, spec: Spec, seed: int, variant: str | None = None):
        super().__init__(subject, spec, seed)
        self.variant = variant
        self.found: list[tuple[str, Formula]] = []  # explanations of laws that failed before
        self.failed: set[str] = set()  # names of laws, and settings, that do not hold
        self.unexplained = False
        self.gradients: dict[int, dict[str, Tensor | None]] = {}  # of the parameters, by case
        self._raised: dict[str, str] = {}  # what the code raised -> what was said then

    def expected(self, role: str, case: Case | None = None, dtype=torch.float32) -> Any:
        """Return which eps (p, …) an outcome must show."""
        asked = self.usual.get(role) if case is None else case.given.get(role)
        return self.subject.expected(role, asked, dtype if case is None else case.x.dtype)

    def open(self, case: Case, **more: Any) -> Runner:
        """Make a runner for a case; say it when the implementation cannot even be set up."""
        features = case.x.shape[self.spec.formula.features]
        given = {k: v.clone() if isinstance(v, Tensor) else v for k, v in case.given.items()}
        dtype = self.parameter_dtype(case.x.dtype)
        if dtype != case.x.dtype and self.subject.has_running and "running" not in given:
            given["running"] = (torch.zeros(features), torch.ones(features))
        try:
            return self.subject.open(features, dtype, {**given, **more})
        except Broken:
            raise
        except Exception as error:
            raise Broken(f"preparing it for {case} raised {told(error)}") from error

    def run(self, case: Case, runner: Runner | None = None, training: bool = True) -> Tensor:
        """Call the implementation on a copy of the input and look at what kind of thing came."""
        runner = self.open(case) if runner is None else runner
        return self.call(runner, same_layout_copy(case.x), case, training)

    def call(self, runner: Runner, x: Tensor, case: Case, training: bool = True) -> Tensor:
        """Call the implementation on `x` itself; a wrong kind of result breaks the law."""
        shape, mask = x.shape, case.given.get("mask")
        try:
            y = runner(x, training, None if mask is None else mask.clone())
        except Exception as error:
            # The first message again, so that the report says it once.
            said = self._raised.setdefault(told(error), f"on {case} your code raised {told(error)}")
            raise Broken(said) from error
        except (SystemExit, KeyboardInterrupt) as error:
            raise Broken(f"on {case} your code raised {type(error).__name__}") from error
        if y is None or y is ...:
            raise Broken(f"on {case} your code returned {y}: not answered yet?")
        if isinstance(y, torch.nn.Module):
            raise Broken(f"on {case} your code returned a module: pass the class or an instance")
        if not isinstance(y, Tensor):
            raise Broken(f"on {case} your code returned a {type(y).__name__}, not a tensor")
        if y.shape != shape:
            raise Broken(
                f"on {case} the result has shape {tuple(y.shape)}; a norm keeps the input's shape",
                "a mean or variance without keepdim=True, or parameters on the wrong axis",
            )
        return y

    def filled(self, case: Case) -> dict[str, Any]:
        """Complete what is given by the settings that the subject has by itself."""
        settings = {role: self.expected(role, case) for role in self.spec.settings}
        return {**case.given, **settings}

    def truth(
        self,
        case: Case,
        formula: Formula | None = None,
        changed: Mapping[str, Any] | None = None,
    ) -> Tensor:
        """Evaluate the formula, or another one, on a case."""
        formula = self.spec.formula if formula is None else formula
        return formula(case.x, {**self.filled(case), **(changed or {})})

    def compare(
        self, cases: Sequence[Case], rtol: float = 2e-5, atol: float = 2e-5, cause: str = ""
    ) -> None:
        """Hold what comes on each case against the formula; explain the first that differs."""
        self.judge(cases, [self.run(case) for case in cases], rtol, atol, cause)

    def judge(
        self,
        cases: Sequence[Case],
        actual: Sequence[Tensor],
        rtol: float,
        atol: float,
        cause: str = "",
    ) -> None:
        """Compare outcomes with the formula; `cause` is said where no known mistake fits."""
        for case, y in zip(cases, actual, strict=True):
            expected = self.truth(case)
            if self.close(case, y, expected, rtol, atol):
                continue
            order = [
                (case, y),
                *((c, t) for c, t in zip(cases, actual, strict=True) if c is not case),
            ]
            rooms = [self._room(c, rtol, atol) for c, _ in order]

            def explains(wrong: Formula, order=order, rooms=rooms) -> bool:
                return all(
                    self._within(c, t, self.truth(c, wrong), room)
                    for (c, t), room in zip(order, rooms, strict=True)
                )

            chosen = [c for c, _ in order] if rtol <= 1e-3 else []
            more = self._settings(chosen)
            found = self.diagnose(explains, cases, pairs=not cause, more=more)
            y, expected = self.real(case, y), self.real(case, expected)
            raise Broken(describe(case, y, expected), found or self.stock(cause, case))

    def stock(self, cause: str, case: Case) -> str:
        """Return a law's own cause, where nothing more basic than that law is broken already."""
        laws = {self.spec.learned[r].law for r in self.learned if r in case.given}
        basic = {"value", *self.spec.settings, *laws}
        return "" if basic & self.failed else cause

    def _settings(self, cases: Sequence[Case]) -> list[tuple[str, Formula]]:
        """List what other settings would give: another eps, another default alpha."""
        listed: list[tuple[str, Formula]] = []
        for role in self.spec.settings if cases else ():
            asked = [self.expected(role, case) for case in cases]
            for value in causes.usual_settings(role):
                other = next((one for one in asked if one != value), None)
                if other is not None:
                    said = f"{role} is {value:g} here, where {other:g} was asked for"
                    listed.append((said, replace(self.spec.formula, fixed=((role, value),))))
        for role, one in self.spec.learned.items() if cases else ():
            if role not in ("alpha", "scale"):
                continue
            usual, set_ = one.start(self.dim), all(role in case.given for case in cases)
            for value in (usual, *causes.usual_settings(role)):
                said = f"{one.name} is {value:g} by default, documented is {usual:g}"
                said = f"{one.name} is {value:g} whatever is given" if set_ else said
                number = torch.tensor(value, dtype=torch.float64)
                listed.append((said, replace(self.spec.formula, fixed=((role, number),))))
        return listed

    def close(self, case: Case, y: Tensor, expected: Tensor, rtol: float, atol: float) -> bool:
        """Return whether an outcome is the expected one, with room for rounding."""
        # The result is no larger than its parts: what is this close needs no further room.
        least = rtol * expected.abs() + atol * expected.abs().max()
        if self._within(case, y, expected, least):
            return True
        return self._within(case, y, expected, self._room(case, rtol, atol))

    def diagnose(
        self,
        explains: Callable[[Formula], bool],
        cases: Sequence[Case],
        pairs: bool = True,
        gradient: bool = False,
        more: Sequence[tuple[str, Formula]] = (),
    ) -> str:
        """Find a known mistake that explains what came, first among those found before."""
        pairs = pairs and not self.unexplained
        at_hand = {role for case in cases for role in case.given} | {"x"}
        at_hand |= {"gradient"} if gradient else set()
        given = bool(at_hand & {"alpha", "scale"})  # what a default does is no matter there
        first = tuple(one for one in self.found if not (given and " by default" in one[0]))
        found = causes.diagnose(self.spec.formula, explains, frozenset(at_hand), first, pairs, more)
        if found is None:
            self.unexplained = self.unexplained or pairs  # look at pairs once only: they are many
            return ""
        if found not in self.found:
            self.found.append(found)
        return found[0]

    def _room(self, case: Case, rtol: float, atol: float) -> Tensor:
        """Allow `rtol` of the parts that were added up, and `atol` of the largest of them.

        Besides, x may count as known to four units in the last place of its computation: where
        the spread is small beside the mean, every right implementation magnifies that.
        """
        given = self.filled(case)
        computed = torch.promote_types(case.x.dtype, torch.float32)
        magnified = self.spec.formula.sensitivity(case.x, given)
        parts = self.spec.formula.parts(case.x, given)
        finite = parts[parts.isfinite()]
        largest = finite.max() if finite.numel() else 0.0
        return rtol * parts + atol * largest + 4 * torch.finfo(computed).eps * magnified

    def _within(self, case: Case, y: Tensor, expected: Tensor, room: Tensor) -> bool:
        return bool(self.real(case, (y.double() - expected).abs() <= room, True).all())

    def real(self, case: Case, y: Tensor, instead: float | bool = 0.0) -> Tensor:
        """Look at real tokens only: what stands at padding is nobody's concern."""
        mask = case.given.get("mask")
        if mask is None:
            return y
        return y.masked_fill(~mask.unsqueeze(self.spec.formula.features).expand(y.shape), instead)
