"""Replicates: runs that differ only in numbers train together, as one batched model.

alike.py      what runs must have in common to train together
groups.py     tasks: such runs, at most so many at once
memory.py     how many bytes that takes
stack.py      N models as rows of stacked tensors; a loss for each, by vmap
forms.py      the forms of a few modules that vmap takes
optimizer.py  AdamW and SGD with numbers of their own for each row, and clipping
step.py       one step of training for all rows, on tensors that stay in place
graph.py      the same step as CUDA graphs
together.py   all of it, by labkit.training's loop: records as `labkit.training.train` makes them
bench.py      how much faster that is: `labkit bench replicates`
"""

from labkit.experiments.replicates.alike import structure
from labkit.experiments.replicates.groups import tasks
from labkit.experiments.replicates.memory import Need, need
from labkit.experiments.replicates.stack import NotTogether
from labkit.experiments.replicates.together import execute_together, train_together

__all__ = [
    "Need",
    "NotTogether",
    "execute_together",
    "need",
    "structure",
    "tasks",
    "train_together",
]
