"""Access to the kernels: whether they are installed, and whether they support given tensors.

Nothing else in labkit imports `normkernels`, and this module imports it only on request. The import
is by name, so that a stored run on the CPU does not depend on code that only a GPU runs; on CUDA
`describe_kernels` tells the record which kernels ran.
"""

import hashlib
import importlib
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

_package: ModuleType | None = None
_warned: set[str] = set()


@cache
def explain_missing() -> str:
    """Return why there are no kernels on this machine; "" if there are."""
    try:
        devices = _import_kernels()
    except ImportError as error:
        return f"Triton cannot be imported ({error})"
    return "" if torch.cuda.is_available() or "cpu" in devices else "there is no CUDA device"


def get_kernels() -> ModuleType:
    """Return the package of kernels; call `explain_missing` first."""
    if _package is None:
        _import_kernels()
    assert _package is not None
    return _package


def accepts_tensors(x: Tensor, *others: Tensor | None) -> bool:
    """Return whether the kernels support these tensors; if not, the formula is used.

    They need Triton, and support plain tensors on one supported device, neither float64 nor
    distributed, whose rows are not too long; other tensors cause one warning per kind. They are not
    used under torch.compile, which fuses a norm with the operations around it but cannot see into
    our kernels: a fused model compiles as if it had no kernels, which was faster at width 1,024 and
    no slower at 4,096.
    """
    if torch.compiler.is_compiling() or (_package is None and explain_missing()):
        return False
    accepted = get_kernels().nn.accepts_tensors(x, *others)
    if not accepted:
        _warn_once(x, *others)
    return accepted


def _warn_once(x: Tensor, *others: Tensor | None) -> None:
    """Warn that formulas run for such tensors; once for each kind."""
    longest = get_kernels().nn.MAX_N
    given = [t for t in (x, *others) if t is not None]
    kinds = {f"{str(t.dtype)[6:]} on {t.device}" for t in given}
    kinds |= {type(t).__name__ for t in given if type(t) not in (Tensor, nn.Parameter)}
    kind = " with ".join(sorted(kinds))
    if x.shape[-1] > longest:
        kind = f"rows of {x.shape[-1]} values"
    if kind not in _warned:
        _warned.add(kind)
        warnings.warn(
            f"fused modules use their formulas for {kind}: the kernels need plain tensors in "
            "float32, bfloat16 or float16 on one CUDA device, with rows of up to "
            f"{longest} values",
            stacklevel=3,
        )


def is_plain(module: nn.Module) -> bool:
    """Return whether a module has no hooks and no own forward: its class defines its output.

    A kernel that bypassed a module would also bypass its hooks.
    """
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    own = "forward" in module.__dict__ or any(getattr(module, kind) for kind in hooks)
    return not (own or _has_any_global_hook())


def _import_kernels() -> frozenset[str]:
    """Import the kernels once; return the device types that they run on."""
    global _package
    importlib.import_module("normkernels.nn")
    _package = importlib.import_module("normkernels")
    return frozenset(_package.launch.DEVICE_TYPES)


@cache
def describe_kernels() -> str:
    """Return the versions of the kernels and a hash of their sources, for a record."""
    folder = Path(str(get_kernels().__file__)).parent
    code = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        code.update(file.read_bytes())
    triton = importlib.import_module("triton")
    return f"normkernels {code.hexdigest()[:12]} on triton {triton.__version__}"
