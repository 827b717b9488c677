"""Deep perceptrons: their equations, their noise, and refused arguments."""

import pytest
import torch
from each import each
from torch import nn

from labkit.model.stacks import (
    INITS,
    NORMS,
    STEPS,
    NoisyBatchNorm,
    StackConfig,
    follow_gradient,
    signal,
)
from labkit.norms import BatchNorm
from labkit.placements import Place

IMAGES = torch.randn(32, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def matrices(net):
    return [part for part in net.modules() if isinstance(part, nn.Linear)]


@each(step=STEPS, norm=NORMS)
def test_every_design_has_the_matrices_that_depth_says(step, norm):
    net = StackConfig(step, norm, depth=6).build()
    assert len(matrices(net)) == 6 + 2
    assert net(IMAGES).shape == (32, 10)
    assert len(signal(net, IMAGES)) == (7 if step == "plain" else 4)


def test_a_plain_step_is_matrix_norm_rectifier_twice():
    torch.manual_seed(0)
    net = StackConfig("plain", "batch", depth=2, width=64).build()
    x = net[1](IMAGES.flatten(1))
    for linear in matrices(net)[1:3]:
        y = x @ linear.weight.T
        y = (y - y.mean(0)) / (y.var(0, correction=0) + 1e-5).sqrt()
        x = y.relu()
    assert torch.allclose(matrices(net)[3](x), net(IMAGES), atol=1e-5)


def test_a_gradient_is_followed_down_to_what_the_first_matrix_puts_out():
    net = StackConfig("plain", depth=4).build()
    torch.manual_seed(0)
    sizes = follow_gradient(net, IMAGES)
    torch.manual_seed(0)
    x, gradients = signal(net, IMAGES), []
    down = torch.randn_like(x[-1])
    for linear, above in zip(matrices(net)[-2:0:-1], x[:0:-1], strict=True):
        gradients.append(down.norm().item())
        down = (down * (above > 0)) @ linear.weight
    assert sizes == pytest.approx([down.norm().item(), *gradients[::-1]], rel=1e-5)


@each(init=INITS)
def test_weights_have_the_deviation_that_the_rule_says(init):
    torch.manual_seed(0)
    net = StackConfig("none", init=init, width=512, depth=8).build()
    first, *_, last = matrices(net)[1:-1]
    wanted = INITS[init](512, 512)
    assert first.weight.std().item() == pytest.approx(wanted, rel=0.01)
    wanted /= 4**0.5 if init == "scaled" else 1
    assert last.weight.std().item() == pytest.approx(wanted, rel=0.01)


def test_noise_shifts_batch_norm_anew_at_each_training_step_and_not_in_evaluation():
    torch.manual_seed(0)
    noisy, plain, x = NoisyBatchNorm(64), BatchNorm(64), torch.randn(4096, 64)
    one, two = noisy(x), noisy(x)
    assert torch.allclose(plain(x).mean(0), torch.zeros(64), atol=1e-5)
    for y in (one, two):
        assert 0.2 < y.mean(0).std() < 0.4  # U(−½, ½) has deviation 0.289
        assert 1.1 < y.std(0).mean() < 1.16  # U(1, 1.25), and a little spread
    assert (one.mean(0) - two.mean(0)).abs().mean() > 0.1
    noisy.eval()
    plain.eval()
    noisy.load_state_dict(plain.state_dict())
    assert torch.equal(noisy(x), plain(x))


@each(
    refusal=[
        ({"step": "residual"}, "unknown step 'residual'; choose one of plain"),
        ({"norm": "rms"}, "unknown norm 'rms'"),
        ({"init": "zero"}, "unknown init"),
        ({"depth": 3}, "depth must be even"),
        ({"width": 0}, "width must be at least 1"),
    ]
)
def test_nonsense_is_refused(refusal):
    wrong, words = refusal
    with pytest.raises(ValueError, match=words):
        StackConfig(**wrong)


# --- shortcuts other than the identity ---


def make_shortcut(name, dim=8):
    torch.manual_seed(0)
    branch = nn.Linear(dim, dim)
    return STEPS[name](lambda: nn.LayerNorm(dim), branch, Place(dim=dim)).double()


def test_a_dropped_shortcut_keeps_half_of_the_stream_twice_as_large_and_all_of_the_branch():
    step, x = make_shortcut("dropped", 512), torch.ones(64, 512).double()
    nn.init.zeros_(step.norm.weight)  # nothing is written
    came = step(x)
    assert set(came.flatten().tolist()) == {0.0, 2.0}
    assert 0.45 < (came > 0).float().mean() < 0.55
    step.eval()
    assert torch.equal(step(x), x)


def test_a_projected_shortcut_keeps_the_mean_square_of_what_a_rectifier_puts_out():
    step = make_shortcut("projected", 1024)
    nn.init.zeros_(step.norm.weight)
    x = torch.randn(256, 1024).double().clamp(min=0)
    assert step(x).square().mean().item() == pytest.approx(x.square().mean().item(), rel=0.1)
