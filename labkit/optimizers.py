"""torch's optimizers as they are, but without the wait for its compiler.

torch keeps its compiler out of three methods of every optimizer, and to say so imports it: about
two seconds and 140 MB in each worker, fork and kernel that trains, though nothing there is
compiled. They run bare here.
"""

import inspect

import torch


class Bare:
    """Two methods without torch's wrapper; to stand before an optimizer among the bases."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)


class AdamW(Bare, torch.optim.AdamW):
    """torch.optim.AdamW."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


class SGD(Bare, torch.optim.SGD):
    """torch.optim.SGD."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.SGD.step))
