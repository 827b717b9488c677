"""Providers: the formula, PyTorch's own, the compiled formula, Liger, quack, and this package.

Every call takes the inputs by the names of `formulas.py`. Peers are called as in their
documentation, in the rounding order of the formula (everything in float32, one rounding), and never
with their in-place backward pass, which destroys dY.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module, metadata

import torch
import torch._functorch.config
import torch.nn.functional as F

import normkernels
from normkernels import formulas
from normkernels.bench.operations import OPERATIONS

Call = Callable[..., object]
PEERS = {"liger": "liger-kernel", "quack": "quack-kernels"}  # and what they are installed as


def find_call(provider: str, kernel: str) -> Call | str:
    """Return the call of one provider for one kernel, or the reason why there is none."""
    name = kernel.split()[0]
    try:
        calls = _LISTS[provider]()
    except Exception as error:  # a peer may need a newer driver, or Python
        return f"not imported: {type(error).__name__}: {error}".splitlines()[0]
    if name not in calls:
        return f"{provider} has no such kernel"
    call = calls[name]
    if provider == "compile":
        torch.compiler.reset()  # one variant at a time: no recompilation limit, no dynamic sizes
        # A backward pass that may reuse memory cannot run twice.
        torch._functorch.config.donated_buffer = False
        call = torch.compile(call, dynamic=False, fullgraph=True)
    return partial(call, **OPERATIONS[kernel].options)


def read_versions(peers: dict[str, str] = PEERS) -> dict[str, str | None]:
    """Return the versions of the peers, None for those that are not installed."""
    found: dict[str, str | None] = {}
    for name, distribution in peers.items():
        try:
            found[name] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _list_ours() -> dict[str, Call]:
    return {name: getattr(normkernels, name) for name in normkernels.__all__}


def _list_formulas() -> dict[str, Call]:
    return {kernel.split()[0]: op.formula for kernel, op in OPERATIONS.items()}


def _list_torch() -> dict[str, Call]:
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

    def rms_norm_add(x, residual, weight):
        return residual + rms_norm(x, weight)

    def rms_norm_add_norm(x, residual, weight, next_weight):
        return add_rms_norm(rms_norm(x, weight), residual, next_weight)

    def rms_norm_gated(x, gate, weight):
        return rms_norm(x, weight) * F.silu(gate)

    def qk_norm_rope(q, k, q_weight, k_weight, angles):
        both = ((q, q_weight), (k, k_weight))
        return tuple(formulas.turn_pairs(rms_norm(x, w), angles).to(x.dtype) for x, w in both)

    def unit_rows_(weight, dim):
        return weight.copy_(F.normalize(weight, dim=dim))

    normalized = (rms_norm, layer_norm, deep_norm)
    sums = (add_rms_norm, add_layer_norm, rms_norm_add, rms_norm_add_norm)
    others = (rms_norm_gated, qk_norm_rope, unit_rows_)
    return {call.__name__: call for call in (*normalized, *sums, *others)}


def _list_liger() -> dict[str, Call]:
    ops = import_module("liger_kernel.ops")

    def rms_norm(x, weight):
        return ops.LigerRMSNormFunction.apply(x, weight, 1e-6, 0.0, "gemma", False)

    def layer_norm(x, weight, bias):
        return ops.LigerLayerNormFunction.apply(x, weight, bias, 1e-5)

    def add_rms_norm(x, residual, weight):
        apply = ops.LigerFusedAddRMSNormFunction.apply
        return apply(x, residual, weight, 1e-6, 0.0, "gemma", False)

    def dynamic_tanh(x, alpha, weight, bias):
        return ops.LigerDyTFunction.apply(x, alpha, weight, bias)

    return {call.__name__: call for call in (rms_norm, layer_norm, add_rms_norm, dynamic_tanh)}


def _list_quack() -> dict[str, Call]:
    quack = import_module("quack")

    def rms_norm(x, weight):
        return quack.rmsnorm(x, weight, eps=1e-6)

    def add_rms_norm(x, residual, weight):
        return quack.rmsnorm(x, weight, residual=residual, eps=1e-6, prenorm=True)

    return {"rms_norm": rms_norm, "add_rms_norm": add_rms_norm}


_LISTS: dict[str, Callable[[], dict[str, Call]]] = {
    "normkernels": _list_ours,
    "torch": _list_torch,
    "compile": _list_formulas,
    "liger": _list_liger,
    "quack": _list_quack,
    "eager": _list_formulas,
}
NAMES = tuple(_LISTS)
