"""Feed-forward sublayers agree with their float64 formulas; routing keeps its invariants."""

import copy
import importlib
import io
import math
import warnings

import pytest
import torch
from each import each
from torch import nn

from labkit.context import Context
from labkit.model.feed_forward import ACTIVATIONS, FeedForward, MixtureOfExperts
from labkit.norms import make_norm

PADDING = torch.tensor([[True] * 5, [False, True, True, True, False]])


def tokens(*shape) -> torch.Tensor:
    return torch.randn(*(shape or (2, 5, 8)), dtype=torch.float64, requires_grad=True)


def rms(width: int) -> nn.Module:
    return make_norm("rms", width, eps=1e-3)


def by_hand(layer: FeedForward, x: torch.Tensor) -> torch.Tensor:
    """Two or three matrices, an activation, and optionally RMSNorm between them."""
    up = x @ layer.up.weight.T
    if layer.gate is not None:
        gate = x @ layer.gate.weight.T
        inner = gate / (1 + torch.exp(-gate)) * up
    elif layer.activation is ACTIVATIONS["gelu"]:
        inner = up * (1 + torch.erf(up / math.sqrt(2))) / 2
    else:
        inner = up * (up > 0)
    if layer.inner_norm is not None:
        mean_square = (inner**2).sum(-1, keepdim=True) / inner.shape[-1]
        inner = inner / torch.sqrt(mean_square + 1e-3) * layer.inner_norm.weight
    return inner @ layer.down.weight.T


def assert_same_with_gradients(actual, expected, inputs):
    # float64 sums of a few dozen terms
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)
    direction = torch.randn_like(expected)
    ours, theirs = (
        torch.autograd.grad(
            (y * direction).sum(), inputs, retain_graph=True, materialize_grads=True
        )
        for y in (actual, expected)
    )
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-11)


@each(inner_norm=[None, rms], activation=["swiglu", *ACTIVATIONS])
def test_feed_forward_is_its_formula(activation, inner_norm):
    layer, x = FeedForward(8, 12, activation, inner_norm).double(), tokens()
    if inner_norm is not None:
        nn.init.normal_(layer.inner_norm.weight)
    assert_same_with_gradients(layer(x), by_hand(layer, x), [x, *layer.parameters()])


@each(activation=["swiglu", *ACTIVATIONS])
def test_names_and_draws_are_those_that_recorded_runs_used(activation):
    torch.manual_seed(3)
    layer = FeedForward(8, 12, activation, rms)
    torch.manual_seed(3)
    rows = {"gate": 12, "up": 12, "down": 8} if activation == "swiglu" else {"up": 12, "down": 8}
    weights = {n: nn.Linear(12 if n == "down" else 8, rows[n], bias=False).weight for n in rows}
    assert list(layer.state_dict()) == [*(f"{n}.weight" for n in rows), "inner_norm.weight"]
    assert all(torch.equal(getattr(layer, name).weight, w) for name, w in weights.items())


def test_a_norm_over_tokens_is_told_which_are_padding():
    class Recorder(nn.Identity):
        takes_mask = True

        def forward(self, x, mask=None):
            self.mask = mask
            return x

    layer = FeedForward(8, 12, "relu", lambda width: Recorder()).double()
    layer(tokens(), Context(padding=PADDING))
    assert layer.inner_norm.mask is PADDING


def mixture_by_hand(layer: MixtureOfExperts, x, padding=None):
    """Return (output, balance, z) token by token: every expert runs on every token separately."""
    outputs, counts, total, z, seen = [], [0.0] * len(layer.experts), 0.0, 0.0, 0
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            if padding is not None and not padding[b, t]:
                outputs.append(torch.zeros(x.shape[-1], dtype=x.dtype))
                continue
            raw = layer.router.weight @ x[b, t]
            probability = torch.exp(raw) / torch.exp(raw).sum()
            chosen = sorted(range(len(raw)), key=lambda e: -probability[e].item())[: layer.chosen]
            share = sum(probability[e] for e in chosen)
            outputs.append(
                sum(probability[e] / share * by_hand(layer.experts[e], x[b, t]) for e in chosen)
            )
            for e in chosen:
                counts[e] += 1
            total, seen = total + probability, seen + 1
            z = z + torch.log(torch.exp(raw).sum()) ** 2
    fraction = torch.tensor(counts, dtype=x.dtype) / sum(counts)
    balance = len(counts) * (fraction * total / seen).sum()
    return torch.stack(outputs).view(x.shape), balance, z / seen


