"""Replicates: runs that differ only in numbers train together, as one batched model.

alike.py      requirements for training runs together
groups.py     tasks: as many of these runs as fit into memory
stack.py      N models as rows of stacked tensors; a loss for each, by vmap
optimizer.py  AdamW and SGD with separate hyperparameters for each row, and clipping
step.py       one step for all rows
graphs.py     the same step as CUDA graphs
together.py   joint training with labkit.training's loop, and its usual records
"""

from labkit.experiments.replicates.alike import NotTogether, describe_structure
from labkit.experiments.replicates.groups import estimate_need, group_runs
from labkit.experiments.replicates.together import execute_together, train_together
