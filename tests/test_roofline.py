"""What memory and arithmetic allow: bytes by hand, published sizes, and the estimate's own laws."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from labkit.costs.operations import CountBytes, kept_bytes
from labkit.costs.roofline import (
    DEVICES,
    NORMS,
    SIZES,
    Assumptions,
    Device,
    kernel_time,
    norm_share,
    step,
)
from labkit.training import loss_of

# What the makers print: 8.03, 70.6 and 405 or 406 billion.
PUBLISHED = {"8B": 8.03e9, "70B": 70.6e9, "405B": 405.9e9}
H100 = DEVICES["H100"]
WAYS = ("decode", "prefill", "train")


@pytest.mark.parametrize("name", SIZES)
def test_models_have_the_published_number_of_parameters(name):
    assert SIZES[name].parameters == pytest.approx(PUBLISHED[name], rel=2e-3)


def test_the_largest_of_three_times_is_a_kernels():
    device, plain = Device(100.0, 1000.0, 10.0), Assumptions(shortest=0.5, of_bandwidth=1.0)
    given = replace(plain, of_matrix=1.0)
    assert kernel_time(200, 1, device, given) == 2  # bytes
    assert kernel_time(1, 3000, device, given) == 3  # matrix units
    assert kernel_time(1, 30, device, given, matrix=False) == 3
    assert kernel_time(1, 1, device, given) == 0.5


def llama_norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


def test_eager_norms_are_what_operations_move():
    x = torch.randn(64, 4096).bfloat16().requires_grad_()
    weight = torch.ones(4096).bfloat16().requires_grad_()
    with CountBytes() as forward:
        y = llama_norm(x, weight)
    top = torch.randn_like(y)
    with CountBytes() as backward:
        torch.autograd.grad(y, (x, weight), top)
    eager = NORMS["eager"]
    # The sum adds a kernel and 6 bytes a value each way; a row's statistics are left out.
    assert forward.bytes / x.numel() == pytest.approx(eager.forward - 6, rel=0.01)
    assert backward.bytes / x.numel() == pytest.approx(eager.backward - 6, rel=0.01)
    assert (forward.operations, backward.operations) == (
        eager.kernels - 1, eager.kernels_back - 1
    )  # fmt: skip


def test_a_view_moves_nothing_and_an_operation_what_it_reads_and_writes():
    x = torch.ones(4, 8)
    with CountBytes() as count:
        x.view(8, 4).t()
    assert (count.bytes, count.operations) == (0, 0)
    with CountBytes() as count:
        x + torch.ones(8)
    # `ones` fills 8 values and is an operation, too.
    assert count.bytes == 4 * (32 + 8 + 32) + 4 * 8
    row = torch.ones(8)
    with CountBytes() as count:
        x + row.expand(4, 8)
    assert count.bytes == 4 * (32 + 8 + 32)  # a value that is expanded is read once


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", SIZES)
def test_fused_norms_take_less_than_alone_and_those_less_than_eager(size, way):
    shares = [
        norm_share(SIZES[size], H100, way=way, batch=2, context=2048, given=Assumptions(norms))
        for norms in ("fused", "alone", "eager")
    ]
    assert shares == sorted(shares) and 0 < shares[0] < shares[-1] < 1


def test_decoding_cannot_be_faster_than_reading_the_weights():
    size = SIZES["70B"]
    parts = step(size, H100, way="decode", batch=1, context=1, given=Assumptions(of_bandwidth=1.0))
    weights = 2 * (size.parameters - size.vocab * size.dim) / H100.bandwidth
    assert weights <= parts["matrices"] < 1.01 * weights


def test_training_is_three_times_the_matrices_of_a_prompt():
    size = replace(SIZES["8B"], vocab=1)  # the output is counted for the last token of a prompt
    one, both = (step(size, H100, way=way, batch=1, context=4096)["matrices"] for way in WAYS[1:])
    assert both == pytest.approx(3 * one, rel=0.01)


def test_more_gpus_leave_norms_a_larger_share():
    shares = [
        norm_share(SIZES["70B"], H100, way="prefill", batch=1, context=8192,
                   given=Assumptions(split=split))
        for split in (1, 2, 4, 8)
    ]  # fmt: skip
    assert shares == sorted(shares)


def test_a_step_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="decode, prefill, train"):
        step(SIZES["8B"], H100, way="sleep", batch=1, context=1)


def test_what_a_pass_keeps_is_counted_by_hand():
    n, dim, vocab = 2 * 5, 3, 7
    model = torch.nn.Sequential(
        torch.nn.Embedding(vocab, dim), torch.nn.Linear(dim, vocab, bias=False)
    )
    # tokens as int64, what the matrix reads, log-probabilities, and the loss's count of targets
    due = 8 * n + 4 * n * dim + 4 * n * vocab + 4
    tokens = torch.zeros(2, 5, dtype=torch.int64)
    assert kept_bytes(lambda: loss_of(model, tokens, tokens), model.parameters()) == due
