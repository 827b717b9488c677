"""Laws for every recipe: unaffected by padding, finite at depth 96, able to learn."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from each import each, some_quick

from labkit.model import ModelConfig, Transformer
from labkit.norms import NORMS
from labkit.placements import RECIPES
from labkit.training import TrainConfig, train

ONE_STACK = [name for name, recipe in RECIPES.items() if recipe.sphere]
# Norms whose statistics run over tokens: none of them is causal.
POOLED = ["batch", "rep-batch", "prep-batch", "power", "instance"]
TOKENS = torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(7))
SOURCE = torch.randint(11, (3, 6), generator=torch.Generator().manual_seed(8))


def make(recipe: str, kind: str = "decoder", **change) -> Transformer:
    wanted = {"dim": 16, "heads": 2, "vocab": 11, "depth": 4}
    return Transformer(ModelConfig(recipe=recipe, kind=kind, **{**wanted, **change}))


def assert_same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    # float64; shorter rows and masks change the order of sums, no more
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("norm", NORMS)
@each(recipe=["pre", "post"], training=[True, False])
def test_a_norm_is_causal_unless_it_pools_over_tokens(norm, recipe, training):
    model = make(recipe, norm=norm).double().train(training)
    changed = TOKENS.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % 11
    before, after = model(TOKENS), model(changed)
    if norm not in POOLED:
        assert_same(after[:, :4], before[:, :4])
    elif training:
        # PRepBN begins as LayerNorm: its share of BatchNorm is 1/300,000 at the first step
        assert (after - before)[:, :4].abs().max() > 1e-9


LENGTHS = (7, 4, 1)


def padded(rows: torch.Tensor, lengths: tuple[int, ...], side: str) -> tuple[torch.Tensor, ...]:
    """Return tokens and their mask: the first `length` of each row, then (or before) junk."""
    time = rows.shape[1]
    tokens, real = torch.randint(11, rows.shape), torch.zeros(rows.shape, dtype=torch.bool)
    for i, length in enumerate(lengths):
        where = slice(0, length) if side == "right" else slice(time - length, time)
        tokens[i, where], real[i, where] = rows[i, :length], True
    return tokens, real


WIRED = ("none", "post", "pre", "hybrid", "sub-ln", "ngpt", "resi-dual", "b2t", "dyt", "highway")


@pytest.mark.parametrize("name", some_quick(RECIPES, *WIRED))
@each(kind=["decoder", "encoder"], side=["right", "left"])
def test_padding_changes_no_logit_of_a_real_token(name, kind, side):
    model = make(name, kind).double()
    tokens, real = padded(TOKENS, LENGTHS, side)
    together = model(tokens, padding=real)
    for i, length in enumerate(LENGTHS):
        assert_same(together[i, real[i]], model(TOKENS[i : i + 1, :length])[0])


@each(name=[name for name in RECIPES if name not in ONE_STACK])
def test_padding_of_source_and_target_changes_no_logit_of_a_real_token(name):
    model = make(name, "encoder-decoder", depth=2).double()
    (tokens, real), (source, read) = (
        padded(TOKENS, LENGTHS, "right"),
        padded(SOURCE, (2, 6, 3), "right"),
    )
    together = model(tokens, source=source, padding=real, source_padding=read)
    for i, (length, size) in enumerate(zip(LENGTHS, (2, 6, 3), strict=True)):
        alone = model(TOKENS[i : i + 1, :length], source=SOURCE[i : i + 1, :size])
        assert_same(together[i, :length], alone[0])


@pytest.mark.parametrize("norm", ["batch", "rep-batch", "prep-batch", "power"])
@each(recipe=["pre", "hybrid", "peri", "resi-dual", "normformer"])
def test_norms_over_tokens_leave_padding_out(norm, recipe):
    (tokens, real), other = padded(TOKENS, LENGTHS, "right"), torch.randint(11, TOKENS.shape)
    models = [make(recipe, "encoder", norm=norm).double().train() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    one, two = (
        model(t, padding=real)[real]
        for model, t in zip(models, (tokens, torch.where(real, tokens, other)), strict=True)
    )
    assert_same(one, two)
    for name, buffer in models[0].named_buffers():
        if buffer.is_floating_point():
            assert_same(buffer, models[1].get_buffer(name))


def test_a_norm_over_time_that_takes_no_mask_refuses_padding():
    tokens, real = padded(TOKENS, LENGTHS, "right")
    with pytest.raises(ValueError, match="padding"):
        make("pre", "encoder", norm="instance")(tokens, padding=real)


@each(name=RECIPES)
def test_a_row_of_padding_leaves_all_others_finite(name):
    model, real = make(name, depth=2), torch.ones(TOKENS.shape, dtype=torch.bool)
    real[1] = False
    logits = model(TOKENS, padding=real)
    logits[real].square().mean().backward()
    assert logits[real].isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", some_quick(RECIPES, "pre", "post", "ngpt"))
def test_a_recipe_is_finite_at_depth_96(name):
    model = make(name, depth=96, context=4)
    tokens = TOKENS[:2, :4]
    model.before_training(tokens)
    logits = model(tokens)
    F.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
    assert logits.dtype == torch.float32
    assert logits.isfinite().all()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.isfinite().all(), path


# nGPT's logits start near zero and its weights stay on the sphere: it takes longer steps.
RATES = {"ngpt": 3e-2}


@pytest.mark.parametrize("name", some_quick(RECIPES, "pre", "post", "ngpt", "dyt"))
def test_a_recipe_learns_one_batch(name):
    model = make(name, dim=32, heads=4, vocab=96, depth=2)
    batch = torch.randint(96, (4, 13), generator=torch.Generator().manual_seed(3))
    repeated = itertools.repeat((batch[:, :-1], batch[:, 1:]))
    config = TrainConfig(steps=30, lr=RATES.get(name, 5e-3), schedule="constant")
    losses = train(model, repeated, config, progress=False).losses
    assert losses[0] > 4  # about log 96 = 4.56, what a guess costs
    assert losses[-1] < 1.5
