"""The shared ladder: a grid of arms, trained long enough for comparisons, on similar rungs.

rungs.py      arms, rungs, and directions: variants of a size with one change
rates.py      choice of an arm's learning rate, and its remaining uncertainty
method.py     the runs of one arm on one rung, for tuning and for evaluation
reading.py    results of the runs, and the progress of each arm
comparing.py  comparison of two arms, with the uncertainty from tuning
comparison.py the results of a comparison by rung, and its claim
orders.py     all pairs of a rung, and their order on a different rung
plan.py       the order in which the ladder trains

Every arm of a rung gets the same data and its own tuned learning rate; S, M and L have 20 tokens
per parameter. A chapter reads the rung that it needs (`read_results`), and adds only its own runs.
The regime (optimizer, warm-up, clipping) is that of small published runs: AdamW with betas 0.9 and
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
    Left,
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
    find_size,
)
