"""Budgets of the machine code, for GPUs that are not present.

What spills, loads bytes one by one or computes in float64 is slow on any GPU, and shows in the code
without one. Two processes compile side by side.
"""

import pytest
import torch

from .cases import CASES, QUANTIZED
from .compiled import needs

pytestmark = pytest.mark.skipif(torch.version.hip is not None, reason="reads NVIDIA's code")

MIXED = "bfloat16/float32"
LENGTHS = {
    90: (
        *((n, "bfloat16") for n in (1024, 4096, 8192, 16384, 32768, 65536)),
        *((n, "float32") for n in (1024, 4096, 8192, 32768)),
        (4096, MIXED),
    ),
    80: ((4096, "bfloat16"), (8192, "float32")),
    100: ((4096, "bfloat16"), (8192, "float32")),
}
HEADS = ((64, "bfloat16"), (128, "bfloat16"), (128, "float32"), (128, MIXED), (256, "bfloat16"))

# Registers of a thread on sm_90, rows of up to 8192 values: what Triton 3.7 gives, and a few more.
# Backward kernels are held to their share of a multiprocessor, which they use up.
REGISTERS = {
    "rms_norm._forward": 42,
    "layer_norm._forward": 54,
    "add_norm._forward": 48,
    "norm_add._forward": 60,
    "rms_norm_fp8._forward": 64,
    "rms_norm_gated._forward": 60,
    "squash._forward": 64,
    "ngpt_update._forward": 64,
    "qk_norm_rope._forward": 48,
    "partials._column_sums": 48,
    "norm_backward._backward": 128,
    "rms_norm_gated._backward": 128,
    "squash_backward._backward": 128,
    "ngpt_backward._backward": 128,
    "qk_norm_rope_backward._backward": 128,
}
# The pairs of 16 bytes in float32 are split through shared memory.
MORE = {("qk_norm_rope:interleaved", "float32"): 12}
# Eight values of a thread's 32 wait in local memory: less than reading half of the row again.
SPILLS = {
    ("layer_norm._forward", 32768, "float32"): {"local": 10, "stack": 32},
    ("add_norm._forward", 32768, "float32"): {"local": 4, "stack": 8},  # two registers
}
BYTES_OF_SHARED_MEMORY = 227 * 1024
THREADS = 2048


def settings(capability: int) -> list[str]:
    chosen = []
    # An A100 has no FP8.
    for case in CASES if capability < 89 else (*CASES, *QUANTIZED):
        rows = [(n, d) for n, d in LENGTHS[capability] if n in case.lengths or n == 1024]
        heads = HEADS if capability == 90 else HEADS[1:3]
        for n, dtypes in rows if max(case.lengths) > 1024 else heads:
            chosen.append(f"{case.name}/{n}/{dtypes}")
    return chosen


def compiled() -> list[dict]:
    """Compile everything, each kernel of each setting once."""
    h100 = settings(90)
    jobs = [(90, h100[::2]), (90, h100[1::2]), (80, settings(80)), (100, settings(100))]
    return needs(jobs)


def is_forward(one: dict) -> bool:
    return one["kernel"].endswith("._forward")


def stays_in_registers(one: dict) -> bool:
    return one["n"] <= (32768 if is_forward(one) else 8192)


def about(one: dict) -> str:
    place = f"sm_{one.get('capability', 90)}"
    return f"{one['case']} {one['n']} {one['dtypes']} {one['kernel']} {place}"


def check_budget(one: dict) -> list[str]:
    """List every budget that a kernel's code exceeds."""
    over = [name for name in ("float64", "atomics") if one[name]]
    if stays_in_registers(one):
        spill = SPILLS.get((one["kernel"], one["n"], one["dtypes"]), {})
        over += [name for name in ("local", "stack") if one[name] > spill.get(name, 0)]
    resident = one["a processor"] if "_backward" in one["kernel"].rpartition(".")[2] else 1
    if one["registers"] * 32 * one["warps"] * resident > 65536:
        over.append("registers of all programs")
    if one["shared"] * resident > BYTES_OF_SHARED_MEMORY:
        over.append("shared memory of all programs")
    if 32 * one["warps"] * resident > THREADS:
        over.append("threads")
    if one["capability"] == 90 and one["n"] <= 8192:
        most = REGISTERS[one["kernel"]] + MORE.get((one["case"], one["dtypes"]), 0)
        over += ["registers"] if one["registers"] > most else []
    if "_column_sums" not in one["kernel"]:
        over += check_widths(one)
    return [f"{about(one)}: {name}: {one.get(name)}" for name in over]


def check_widths(one: dict) -> list[str]:
    """Rows are accessed 16 bytes at a time; numbers of which a row has one, 4 bytes at a time.

    A dynamic tanh or erf has a slope and a shift of one number each, of the dtype of the gains.
    """
    allowed = 2 if one["case"].startswith("dynamic") else 0
    over = [name for name in ("short loads", "half loads") if one[name] > allowed]
    # Partial sums of heads, one row a program, may be stored by halves.
    sums = 2 if "_backward" in one["kernel"].rpartition(".")[2] else 0
    over += [name for name in ("short stores", "half stores") if one[name] > sums]
    if "_row_sums" not in one["kernel"]:
        over += [] if one["wide stores"] else ["wide stores"]
    return over + ([] if one["wide loads"] else ["wide loads"])


def check_float32(found: list[dict]) -> list[str]:
    """In float32 a narrow load looks like a load of a statistic: there may not be more of them."""
    narrow = {}
    for one in found:
        if "_column_sums" not in one["kernel"] and one["capability"] == 90:
            key = one["case"], one["n"], one["kernel"], one["dtypes"]
            narrow[key] = one["loads"] - one["wide loads"] + one["stores"] - one["wide stores"]
    return [
        f"{key}: narrow loads and stores: {count}"
        for key, count in narrow.items()
        if key[3] == "float32" and count > narrow.get((*key[:3], "bfloat16"), count) + 4
    ]


@pytest.mark.slow
def test_every_kernel_keeps_its_budgets():
    """One test, so that everything is compiled once."""
    found = compiled()
    assert {one["case"] for one in found} == {case.name for case in (*CASES, *QUANTIZED)}
    assert {one["kernel"] for one in found} >= set(REGISTERS)
    over = [text for one in found for text in check_budget(one)] + check_float32(found)
    assert not over, "\n".join(over)


@pytest.mark.slow
def test_the_mean_that_is_subtracted_was_rounded():
    """A quotient by a constant is a product, which an assembler may join with the subtraction."""
    cases = ("layer_norm", "add_layer_norm", "deep_norm")
    found = needs([(90, [f"{case}/1536/float32" for case in cases])])
    forward = [one for one in found if is_forward(one)]
    assert len(forward) == len(cases)
    for one in forward:
        exact = sum(n for name, n in one["opcodes"].items() if name.startswith("MUFU.RCP"))
        assert exact, f"{about(one)}: no division rounded as IEEE says"
