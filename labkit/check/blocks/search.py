"""Find the design that a module follows: the right one, or one with a known mistake.

One token tells placements, norms and the feed-forward apart: its softmax is 1, whatever the logits,
the mask and the positions are. Several tokens then tell those.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from torch import Tensor

from labkit.check.blocks.design import Case, Design, Out, reference
from labkit.check.blocks.exam import VALUE, same
from labkit.check.blocks.mistakes import double_mistakes, side_mistakes, special_mistakes
from labkit.check.blocks.reading import Reading, flattened, readings, values
from labkit.check.blocks.wrong_inside import inside_mistakes

if TYPE_CHECKING:
    from labkit.check.blocks.module import ModuleExam

Turn = tuple[str, bool, float]  # what one token cannot tell: rotation, mask, scale of s_qk
Match = tuple[Design, Reading, str]
_CLOSEST = 2e-6
_SECONDS = 1.8  # of computing, for an explanation
_MANY = 3000  # designs that are compared when the right one is looked for
_ERRORS = (
    NameError, RuntimeError, KeyError, ValueError, IndexError, ZeroDivisionError, TypeError,
)  # fmt: skip


class Search:
    """Compare one module's outcomes with those of designs."""

    def __init__(self, exam: "ModuleExam", designs: list[Design]):
        self.exam, self.flat = exam, flattened(exam.module)
        draw = exam.generator("search")
        self.one = exam.case(draw, batch=1, time=1)
        self.some = [exam.case(draw, batch=1, time=4), exam.case(draw, batch=1, time=3)]
        self.came_one = exam.run(self.one)
        self.actual = [exam.run(case) for case in self.some]
        self.stop: float | None = None  # in this thread's own time: other work does not count
        self.left = 0  # how many designs may still be compared
        self.still: list[Design] = []
        self.turns: list[Turn] = []
        for design in designs:
            i = design.inside
            turn = i.rotary, i.causal, i.sphere_scales[0]
            plain = self._turned(design, ("", True, 1.0))
            self.still += [] if plain in self.still else [plain]
            self.turns += [] if turn in self.turns else [turn]

    @staticmethod
    def _turned(design: Design, turn: Turn) -> Design:
        i = design.inside
        scales = turn[2], i.sphere_scales[1]
        inside = replace(i, rotary=turn[0], causal=turn[1], sphere_scales=scales)
        return replace(design, inside=inside)

    def _same(
        self,
        design: Design,
        reading: Reading,
        cases: list[Case],
        actual: list[Out],
        allowed: float = VALUE,
    ) -> bool:
        self.left -= 1
        if self.stop is not None and time.thread_time() > self.stop:
            self.left = -1
        try:
            w: dict[str, Tensor] = values(reading, self.flat)
            return all(
                same(out, reference(design, w, case), allowed)
                for out, case in zip(actual, cases, strict=True)
            )
        except _ERRORS:
            return False

    def right(self, limit: int = 48) -> Match | None:
        """Find the right design, in any reading of the parameters: the closest of those that fit.

        GELU and its approximation by tanh, for instance, differ by less than is allowed.
        """
        self.left, fits = _MANY, None
        for design in self.still:
            for reading in readings(self.exam.found, design, limit):
                if self.left < 0:
                    return fits
                if not self._same(design, reading, [self.one], [self.came_one]):
                    continue
                for turn in self.turns:
                    turned = self._turned(design, turn)
                    if self._same(turned, reading, self.some, self.actual, _CLOSEST):
                        return turned, reading, ""
                    if fits is None and self._same(turned, reading, self.some, self.actual):
                        fits = turned, reading, ""
        return fits

    def wrong(self, count: int) -> Match | None:
        """Find a wrong design; the match names its mistake, and the right design beside it.

        It may compare `count` designs, within a time that only the unexplained ones need.
        """
        self.left, self.stop = count, time.thread_time() + _SECONDS
        for limit in (6, 48):
            tried = 0
            for sentence, design, right in self._candidates():
                for reading in readings(self.exam.found, design, limit, self.still[0]):
                    if self.left < 0:
                        return None
                    if not self._same(design, reading, [self.one], [self.came_one]):
                        continue
                    told = self._among_tokens(design, sentence, tried < 4)
                    tried += 1
                    if told is not None:
                        turn, said = told
                        return self._named(self._turned(right, turn), reading, said)
                    break
        return None

    def _candidates(self) -> Iterator[tuple[str, Design, Design]]:
        """Offer the right design first, then mistakes, each with all that a recipe leaves open."""
        likely = [d for d in self.still if d.norm == self.still[0].norm]
        first = likely[0].eps, likely[0].inside.eps
        likely = [d for d in likely if (d.eps, d.inside.eps) == first]
        for design in self.still:
            yield "", design, design
        exam, sides = self.exam, likely[0].sides
        same_sides = [d for d in likely if d.sides == sides]
        for sentence, pair in special_mistakes(sides, exam.recipe, exam.sides):
            for right in same_sides:
                yield sentence, right.with_sides(*pair), right
        inside = [list(inside_mistakes(design)) for design in likely]
        for row in zip_longest(*inside):
            for found, right in zip(row, likely, strict=True):
                if found is not None:
                    yield found[0], found[1], right
        for sentence, pair in chain(
            side_mistakes(sides, exam.recipe, exam.sides), double_mistakes(sides, exam.sides)
        ):
            for right in same_sides:
                yield sentence, right.with_sides(*pair), right

    def _among_tokens(
        self, design: Design, sentence: str, all_of_it: bool
    ) -> tuple[Turn, str] | None:
        """Match several tokens: mask, positions, and mistakes among the logits."""
        usual = [turn for turn in self.turns if turn[1] == self.turns[0][1]]
        turned = [(turn, "", self._turned(design, turn)) for turn in self.turns]
        for turn in usual if all_of_it else ():
            turned += [(turn, *more) for more in inside_mistakes(self._turned(design, turn))]
        for limit in (4, 24):
            for turn, also, wrong in turned:
                for reading in readings(self.exam.found, wrong, limit, self.still[0]):
                    if self.left < 0:
                        return None
                    if self._same(wrong, reading, self.some, self.actual):
                        return turn, "; and ".join(s for s in (sentence, also) if s)
            if not all_of_it:
                break
        return None

    def _named(self, right: Design, reading: Reading, sentence: str) -> Match:
        """Read the parameters for the right design as the wrong one reads them."""
        names = set(reading.units)
        best = max(readings(self.exam.found, right), key=lambda one: len(names & set(one.units)))
        return right, best, sentence
