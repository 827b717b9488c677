"""Fused GPU kernels for the norms of transformers, in Triton; needs torch and triton only.

Each function computes the formula of its name in `normkernels.formulas`. Where labkit has a formula
of that name, it has the same signature and the same gradients. Tensors are on CUDA; with
TRITON_INTERPRET=1 in the environment, before Triton is imported, they may be on the CPU, slowly.
"""

from normkernels.add_norm import add_layer_norm, add_rms_norm
from normkernels.deep_norm import deep_norm
from normkernels.dynamic_erf import dynamic_erf
from normkernels.dynamic_tanh import dynamic_tanh
from normkernels.layer_norm import layer_norm
from normkernels.ngpt_update import ngpt_update
from normkernels.norm_add import rms_norm_add, rms_norm_add_norm
from normkernels.qk_norm_rope import qk_norm_rope
from normkernels.rms_norm import rms_norm, rms_norm_gemma, rms_norm_llama
from normkernels.rms_norm_fp8 import add_rms_norm_fp8, rms_norm_fp8
from normkernels.rms_norm_gated import rms_norm_gated
from normkernels.unit_rows import unit_rows_

__all__ = [
    "add_layer_norm",
    "add_rms_norm",
    "add_rms_norm_fp8",
    "deep_norm",
    "dynamic_erf",
    "dynamic_tanh",
    "layer_norm",
    "ngpt_update",
    "qk_norm_rope",
    "rms_norm",
    "rms_norm_add",
    "rms_norm_add_norm",
    "rms_norm_fp8",
    "rms_norm_gated",
    "rms_norm_gemma",
    "rms_norm_llama",
    "unit_rows_",
]
