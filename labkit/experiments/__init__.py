"""Experiments: grids of runs, trained once, kept by content, and the claims that rest on them.

run.py         Run: model, data, training, seed; its key; `execute_run` trains it
records.py     a record as a line of JSON, and the book's files of them, data/records
store.py       the record of a run: trained here or recorded, whichever is newer
replay.py      is a record still what today's code computes?
ladder/        the shared ladder: arms on rungs of growing size, and with one thing changed
locks.py       what a claim asks, written down before the runs that judge it; what was seen by then
own.py         a reader's own norm: one file, known to every run
engines/       what trains the runs that the store lacks: processes, Ray, or this one
replicates/    runs that train together, as one batched model
filling.py     from runs to records: read, train, read
sweep.py       sweep(runs): the records of a list of runs, on any engine
memory.py      the most memory that a task held; what a chapter declares
reproduce.py   train a stored run again, all of it
experiment.py  Experiment: a grid of runs; Results: its records, by label
papers.py      numbers that papers printed: data/papers, read
regime.py      is a comparison old enough to rank its arms?
sample.py      Sample: numbers with the runs that they were read from; exact, computed
claims.py      a sentence with numbers, judged, and what it must bring for that
cards.py       the claim as it was judged: its card, its entry in the ledger
decisions.py   what to choose when, and which recorded claims and papers support it
lab.py         Lab: what a chapter opens
"""

from labkit.experiments.cards import Claim
from labkit.experiments.claims import Domain
from labkit.experiments.experiment import Experiment, Results
from labkit.experiments.lab import Lab
from labkit.experiments.own import own_norm
from labkit.experiments.papers import published
from labkit.experiments.run import Run, execute_run
from labkit.experiments.sample import Sample, combine, computed, exact
from labkit.experiments.sweep import sweep
from labkit.statistics.proportions import proportion

__all__ = [
    "Claim",
    "Domain",
    "Experiment",
    "Lab",
    "Results",
    "Run",
    "Sample",
    "combine",
    "computed",
    "exact",
    "execute_run",
    "own_norm",
    "proportion",
    "published",
    "sweep",
]
