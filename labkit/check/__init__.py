"""Check an implementation of a norm, yours or anybody's, against the laws of that norm.

    report = check.layer_norm(my_layer_norm)
    report.ok, report.laws

Each law is a general property, tested with a float64 formula that is independent of labkit.norms.
The report of a failed law contains the input, the actual and expected results, and the likely
cause. A check never raises an error because of the submitted code, restores arguments, modules and
random states, and always ends: a law may take 8 seconds, and all laws together 40. A note reports
what breaks no law, such as float64 inputs that are computed in float32.

Every check takes a function, a module or a module's class. `eps` (or `p`, `bound`) is the expected
value if it cannot be passed; without it the default must be the documented one, or the attribute of
the class or module. `seed` selects the random inputs. rms_llama, rms_gemma, rms_t5 and rms_outside
are rms_norm with that variant. Norms without their own laws are checked against the laws of every
norm: check.any_norm.

Modules: specs.py describes each norm; formula.py has the formula with its settings, and mistakes.py
changes one setting per mistake. subject.py calls the submitted code; exam.py draws inputs, compares
and explains. The laws are in laws.py, gradients.py, precision.py and running.py (batch norms);
run.py runs them. any_norm.py needs no formula. block.py checks the block of a recipe: a step, a
block of functions, or a module with the parameter names of labkit.model.Block. answer.py and
function.py check answers to exercises; compare.py and calls.py also run in the site's pages, on the
cases of tasks.py.
"""

from functools import partial
from typing import Literal

from labkit.check import specs
from labkit.check.answer import answer
from labkit.check.any_norm import any_norm
from labkit.check.block import block
from labkit.check.function import function
from labkit.check.report import Law, Report
from labkit.check.run import Implementation, hold
from labkit.system.unknown import explain_unknown

__all__ = [
    "Law", "Report", "annotated_layer_norm", "answer", "any_norm", "batch_norm", "block",
    "bounded_tanh", "dynamic_erf", "dynamic_tanh", "function", "group_norm", "identity",
    "instance_norm", "l2_norm", "layer_norm", "partial_rms_norm", "power_norm", "rep_batch_norm",
    "rms_norm", "scale_norm",
]  # fmt: skip

Eps = float | None
Variant = Literal["torch", "llama", "gemma", "t5", "outside"]


def layer_norm(given: Implementation, *, eps: Eps = None, seed: int = 0) -> Report:
    """Check a layer norm: (x, weight=None, bias=None, eps=1e-5)."""
    return hold(specs.LAYER, given, {"eps": eps}, seed)


def annotated_layer_norm(given: Implementation, *, eps: Eps = None, seed: int = 0) -> Report:
    """Check the Annotated Transformer's layer norm: unbiased deviation, eps 1e-6 added to it."""
    return hold(specs.ANNOTATED, given, {"eps": eps}, seed)


def rms_norm(
    given: Implementation, *, eps: Eps = None, variant: Variant | None = None, seed: int = 0
) -> Report:
    """Check an RMS norm: (x, weight=None, eps=1e-6); torch's None, the machine epsilon, is fine.

    Without a variant the gain may multiply before or after the rounding to half precision, and a
    float32 gain must not change x's dtype. A variant fixes that order: "torch", "llama" and "t5"
    (which return a float32 gain's dtype), "gemma" (1 + weight) or "outside" (eps 1e-8 is added to
    the root mean square).
    """
    spec = specs.RMS if variant is None else specs.RMS_VARIANTS.get(variant)
    if spec is None:
        raise ValueError(explain_unknown("variant", variant, specs.RMS_VARIANTS))
    return hold(spec, given, {"eps": eps}, seed, variant)


def partial_rms_norm(
    given: Implementation, *, eps: Eps = None, p: float | None = None, seed: int = 0
) -> Report:
    """Check an RMS norm of the first max(1, floor(d p)) features: (x, weight, eps=1e-6, p=1/16)."""
    return hold(specs.PARTIAL, given, {"eps": eps, "p": p}, seed)


def batch_norm(given: Implementation, *, eps: Eps = None, seed: int = 0) -> Report:
    """Check a batch norm: a function with torch's arguments, a module or its class.

    The function is (x, running_mean=None, running_var=None, weight=None, bias=None, training=False,
    momentum=0.1, eps=1e-5, mask=None) with the channels on axis 1. `mask` is tested if the function
    accepts it: True is a real token. The outputs at padding are not tested.
    """
    return hold(specs.BATCH, given, {"eps": eps}, seed)


def rep_batch_norm(given: Implementation, *, eps: Eps = None, seed: int = 0) -> Report:
    """Check RepBN, batch norm + eta · x: like `batch_norm`, with one number eta after the bias."""
    return hold(specs.REP, given, {"eps": eps}, seed)


def group_norm(given: Implementation, *, eps: Eps = None, seed: int = 0) -> Report:
    """Check a group norm: (x, num_groups, weight=None, bias=None, eps=1e-5), channels on axis 1."""
    return hold(specs.GROUP, given, {"eps": eps}, seed)


def instance_norm(given: Implementation, *, eps: Eps = None, seed: int = 0) -> Report:
    """Check an instance norm: (x, weight=None, bias=None, eps=1e-5), channels on axis 1."""
    return hold(specs.INSTANCE, given, {"eps": eps}, seed)


def scale_norm(given: Implementation, *, eps: Eps = None, seed: int = 0) -> Report:
    """Check a scale norm: (x, weight=None, eps=1e-5); without the gain it multiplies by √d."""
    return hold(specs.SCALE, given, {"eps": eps}, seed)


def l2_norm(given: Implementation, *, eps: Eps = None, seed: int = 0) -> Report:
    """Check an L2 norm with temperature: (x, weight=None, eps=1e-12), one number as weight."""
    return hold(specs.L2, given, {"eps": eps}, seed)


def power_norm(given: Implementation, *, eps: Eps = None, seed: int = 0) -> Report:
    """Check a power norm of one batch, PN-V: (x, weight=None, bias=None, eps=1e-5, mask=None)."""
    return hold(specs.POWER, given, {"eps": eps}, seed)


def dynamic_tanh(given: Implementation, *, seed: int = 0) -> Report:
    """Check DyT: (x, alpha=0.5, weight=None, bias=None); alpha is one number.

    For DyT, Derf and BHyT, float32 results must have four correct digits down to inputs of 1e-9,
    like torch.tanh and torch.erf; 2σ(2u) − 1 in float32 does not.
    """
    return hold(specs.DYT, given, {}, seed)


def dynamic_erf(given: Implementation, *, seed: int = 0) -> Report:
    """Check Derf: (x, alpha=0.5, shift=0.0, weight=None, bias=None); the first two are numbers."""
    return hold(specs.DERF, given, {}, seed)


def bounded_tanh(
    given: Implementation, *, eps: Eps = None, bound: float | None = None, seed: int = 0
) -> Report:
    """Check BHyT: (x, scale=1.0, weight=None, bound=10.0, eps=1e-6); scale is one number."""
    return hold(specs.BHYT, given, {"eps": eps, "bound": bound}, seed)


def identity(given: Implementation, *, seed: int = 0) -> Report:
    """Check that the identity returns x unchanged, bit for bit."""
    return hold(specs.IDENTITY, given, {}, seed)


rms_llama, rms_gemma = partial(rms_norm, variant="llama"), partial(rms_norm, variant="gemma")
rms_t5, rms_outside = partial(rms_norm, variant="t5"), partial(rms_norm, variant="outside")
