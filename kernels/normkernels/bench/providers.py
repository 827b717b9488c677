"""Who computes: the formula, PyTorch's own, the compiled formula, Liger, quack, and we.

Every call takes the inputs by the names of `formulas.py`. Peers run as their own documentation
calls them, in the rounding order of the formula (everything in float32, one rounding), and never
with their in-place backward, which destroys dY.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module, metadata

import torch
import torch.nn.functional as F
from torch._functorch import config

import normkernels
from normkernels import formulas
from normkernels.bench.operations import OPERATIONS

Call = Callable[..., object]
PEERS = {"liger": ("liger-kernel", "liger_kernel.ops"), "quack": ("quack-kernels", "quack")}
NAMES = ("normkernels", "torch", "compile", "liger", "quack", "eager")


def find(name: str, kernel: str) -> Call | str:
    """Return the call of one provider for one kernel, or the reason why there is none."""
    made = _MAKERS[name](kernel)
    if isinstance(made, str):
        return made
    return partial(made, **OPERATIONS[kernel].options)


def versions() -> dict[str, str | None]:
    """Return the versions of the peers, None for those that are not installed."""
    found: dict[str, str | None] = {}
    for name, (distribution, _) in PEERS.items():
        try:
            found[name] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _ours(kernel: str) -> Call | str:
    name = kernel.split()[0]
    return getattr(normkernels, name, f"normkernels has no {name}")


def _eager(kernel: str) -> Call:
    return OPERATIONS[kernel].formula


def _compiled(kernel: str) -> Call:
    torch._dynamo.reset()  # one variant at a time: no recompilation limit, no dynamic sizes
    # Memory that a backward pass may reuse for itself forbids to run it twice.
    config.donated_buffer = False
    return torch.compile(OPERATIONS[kernel].formula, dynamic=False, fullgraph=True)


def _torch(kernel: str) -> Call | str:
    def rms_norm(x, weight):
        return F.rms_norm(x, x.shape[-1:], weight, 1e-6)

    def layer_norm(x, weight, bias):
        return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)

    def add_rms_norm(x, residual, weight):
        h = x + residual
        return rms_norm(h, weight), h

    def add_layer_norm(x, residual, weight, bias):
        h = x + residual
        return layer_norm(h, weight, bias), h

    def deep_norm(x, branch, weight, bias, alpha):
        return layer_norm(torch.add(branch, x, alpha=alpha), weight, bias)

    def qk_norm_rope(q, k, q_weight, k_weight, angles):
        both = ((q, q_weight), (k, k_weight))
        return tuple(formulas.turned(rms_norm(x, w), angles).to(x.dtype) for x, w in both)

    def unit_rows_(weight, dim):
        return weight.copy_(F.normalize(weight, dim=dim))

    return locals().get(kernel.split()[0]) or "torch has no operator of this name"


def _liger(kernel: str) -> Call | str:
    ops = _peer("liger")
    if isinstance(ops, str):
        return ops
    calls = {
        "rms_norm": lambda x, weight: ops.LigerRMSNormFunction.apply(
            x, weight, 1e-6, 0.0, "gemma", False
        ),
        "layer_norm": lambda x, weight, bias: ops.LigerLayerNormFunction.apply(
            x, weight, bias, 1e-5
        ),
        "add_rms_norm": lambda x, residual, weight: ops.LigerFusedAddRMSNormFunction.apply(
            x, residual, weight, 1e-6, 0.0, "gemma", False
        ),
        "dynamic_tanh": lambda x, alpha, weight, bias: ops.LigerDyTFunction.apply(
            x, alpha, weight, bias
        ),
    }
    return calls.get(kernel, "liger-kernel has no such kernel")


def _quack(kernel: str) -> Call | str:
    quack = _peer("quack")
    if isinstance(quack, str):
        return quack
    calls = {
        "rms_norm": lambda x, weight: quack.rmsnorm(x, weight, eps=1e-6),
        "add_rms_norm": lambda x, residual, weight: quack.rmsnorm(
            x, weight, residual=residual, eps=1e-6, prenorm=True
        ),
    }
    return calls.get(kernel, "quack has no such kernel with gradients")


def _peer(name: str):
    """Import a peer, or say why not: it may need a newer driver, or Python."""
    try:
        return import_module(PEERS[name][1])
    except Exception as error:
        return f"not imported: {type(error).__name__}: {error}".splitlines()[0]


_MAKERS: dict[str, Callable[[str], Call | str]] = {
    "normkernels": _ours,
    "torch": _torch,
    "compile": _compiled,
    "liger": _liger,
    "quack": _quack,
    "eager": _eager,
}
