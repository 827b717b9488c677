"""Experiments: grids of runs, trained once, kept by content, and the claims that rest on them.

run.py         Run: model, data, training, seed; its key; `execute` trains it
store.py       the records on disk, written whole, with a checksum
engines/       what trains the runs that the store lacks: processes, or this one
replicates.py  which runs train together
filling.py     from runs to records: read, train, read
sweep.py       sweep(runs): the records of a list of runs, on any engine
experiment.py  Experiment: a grid of runs; Results: its records, by label
statistics.py  Student t intervals, verdicts, what leaving out a seed does, differences, powers
claims.py      claim(…): a sentence with numbers, judged
lab.py         Lab: what a chapter opens
"""

from labkit.experiments.claims import Claim, claim
from labkit.experiments.experiment import Experiment, Results
from labkit.experiments.lab import Lab
from labkit.experiments.run import Run, execute
from labkit.experiments.statistics import exponents, minus


__all__ = [
    "Claim",
    "Experiment",
    "Lab",
    "Results",
    "Run",
    "claim",
    "execute",
    "exponents",
    "minus",
    "sweep",
]
