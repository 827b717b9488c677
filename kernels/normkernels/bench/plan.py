"""Which sizes are measured, the most telling first.

targets   bf16, activations of 64 MiB and more, every kernel: ours and torch's
peers     the same sizes with every provider, in one run: replaces the entry from `targets`
rest      other dtypes, then fewer rows
"""

from collections.abc import Iterator
from dataclasses import dataclass

PHASES = ("targets", "peers", "rest")
LENGTHS = (4096, 1024, 8192, 2048, 5120, 16384)
ROWS = (32768, 8192, 2048, 128, 16, 1)
LARGE = 64 * 2**20  # bytes of an activation from which on a size counts for the targets
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
        """Name it, as the file does."""
        heads = f"x({self.heads[0]}+{self.heads[1]})" if self.heads else ""
        return f"{self.kernel} {self.m}{heads}x{self.n} {self.dtype}"

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one activation: q and k have a batch of at most 8."""
        if self.heads is None:
            return self.m, self.n
        batch = min(8, self.m)
        return batch, self.m // batch, self.heads[name == "k"], self.n


def cases(kernel: str) -> Iterator[Case]:
    """List all sizes of one kernel; `large` is the fewest rows that make 64 MiB in bf16."""
    for dtype in DTYPES if not kernel.startswith("unit_rows_") else ("bf16", "fp32"):
        if kernel == "qk_norm_rope":
            for q, k, n in HEADS:
                large = TOKENS * (q + k) * n * 2 >= LARGE
                yield Case(kernel, TOKENS, n, dtype, (q, k), large)
            continue
        for n in LENGTHS:
            enough = min(m for m in ROWS if 2 * m * n >= LARGE)
            for m in ROWS:
                yield Case(kernel, m, n, dtype, large=m == enough)


def plan(kernels: list[str], phases: tuple[str, ...] = PHASES) -> list[tuple[str, Case]]:
    """Put all sizes of these kernels in the order of their worth, each with its phase."""
    every = [case for kernel in kernels for case in cases(kernel)]
    first = [case for case in every if case.large and case.dtype == "bf16"]
    lengths = [64, 128, *LENGTHS] if kernels else []
    first.sort(key=lambda case: lengths.index(case.n))
    later = [case for case in every if case not in first]
    later.sort(key=lambda case: (not case.large, DTYPES.index(case.dtype), -case.m))
    order = {"targets": first, "peers": first, "rest": later}
    return [(phase, case) for phase in PHASES if phase in phases for case in order[phase]]


def dry_plan(kernels: list[str], phases: tuple[str, ...] = PHASES) -> list[tuple[str, Case]]:
    """Return two tiny sizes for each kernel, to go through the program without a GPU."""
    chosen = []
    for kernel in kernels:
        if kernel == "qk_norm_rope":
            chosen.append(Case(kernel, 16, 16, "bf16", (4, 2), True))
        else:
            chosen += [Case(kernel, 33, n, "bf16", large=True) for n in (48, 128)]
    order = {"targets": chosen, "peers": chosen, "rest": []}
    order["rest"] = [Case(c.kernel, 8, c.n, "bf16+fp32", c.heads) for c in chosen if c.n < 128]
    return [(phase, case) for phase in PHASES if phase in phases for case in order[phase]]
