"""Fused blocks of transformers: the same losses, gradients, tokens and hooks."""

import copy
import os
import pickle
from typing import Any

import normkernels
import pytest
import torch
from convert_models import HEADS, SMALL, TOKENS, draw
from normkernels import formulas
from peers import distance, hf, peer
from test_fused import calls, fused_twin
from torch import nn

from labkit.convert import convert
from labkit.fused import fuse, hub, hub_attention, unfuse
from tests.kernels import quick

transformers = pytest.importorskip("transformers")
if os.environ.get("TRITON_INTERPRET") == "1":
    quick.install()
# model: its config, and the norm of labkit that is its norm
MODELS = {
    "llama": ("LlamaConfig", "rms-llama"),
    "qwen3": ("Qwen3Config", "rms-llama"),
    "gemma2": ("Gemma2Config", "rms-gemma"),
    "gemma3": ("Gemma3TextConfig", "rms-gemma"),
    "olmo2": ("Olmo2Config", "rms"),
}
every = pytest.mark.parametrize("name", MODELS)
PRE = ["rms_norm_llama"] + ["qk_norm_rope", "sum_norm", "sum_norm"] * 2


def build(name: str, **options) -> Any:
    """Make a small model in which every norm has different gains."""
    config = getattr(peer("transformers"), MODELS[name][0])(
        **SMALL, **HEADS, pad_token_id=0, bos_token_id=1, eos_token_id=2, **options
    )
    torch.manual_seed(0)
    return draw(peer("transformers").AutoModelForCausalLM.from_config(config, dtype=torch.float32))


def train_step(model: nn.Module, **inputs) -> list[torch.Tensor]:
    """Return the loss, the logits and all gradients."""
    model.zero_grad()
    found = model(input_ids=TOKENS, labels=TOKENS, use_cache=False, **inputs)
    found.loss.backward()
    gradients = (p.grad for p in model.parameters() if p.grad is not None)
    return [found.loss, found.logits, *(gradient.clone() for gradient in gradients)]


def assert_near(one: list[torch.Tensor], other: list[torch.Tensor], share: float = 1e-5) -> None:
    assert len(one) == len(other)
    assert max(distance(a, b) for a, b in zip(other, one, strict=True)) <= share


def assert_fused_is_same(
    model: nn.Module, change=lambda one: None, share: float = 1e-5, **inputs
) -> None:
    """Compare a model and its fused twin, after the same change of both."""
    twin = fused_twin(model)
    for one in (model, twin):
        change(one)
    assert_near(train_step(model, **inputs), train_step(twin, **inputs), share)


@every
def test_loss_and_gradients_are_those_without_kernels(name):
    assert_fused_is_same(build(name).train())


@every
def test_bfloat16_is_as_near_to_float32_as_without_kernels(name):
    model = build(name)
    exact = train_step(model)
    narrow = model.bfloat16()
    plain = [distance(a, b) for a, b in zip(train_step(narrow), exact, strict=True)]
    fuse(narrow)
    fused = [distance(a, b) for a, b in zip(train_step(narrow), exact, strict=True)]
    # Triton's interpreter truncates where a GPU rounds: up to twice the error.
    assert sum(fused) <= 2 * sum(plain)


@every
def test_in_bfloat16_norms_and_sums_round_as_the_model_does(name, monkeypatch):
    """Formulas take the kernels' place, because the interpreter truncates where a GPU rounds."""
    orders = {
        (0.0, False): "rms_norm",
        (0.0, True): "rms_norm_llama",
        (1.0, False): "rms_norm_gemma",
    }
    both = {"rms_norm_add": 1, "rms_norm_add_norm": 2}  # how many norms each computes
    for kernel in (*orders.values(), *both):
        monkeypatch.setattr(normkernels, kernel, getattr(formulas, kernel))

    def sum_norm(x, residual, weight, bias, eps, alpha, centred, *rounding):
        *_, offset, round_first = rounding
        h = x + residual
        return getattr(formulas, orders[offset, round_first])(h, weight, eps), h

    monkeypatch.setattr(normkernels.add_norm, "sum_norm", sum_norm)
    monkeypatch.setattr(hub_attention, "accepts_tensors", lambda *given: False)
    seen = calls(monkeypatch, "sum_norm", *orders.values(), *both)
    model = build(name).bfloat16()
    with torch.no_grad():
        logits = fused_twin(model)(TOKENS, use_cache=False).logits
        assert torch.equal(logits, model(TOKENS, use_cache=False).logits)
    norms = sum(type(one).__name__.endswith("RMSNorm") for one in model.modules())
    assert sum(both.get(kernel, 1) for kernel in seen) == norms


