"""Folding a norm with running statistics into the linear maps that read its output."""

import pytest
import torch
from convert_models import draw, llama, run
from torch import nn

from labkit.convert import convert, fold_norms


def trained(norm: nn.Module) -> nn.Module:
    """Give a norm running statistics, by training calls, and a nontrivial gain and shift."""
    draw(norm)
    for _ in range(3):
        norm(3 * torch.randn(4, 5, norm.dim if hasattr(norm, "dim") else 8) + 1)
    return norm.eval()


@pytest.mark.parametrize("key", ["batch", "rep-batch", "prep-batch"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_folded_sequence_equals_the_unfolded(key, bias):
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3, bias=bias))
    convert(model, {"LayerNorm": key})
    trained(model[1])
    model, x = model.double().eval(), torch.randn(4, 5, 8, dtype=torch.float64)
    before, old = model(x), model[2]
    conversion = fold_norms(model)
    assert isinstance(model[1], nn.Identity) and model[2] is not old
    torch.testing.assert_close(model(x), before, rtol=1e-12, atol=1e-12)
    assert conversion.swapped[0].new == "Identity, folded into 2"
    assert not conversion.left  # nor the parts of the norm that was folded whole
    conversion.undo()
    assert model[2] is old and torch.equal(model(x), before)


def test_torchs_batch_norm_folds_too():
    model = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 3))
    for _ in range(3):
        model(3 * torch.randn(16, 8) + 1)
    x = torch.randn(4, 8)
    before = model.eval()(x)
    fold_norms(model)
    torch.testing.assert_close(model(x), before, rtol=1e-5, atol=1e-5)


def test_a_folded_map_keeps_half_precision():
    model = nn.Sequential(nn.BatchNorm1d(8, affine=False), nn.Linear(8, 3, dtype=torch.bfloat16))
    x = torch.randn(9, 8)
    model[0](x + 1)
    before = model[1].float()(model.eval()[0](x))
    model[1].bfloat16()
    fold_norms(model)
    assert model[1].weight.dtype == torch.bfloat16
    # two matrices rounded to 8 bits
    torch.testing.assert_close(model[1].float()(x), before, rtol=0.05, atol=0.05)


def test_a_hugging_face_model_folds_by_named_pairs():
    model = draw(llama())
    convert(model, {"LlamaRMSNorm": "prep-batch"}, steps=3)
    for _ in range(5):
        run(model.train())
    before = run(model.eval())
    pairs: dict[str, list[str]] = {"model.norm": ["lm_head"]}
    for i in range(2):
        layer = f"model.layers.{i}"
        qkv = [f"{layer}.self_attn.{name}_proj" for name in "qkv"]
        pairs[f"{layer}.input_layernorm"] = qkv
        mlp = [f"{layer}.mlp.{name}_proj" for name in ("gate", "up")]
        pairs[f"{layer}.post_attention_layernorm"] = mlp
    fold_norms(model, pairs)
    assert not any("Norm" in type(module).__name__ for module in model.modules())
    torch.testing.assert_close(run(model), before, rtol=1e-4, atol=1e-4)


def test_a_frozen_map_stays_frozen():
    model = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 8)).eval()
    model[1].requires_grad_(False)
    fold_norms(model)
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_folding_refuses_what_it_cannot_do():
    def model(norm, *more):
        return nn.Sequential(norm, nn.Linear(8, 8), *more)

    tied = model(nn.BatchNorm1d(8), nn.Linear(8, 8)).eval()
    tied[2].weight = tied[1].weight
    only = "only BatchNorm1d, BatchNorm, RepBatchNorm and PRepBatchNorm can be folded, .* nn.Linear"
    image = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval()
    alone = nn.Sequential(nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8)).eval()
    norm = nn.BatchNorm1d(8)
    shared = nn.Sequential(norm, nn.Linear(8, 8), norm).eval()
    two = nn.Sequential(nn.BatchNorm1d(8), nn.BatchNorm1d(8), nn.Linear(8, 8)).eval()
    for case, pairs, error, message in (
        (model(nn.BatchNorm1d(8)), None, ValueError, "training mode; call model.eval"),
        (model(nn.LayerNorm(8)).eval(), None, ValueError, f"{only} .*; its norms are LayerNorm .1"),
        (image, None, ValueError, f"{only} .*; its norms are BatchNorm2d .1"),
        (alone, None, ValueError, "its norms are BatchNorm1d .1.* name the pairs"),
        (model(nn.LayerNorm(8)).eval(), {"0": "1"}, TypeError, "LayerNorm, which cannot be"),
        (model(nn.BatchNorm1d(8)).eval(), 3, TypeError, "pairs must be a mapping .*, got 3"),
        (model(nn.BatchNorm1d(8)).eval(), {"0": "9"}, ValueError, "which has no 9"),
        (
            model(nn.BatchNorm1d(8)).eval(),
            {"0": "0"},
            TypeError,
            "paired with nn.Linear modules, got B",
        ),
        (model(nn.BatchNorm1d(8)).eval(), {"0": []}, TypeError, "got nothing"),
        (model(nn.BatchNorm1d(4)).eval(), None, ValueError, "features"),
        (
            model(nn.BatchNorm1d(8, track_running_stats=False)).eval(),
            None,
            ValueError,
            "running statistics, but this BatchNorm1d has none",
        ),
        (tied, None, ValueError, "its parameter is tied to 2.weight"),
        (shared, None, ValueError, "0 is used in 2 places; fold it by hand"),
        (two, {"0": "2", "1": "2"}, ValueError, "2 is paired with two; pair"),
    ):
        before = dict(case.named_modules())
        with pytest.raises(error, match=message):
            fold_norms(case, pairs)
        assert all(module is before[name] for name, module in case.named_modules())
