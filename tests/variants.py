"""The mutation gate: each norm with its check, its wrong variants and its right ones."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import variants_pooled as pooled
import variants_rows as rows
import variants_squash as squash
from variants_common import CORRUPTIONS

from labkit import check, norms


class Gate(NamedTuple):
    """The variants of one norm; corruptions start from `function`, the right one."""

    hold: Callable[..., check.Report]
    wrong: dict[str, tuple[Any, str]]  # name -> implementation, part of the cause to be named
    right: dict[str, Any]
    function: Callable[..., Any]


def gate(variants: Any, name: str, hold: Callable[..., Any], function: Callable[..., Any]) -> Gate:
    """Return the variants of one norm."""
    table = name.upper()
    return Gate(
        hold, getattr(variants, f"{table}_WRONG"), getattr(variants, f"{table}_RIGHT"), function
    )


GATES = {
    "layer": gate(rows, "layer", check.layer_norm, norms.layer_norm),
    "annotated-layer": gate(rows, "annotated", check.annotated_layer_norm,
                            norms.annotated_layer_norm),
    "rms": gate(rows, "rms", check.rms_norm, norms.rms_norm),
    "rms, torch's order": gate(rows, "torch", partial(check.rms_norm, variant="torch"),
                               norms.rms_norm),
    "rms-llama": gate(rows, "llama", check.rms_llama, norms.rms_norm_llama),
    "rms-gemma": gate(rows, "gemma", check.rms_gemma, norms.rms_norm_gemma),
    "rms-t5": gate(rows, "t5", check.rms_t5, norms.rms_norm_t5),
    "rms-outside": gate(rows, "outside", check.rms_outside, norms.rms_norm_outside),
    "partial-rms": gate(rows, "partial", check.partial_rms_norm, norms.partial_rms_norm),
    "scale": gate(rows, "scale", check.scale_norm, norms.scale_norm),
    "l2": gate(rows, "l2", check.l2_norm, norms.l2_norm),
    "batch": gate(pooled, "batch", check.batch_norm, norms.batch_norm),
    "rep-batch": gate(pooled, "rep", check.rep_batch_norm, norms.rep_batch_norm),
    "group": gate(pooled, "group", check.group_norm, norms.group_norm),
    "instance": gate(pooled, "instance", check.instance_norm, norms.instance_norm),
    "power": gate(pooled, "power", check.power_norm, norms.power_norm),
    "dyt": gate(squash, "dyt", check.dynamic_tanh, norms.dynamic_tanh),
    "derf": gate(squash, "derf", check.dynamic_erf, norms.dynamic_erf),
    "bhyt": gate(squash, "bhyt", check.bounded_tanh, norms.bounded_tanh),
    "none": gate(squash, "identity", check.identity, lambda x: x),
}  # fmt: skip
# The corruptions as they are told of one norm; of all norms they are only rejected.
GATES["layer"].wrong.update(
    {name: (corrupt(norms.layer_norm), cause) for name, (corrupt, cause) in CORRUPTIONS.items()}
)
