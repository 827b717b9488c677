"""Draw inputs, run an implementation on them, compare it with the formula, and explain errors."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, product
from typing import Any

import torch
from torch import Tensor

from labkit.check.case import HALF, Broken, Case, describe, same_layout_copy, told
from labkit.check.formula import Formula
from labkit.check.mistakes import USUAL, Explanation, explain, known_mistakes, list_places
from labkit.check.probes import ROUNDED, Probes, describe_statistics
from labkit.check.specs import Shape
from labkit.check.subject import Runner, Subject


class Exam:
    """Shared state of the laws: the subject, the formula, the inputs and the findings so far."""

    def __init__(self, subject: Subject, seed: int, variant: str | None = None):
        self.subject, self.norm, self.seed, self.variant = subject, subject.norm, seed, variant
        norm = self.norm
        self.dim = subject.dim or norm.dim
        shapes = norm.shapes(self.dim)
        self.shapes = tuple(s for s in shapes if subject.takes(s, self.dim)) or shapes
        self.learned = subject.learned
        self.usual = {
            role: subject.given.get(role, values[0])
            for role, values in norm.settings.items()
            if role in subject.sets
        }
        self.groups = subject.groups or 3
        # A batch norm's state is float32, as in mixed precision; the two norms of a sum are not.
        self.mixed = norm.runs and bool(norm.learned)
        self.found: list[Explanation] = []  # explanations of laws that failed before
        self.failed: set[str] = set()  # names of laws, and settings, that do not hold
        self.gradients: dict[int, dict[str, Tensor | None]] = {}  # of the parameters, by case
        self.unanswered = False  # the code returns None or ...
        self.searched = False  # whether a cause was searched since this was last reset
        self.unexplained: list[str] = []  # names of laws for which none was found
        self.notes: list[str] = []  # remarks that break no law
        refused = sorted({len(s) for s in shapes if s not in self.shapes})
        if refused and norm.formula.features == -1:
            said = " or ".join(map(str, refused))
            self.notes.append(f"x of {said} axes raises; it was checked on 2 and 3 axes")
        self._state: str | None = None  # result of describe_statistics, once it was called
        self._axis: str | None = None  # result of _find_axis, once it was called
        self._raised: dict[str, str] = {}  # error of the code -> message at the time

    # --- inputs ---

    def make_generator(self, law: str) -> torch.Generator:
        """Make the law's own random generator, independent of earlier laws."""
        return torch.Generator().manual_seed(zlib.crc32(f"{law} {self.seed}".encode()))

    def draw_case(
        self,
        draw: torch.Generator,
        shape: Shape | None = None,
        about: str = "ordinary numbers",
        *,
        learned: Sequence[str] = (),
        scale: float = 1.0,
        offset: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> Case:
        """Draw an input whose statistics differ along every axis, and matching parameters."""
        shape = self.shapes[0] if shape is None else shape
        # Drawn in float64 and rounded at the end: every dtype is given the same numbers.
        x = torch.randn(shape, generator=draw, dtype=torch.float64)
        # No two axes are alike, so that statistics over a wrong axis are detected.
        for axis in range(x.ndim):
            along = [1] * x.ndim
            along[axis] = x.shape[axis]
            x = x * (0.6 + 0.8 * torch.rand(along, generator=draw, dtype=torch.float64))
            x = x + 0.5 * torch.randn(along, generator=draw, dtype=torch.float64)
        given: dict[str, Any] = dict(self.usual)
        for role, one in self.norm.learned.items():
            size = (shape[self.norm.formula.features],) if one.each else ()
            value = torch.randn(size, generator=draw, dtype=torch.float64) + one.centre
            if role in learned and role in self.learned:
                given[role] = value.to(self.find_parameter_dtype(dtype))
        if "num_groups" in self.norm.roles:
            given["num_groups"] = self.groups
        return Case((x * scale + offset).to(dtype), about, given)

    def add_mask(self, draw: torch.Generator, case: Case, share: float = 0.6) -> Case:
        """Add a mask to a case, True for real tokens."""
        positions = case.x.movedim(self.norm.formula.features, -1).shape[:-1]
        mask = torch.rand(positions, generator=draw) < share
        mask.view(-1)[:3] = torch.tensor([True, False, True])
        return case.but(mask=mask)

    def find_eps_size(self, dtype=torch.float32, asked: float | None = None) -> float:
        """Return the input size at which an eps has a visible effect."""
        if "eps" not in self.norm.settings:
            return 1.0
        eps = self.find_setting("eps", dtype=dtype) if asked is None else asked
        on_root = self.norm.formula.eps_at in ("outside", "floor of the root")
        return eps if on_root else eps**0.5

    @contextmanager
    def use_parameters(self, mixed: bool) -> Iterator[None]:
        """Set whether parameters stay float32 next to half-precision inputs, during a block."""
        before, self.mixed = self.mixed, mixed
        try:
            yield
        finally:
            self.mixed = before

    def find_parameter_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype of parameters and running statistics for an input."""
        return torch.promote_types(dtype, torch.float32) if self.mixed else dtype

    # --- running ---

    def open_runner(self, case: Case, **more: Any) -> Runner:
        """Make a runner for a case; raise Broken if the implementation cannot be set up."""
        features = case.x.shape[self.norm.formula.features]
        given = {k: v.clone() if isinstance(v, Tensor) else v for k, v in case.given.items()}
        dtype = self.find_parameter_dtype(case.x.dtype)
        if dtype != case.x.dtype and self.subject.has_running and "running" not in given:
            given["running"] = (torch.zeros(features), torch.ones(features))
        try:
            return self.subject.open(features, dtype, {**given, **more})
        except Broken:
            raise
        except Exception as error:
            raise Broken(
                f"your code must be ready for {case}, but setting it up raised {told(error)}"
            ) from error

    def run(self, case: Case, runner: Runner | None = None, training: bool = True) -> Tensor:
        """Call the implementation on a copy of the input and check the type of the result."""
        runner = self.open_runner(case) if runner is None else runner
        return self.call(runner, same_layout_copy(case.x), case, training)

    def call(self, runner: Runner, x: Tensor, case: Case, training: bool = True) -> Tensor:
        """Call the implementation on `x` itself; a result of the wrong type breaks the law."""
        shape, mask = x.shape, case.given.get("mask")
        try:
            y = runner(x, training, None if mask is None else mask.clone())
        except Exception as error:
            # The first message again, so that the report says it once.
            said = self._raised.setdefault(told(error), f"on {case} your code raised {told(error)}")
            raise Broken(said, self._find_axis()) from error
        except (SystemExit, KeyboardInterrupt) as error:
            raise Broken(f"on {case} your code raised {type(error).__name__}") from error
        if y is None or y is ...:
            self.unanswered = True
            raise Broken(f"on {case} your code returned {y}: not answered yet?")
        if isinstance(y, torch.nn.Module):
            raise Broken(
                f"on {case} your code must return a tensor, but returned a module; pass the class "
                "or an instance"
            )
        if not isinstance(y, Tensor):
            raise Broken(
                f"on {case} your code must return a tensor, but returned a {type(y).__name__}"
            )
        if y.shape != shape:
            raise Broken(
                f"on {case} the result must keep the input's shape {tuple(shape)}, but has "
                f"{tuple(y.shape)}",
                self._find_axis()
                or "a mean or variance without keepdim=True, or parameters on the wrong axis",
            )
        return y

    def _find_axis(self) -> str:
        """Return the cause found on equal axis sizes, where a wrong axis raises no error."""
        if self._axis is None:
            self._axis = ""
            for axes in (3, 4):
                try:
                    self.compare([self.draw_case(self.make_generator("axes"), (self.dim,) * axes)])
                except Broken as broken:
                    self._axis = self._axis or broken.cause
        return self._axis

    # --- the truth ---

    def find_setting(self, role: str, case: Case | None = None, dtype=torch.float32) -> Any:
        """Return the expected value of a setting (eps, p, …)."""
        asked = self.usual.get(role) if case is None else case.given.get(role)
        return self.subject.expected(role, asked, dtype if case is None else case.x.dtype)

    def fill_settings(self, case: Case) -> dict[str, Any]:
        """Return the given arguments, completed by the subject's own settings."""
        return {
            **case.given,
            **{role: self.find_setting(role, case) for role in self.norm.settings},
        }

    def find_truth(self, case: Case, formula: Formula | None = None) -> Tensor:
        """Evaluate the formula, or another one, on a case."""
        return (formula or self.norm.formula)(case.x, self.fill_settings(case))

    def compare(
        self, cases: Sequence[Case], rtol: float = 2e-5, atol: float = 2e-5, cause: str = ""
    ) -> None:
        """Compare the output for each case with the formula; explain the first difference."""
        self.judge(cases, [self.run(case) for case in cases], rtol, atol, cause)

    def judge(
        self,
        cases: Sequence[Case],
        actual: Sequence[Tensor],
        rtol: float,
        atol: float,
        cause: str = "",
        settings: Sequence[Explanation] = (),
    ) -> None:
        """Compare results with the formula; `cause` is reported if no known mistake fits."""
        pairs = list(zip(cases, actual, strict=True))
        for case, y in pairs:
            expected = self.find_truth(case)
            if self.is_close(case, y, expected, rtol, atol):
                continue
            pairs.sort(key=lambda pair: pair[0] is not case)  # the other cases first
            settings = settings or (self._other_settings(cases) if rtol <= 1e-3 else ())
            explains = self._make_explainer(pairs, rtol, atol, Probes(self, case))
            found = self._find_state(case) or self.diagnose(explains, cases, settings)
            y, expected = self.take_real(case, y), self.take_real(case, expected)
            raise Broken(describe(case, y, expected), found or self.offer_cause(cause, case))

    def _make_explainer(
        self, pairs: Sequence[tuple[Case, Tensor]], rtol: float, atol: float, probes: Probes
    ) -> Callable[[Formula], bool]:
        """Make a function that tests whether a wrong formula explains these and further results."""

        rooms = [self._find_room(case, rtol, atol) for case, _ in pairs]

        def agrees(case: Case, came: Tensor, wrong: Formula, room: Tensor | None = None) -> bool:
            truth = self.find_truth(case, wrong)
            # What comes may be far larger than what is right, and has rounding errors of its own.
            if room is not None and not self._is_within(
                case, came, truth, room + 1e-6 * truth.abs()
            ):
                return False
            # As close as a right result is to the formula: the value may be far smaller.
            return self._is_within(case, came, truth, self._find_room(case, rtol, atol, wrong))

        def explains(wrong: Formula) -> bool:
            seen = zip(pairs, rooms, strict=True)
            fits = all(agrees(*pair, wrong, room) for pair, room in seen)
            return fits and all(agrees(*probe, wrong) for probe in probes.draw(wrong))

        return explains

    def diagnose(
        self,
        explains: Callable[[Formula], bool],
        cases: Sequence[Case],
        settings: Sequence[Explanation] = (),
    ) -> str:
        """Find a known mistake that explains the results; mistakes found earlier come first."""
        right, given = self.norm.formula, {role for case in cases for role in case.given}
        # If no alpha is given, a different default is more likely than an ignored alpha.
        self.searched = True
        known = (
            one
            for one in known_mistakes(right, "bias" in self.norm.learned)
            if one[1].alpha == right.alpha or right.slope in given
        )
        before = (
            one for one in self.found if right.slope not in given or " by default" not in one[0]
        )
        found = explain(explains, chain(before, known, settings))
        if found is None:
            return ""
        if found not in self.found:
            self.found.append(found)
        elsewhere = "running" not in given or "evaluation" in found[0]
        return found[0] if elsewhere else f"{found[0]} (in evaluation)"

    def offer_cause(self, cause: str, case: Case) -> str:
        """Return a law's own explanation, or "" if a more basic law is already broken."""
        laws = {self.norm.learned[r].law for r in self.learned if r in case.given}
        return "" if {"value", *self.norm.settings, *laws} & self.failed else cause

    def _other_settings(self, cases: Sequence[Case]) -> list[Explanation]:
        """List the formulas of other settings: another eps, another default alpha."""
        listed: list[Explanation] = []
        formula = self.norm.formula
        for role in self.norm.settings:
            asked = [self.find_setting(role, case) for case in cases]
            for value, at in product(USUAL.get(role, ()), list_places(formula, role)):
                if (other := next((one for one in asked if one != value), None)) is not None:
                    where = "" if at == formula.eps_at else ", and it stands outside the root"
                    said = f"{role} is {value:g} here, where {other:g} was asked for{where}"
                    listed.append((said, replace(formula, eps_at=at, fixed=((role, value),))))
        role = formula.slope
        if role in self.norm.learned:
            one = self.norm.learned[role]
            usual, is_set = one.start(self.dim), all(role in case.given for case in cases)
            for value in (usual, *USUAL[role]):
                said = f"{one.name} is {value:g} by default, documented is {usual:g}"
                said = f"{one.name} is {value:g} whatever is given" if is_set else said
                listed.append((said, replace(formula, fixed=((role, value),))))
        return listed

    def is_close(self, case: Case, y: Tensor, expected: Tensor, rtol: float, atol: float) -> bool:
        """Return whether a result agrees with the expected one."""
        # The result is no larger than its parts, so this close it needs no further tolerance.
        least = rtol * expected.abs() + atol * expected.abs().max()
        exact = not self.norm.formula.pool and not self.norm.formula.f
        if not exact and self._is_within(case, y, expected, least):
            return True
        return self._is_within(case, y, expected, self._find_room(case, rtol, atol))

    def _find_state(self, case: Case) -> str:
        """Describe wrong statistics that no formula explains: which ones, or how inexact."""
        if "running" in case.given:
            return ""
        if self._state is None:
            self._state = describe_statistics(self)
        # An input in half precision may be rounded anywhere: the laws of precision say where.
        return "" if case.x.dtype in HALF and self._state == ROUNDED else self._state

    def _find_room(
        self, case: Case, rtol: float, atol: float, formula: Formula | None = None
    ) -> Tensor:
        if formula is not None and not formula.pool and not formula.f and self.norm.formula.pool:
            truth = self.find_truth(case, formula).abs()  # no norm where one is expected
            return rtol * truth + atol * truth.max()
        return (formula or self.norm.formula).room(case.x, self.fill_settings(case), rtol, atol)

    def _is_within(self, case: Case, y: Tensor, expected: Tensor, room: Tensor) -> bool:
        return bool(self.take_real(case, (y.double() - expected).abs() <= room, True).all())

    def take_real(self, case: Case, y: Tensor, instead: float | bool = 0.0) -> Tensor:
        """Set the results at padding to a constant, since only real tokens count."""
        mask = case.given.get("mask")
        if mask is None:
            return y
        return y.masked_fill(~mask.unsqueeze(self.norm.formula.features).expand(y.shape), instead)
