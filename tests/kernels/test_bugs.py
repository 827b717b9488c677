"""Every bug that users of other kernels hit (kernels.md, section 4) has a test that would see it.

The names are checks, as `python -m tests.kernels --list` tells them, or tests of `test_compiled`.
`test_mutants` plants most of these bugs and sees the check fail; `test_kernels` runs the checks.
"""

from . import test_compiled
from .laws import Check, checks

BUGS = {
    "linkedin/Liger-Kernel#803 int32 offsets": ["far_rows[rms_norm, 129]"],
    "linkedin/Liger-Kernel#1335 int32 offsets of outputs": ["far_elements[rms_norm, 4096]"],
    "flashinfer-ai/flashinfer#3005 int32 strides": ["far_rows[qk_norm_rope, 128]"],
    "linkedin/Liger-Kernel#370 dY overwritten": ["untouched[rms_norm, 17x129 float32]"],
    "linkedin/Liger-Kernel#1305 dY overwritten, used twice": [
        "untouched[add_rms_norm, 17x129 float32]",
        "shared[rms_norm, 7x41 float32]",
    ],
    "unslothai/unsloth#4550 no dW": [
        "formula[rms_norm, * bfloat16]",
        "frozen[rms_norm, 17x129 float32]",
    ],
    "linkedin/Liger-Kernel#950 dW reduced in bfloat16": ["formula[rms_norm, * bfloat16/float32]"],
    "pytorch/helion#2273 statistics saved in bfloat16": [
        "formula[layer_norm, * bfloat16/float32]",
        "hard_rows[layer_norm, offset 1e4, 129]",
    ],
    "triton-lang/triton#9838 padded lanes in the variance": [
        "formula[layer_norm, *x129 *",
        "hard_rows[layer_norm, constant rows, 129]",
    ],
    "triton-lang/triton#6307 lock race": [
        "inside[layer_norm, 17x129 float32]",
        "repeat[layer_norm, 17x129 float32]",
        "races[layer_norm, 17x129 float32]",
        "test_rms_norm_keeps_its_budgets_for_an_h100",
    ],
    "Dao-AILab/quack#88 non-contiguous gradient": [
        "strides[layer_norm, 17x129 float32]",
        "expanded[layer_norm, 17x129 float32]",
    ],
    "Dao-AILab/quack#53 residual gradient normalised": [
        "formula[add_rms_norm, * bfloat16]",
        "mixed_rows[add_rms_norm, 7x41 float32]",
    ],
    "missing row mask": ["inside[rms_norm, 17x129 float32]", "formula[rms_norm, *x129 *"],
    "NVIDIA/apex#411 65536 rows and more": [
        "formula[rms_norm, 65537x1 *",
        "far_elements[layer_norm, 4096]",
    ],
    "linkedin/Liger-Kernel#1350 float64 scalars from the compiler": [
        "compile_whole[rms_norm, aot_eager]",
        "test_rms_norm_keeps_its_budgets_for_an_h100",
    ],
    "linkedin/Liger-Kernel#988 compiled for each M": [
        "compile_dynamic[rms_norm]",
        "variants[rms_norm]",
    ],
    "linkedin/Liger-Kernel#1208 stale slots of a buffer": ["prefilled[layer_norm, 17x129 float32]"],
    "vllm-project/vllm#48391 result depends on the batch": ["alone[rms_norm, 17x129 float32]"],
    "vllm-project/vllm#51049 NaN from partial RoPE": [
        "prefilled[qk_norm_rope, 17x128 float32]",
        "the_unread_angles_do_not_matter[special_qk]",
    ],
    "NVIDIA/apex#1715 x̂ from y / γ": ["hard_gains[layer_norm, 0.0, torch.float32]"],
    "sgl-project/sglang#32807 NaN on mixed dtypes": ["formula[rms_norm, * float16/float32]"],
    "Dao-AILab/quack#77 host overhead": ["host_work[rms_norm, 7x41 float32]"],
    "pytorch/pytorch#193061 compiled, the gradients are wrong": [
        "compile_whole[layer_norm, aot_eager]",
        "functional_gradients[layer_norm, 7x41 float32]",
    ],
}
CHECKS = list(checks())


def named(name: str) -> list[Check]:
    """Find checks; a star stands for any text."""
    start, _, end = name.removesuffix("*").partition("*")
    return [c for c in CHECKS if c.name.startswith(start) and (end in c.name[len(start) :])]


def test_every_bug_has_checks_that_exist():
    for names in BUGS.values():
        assert any(not check.gpu for name in names for check in named(name))
        for name in names:
            assert named(name) or callable(getattr(test_compiled, name)), name
