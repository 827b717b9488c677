"""Training beyond the main loss: experts' auxiliary loss, QK-Clip after each step."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from each import each

from labkit.model import ModelConfig, Transformer
from labkit.training import Observer, TrainConfig, train

BATCH = torch.randint(32, (4, 13), generator=torch.Generator().manual_seed(3))
INPUTS, TARGETS = BATCH[:, :-1], BATCH[:, 1:]


def make(**change) -> Transformer:
    return Transformer(ModelConfig(**{"dim": 32, "heads": 4, "vocab": 32, "depth": 2, **change}))


def run(model: torch.nn.Module, steps: int, lr: float, *observers: Observer) -> list[float]:
    config = TrainConfig(steps=steps, lr=lr, schedule="constant")
    batches = itertools.repeat((INPUTS, TARGETS))
    return train(model, batches, config, observers, progress=False).losses


@pytest.mark.parametrize("recipe", ["pre", "sub-ln"])
def test_a_mixture_of_experts_learns(recipe):
    losses = run(make(recipe=recipe, experts=4), 30, 5e-3)
    assert losses[0] > 3 and losses[-1] < 1.5  # log 32 = 3.47


class Gradients(Observer):
    """Keep the gradients of the first step."""

    def after_backward(self, step, model):
        self.found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def test_the_experts_loss_is_in_the_gradient_and_not_in_the_record():
    with_loss, without = make(experts=4, balance=0.5, router_z=0.1), make(experts=4)
    without.load_state_dict(with_loss.state_dict())
    without.auxiliary_loss = lambda: None
    seen = Gradients(), Gradients()
    recorded = [
        run(model, 1, 1e-9, observer)[0]
        for model, observer in zip((with_loss, without), seen, strict=True)
    ]
    plain = F.cross_entropy(with_loss(INPUTS).flatten(0, 1), TARGETS.flatten())
    layers = [block.feed_forward.sublayer.auxiliary_loss() for block in with_loss.blocks]
    more = sum(0.5 * balance + 0.1 * z for balance, z in layers) / 2
    # float32, the same forward pass
    assert recorded == pytest.approx([plain.item()] * 2, rel=1e-6)
    names, parameters = zip(*with_loss.named_parameters(), strict=True)
    for observer, total in zip(seen, (plain + more, plain), strict=True):
        slopes = torch.autograd.grad(total, parameters, retain_graph=True, allow_unused=True)
        for name, slope in zip(names, slopes, strict=True):
            slope = torch.zeros_like(observer.found[name]) if slope is None else slope
            torch.testing.assert_close(observer.found[name], slope, rtol=1e-4, atol=1e-7, msg=name)
    routers = [n for n in names if n.endswith("router.weight")]
    assert all((seen[0].found[n] - seen[1].found[n]).abs().max() > 1e-4 for n in routers)


@pytest.mark.parametrize("recipe", ["pre", "post", "sandwich"])
@each(kv_heads=[4, 2, 1])
def test_qk_clip_bounds_the_logits_that_training_meets(recipe, kv_heads):
    sizes = {}
    for bound in (1e9, 2.0):
        torch.manual_seed(1)
        model = make(recipe=recipe, kv_heads=kv_heads, qk_clip=bound)
        with torch.no_grad():
            for block in model.blocks:
                block.attention.sublayer.q.weight.mul_(6)
                block.attention.sublayer.k.weight.mul_(6)
        run(model, 5, 1e-3)
        model(INPUTS)
        sizes[bound] = max(b.attention.sublayer.largest_logit.max().item() for b in model.blocks)
    assert sizes[1e9] > 20
    # The factor comes from the pass before the optimizer's step, which moves weights of size 0.1
    # by 0.001: the bound holds up to a few percent.
    assert sizes[2.0] < 2.2


def test_qk_clip_leaves_logits_below_the_bound_alone():
    models = [make(qk_clip=bound) for bound in (None, 1e6)]
    models[1].load_state_dict(models[0].state_dict())
    # float32: explicit logits against torch's fused attention
    assert run(models[0], 3, 1e-3) == pytest.approx(run(models[1], 3, 1e-3), rel=1e-4)
    for one, two in zip(*(m.parameters() for m in models), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)
