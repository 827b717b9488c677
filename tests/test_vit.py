"""The small vision transformer: patches, recipes, norms, and refused configurations."""

import pytest
import torch
import torch.nn.functional as F
from each import each

from labkit.context import Context
from labkit.corpora import Digits
from labkit.experiments import Run, execute_run
from labkit.model.vit import ViTConfig
from labkit.norms import NORMS
from labkit.training import TrainConfig

TINY = ViTConfig(dim=16, depth=1, heads=2)


def test_its_logits_are_those_of_the_equation():
    torch.manual_seed(0)
    model, images = TINY.build(), torch.rand(3, 1, 8, 8)
    patches = images.reshape(3, 4, 2, 4, 2).permute(0, 1, 3, 2, 4).reshape(3, 16, 4)
    x = F.linear(patches, model.embedding.weight, model.embedding.bias) + model.position
    for block in model.blocks:
        x = block(x, Context())
    wanted = model.output(model.final_norm(x).mean(dim=1))
    torch.testing.assert_close(model(images), wanted)


@each(norm=sorted(set(NORMS) - {"instance"}))
def test_every_norm_trains(norm):
    config = ViTConfig(dim=16, depth=1, heads=2, norm=norm)
    record = execute_run(Run(config, Digits(16), TrainConfig(3)))
    assert len(record.losses) == 3 and record.probes["test"]["loss"] < 5


def test_dropout_acts_in_training_only():
    model, images = ViTConfig(dim=16, depth=1, heads=2, dropout=0.5).build(), torch.rand(2, 1, 8, 8)
    assert not torch.equal(model(images), model(images))
    model.eval()
    torch.testing.assert_close(model(images), model(images))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"patch": 3}, "must be a multiple of patch"),
        ({"classes": 0}, "classes must be at least 1"),
        ({"dropout": 1.0}, "at least 0 and below 1"),
        ({"norm": "layers"}, "unknown norm"),
        ({"heads": 3}, "multiple of heads"),
    ],
)
def test_nonsense_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        ViTConfig(**change)


def test_another_size_of_image_is_refused():
    with pytest.raises(ValueError, match=r"\(batch, 1, 8, 8\)"):
        TINY.build()(torch.rand(1, 1, 9, 9))
