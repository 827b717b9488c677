"""Experiments: grids of runs, trained once, kept by content, and the claims that rest on them.

run.py         Run: model, data, training, seed; its key; `execute` trains it
store.py       the records on disk, written whole, with a checksum
engine.py      worker processes that train what the store lacks
replicates/    runs that differ only in numbers train together
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

__all__ = ["Claim", "Experiment", "Lab", "Results", "Run", "claim", "execute", "exponents", "minus"]