@every
def test_a_model_whose_norms_were_converted_is_fused_alike(name):
    model = build(name)
    twin = copy.deepcopy(model)
    convert(twin, {"*RMSNorm": MODELS[name][1]})
    converted, own = fuse(twin).modules, fuse(copy.deepcopy(model)).modules
    assert sum(converted.values()) == sum(own.values())
    assert_near(train_step(model), train_step(twin))


@pytest.mark.parametrize(
    "name, expected",
    [
        ("llama", PRE),
        ("qwen3", PRE),
        # Only the first block begins with a norm of its own.
        (
            "gemma2",
            ["rms_norm_gemma", *["qk_norm_rope", "rms_norm_add_norm", "rms_norm_add_norm"] * 2],
        ),
        (
            "olmo2",
            [
                *["rms_norm", "rms_norm", "qk_norm_rope", "rms_norm_add", "rms_norm_add"],
                *["rms_norm", "rms_norm", "qk_norm_rope", "rms_norm_add", "rms_norm_add_norm"],
            ],
        ),
    ],
)
def test_kernels_take_the_place_of_rotations_and_of_sums_with_norms(name, expected, monkeypatch):
    model = build(name)
    fuse(model)
    norms = ("rms_norm", "rms_norm_llama", "rms_norm_gemma")
    sums = ("sum_norm", "rms_norm_add", "rms_norm_add_norm")
    seen = calls(monkeypatch, *norms, *sums, "qk_norm_rope")
    train_step(model)
    assert seen == expected


def test_angles_are_halved_once_in_a_pass(monkeypatch):
    model = build("llama")
    fuse(model)
    seen = []
    halve = hub_attention._halve
    monkeypatch.setattr(
        hub_attention, "_halve", lambda *both: seen.append(halve(*both)) or seen[-1]
    )
    model(TOKENS)
    assert len(seen) == 2 and seen[0][0] is seen[1][0]


@every
def test_a_block_may_be_called_alone_without_a_mask(name):
    model = build(name)
    x = torch.randn(2, 7, 32)
    options = ("sliding_attention",) if name == "gemma3" else ()
    given = model.model.rotary_emb(x, torch.arange(7)[None], *options)
    block, twin = (one.model.layers[0] for one in (model, fused_twin(model)))
    assert_near([block(x, position_embeddings=given)], [twin(x, position_embeddings=given)])


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3"])
def test_positions_may_differ_by_sequence(name, monkeypatch):
    # A shift of all positions would change no result. Without a mask, transformers takes positions
    # with gaps for several sequences.
    positions = torch.stack([torch.arange(7), 2 * torch.arange(7)])
    given = {"position_ids": positions, "attention_mask": torch.ones_like(positions)}
    model = build(name)
    for layer in model.model.layers:
        layer.self_attn.q_proj.weight.data *= 20  # so that a rotation matters without norms
    seen = calls(monkeypatch, "qk_norm_rope")
    assert_fused_is_same(model, **given)
    assert seen == ["qk_norm_rope"] * 2


