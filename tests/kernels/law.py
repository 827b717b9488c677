"""What a law is, and the settings under which every case is tried."""

from collections.abc import Callable
from dataclasses import dataclass

from normkernels.launch import INTERPRETED, processors
from normkernels.rows import backward_tile

from .cases import Case
from .measure import BRAIN, DEVICE, FLOAT, HALF, Setting


@dataclass(frozen=True)
class Law:
    """A law and the settings under which every case is tried."""

    check: Callable[..., None]
    settings: Callable[[Case], list[tuple]]  # further arguments of `check`, beside the case
    slow: Callable[..., bool]  # of case and arguments: left out of the quick tests
    gpu: bool  # cannot be broken where kernels are interpreted

    @property
    def name(self) -> str:
        return self.check.__name__


@dataclass(frozen=True)
class Check:
    """One thing to run: a law under one setting, or a special check of one kernel."""

    law: str
    name: str
    run: Callable[[], None]
    slow: bool
    gpu: bool


LAWS: dict[str, Law] = {}


def law(
    settings: Callable[[Case], list[tuple]] = lambda case: [()],
    slow: bool | Callable[..., bool] = False,
    gpu: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a law."""

    def register(check: Callable[..., None]) -> Callable[..., None]:
        is_slow = slow if callable(slow) else lambda *_: slow
        LAWS[check.__name__] = Law(check, settings, is_slow, gpu)
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
    """Return the length of the case that is nearest to n."""
    return min(case.lengths, key=lambda length: abs(length - n))


def near(*lengths: int) -> Callable[[Case], list[tuple[int]]]:
    """Return those lengths, as near as a case has them."""
    return lambda case: [(n,) for n in dict.fromkeys(nearest(case, n) for n in lengths)]


def around(n: int) -> int:
    """Count the rows of one round of a persistent backward kernel."""
    tile = backward_tile(n)
    return processors(DEVICE) * tile.per_processor * tile.rows


def pairs(case: Case) -> list[tuple[Setting]]:
    """Pair every length with row counts and dtypes, in turn, so that each value is met.

    Crossed, they would take the interpreter hours: each program costs it half a millisecond.
    """
    settings = []
    for i, n in enumerate(case.lengths):
        widest = (
            65537
            if n < 8
            else 4097
            if n < 16
            else 300
            if n <= 256
            else 60
            if n <= 2048
            else 7
            if n < 9999
            else 3
        )
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


def is_large(case: Case, setting: Setting) -> bool:
    """Leave to the slow tests what takes the interpreter more than a moment."""
    return setting.m * setting.n > 9000 or setting.m > 200


def paths(case: Case) -> list[tuple[Setting]]:
    """Return a setting for each way through a kernel: many rows a program, one, a row in parts."""
    several = {}
    for m, n, dtype in ((17, 129, FLOAT), (13, 1536, BRAIN), (3, 16384, FLOAT)):
        n = nearest(case, n)
        several[n] = Setting(m, n, dtype, FLOAT)
    return [(setting,) for setting in several.values()]


def small(case: Case) -> list[tuple[Setting]]:
    """Return one small setting, with rows that do not fill their block."""
    return [(Setting(7, nearest(case, 41)),)]


def is_long(case: Case, setting: Setting) -> bool:
    """Leave the longer rows of `paths` to the slow tests."""
    return setting.n > 200


def is_sibling(case: Case, *_: object) -> bool:
    """Leave to the slow tests what another case asks of the same operator of PyTorch."""
    shared = ("rms_norm_llama", "rms_norm_gemma", "add_layer_norm", "qk_norm_rope:ngpt")
    return case.name in (*shared, "dynamic_erf")  # made by the same lines as dynamic_tanh
