"""RMSNorm as a layer for the kernel hub: it rounds in the order of the class that it replaces.

The package `kernels` replaces the `forward` of a module by that of a layer, and nothing else: the
module keeps its class, its weight and its eps. So the layer can run the module's own formula on a
few random rows, compare the result with each function here bit for bit, and call the one that
agrees.

    from kernels import Mode, kernelize, use_kernel_mapping
    from normkernels.nn import RMSNorm

    class Ours:
        def load(self):
            return RMSNorm

    with use_kernel_mapping({"RMSNorm": {"cuda": Ours()}}):
        kernelize(model, mode=Mode.TRAINING)

Where no function agrees, or the kernel does not support a tensor, the module's own formula runs and
a single warning says why. It runs under torch.compile too, which cannot see into our kernels.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

import normkernels
from normkernels import formulas, launch
from normkernels.checks import DTYPES
from normkernels.rows import MAX_N

# In half precision they round in different places: see `rms_norm`.
ORDERS = {
    name: getattr(formulas, name) for name in ("rms_norm", "rms_norm_llama", "rms_norm_gemma")
}
_PLAIN = (Tensor, nn.Parameter)
_SAMPLE = 1024  # values to compare, at least
_orders: WeakKeyDictionary[nn.Module, dict[tuple, str | None]] = WeakKeyDictionary()
_warned: set[tuple[type, str]] = set()


class RMSNorm(nn.Module):
    """A layer whose `forward` replaces that of another class, and rounds in the same order."""

    can_torch_compile = True
    has_backward = True

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Normalize each vector on the last axis.

        Raises:
            TypeError: the module is of this class itself, which has no formula, weight or eps.
        """
        own = type(self).forward
        if own is RMSNorm.forward:
            raise TypeError(
                "normkernels.nn.RMSNorm must replace the forward of a norm, whose rounding order "
                "it takes, but it was made by itself; call normkernels.rms_norm instead"
            )
        if torch.compiler.is_compiling():
            return own(self, hidden_states)
        weight = getattr(self, "weight", None)
        if not accepts_tensors(hidden_states, weight):
            given = f"{hidden_states.dtype} on {hidden_states.device.type}"
            return _run_own(self, hidden_states, f"the kernel does not support its input, {given}")
        known = _orders.setdefault(self, {})
        key = hidden_states.shape[-1], hidden_states.dtype, weight is not None and weight.dtype
        if key not in known:
            known[key] = find_order(self, hidden_states)
        order = known[key]
        if order is None:
            return _run_own(self, hidden_states, "no kernel of normkernels has its rounding order")
        return getattr(normkernels, order)(hidden_states, weight, read_eps(self))


def _run_own(norm: nn.Module, x: Tensor, reason: str) -> Tensor:
    """Run the formula of the norm's class; warn once for each class and reason."""
    kind = type(norm)
    if (kind, reason) not in _warned:
        _warned.add((kind, reason))
        warnings.warn(f"{kind.__name__} runs its own formula: {reason}", stacklevel=3)
    return kind.forward(norm, x)


def accepts_tensors(x: Tensor, *others: Tensor | None) -> bool:
    """Return whether the kernels support these: plain tensors on one device, rows not too long."""
    if x.shape[-1] > MAX_N or x.device.type not in launch.DEVICE_TYPES:
        return False
    given = [t for t in (x, *others) if t is not None]
    return all(type(t) in _PLAIN and t.device == x.device and t.dtype in DTYPES for t in given)


def read_eps(norm: Any) -> float | None:
    """Return the eps of a norm, which some classes call `variance_epsilon`; None if it has none."""
    return getattr(norm, "eps", getattr(norm, "variance_epsilon", None))


def find_order(
    norm: nn.Module,
    like: Tensor,
    orders: Mapping[str, Callable[..., Tensor]] = ORDERS,
    eps: float | None = None,
) -> str | None:
    """Return the name of the function that equals a norm's own formula bit for bit, or None.

    Both run on random rows with the width and dtype of `like` and gains of the norm's dtype, and
    again in float32. On the CPU, whatever the norm's device. `eps` is the norm's own by default.
    """
    eps = read_eps(norm) if eps is None else eps
    own = dict(norm.named_parameters())
    if eps is None or [*own, *dict(norm.named_buffers())] != ["weight", "bias"][: len(own)]:
        return None
    fitting = set(orders)
    for wide in (False, True):
        draw = torch.Generator().manual_seed(0)
        n = like.shape[-1]
        x = torch.randn(_SAMPLE // n + 2, n, generator=draw) + 0.5
        given = {name: torch.rand(p.shape, generator=draw) + 0.5 for name, p in own.items()}
        if not wide:
            x, given = x.to(like.dtype), {k: v.to(own[k].dtype) for k, v in given.items()}
        try:
            with torch.no_grad():
                y = functional_call(_Own(norm), {f"norm.{k}": v for k, v in given.items()}, (x,))
            results = {name: orders[name](x, eps=eps, **given) for name in fitting}
        except Exception:  # foreign code, or a function without such a parameter
            return None
        for name, z in results.items():
            if not (isinstance(y, Tensor) and y.dtype == z.dtype and torch.equal(y, z)):
                fitting.remove(name)
    return next((name for name in orders if name in fitting), None)


class _Own(nn.Module):
    """Call the forward of a norm's class, not one that was put into the norm; hooks do not run."""

    def __init__(self, norm: nn.Module):
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        return type(self.norm).forward(self.norm, x)
