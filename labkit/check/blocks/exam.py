"""Hold one block against its reference: run both on a case, compare, and explain a difference."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import torch
from torch import Tensor

from labkit.check.blocks.design import Case, Design, Out
from labkit.check.blocks.halves import SIDES
from labkit.check.blocks.mistakes import mistakes
from labkit.check.case import Broken, Untested, largest_difference, told

VALUE, GRADIENT = 1e-4, 1e-3  # allowed, relative to the largest entry

_ON_BRANCH = "α multiplies the branch f instead of the skip"
_SIGN = f"the exponent's sign is wrong, (2N)^(−1/4), or {_ON_BRANCH}; the norm cannot tell"


class Exam(ABC):
    """What the laws use: the subject's runs, the reference's, and one explanation for all."""

    design: Design  # the right one
    sides: tuple[str, ...] = SIDES
    form: str = ""
    takes_alpha = has_modes = remembers = False
    is_class = False

    def __init__(self, recipe: str, seed: int, tries: int = 3000):
        self.recipe, self.seed = recipe, seed
        self.tries, self._cause = tries, None
        self.notes: list[str] = []
        self.refused = ""  # why it could not even be run
        self.off = False  # whether a value came out wrong, so that what follows proves little

    def generator(self, law: str) -> torch.Generator:
        """Make the law's own random stream, whatever ran before it."""
        return torch.Generator().manual_seed(zlib.crc32(f"{law} {self.seed}".encode()))

    @abstractmethod
    def case(
        self, draw: torch.Generator, about: str = "ordinary numbers", *, batch: int = 2,
        time: int = 5, scale: float = 1.0, silent: tuple[str, ...] = (),
    ) -> Case:  # fmt: skip
        """Draw an input."""

    @abstractmethod
    def run(self, case: Case) -> Out:
        """Run what was handed in."""

    @abstractmethod
    def truth(self, case: Case, design: Design | None = None) -> Out:
        """Evaluate the reference, with the parameters as the right design reads them."""

    def explanations(self, case: Case, design: Design) -> Iterator[Out]:
        """Evaluate a wrong design on a case, for every way to read what belongs to it."""
        return iter(())

    @abstractmethod
    def gradients(self, case: Case) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the gradients that came and those expected, by what they belong to."""

    @abstractmethod
    def run_on(self, case: Case, x: Tensor) -> Out:
        """Run what was handed in on this very tensor."""

    @abstractmethod
    def run_in(self, case: Case, dtype: torch.dtype) -> Tensor:
        """Run it in another precision."""

    @contextmanager
    def in_training(self) -> Iterator[None]:
        """Run what was handed in in training mode meanwhile."""
        yield

    def needs(self, silent: Sequence[str] = ()) -> None:
        """Skip a law that this recipe or this form has no use for."""
        if set(silent) - set(self.sides) or (silent and self.design.inside.sphere):
            raise Untested()

    def compare(self, cases: Sequence[Case], cause: str = "") -> None:
        """Hold what comes on each case against the reference."""
        for case in cases:
            actual, expected = self.run(case).stream, self.truth(case).stream
            if not close(actual, expected):
                self.off = True
                raise Broken(describe(str(case), actual, expected), cause or self.cause())

    def stock(self, sentence: str) -> str:
        """Return the mistake that was found, else a usual cause, but not of a wrong value."""
        return self.cause() or ("" if self.off else sentence)

    def cause(self) -> str:
        """Find a known mistake that gives what came; it is looked for once."""
        if self._cause is None:
            self._cause = ""
            try:
                self._cause = self._search()
            except Exception:  # an explanation is a courtesy: without it the law still speaks
                self._cause = ""
        if self.recipe == "deepnorm" and not self.takes_alpha and _SIGN not in self._cause:
            self._cause = self._cause.replace(_ON_BRANCH, _SIGN)
        return self._cause

    def _search(self) -> str:
        draw = self.generator("cause")
        cases = [self.case(draw, batch=1, time=4), self.case(draw, batch=1, time=3)]
        actual = [self.run(case) for case in cases]
        if all(same(out, self.truth(case)) for out, case in zip(actual, cases, strict=True)):
            return ""  # what is wrong does not show in the value
        for sentence, wrong in islice(
            mistakes(self.design, self.recipe, self.sides), self.tries // 2
        ):
            try:
                for first in self.explanations(cases[0], wrong):
                    if not same(actual[0], first):
                        continue
                    if any(same(actual[1], o) for o in self.explanations(cases[1], wrong)):
                        return sentence
            except (RuntimeError, KeyError, IndexError, ValueError, ZeroDivisionError, TypeError):
                continue
        return ""


def same(actual: Out, other: Out, allowed: float = VALUE) -> bool:
    """Return whether two outcomes agree in all that came."""
    pairs = [(actual.stream, other.stream)]
    if actual.second is not None:
        if other.second is None:
            return False
        pairs.append((actual.second, other.second))
    return all(close(a, b, allowed) for a, b in pairs)


def close(actual: Tensor, expected: Tensor, allowed: float = VALUE) -> bool:
    """Allow a share of the largest entry that was expected."""
    if actual.shape != expected.shape:
        return False
    largest = expected.abs().max().item() if expected.numel() else 0.0
    gap = (actual.detach().double() - expected.detach().double()).abs().max().item()
    return gap <= allowed * largest + 1e-12


def describe(about: str, actual: Tensor, expected: Tensor, what: str = "") -> str:
    """Return which input, what came and what was expected, where they differ most."""
    where = largest_difference(actual.detach(), expected.detach())
    return (
        f"on {about}{what}, at position {where} came {actual[where].item():.6g}, "
        f"expected {expected[where].item():.6g}"
    )


def stream_of(result: object, shape: torch.Size, about: str) -> Tensor:
    """Take the stream out of what came; a wrong kind of result breaks the law."""
    first = result[0] if isinstance(result, tuple | list) and result else result
    first = getattr(first, "last_hidden_state", first)
    if not isinstance(first, Tensor):
        kind = type(first).__name__
        raise Broken(
            f"on {about} your code returned a {kind}, not the new stream: not answered yet?"
        )
    if first.shape != shape:
        raise Broken(
            f"on {about} the new stream has shape {tuple(first.shape)}; a block keeps the shape"
        )
    return first


def guarded(about: str, error: BaseException) -> Broken:
    """Put an exception of somebody else's code in words."""
    return Broken(f"on {about} your code raised {told(error)}")
