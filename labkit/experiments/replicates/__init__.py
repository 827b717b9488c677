"""Replicates: runs that differ only in numbers train together, as one batched model.

alike.py      what runs, and their models, must have in common to train together
groups.py     tasks: such runs, as many at once as memory allows
stack.py      N models as rows of stacked tensors; a loss for each, by vmap
optimizer.py  AdamW and SGD with numbers of their own for each row, and clipping
step.py       one step for all rows
graphs.py     the same step as CUDA graphs
together.py   all of it, by labkit.training's loop: records as `labkit.training.train` makes them
"""

from labkit.experiments.replicates.alike import NotTogether, describe_structure
from labkit.experiments.replicates.groups import Need, estimate_need, group_runs
from labkit.experiments.replicates.together import execute_together, train_together

__all__ = [
    "Need",
    "NotTogether",
    "describe_structure",
    "estimate_need",
    "execute_together",
    "group_runs",
    "train_together",
]
