"""Conversion of whole models: new modules compute the stated function; undo restores the old."""

import pytest
import torch
from convert_models import MODELS, TOKENS, draw, gpt2, run
from each import each, some_quick
from torch import nn

from labkit.convert import convert
from labkit.model import ModelConfig
from labkit.norms import NORMS

# Of each kind of norm one is quick.
SOME = some_quick(MODELS, "gpt2", "gemma")


@pytest.fixture(params=SOME)
def case(request):
    make, old, count, same = MODELS[request.param]
    return draw(make().eval()), old, count, same


def test_the_same_norm_of_labkit_gives_the_same_bits(case):
    model, old, count, same = case
    before = run(model)
    conversion = convert(model, {old: same})
    assert len(conversion.swapped) == count and not conversion.left
    assert all(type(module) is not nn.LayerNorm for module in model.modules())
    assert {row.same for row in conversion.swapped} <= {"same", "same, but for rounding"}
    # one order of operations; torch's mean may pair its summands otherwise: 2 ulp of the logits
    torch.testing.assert_close(run(model), before, rtol=3e-7, atol=3e-7)


def test_undo_puts_the_very_same_objects_back(case):
    model, old, _, _ = case
    modules, before = dict(model.named_modules()), run(model)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    conversion = convert(model, {old: "dyt"}, alpha=0.7)
    assert not torch.equal(run(model), before)
    with torch.no_grad():  # what is trained afterwards is not what is undone to
        for parameter in model.parameters():
            if parameter.ndim == 1 and parameter.numel() == 1:
                parameter.fill_(3.0)
    for norm in model.modules():
        if type(norm).__name__ == "DynamicTanh":
            nn.init.constant_(norm.weight, 5.0)
    assert conversion.undo() is model
    assert all(module is modules[name] for name, module in model.named_modules())
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert torch.equal(run(model), before)


@pytest.mark.parametrize("name", SOME)
def test_one_step_of_training_moves_the_new_norms(name):
    make, old, _, _ = MODELS[name]
    model = draw(make()).train()
    convert(model, {old: "dyt"})
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    run(model).square().mean().backward()
    alphas = [m.alpha for m in model.modules() if type(m).__name__ == "DynamicTanh"]
    before = [alpha.item() for alpha in alphas]
    optimizer.step()
    assert all(alpha.item() != was for alpha, was in zip(alphas, before, strict=True))
    assert run(model).isfinite().all()


def test_layer_norm_keeps_its_state_dict_names():
    model = gpt2()
    names = list(model.state_dict())
    convert(model, {"LayerNorm": "layer"})
    assert list(model.state_dict()) == names


@each(
    key=NORMS,
    order=[torch.contiguous_format, torch.channels_last],
    training=[True, False],
    dtype=[torch.float32, torch.bfloat16],
)
def test_a_norm_of_images_keeps_their_memory_format(key, order, training, dtype):
    model = nn.Sequential(nn.BatchNorm2d(8)).to(dtype).train(training)
    convert(model, {"BatchNorm2d": key})
    x = torch.randn(2, 8, 3, 5, dtype=dtype).contiguous(memory_format=order)
    if key == "group":  # torch's operation is given contiguous memory, and gives it back
        order = torch.contiguous_format
    assert model(x).is_contiguous(memory_format=order)


# --- torch's encoder layer and its fused path ---


def encoder(norm_first: bool) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        16, 2, 32, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("key", NORMS)
def test_torchs_encoder_evaluates_the_norm_that_stands_in_it(key, norm_first):
    model = draw(encoder(norm_first))
    convert(model, {"LayerNorm": key})
    x = torch.randn(2, 5, 16)
    model.eval()
    with torch.no_grad():
        fast = model(x)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        slow = model(x).detach()
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    # the fused operation sums in another order, over two layers
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_padding_passes_through_a_converted_encoder():
    model, x = draw(encoder(norm_first=False)).eval(), torch.randn(2, 5, 16)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    convert(model, {"LayerNorm": "rms"})
    with torch.no_grad():
        padded = model(x, src_key_padding_mask=padding)
        alone = model(x[1:, :3])
    torch.testing.assert_close(padded[1:, :3], alone, rtol=1e-5, atol=1e-5)


def test_the_fused_path_stays_for_layer_norm_and_comes_back_with_undo():
    model = encoder(norm_first=False)
    assert not convert(model, {"LayerNorm": "layer"}).notes
    assert model.layers[0].activation_relu_or_gelu == 1
    conversion = convert(model, {"LayerNorm": "annotated-layer"})
    assert "fused path is off in 2" in conversion.notes[0]
    assert model.layers[0].activation_relu_or_gelu == 0 and model.use_nested_tensor is False
    assert "fused path is off" in str(conversion)
    conversion.undo()
    assert "fused path is off" not in str(conversion) + conversion._repr_html_()
    assert model.layers[0].activation_relu_or_gelu == 1 and model.use_nested_tensor is True


# --- labkit's own model ---


@pytest.mark.parametrize("key", NORMS)
def test_labkits_transformer_takes_every_norm_by_conversion(key):
    model = ModelConfig(dim=16, depth=2, heads=2, vocab=64).build()
    convert(model, {"RMSNorm": key})
    model(TOKENS).sum().backward()
    made = ModelConfig(dim=16, depth=2, heads=2, vocab=64, norm=key).build()
    kinds = [type(module) for module in made.modules()]
    assert [type(module) for module in model.modules()] == kinds