@each(
    padding=[None, PADDING],
    inner_norm=[None, rms],
    activation=["swiglu", "relu"],
    routing=[(4, 2), (5, 1), (3, 3), (12, 2), (1, 1)],
)
def test_a_mixture_is_its_formula(routing, activation, inner_norm, padding):
    experts, chosen = routing
    layer = MixtureOfExperts(8, 12, activation, experts, chosen, inner_norm).double()
    nn.init.normal_(layer.router.weight)
    x = tokens()
    output, balance, z = mixture_by_hand(layer, x, padding)
    inputs = [x, *layer.parameters()]
    assert_same_with_gradients(layer(x, Context(padding=padding)), output, inputs)
    loss = layer.auxiliary_loss()
    assert_same_with_gradients(loss.balance, balance, [x, layer.router.weight])
    assert_same_with_gradients(loss.z, z, [x, layer.router.weight])


def test_experts_without_a_token_get_a_gradient_of_zero():
    layer = MixtureOfExperts(8, 12, "swiglu", 4, chosen=1, inner_norm=rms)
    layer(torch.randn(1, 1, 8)).sum().backward()
    used = [expert.down.weight.grad.any().item() for expert in layer.experts]
    assert sum(used) == 1 and all(p.grad is not None for p in layer.parameters())


def test_padding_is_sent_nowhere_and_counts_in_no_loss():
    layer = MixtureOfExperts(8, 12, "swiglu", 4).double()
    x = tokens().detach()
    y = layer(x, Context(padding=PADDING))
    losses = layer.auxiliary_loss()
    assert not y[~PADDING].any()
    torch.testing.assert_close(y[PADDING], layer(x[PADDING]), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(tuple(losses), tuple(layer.auxiliary_loss()))
    changed = x.clone()
    changed[~PADDING] = math.nan
    assert torch.equal(layer(changed, Context(padding=PADDING)), y)


def test_padding_alone_gives_zero_and_finite_losses():
    layer, x = MixtureOfExperts(8, 12, "swiglu", 4).double(), tokens()
    y = layer(x, Context(padding=torch.zeros(2, 5, dtype=torch.bool)))
    assert not y.any() and layer.auxiliary_loss() == (0.0, 0.0)


def test_half_precision_routes_in_float32_and_comes_back():
    layer, x = MixtureOfExperts(8, 12, "swiglu", 4, chosen=4), torch.randn(2, 5, 8)
    exact = layer(x)
    low = layer.bfloat16()(x.bfloat16())
    assert low.dtype == torch.bfloat16
    assert layer.auxiliary_loss().z.dtype == torch.float32
    # eight bits, through three matrices and a sum of four experts
    assert (low - exact).abs().max() < 0.03 * exact.abs().max()


def test_a_mixture_can_be_copied_and_saved_after_a_pass():
    layer = MixtureOfExperts(8, 12, "swiglu", 4)
    x = torch.randn(2, 5, 8)
    y = layer(x)
    torch.save(layer, io.BytesIO())
    assert torch.equal(copy.deepcopy(layer)(x), y)
    assert layer.auxiliary_loss().balance.requires_grad  # the original keeps its losses


@pytest.mark.parametrize("padding", [None, PADDING])
def test_a_mixture_is_transformers_mixtral(padding):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modeling = importlib.import_module("transformers.models.mixtral.modeling_mixtral")
        from transformers import MixtralConfig
    config = MixtralConfig(
        hidden_size=8, intermediate_size=12, num_local_experts=4, num_experts_per_tok=2
    )
    config._experts_implementation = "eager"
    other = modeling.MixtralSparseMoeBlock(config).eval()
    ours = MixtureOfExperts(8, 12, "swiglu", 4, chosen=2)
    with torch.no_grad():
        other.gate.weight.copy_(nn.init.normal_(ours.router.weight))
        for e, expert in enumerate(ours.experts):
            other.experts.gate_up_proj[e] = torch.cat((expert.gate.weight, expert.up.weight))
            other.experts.down_proj[e] = expert.down.weight
    x = torch.randn(2, 5, 8)
    mine, theirs = ours(x, Context(padding=padding)), other(x)
    if padding is not None:
        mine, theirs = mine[padding], theirs[padding]
    # float32 sums of a dozen terms
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    raw = (x @ other.gate.weight.T).flatten(0, 1)
    loss = modeling.load_balancing_loss_func((raw,), 4, 2, None if padding is None else padding)
    # transformers' fractions are of tokens and sum to top-k, ours are of assignments
    torch.testing.assert_close(2 * ours.auxiliary_loss().balance, loss, rtol=1e-5, atol=0)


def test_a_mixture_refuses_nonsense():
    with pytest.raises(ValueError, match="unknown activation 'silu'; did you mean 'swiglu'"):
        MixtureOfExperts(8, 12, "silu", 4)
    layer = MixtureOfExperts(8, 12, "swiglu", 4)
    with pytest.raises(ValueError, match="but none was run; call"):
        layer.auxiliary_loss()
