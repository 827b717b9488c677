"""The shared ladder: one grid of arms, trained long enough to be compared, on rungs of one shape.

rungs.py      arms, rungs, and directions: rung S with one thing changed
rates.py      how an arm gets its learning rate, and what is left to gain from a better one
method.py     the runs of one arm on one rung: which search its rate, which report
reading.py    what is read of the runs, and how far each arm is
comparing.py  two arms compared: without pairs, with what tuning leaves in the interval
comparison.py what a comparison says by rung, and the claim of it
orders.py     all pairs of a rung, and whether another rung gives them the same order
plan.py       in which order the ladder trains

Every arm of a rung gets the same data and its own learning rate; on S, M and L 20 tokens a
parameter. A chapter reads the rung it needs (`read_results`), and adds only what is its own. The
regime (optimizer, warm-up, clipping) is that of small published runs: AdamW with betas 0.9 and
0.95, 10 % warm-up, a linear decay to 5 %, the gradient clipped at 1, no weight decay. Recipes keep
the initialization of their paper; the others have Megatron's, and embeddings of RMS 1.
"""

from labkit.experiments.ladder.comparing import (
    FREQUENCIES,
    claim_locked,
    improvement,
    measure_lost,
    measure_scatter,
    measure_tuning_left,
    references,
    shared_rung,
    table,
)
from labkit.experiments.ladder.method import SEEDS, MethodRuns
from labkit.experiments.ladder.orders import compare_orders, count_told_apart
from labkit.experiments.ladder.rates import (
    COARSE,
    TUNING_SEED,
    TUNING_SEEDS,
    measure_left,
)
from labkit.experiments.ladder.reading import (
    Ladder,
    has_reported,
    read_ladder,
    reported,
)
from labkit.experiments.ladder.rungs import (
    ARMS,
    CHAPTERED,
    CLIMBED,
    DIRECTIONS,
    LOOKS,
    RUNGS,
    SHELVED,
    SIZES,
    Arm,
    build_base_run,
    build_text,
    configure_run,
)

__all__ = [
    "ARMS",
    "CHAPTERED",
    "CLIMBED",
    "COARSE",
    "DIRECTIONS",
    "FREQUENCIES",
    "LOOKS",
    "RUNGS",
    "SEEDS",
    "SHELVED",
    "SIZES",
    "TUNING_SEED",
    "TUNING_SEEDS",
    "Arm",
    "Ladder",
    "MethodRuns",
    "build_base_run",
    "build_text",
    "claim_locked",
    "compare_orders",
    "configure_run",
    "count_told_apart",
    "has_reported",
    "improvement",
    "measure_left",
    "measure_lost",
    "measure_scatter",
    "measure_tuning_left",
    "read_ladder",
    "references",
    "reported",
    "shared_rung",
    "table",
]
