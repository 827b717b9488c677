"""Measured sizes, the most informative first.

targets   bf16, activations of 64 MiB and more, every kernel
rest      other dtypes, then fewer rows
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PHASES = ("targets", "rest")
# The targets are judged from 1024 to 8192; the longest rows are where peers break.
LENGTHS = (4096, 1024, 8192, 2048, 5120, 16384, 32768, 65536)
LONGEST = {"rms_norm_gated": 8192}  # of kernels that refuse longer rows
ROWS = (131072, 32768, 8192, 2048, 128, 16, 1)
LARGE = 64 * 2**20  # bytes of an activation in bf16 from which on a size counts for the targets
MOST = 2**29  # values of an activation: all that is compared at more does not fit one GPU
HEADS = ((32, 8, 128), (32, 8, 64), (8, 8, 128), (8, 8, 64))  # of q, of k, values of a head
TOKENS = 8192
DTYPES = ("bf16", "bf16+fp32", "fp32")


@dataclass(frozen=True)
class Case:
    """One kernel at one size: m rows (or tokens) of n values (of each head)."""

    kernel: str
    m: int
    n: int
    dtype: str = "bf16"
    heads: tuple[int, int] | None = None
    large: bool = False  # the size at which the targets are judged

    @property
    def key(self) -> str:
        """Return the case's name in the file."""
        heads = f"x({self.heads[0]}+{self.heads[1]})" if self.heads else ""
        return f"{self.kernel} {self.m}{heads}x{self.n} {self.dtype}"

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one activation: q and k have a batch of at most 8."""
        if self.heads is None:
            return self.m, self.n
        batch = min(8, self.m)
        return batch, self.m // batch, self.heads[name == "k"], self.n


def list_cases(kernel: str) -> Iterator[Case]:
    """List all sizes of one kernel; `large` marks the fewest rows that make 64 MiB in bf16."""
    for dtype in DTYPES if not kernel.startswith("unit_rows_") else ("bf16", "fp32"):
        if kernel == "qk_norm_rope":
            for q, k, n in HEADS:
                large = TOKENS * (q + k) * n * 2 >= LARGE
                yield Case(kernel, TOKENS, n, dtype, (q, k), large)
            continue
        for n in LENGTHS:
            if n > LONGEST.get(kernel, n):
                continue
            enough = min(m for m in ROWS if 2 * m * n >= LARGE)
            for m in ROWS:
                if m * n <= MOST:
                    yield Case(kernel, m, n, dtype, large=m == enough)


def list_dry_cases(kernel: str) -> list[Case]:
    """List tiny sizes, to test the program without a GPU."""
    if kernel == "qk_norm_rope":
        return [Case(kernel, 16, 16, heads=(4, 2), large=True)]
    large = [Case(kernel, 33, n, large=True) for n in (48, 128)]
    return [*large, Case(kernel, 8, 48, "bf16+fp32")]


def plan_sizes(
    kernels: list[str], phases: tuple[str, ...] = PHASES, dry: bool = False
) -> list[Case]:
    """List the sizes of these kernels, the most informative first."""
    every = [case for k in kernels for case in (list_dry_cases if dry else list_cases)(k)]
    first = [case for case in every if case.large and case.dtype == "bf16"]
    lengths = (16, 48, 64, 128, *LENGTHS)
    first.sort(key=lambda case: lengths.index(case.n))
    rest = [case for case in every if case not in first]
    rest.sort(key=lambda case: (not case.large, DTYPES.index(case.dtype), -case.m))
    return first * ("targets" in phases) + rest * ("rest" in phases)


def choose_cases(cases: list[Any], expression: str) -> list[Any]:
    """Choose the cases whose names in the file begin with a match of this expression.

    Raises:
        ValueError: no name matches, or `expression` is not a valid regular expression.
    """
    try:
        chosen = [case for case in cases if re.match(expression, case.key)]
    except re.error as error:
        raise ValueError(
            f"--cases must be a regular expression, got {expression!r}: {error}"
        ) from error
    if not chosen:
        raise ValueError(
            f"--cases must match the beginning of a case name, but {expression!r} matches none; "
            f"the first is {cases[0].key!r}"
        )
    return chosen
