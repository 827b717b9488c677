"""The shared ladder: one grid of arms, trained long enough to be compared, on rungs of one shape.

rungs.py      arms, rungs, and directions: rung S with one thing changed
rates.py      how an arm gets its learning rate, and what is left to gain from a better one
reading.py    which runs are wanted, which report, what is read of them
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
    improvement,
    lacking,
    lacking_on,
    measure_lost,
    measure_scatter,
    measure_tuning_left,
    references,
    shared_rung,
    table,
)
from labkit.experiments.ladder.comparison import Comparison
from labkit.experiments.ladder.orders import (
    Agreement,
    compare_orders,
    count_told_apart,
)
from labkit.experiments.ladder.plan import list_next_runs
from labkit.experiments.ladder.rates import (
    COARSE,
    QUARTERS,
    TUNING_SEED,
    TUNING_SEEDS,
    Read,
    best_rate,
    choose_rate,
    fit_valley,
    list_fine_runs,
    list_first_runs,
    measure_left,
)
from labkit.experiments.ladder.reading import (
    SEEDS,
    Ladder,
    Progress,
    has_reported,
    is_strict,
    is_whole,
    list_all_runs,
    list_final_runs,
    list_first_finals,
    list_progress,
    list_room_runs,
    list_strict_finals,
    list_strict_runs,
    list_strict_seeds,
    list_tuning_runs,
    list_wanted_runs,
    read_ladder,
    read_losses,
    read_results,
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
    Rung,
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
    "QUARTERS",
    "RUNGS",
    "SEEDS",
    "SHELVED",
    "SIZES",
    "TUNING_SEED",
    "TUNING_SEEDS",
    "Agreement",
    "Arm",
    "Comparison",
    "Ladder",
    "Progress",
    "Read",
    "Rung",
    "best_rate",
    "build_base_run",
    "build_text",
    "choose_rate",
    "compare_orders",
    "configure_run",
    "count_told_apart",
    "fit_valley",
    "has_reported",
    "improvement",
    "is_strict",
    "is_whole",
    "lacking",
    "lacking_on",
    "list_all_runs",
    "list_final_runs",
    "list_fine_runs",
    "list_first_finals",
    "list_first_runs",
    "list_next_runs",
    "list_progress",
    "list_room_runs",
    "list_strict_finals",
    "list_strict_runs",
    "list_strict_seeds",
    "list_tuning_runs",
    "list_wanted_runs",
    "measure_left",
    "measure_lost",
    "measure_scatter",
    "measure_tuning_left",
    "read_ladder",
    "read_losses",
    "read_results",
    "references",
    "reported",
    "shared_rung",
    "table",
]
