"""Many small perceptrons at once: each is what it would be alone, by the formula, and refuses."""

import pytest
import torch
from torch import nn

from labkit.model.bank import draw_bank, judge_bank, run_bank, train_bank
from labkit.norms import layer_norm

WIDTHS, SEEDS, RATES = (3, 5, 2), [4, 7, 9], [1e-2, 1e-3, 1e-1]
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(3, 8, 3, generator=GENERATOR)
CLASSES = torch.randint(2, (3, 8), generator=GENERATOR)


def test_a_model_of_a_bank_is_a_sequential():
    bank = draw_bank(WIDTHS, SEEDS)
    net = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 2))
    with torch.no_grad():
        for linear, (weight, bias) in zip((net[0], net[3]), bank, strict=True):
            linear.weight.copy_(weight[1].T)
            linear.bias.copy_(bias[1, 0])
        torch.testing.assert_close(run_bank(bank, X, layer_norm, torch.relu)[1], net(X[1]))


def test_a_model_trains_as_it_would_alone():
    together = train_bank(draw_bank(WIDTHS, SEEDS), X, CLASSES, RATES, 20, layer_norm)
    for i, seed in enumerate(SEEDS):
        bank = draw_bank(WIDTHS, [seed])
        alone = train_bank(bank, X[i : i + 1], CLASSES[i : i + 1], RATES[i : i + 1], 20, layer_norm)
        for (weight, bias), (one, other) in zip(together, alone, strict=True):
            torch.testing.assert_close(weight[i : i + 1], one, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(bias[i : i + 1], other, rtol=1e-4, atol=1e-5)


def test_it_trains_as_torch_adam_with_a_linear_schedule():
    steps, bank = 15, draw_bank(WIDTHS, SEEDS)
    trained = train_bank(bank, X, CLASSES, [1e-2] * 3, steps, torch.tanh)
    weights = [part[:1].clone().requires_grad_() for layer in bank for part in layer]
    adam = torch.optim.Adam(weights, 1e-2, betas=(0.9, 0.99))
    for step in range(steps):
        adam.param_groups[0]["lr"] = 1e-2 * (1 - step / steps)
        pairs = list(zip(weights[::2], weights[1::2], strict=True))
        logits = run_bank(pairs, X[:1], torch.tanh)
        adam.zero_grad()
        nn.functional.cross_entropy(logits[0], CLASSES[0]).backward()
        adam.step()
    found = [part[:1] for layer in trained for part in layer]
    torch.testing.assert_close(found, [w.detach() for w in weights], rtol=1e-4, atol=1e-5)


def test_training_leaves_the_drawn_bank_alone_and_lowers_the_loss():
    bank = draw_bank(WIDTHS, SEEDS)
    before = [part.clone() for layer in bank for part in layer]
    trained = train_bank(bank, X, CLASSES, RATES, 50, activation=torch.relu)
    assert all(torch.equal(a, b) for a, b in zip(before, sum(bank, ()), strict=True))
    first, _ = judge_bank(run_bank(bank, X, activation=torch.relu), CLASSES)
    last, _ = judge_bank(run_bank(trained, X, activation=torch.relu), CLASSES)
    assert all(b < a for a, b in zip(first, last, strict=True))


@pytest.mark.parametrize("shuffled", [False, True])
def test_only_shuffled_rows_meet_other_neighbours(shuffled):
    seen = []

    def watch(x):
        seen.append(x.detach().clone())
        return x

    torch.manual_seed(0)
    train_bank(draw_bank(WIDTHS, SEEDS), X, CLASSES, [1e-9] * 3, 2, watch, shuffled=shuffled)
    first, second = seen
    assert torch.allclose(first, second, atol=1e-4) != shuffled
    torch.testing.assert_close(first.sort(dim=1).values, second.sort(dim=1).values)


def test_labels_move_with_shuffled_rows():
    torch.manual_seed(0)
    drawn = draw_bank((3, 16, 2), SEEDS)
    bank = train_bank(drawn, X, CLASSES, [3e-2] * 3, 300, activation=torch.relu, shuffled=True)
    _, right = judge_bank(run_bank(bank, X, activation=torch.relu), CLASSES)
    assert min(right) == 1.0


def test_losses_and_shares_are_means_over_rows():
    logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]]])
    losses, right = judge_bank(logits, torch.tensor([[0, 0]]))
    by_hand = (torch.tensor([2.0, 1.0]).neg().exp().log1p() + torch.tensor([0.0, 1.0])).mean()
    assert losses == pytest.approx([by_hand.item()])
    assert right == [0.5]


def test_what_makes_no_bank_is_refused():
    with pytest.raises(ValueError, match="needs inputs, outputs and seeds"):
        draw_bank([3], SEEDS)
    with pytest.raises(ValueError, match="0 seeds"):
        draw_bank(WIDTHS, [])
    with pytest.raises(ValueError, match="3 models need a rate each, got 1"):
        train_bank(draw_bank(WIDTHS, SEEDS), X, CLASSES, [0.1], 1)
