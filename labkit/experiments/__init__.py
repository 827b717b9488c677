"""Experiments: grids of runs, trained once and stored by content, and the claims based on them.

run.py         Run: model, data, training, seed; its key; `execute_run` trains it
records.py     a record as a line of JSON, and the book's files of records, data/records
store.py       the record of a run: the local one or the book's, whichever is newer
replay.py      check that the current code still reproduces a record
ladder/        the shared experiment grid: arms on rungs of growing size, and variants
locks.py       preregistration: a claim's sentence and criterion, fixed before its runs
own.py         a reader's own norm: one file, available to every run
engines/       train missing runs: in processes, on Ray, or in this process
replicates/    runs that train together, as one batched model
filling.py     from runs to records: read, train what is missing, read again
sweep.py       sweep(runs): the records of a list of runs, on any engine
memory.py      the peak memory of a task; the memory that a chapter declares
reproduce.py   train a stored run again in full
experiment.py  Experiment: a grid of runs; Results: its records, by label
papers.py      numbers printed in papers: data/papers
regime.py      minimum requirements for a ranking of arms
sample.py      Sample: numbers with the runs that they come from; exact, computed
claims.py      a sentence with numbers, judged, and the evidence that it needs
cards.py       a judged claim: its card, its entry in the ledger
decisions.py   the decision table, with the claims and papers that support it
lab.py         Lab: a chapter's interface to all of this
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
