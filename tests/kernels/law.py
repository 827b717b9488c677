"""Laws, and the settings under which every case is tested."""

from collections.abc import Callable
from dataclasses import dataclass

from normkernels.launch import INTERPRETED, count_processors
from normkernels.rows import backward_tile

from .cases import Case
from .measure import BRAIN, DEVICE, FLOAT, HALF, Setting


@dataclass(frozen=True)
class Law:
    """A law and the settings under which every case is tested."""

    check: Callable[..., None]
    settings: Callable[[Case], list[tuple]]  # further arguments of `check`, beside the case
    quick: Callable[..., bool]  # of case and arguments: is it one of the quick tests
    gpu: bool  # cannot be broken where kernels are interpreted

    @property
    def name(self) -> str:
        return self.check.__name__


@dataclass(frozen=True)
class Check:
    """One test: a law under one setting, or a special check of one kernel."""

    law: str
    name: str
    run: Callable[[], None]
    slow: bool
    gpu: bool


LAWS: dict[str, Law] = {}
# One kernel of each family, by which the quick tests try a law: its siblings share their code.
FAMILIES = ("rms_norm", "add_layer_norm", "qk_norm_rope", "dynamic_erf", "ngpt_update")


def of_family(case: Case, *given: object) -> bool:
    """Return whether the quick tests include this: one kernel of a family, on short rows."""
    return case.name in FAMILIES and all(getattr(one, "n", 0) <= 200 for one in given)


def never(case: Case, *given: object) -> bool:
    """Leave a law to the slow tests."""
    return False


def law(
    settings: Callable[[Case], list[tuple]] = lambda case: [()],
    quick: Callable[..., bool] = of_family,
    gpu: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a law."""

    def register(check: Callable[..., None]) -> Callable[..., None]:
        LAWS[check.__name__] = Law(check, settings, quick, gpu)
        return check

    return register


MIXES = (
    (FLOAT, FLOAT),
    (BRAIN, BRAIN),
    (HALF, HALF),
    (BRAIN, FLOAT),
    (HALF, FLOAT),
    (FLOAT, BRAIN),
)


def nearest(case: Case, n: int) -> int:
    """Return the case's row length that is nearest to n."""
    return min(case.lengths, key=lambda length: abs(length - n))


def near(*lengths: int) -> Callable[[Case], list[tuple[int]]]:
    """Return the case's row lengths that are nearest to these."""
    return lambda case: [(n,) for n in dict.fromkeys(nearest(case, n) for n in lengths)]


def around(n: int) -> int:
    """Count the rows of one round of a persistent backward kernel."""
    tile = backward_tile(n)
    return count_processors(DEVICE) * tile.per_processor * tile.rows


def pairs(case: Case) -> list[tuple[Setting]]:
    """Pair every length with row counts and dtypes, in turn, so that each value occurs.

    Crossed, they would take the interpreter hours: each program costs it half a millisecond.
    """
    settings = []
    for i, n in enumerate(case.lengths):
        limits = ((8, 65537), (16, 4097), (257, 300), (2049, 60), (9999, 7))
        widest = next((most for limit, most in limits if n < limit), 3)
        widest = widest if INTERPRETED else 2**27 // n
        counts = [65537, around(n) + 1, 199, around(n) - 1, 7, 2]
        fitting = [m for m in counts if 0 < m <= widest]
        for turn in range(2):
            m = fitting[turn] if n < 8 else fitting[(i + turn) % len(fitting)]
            settings.append(Setting(m, n, *MIXES[(2 * i + turn) % len(MIXES)]))
        if BRAIN not in {s.dtype for s in settings[-2:]}:
            settings.append(Setting(7, n, BRAIN))
    settings += [Setting(m, nearest(case, 64), dtype) for m in (0, 1) for dtype in (FLOAT, BRAIN)]
    settings += [Setting(0, nearest(case, 65536)), Setting(1, nearest(case, 1536))]
    return [(setting,) for setting in dict.fromkeys(settings)]


def paths(case: Case) -> list[tuple[Setting]]:
    """Return a setting for each path through a kernel: many rows per program, or one.

    Longer rows are worked on in parts: first in the backward pass only, then in both. Long rows
    cost the interpreter most: there one kernel of each family has them, and `formula` all.
    """
    several = {}
    for m, n, dtype in ((17, 129, FLOAT), (13, 1536, BRAIN), (3, 16384, FLOAT), (2, 65536, FLOAT)):
        if n > 129 and INTERPRETED and case.name not in FAMILIES:
            continue
        n = nearest(case, n)
        if n == 65536 and INTERPRETED:
            n = 40960  # three parts in place of four, of which the last is half full
        several[n] = Setting(m, n, dtype, FLOAT)
    return [(setting,) for setting in several.values()]


def small(case: Case) -> list[tuple[Setting]]:
    """Return one small setting, with rows that do not fill their block."""
    return [(Setting(7, nearest(case, 41)),)]
