"""The order in which the ladder trains: the most valuable runs first, in steps of a few arms.

A step is complete when its arms have strict evaluations or, for the step `first`, a first look or,
for the step `room`, three seeds at every coarse rate. `list_next_runs` yields the missing runs of
the first steps.
"""

from collections.abc import Iterator, Sequence

from labkit.experiments.ladder.method import MethodRuns
from labkit.experiments.ladder.rates import Read
from labkit.experiments.ladder.rungs import ARMS, CHAPTERED, SHELVED
from labkit.experiments.run import Run

BOARD = (
    "pre", "qk", "qkv-pre", "hybrid*", "hybrid", "realformer", "post", "ngpt", "none", "deepnorm",
    "dyt",
)  # fmt: skip
DEEP = ("pre", "post", "deepnorm", "admin", "lns", "keel", "hybrid", "qkv-pre", "ngpt", "none")
DECAYED = ("pre", "qk", "qkv-pre", "hybrid*", "ngpt", "post")
DEEPER = ("pre", "qk", "qkv-pre", "hybrid*", "hybrid", "post", "deepnorm", "none", "ngpt")
CODED = ("pre", "qk", "post", "hybrid", "lns", "qkv-pre", "ngpt", "none", "dyt")
# Arms ranked by the appendices: their own, and chapters' arms that only they discuss.
CABINET = (*SHELVED, "mix-ln", "resi-dual", "b2t", "peri", "olmo2", "admin", "keel")
DRAWN = tuple(f"{arm}, drawn 0.014" for arm in ("hybrid", "pre", "hybrid*", "qkv-pre"))
# Arms of the regime in which language models are trained: small first embeddings and weight decay.
REGIME = ("pre", "qk", "hybrid", "lns", "qkv-pre", "post", "none")
USUAL = tuple(f"{arm}, drawn 0.02" for arm in REGIME)
MIDDLE = ("pre", "qk", "qkv-pre", "hybrid", "hybrid*", "post", "none", "ngpt")
# Rung (or room), arms.
PLAN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("first", tuple(CHAPTERED)),  # five seeds of every arm on S, which every chapter needs
    ("first", tuple(SHELVED)),
    ("S", USUAL),
    ("W", (*USUAL, "ngpt")),
    ("M", USUAL),
    ("MW", (*USUAL, *REGIME, "ngpt")),
    ("D", ("hybrid*",)),
    ("S", CABINET),
    ("S", ("pre, layer", "qkv-pre", "none", "hybrid*", "ngpt")),
    ("S", DRAWN),
    ("W", ("qkv-pre", "ngpt")),
    ("room", ("pre", "qk", "qkv-pre", "hybrid*", "hybrid")),
    ("D", DEEP),
    ("room", BOARD),
    ("S", ("hybrid", "realformer", "dyt", "olmo2", "overwritten", "sandwich")),
    ("M", MIDDLE),
    ("D24", DEEPER),
    ("W", DECAYED),
    ("C", CODED),
    ("S", tuple(ARMS)),
    ("M", tuple(ARMS)),
)


def list_next_runs(
    read: Read, plan: Sequence[tuple[str, Sequence[str]]] = PLAN
) -> Iterator[list[Run]]:
    """Yield the missing runs of each arm of each step, as far as they are determined."""
    for step, arms in plan:
        for arm in arms:
            of = MethodRuns("S" if step in ("first", "room") else step, arm, read)
            if step == "first":
                # A complete strict evaluation replaces a first look.
                runs = of.first if of.is_strict else [*of.first, *of.first_finals]
            else:
                runs = of.room if step == "room" else of.strict
            if lacks := [run for run in runs if read(run) is None]:
                yield lacks