@pytest.mark.parametrize("name", ["qwen3", "gemma2"])
def test_hooks_see_and_change_what_they_did_without_kernels(name):
    seen = []

    def shift(module, args, output):
        seen.append(output)
        first, *rest = output if isinstance(output, tuple) else (output,)
        return (first + 0.5, *rest) if rest else first + 0.5

    def change(model):
        for path, module in model.named_modules():
            if "norm" in path.rpartition(".")[2]:
                module.register_forward_pre_hook(lambda module, args: (args[0] + 0.5,))
                module.register_full_backward_hook(lambda *_: seen.append("backward"))
            if "norm" in path.rpartition(".")[2] or path.endswith(("attn", "layers.0")):
                module.register_forward_hook(shift)

    assert_fused_is_same(build(name), change, 5e-4)  # some gradients are differences, near 0
    plain, fused = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    assert [type(one) for one in plain] == [type(one) for one in fused]


def test_a_block_changed_in_place_is_normalized_anew():
    def change(model):
        model.model.layers[0].register_forward_hook(lambda m, a, out: out.add_(1.0))

    model = build("llama")
    twin = copy.deepcopy(model)
    fuse(twin)
    for one in (model, twin):
        change(one)
    with torch.no_grad():
        assert_near([model(TOKENS).logits], [twin(TOKENS).logits])


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("name", ["qwen3", "gemma2"])
def test_checkpointed_blocks_give_the_same_gradients(name, reentrant):
    def change(model):
        model.activation_checkpointing_enable({"use_reentrant": reentrant})
        model.enable_input_require_grads()

    assert_fused_is_same(build(name).train(), change)


@every
def test_generated_tokens_are_the_same(name):
    model = build(name).eval()
    twin = fused_twin(model)
    padded = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1] * 7])
    for options in ({}, {"attention_mask": padded}):
        a, b = (
            one.generate(TOKENS, max_new_tokens=4, do_sample=False, **options)
            for one in (model, twin)
        )
        assert torch.equal(a, b)


def test_attentions_and_hidden_states_are_handed_out():
    model = build("gemma3", attn_implementation="eager")
    twin = fused_twin(model)
    a, b = (one(TOKENS, output_attentions=True, output_hidden_states=True) for one in (model, twin))
    assert len(b.attentions) == 2 and len(b.hidden_states) == 3
    assert_near([*a.attentions, *a.hidden_states], [*b.attentions, *b.hidden_states])


def test_autocast_is_followed():
    model = build("qwen3")
    twin = fused_twin(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_near(train_step(model), train_step(twin), 0.05)


@every
def test_unfusing_gives_the_classes_back(name):
    model = build(name)
    kinds, expected = [type(m) for m in model.modules()], train_step(model)
    fuse(model)
    assert hub.make_fused(kinds[0]) is None
    unfuse(model)
    assert [type(m) for m in model.modules()] == kinds
    assert all(map(torch.equal, expected, train_step(model)))


def test_a_model_that_was_not_fused_keeps_its_rotation(monkeypatch):
    model = build("llama")
    fuse(copy.deepcopy(model))
    seen = calls(monkeypatch, "qk_norm_rope")
    model(TOKENS)
    assert not seen


def test_a_fused_model_can_be_copied_and_pickled():
    model = build("qwen3")
    fuse(model)
    expected = train_step(model)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_near(expected, train_step(twin), 0.0)
    with pytest.raises(AttributeError, match="FusedQwen3Nothing"):
        _ = hub.FusedQwen3Nothing


def test_a_block_that_does_more_in_another_version_stays():
    plain = hf("llama").LlamaDecoderLayer
    more = type(
        "LlamaDecoderLayer", (plain,), {"forward": lambda self, x: self.mlp(x) * self.scale}
    )
    more.__module__ = plain.__module__
    assert hub.make_fused(more) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["qwen3", "gemma2"])
def test_a_fused_model_compiles_to_what_the_plain_one_does(name):
    model = build(name)
    twin = fused_twin(model)
    counts = []

    def backend(graph, _):
        counts[-1] += [str(node.target) for node in graph.graph.nodes if node.op != "placeholder"]
        return graph

    for one in (model, twin):
        counts.append([])
        torch.compiler.reset()
        torch.compile(one, backend=backend, fullgraph=True)(input_ids=TOKENS, use_cache=False)
    assert counts[0] == counts[1]
