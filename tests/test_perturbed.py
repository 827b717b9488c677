"""A perturbed model: only its norms are rounded, or only its embeddings are moved."""

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from labkit import ModelConfig
from labkit.corpora import Text
from labkit.experiments.experiment import Experiment
from labkit.experiments.replicates import describe_structure
from labkit.experiments.run import Run
from labkit.model import Perturbed
from labkit.norms import LayerNorm, RMSNorm
from labkit.probes.look import residual_streams
from labkit.probes.trained import mean_share
from labkit.training import TrainConfig

TOKENS = torch.randint(96, (2, 12), generator=torch.Generator().manual_seed(3))
CHANGES = {
    "norm_arithmetic": "bfloat16",
    "embedding_offset": 10.0,
    "embedding_outlier": 30.0,
    "embedding_drawn": 0.014,
}


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_a_model_takes_an_arithmetic_for_all_its_norms(norm):
    torch.manual_seed(0)
    plain = ModelConfig("pre", norm, dim=32, depth=2).build()
    torch.manual_seed(0)
    low = Perturbed("pre", norm, dim=32, depth=2, norm_arithmetic="bfloat16").build()
    kinds = {type(m).__name__ for m in low.modules() if isinstance(m, LayerNorm | RMSNorm)}
    assert kinds == {"LayerNormIn" if norm == "layer" else "RMSNormIn"}
    assert list(plain.state_dict()) == list(low.state_dict())
    with torch.no_grad():
        gap = (plain(TOKENS) - low(TOKENS)).abs().max()
    assert 0 < gap < 0.2


def test_an_offset_moves_every_channel_of_the_stream_and_layer_norm_does_not_see_it():
    torch.manual_seed(0)
    plain = ModelConfig("pre", "layer", dim=32, depth=2).build().double()
    moved = Perturbed("pre", "layer", dim=32, depth=2, embedding_offset=10.0).build().double()
    moved.load_state_dict(plain.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(moved.embed(TOKENS), plain.embed(TOKENS) + 10)
        torch.testing.assert_close(moved(TOKENS), plain(TOKENS))
        shares = mean_share(moved, (TOKENS, TOKENS))
        first = residual_streams(moved, TOKENS)[0]
    squared_cosine = nn.functional.cosine_similarity(first, torch.ones(32).double(), dim=-1) ** 2
    assert shares[0] == pytest.approx(squared_cosine.mean().item())
    assert len(shares) == 3 and min(shares) > 0.9


def test_an_outlier_stands_on_one_token_alone():
    torch.manual_seed(0)
    tokens = torch.tensor([[0, 1, 2]])
    plain, planted = (
        Perturbed(dim=16, embedding_outlier=m, embedding_size=2.0) for m in (0.0, 9.0)
    )
    torch.manual_seed(0)
    x = plain.build().embed(tokens)
    torch.manual_seed(0)
    difference = (planted.build().embed(tokens) - x).detach()
    assert difference[0, 1, 0].item() == pytest.approx(9) and difference.count_nonzero() == 1
    assert x.detach().std().item() == pytest.approx(2.0, rel=0.4)


def test_embeddings_drawn_small_are_multiplied_once_and_can_grow():
    torch.manual_seed(0)
    plain = ModelConfig("pre", dim=16, depth=1).build()
    torch.manual_seed(0)
    small = Perturbed("pre", dim=16, depth=1, embedding_drawn=0.5).build()
    assert torch.equal(small.embedding.weight, plain.embedding.weight / 2)
    assert torch.equal(small.embed(TOKENS), plain.embed(TOKENS) / 2)
    for a, b in zip(small.blocks.parameters(), plain.blocks.parameters(), strict=True):
        assert torch.equal(a, b)
    with torch.no_grad():  # one step away from its first value: no factor comes between
        small.embedding.weight += 1.0
    assert small.embed(TOKENS).mean().item() == pytest.approx(16**0.5, rel=0.2)


@pytest.mark.parametrize("recipe", ["pre", "ngpt"])
def test_without_a_perturbation_its_run_is_the_models_and_its_numbers_are(recipe):
    run = Run(ModelConfig(recipe, dim=16, heads=2, depth=1), Text(), TrainConfig(steps=1))
    same = replace(run, model=Perturbed(**vars(run.model)))
    assert same.key() == run.key()
    torch.manual_seed(0)
    model = run.model.build()
    torch.manual_seed(0)
    assert torch.equal(model(TOKENS), same.model.build()(TOKENS))


@pytest.mark.parametrize(("field", "value"), CHANGES.items())
def test_a_perturbation_is_an_axis_and_parts_runs(field, value):
    run = Run(Perturbed(dim=16, heads=2, depth=1), Text(), TrainConfig(steps=1))
    plain = getattr(run.model, field)
    (_, first), (_, other) = Experiment(run, {f"model.{field}": [plain, value]}).runs()
    assert first.key() == run.key() != other.key()
    assert describe_structure(first) != describe_structure(other)
    assert Run.from_dict(json.loads(json.dumps(other.to_dict()))) == other


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": "scale", "norm_arithmetic": "bfloat16"}, "needs labkit's LayerNorm or RMSNorm"),
        ({"norm_arithmetic": "bfloat16 one-pass"}, "has no one-pass form"),
        ({"norm_arithmetic": "fp16"}, "unknown arithmetic 'fp16'"),
        ({"embedding_offset": math.inf}, "embedding_offset must be a finite number"),
        ({"embedding_outlier": "10"}, "embedding_outlier must be a finite number"),
        ({"embedding_drawn": 0.0}, "embedding_drawn must be above 0, got 0.0"),
        *[
            ({"recipe": "ngpt", name: value}, f"{name} must keep its default, got")
            for name, value in CHANGES.items()
        ],
    ],
    ids=str,
)
def test_nonsense_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Perturbed(**change)
