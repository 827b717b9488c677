"""How different tokens still are: shares that can be computed by hand, and a path of norms."""

import pytest
import torch
from torch import nn

from labkit import ModelConfig
from labkit.corpora import Text
from labkit.probes import make_probe, token_share

TOKENS = torch.randint(96, (4, 8), generator=torch.Generator().manual_seed(0))
SMALL = {"norm": "layer", "dim": 16, "depth": 2, "heads": 2, "context": 16}


def silent(recipe):
    """Build a model whose sublayers write nothing."""
    torch.manual_seed(0)
    model = ModelConfig(recipe, **SMALL).build()
    for block in model.blocks:
        for part in (block.attention.sublayer.out, block.feed_forward.sublayer.down):
            nn.init.zeros_(part.weight)
    return model


def test_tokens_that_are_one_vector_share_everything():
    model = silent("pre")
    nn.init.ones_(model.embedding.weight)
    assert token_share(model, TOKENS)["share"] == [pytest.approx(0.0, abs=1e-30)] * 3


def test_two_opposite_tokens_share_nothing():
    model = silent("pre")
    row = torch.linspace(-1, 1, 16)
    model.embedding.weight.data[:2] = torch.stack([row, -row])
    found = token_share(model, torch.tensor([[0, 1]]))
    assert found["share"] == [pytest.approx(1.0)] * 3 and found["path"] == 1.0


def test_the_mean_is_that_of_the_tokens_and_not_of_their_channels():
    model = silent("pre")
    model.embedding.weight.data[:2] = torch.tensor([[1.0], [3.0]]).expand(2, 16)
    first = token_share(model, torch.tensor([[0, 1]]))["share"][0]
    assert first == pytest.approx((1 + 1) / (1 + 9))


def test_a_difference_below_single_precision_is_seen():
    model = silent("pre").double()
    model.embedding.weight.data[:] = 1.0
    model.embedding.weight.data[1] += 1e-10 * torch.linspace(-1, 1, 16).double()
    first = token_share(model, torch.tensor([[0, 1]]))["share"][0]
    expected = 1e-20 * torch.linspace(-1, 1, 16).double().square().mean().item() / 4
    assert first == pytest.approx(expected, rel=1e-3)


def test_the_path_is_the_product_of_what_the_norms_on_the_stream_divide_by():
    model = silent("post")
    model.embedding.weight.data *= 4 / model.embedding.weight.data.std(1, correction=0)[:, None]
    size = model.embed(TOKENS).std(-1, correction=0).mean().item()
    # Nothing is written, so the first norm divides by the embedding's size, the others by one.
    assert token_share(model, TOKENS)["path"] == pytest.approx(1 / size, rel=1e-3)


def test_a_look_leaves_the_model_as_it_was_and_comes_at_its_steps():
    probe, model = (
        make_probe("token-share", Text(batch=4, time=8, held_out=512).load()),
        silent("post"),
    )
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    for step in (0, 1, 11):
        probe.after_backward(step, model)
    assert [*probe.result(model)] == ["0", "1"], "it does not look at step 11"
    assert model.training and all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
