"""The gate: for each norm its check, the variants that are wrong and those that are right."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import variants_batch
import variants_bounded as bounded
import variants_channels as channels
import variants_corners as corners
import variants_layer
import variants_lengths as lengths
import variants_power as power
import variants_rms
import variants_rms_orders as orders
import variants_rows as rows
import variants_squash as squash

from labkit import check, norms


class Gate(NamedTuple):
    """What one norm is tried on; `function` is the right one that corruptions start from."""

    hold: Callable[..., check.Report]
    wrong: dict[str, tuple[Any, str]]  # name -> implementation, part of the cause to be named
    right: dict[str, Any]
    function: Callable[..., Any] | None


torch_rms = partial(check.rms_norm, variant="torch")
GATES = {
    "layer": Gate(check.layer_norm, variants_layer.WRONG, variants_layer.RIGHT, norms.layer_norm),
    "rms": Gate(check.rms_norm, variants_rms.WRONG, variants_rms.RIGHT, norms.rms_norm),
    "batch": Gate(check.batch_norm, variants_batch.WRONG, variants_batch.RIGHT, norms.batch_norm),
    "annotated-layer": Gate(check.annotated_layer, rows.ANNOTATED_WRONG, rows.ANNOTATED_RIGHT,
                            norms.annotated_layer_norm),
    "rms, torch's order": Gate(torch_rms, orders.TORCH_WRONG, orders.TORCH_RIGHT, norms.rms_norm),
    "rms-llama": Gate(check.rms_llama, orders.LLAMA_WRONG, orders.LLAMA_RIGHT,
                      norms.rms_norm_llama),
    "rms-gemma": Gate(check.rms_gemma, orders.GEMMA_WRONG, orders.GEMMA_RIGHT,
                      norms.rms_norm_gemma),
    "rms-t5": Gate(check.rms_t5, orders.T5_WRONG, orders.T5_RIGHT, norms.rms_norm_t5),
    "rms-outside": Gate(check.rms_outside, orders.OUTSIDE_WRONG, orders.OUTSIDE_RIGHT,
                        norms.rms_norm_outside),
    "partial-rms": Gate(check.partial_rms, rows.PARTIAL_WRONG, rows.PARTIAL_RIGHT,
                        norms.partial_rms_norm),
    "instance": Gate(check.instance, channels.INSTANCE_WRONG, channels.INSTANCE_RIGHT,
                     norms.instance_norm),
    "group": Gate(check.group, channels.GROUP_WRONG, channels.GROUP_RIGHT, norms.group_norm),
    "scale": Gate(check.scale, lengths.SCALE_WRONG, lengths.SCALE_RIGHT, norms.scale_norm),
    "l2": Gate(check.l2, lengths.L2_WRONG, lengths.L2_RIGHT, norms.l2_norm),
    "fix": Gate(check.fix_norm, lengths.FIX_WRONG, lengths.FIX_RIGHT, norms.fix_norm),
    "power": Gate(check.power, power.POWER_WRONG, power.POWER_RIGHT, norms.power_norm),
    "rep-batch": Gate(check.rep_batch, channels.REP_WRONG, channels.REP_RIGHT,
                      norms.rep_batch_norm),
    "dyt": Gate(check.dyt, squash.DYT_WRONG, squash.DYT_RIGHT, norms.dynamic_tanh),
    "derf": Gate(check.derf, squash.DERF_WRONG, squash.DERF_RIGHT, norms.dynamic_erf),
    "bhyt": Gate(check.bhyt, bounded.BHYT_WRONG, bounded.BHYT_RIGHT, norms.bounded_tanh),
    "none": Gate(check.identity, orders.IDENTITY_WRONG, orders.IDENTITY_RIGHT, lambda x: x),
}  # fmt: skip
for norm, rows_of in corners.WRONG.items():
    GATES[norm].wrong.update({f"corner: {name}": row for name, row in rows_of.items()})
for norm, rows_of in corners.RIGHT.items():
    GATES[norm].right.update({f"corner: {name}": row for name, row in rows_of.items()})
