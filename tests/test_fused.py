"""A fused model equals the original: same parameters, same numbers, other classes.

The kernels run in Triton's interpreter here (tests/conftest.py sees to it).
"""

import copy
import os
import pickle
from collections import Counter
from functools import partial

import pytest
import torch
from each import each, some_quick
from torch import nn
from torch.utils.checkpoint import checkpoint

import labkit.training
from labkit.convert import convert
from labkit.fused import fuse, fuse_temporarily, norms, seam, sums, unfuse
from labkit.model import Departure, ModelConfig
from labkit.placements import RECIPES, PreNorm, recipe
from labkit.training import TrainConfig, train
from tests.kernels import quick

if os.environ.get("TRITON_INTERPRET") == "1":
    quick.install()
# A recipe for each step that is fused, and one that has no kernel.
STEPS = ("none", "pre", "olmo2", "sandwich", "hybrid", "lns", "post", "deepnorm", "ngpt", "highway")
SMALL = {"vocab": 17, "dim": 32, "depth": 2, "heads": 2, "context": 12}


def small(name: str, norm: str = "rms", **others):
    """Make a small model; recipes that require a certain norm keep it."""
    made_for = recipe(name).norm
    return ModelConfig(recipe=name, norm=made_for or norm, **{**SMALL, **others}).build()


def tokens(length: int = 12) -> torch.Tensor:
    return torch.randint(0, 17, (2, length))


def outputs_and_gradients(model: nn.Module, *inputs) -> list[torch.Tensor]:
    model.zero_grad()
    y = model(*inputs)
    weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y.dtype)
    (y * weight).sum().backward()
    return [y.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def assert_same(one: list[torch.Tensor], other: list[torch.Tensor], share: float = 2e-5):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert (a - b).abs().max() <= share * max(1.0, a.detach().abs().max().item())


def fused_twin(model: nn.Module) -> nn.Module:
    twin = copy.deepcopy(model)
    fuse(twin)
    return twin


def assert_fused_is_same(model: nn.Module, *inputs, change=lambda one: None) -> None:
    """Compare a model and its fused twin, after the same change of both."""
    twin = fused_twin(model)
    change(model), change(twin)
    inputs = inputs or (tokens(),)
    assert_same(outputs_and_gradients(model, *inputs), outputs_and_gradients(twin, *inputs))


def calls(monkeypatch, *names: str) -> list[str]:
    """Record which kernels are called, in order."""
    seen: list[str] = []
    for name in names:
        place = seam.get_kernels().add_norm if name == "sum_norm" else seam.get_kernels()
        real = getattr(place, name)

        def noted(*args, name=name, real=real, **kw):
            seen.append(name)
            return real(*args, **kw)

        monkeypatch.setattr(place, name, noted)
    return seen


@pytest.mark.parametrize("name", some_quick(RECIPES, *STEPS))
@each(norm=lambda name: (recipe(name).norm or "rms layer").split())
def test_every_recipe_computes_the_same_fused(name, norm):
    assert_fused_is_same(small(name, norm).train())


@pytest.mark.parametrize("norm", ["rms-llama", "rms-gemma", "dyt", "derf", "batch", "l2", "none"])
def test_every_norm_computes_the_same_fused(norm):
    assert_fused_is_same(small("pre", norm))


def test_fusing_changes_classes_and_nothing_else():
    model = small("pre")
    before = {name: id(p) for name, p in model.named_parameters()}
    state = {name: t.clone() for name, t in model.state_dict().items()}
    kinds = [type(m) for m in model.modules()]
    report = fuse(model)
    assert {name: id(p) for name, p in model.named_parameters()} == before
    assert report.modules["PreNorm"] == 4 and report.modules["RMSNorm"] == 5
    assert isinstance(model.blocks[0].attention, PreNorm)
    assert list(model.state_dict()) == list(state)
    assert fuse(model) == report, "a second call changes nothing"
    unfuse(model)
    assert [type(m) for m in model.modules()] == kinds
    assert all(torch.equal(state[name], t) for name, t in model.state_dict().items())


def test_a_model_of_a_class_of_its_own_is_fused_below_it():
    model = Departure(recipe="ngpt", share=0.25, s_z=10.0, **SMALL).build()
    expected = outputs_and_gradients(model, tokens_ := tokens())
    kind = type(model)
    report = fuse(model)
    assert type(model) is kind and report.modules["SphereStep"] == 4
    assert "DepartedTransformer" not in report.modules
    assert_same(expected, outputs_and_gradients(model, tokens_))


def test_pre_norm_adds_and_normalizes_in_one_kernel(monkeypatch):
    model = small("pre")
    fuse(model)
    seen = calls(monkeypatch, "rms_norm", "sum_norm", "qk_norm_rope")
    model(tokens())
    # The first norm has no sum before it; every other one is made with the sum it reads.
    assert seen == ["rms_norm"] + ["qk_norm_rope", "sum_norm", "sum_norm"] * 2


@pytest.mark.parametrize(
    "name, norm, expected",
    [
        ("sandwich", "rms", ["rms_norm", *["rms_norm_add_norm"] * 4]),
        # Only the last sum is read by a norm, the model's final one.
        ("output", "rms-gemma", [*["rms_norm_add"] * 3, "rms_norm_add_norm"]),
        ("sandwich", "layer", ["layer_norm", *["layer_norm", "sum_norm"] * 4]),
    ],
)
def test_the_norm_of_a_sublayers_output_is_computed_with_the_sum(name, norm, expected, monkeypatch):
    model = small(name, norm)
    fuse(model)
    norms_ = ("rms_norm", "rms_norm_gemma", "layer_norm", "sum_norm")
    seen = calls(monkeypatch, *norms_, "rms_norm_add", "rms_norm_add_norm")
    model(tokens())
    assert seen == expected


def test_norms_of_two_kinds_around_a_sum_are_two_kernels(monkeypatch):
    model = small("sandwich")
    for block in model.blocks:
        block.attention.norm_out.eps = 0.5
    twin = fused_twin(model)
    seen = calls(monkeypatch, "rms_norm_add", "rms_norm_add_norm")
    assert_same([model(t := tokens())], [twin(t)])
    assert seen == ["rms_norm_add", "rms_norm_add_norm"] * 2


@pytest.mark.parametrize("name", ["pre", "post", "qk", "ngpt", "sandwich"])
def test_hooks_see_and_change_what_they_did_without_kernels(name):
    model = small(name)
    twin = fused_twin(model)
    t = tokens()
    seen: dict[str, list[torch.Tensor]] = {"formula": [], "fused": []}
    backward = {"formula": 0, "fused": 0}

    def count(kind, *_):
        backward[kind] += 1

    for kind, one in (("formula", model), ("fused", twin)):
        for path, module in one.named_modules():
            if "norm" in path.rpartition(".")[2] or path.endswith("unit"):
                module.register_forward_pre_hook(lambda module, args: (args[0] + 0.5,))
                module.register_full_backward_hook(partial(count, kind))
                module.register_forward_hook(
                    lambda module, args, output, kind=kind: seen[kind].extend([args[0], output])
                )
    assert_same(outputs_and_gradients(model, t), outputs_and_gradients(twin, t))
    assert_same(seen["formula"], seen["fused"])
    assert backward["formula"] == backward["fused"] > 0


def test_a_forward_of_a_modules_own_is_called():
    def change(model):
        norm = model.blocks[1].attention.norm
        norm.forward = lambda x, of=norm.forward: 2 * of(x)

    assert_fused_is_same(small("pre"), change=change)


class Shifted(norms.norms.RMSNorm):
    def forward(self, x):
        return super().forward(x) + 1


def test_queries_and_keys_keep_norms_of_their_own():
    for change in ("eps", "class", "own gain"):
        model = small("pre", qk_norm="qk rms own") if change == "own gain" else small("qk")
        for block in model.blocks:
            attention = block.attention.sublayer
            if change == "eps":
                attention.norm_k.eps = 1.0
            elif change == "class":
                attention.norm_q = Shifted(16)
            else:
                attention.norm_q.norm = norms.norms.GemmaRMSNorm(16)
                attention.norm_k.norm = norms.norms.GemmaRMSNorm(16)
        assert_fused_is_same(model)


@pytest.mark.parametrize("name", ["pre", "post", "deepnorm", "ngpt", "hybrid", "sandwich"])
def test_inference_mode_and_autocast_give_what_formulas_give(name, monkeypatch):
    model = small(name, "layer" if name == "deepnorm" else "rms")
    twin = fused_twin(model)
    t = tokens()
    with torch.inference_mode():
        assert_same([model(t)], [twin(t)])
    named = {"deepnorm": "deep_norm", "ngpt": "ngpt_update", "sandwich": "rms_norm_add_norm"}
    sums = named.get(name, "sum_norm")
    seen = calls(monkeypatch, sums)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        assert_same([model(t).float()], [twin(t).float()], 0.05)
    assert len(seen) >= 3, "narrow writes to a wide stream have their kernel too"


def test_what_was_made_ready_does_not_pile_up():
    model = small("pre", depth=4)
    fuse(model)
    left = []
    model.final_norm.register_forward_hook(lambda *_: None)  # so the last result is not made
    for block in model.blocks:
        block.register_forward_hook(lambda m, args, out: left.append(len(args[1].ready)))
    with torch.no_grad():
        model(tokens())
    assert left == [1, 1, 1, 0], "one result waits at the end of a block, for the next one"


def test_a_new_norm_is_the_one_that_is_prepared(monkeypatch):
    model = small("pre")
    fuse(model)
    model.blocks[1].attention.norm = norms.FusedRMSNorm(32)
    seen = calls(monkeypatch, "rms_norm", "sum_norm")
    model(tokens())
    assert seen == ["rms_norm"] + ["sum_norm"] * 4


def test_a_block_alone_is_linked_within():
    model = small("pre")
    assert fuse(model.blocks[0]).modules == {"PreNorm": 1, "RMSNorm": 2, "Attention": 1}


def test_fusing_for_a_while_leaves_what_was_fused_and_nothing_else():
    model = small("pre")
    fuse(model.final_norm)
    with fuse_temporarily(model):
        assert isinstance(model.blocks[0].attention.norm, norms.FusedRMSNorm)
    assert isinstance(model.final_norm, norms.FusedRMSNorm)
    assert not isinstance(model.blocks[0].attention.norm, norms.FusedRMSNorm)


def test_a_fused_model_works_where_triton_is_missing(monkeypatch):
    model = small("pre")
    t = tokens()
    y = model(t)
    fuse(model)
    monkeypatch.setattr(seam, "_package", None)
    monkeypatch.setattr(seam, "explain_missing", lambda: "Triton cannot be imported")
    assert torch.equal(model(t), y)


def test_a_stream_changed_in_place_is_normalized_anew():
    model = small("pre")
    twin = fused_twin(model)
    for one in (model, twin):
        one.blocks[0].register_forward_hook(lambda m, a, out: out.add_(1.0))
    t = tokens()
    with torch.no_grad():
        assert_same([model(t)], [twin(t)])


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_blocks_give_the_same_gradients(reentrant):
    model = small("pre", depth=3)
    twin = fused_twin(model)
    for block in twin.blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=reentrant)
    t = tokens()
    assert_same(outputs_and_gradients(model, t), outputs_and_gradients(twin, t))


def test_a_fused_model_can_be_copied_and_pickled():
    model = small("pre")
    fuse(model)
    t = tokens()
    y = model(t)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin(t), y)
        first, second = twin.blocks[0].attention, twin.blocks[0].feed_forward
        assert getattr(*first.follower[:2]) is second.norm, "the copy prepares its own norms"


def test_padding_and_two_stacks():
    padding = torch.ones(2, 12, dtype=torch.bool)
    padding[0, 8:] = False
    assert_fused_is_same(small("pre", kind="encoder-decoder"), tokens(), tokens(), None, padding)


def test_what_the_kernels_do_not_take_the_formulas_do_and_one_warning_says_so(monkeypatch):
    monkeypatch.setattr(seam, "_warned", set())
    model = small("deepnorm", "layer").double()
    twin = fused_twin(model)
    seen = calls(monkeypatch, "layer_norm", "deep_norm", "qk_norm_rope")
    t = tokens()
    with pytest.warns(UserWarning, match="formulas for float64") as said:
        assert_same(outputs_and_gradients(model, t), outputs_and_gradients(twin, t), 1e-13)
    assert len(said) == 1 and not seen


def test_a_sum_is_not_computed_with_a_norm_whose_weight_is_sharded(monkeypatch):
    """FSDP2 gathers it just before the norm itself runs, so there is nothing to warn about."""
    monkeypatch.setattr(seam, "_warned", set())
    norm = norms.FusedRMSNorm(32)
    norm._parameters["weight"] = torch.ones(32).as_subclass(type("Sharded", (torch.Tensor,), {}))
    assert sums.sum_norm(norm, torch.ones(2, 32), torch.ones(2, 32)) is None


def test_norms_of_other_models_are_fused_too(monkeypatch):
    model = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
    twin = copy.deepcopy(model)
    assert fuse(twin).modules == {"LayerNorm": 2}
    seen = calls(monkeypatch, "layer_norm")
    x = torch.randn(2, 5, 32)
    assert_same(outputs_and_gradients(model, x), outputs_and_gradients(twin, x))
    assert seen == ["layer_norm"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pre", "ngpt"])
def test_a_fused_model_compiles_to_what_the_plain_one_does(name):
    model = small(name, depth=1)
    graphs = []

    def keep(graph, _):
        graph.graph.eliminate_dead_code()
        nodes = [node for node in graph.graph.nodes if node.op != "placeholder"]
        graphs.append(Counter(str(node.target) for node in nodes))
        return graph

    for one in (model, fused_twin(model)):
        torch.compiler.reset()
        torch.compile(one, fullgraph=True, backend=keep)(tokens())
    assert len(graphs) == 2 and graphs[0] == graphs[1]


def test_the_gradient_of_a_gradient_is_refused_with_the_way_out():
    norm = norms.FusedRMSNorm(8)
    x = torch.randn(3, 8, requires_grad=True)
    (slope,) = torch.autograd.grad(norm(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        slope.sum().backward()


def test_without_kernels_one_warning_says_why_and_formulas_work(monkeypatch):
    monkeypatch.setattr(seam, "explain_missing", lambda: "there is no CUDA device")
    model = small("pre")
    kinds = [type(m) for m in model.modules()]
    with pytest.warns(UserWarning, match="no CUDA device") as said:
        report = fuse(model)
    assert len(said) == 1 and str(report) == "formulas: there is no CUDA device"
    assert [type(m) for m in model.modules()] == kinds


def test_converting_a_fused_model_gives_formulas_of_the_new_norm_or_leaves_it_fused():
    model = small("pre")
    fuse(model)
    with pytest.raises(ValueError, match="no-such"):
        convert(model, {"RMSNorm": "no-such"})
    assert isinstance(model.final_norm, norms.FusedRMSNorm)
    convert(model, {"RMSNorm": "layer"})
    assert not any(isinstance(m, norms.FusedRMSNorm) for m in model.modules())
    model(tokens())


def batches():
    draw = torch.Generator().manual_seed(0)
    while True:
        t = torch.randint(0, 17, (4, 13), generator=draw)
        yield t[:, :-1], t[:, 1:]


def test_training_on_a_gpu_uses_the_kernels_and_the_record_says_so(monkeypatch):
    model = small("pre")
    formula, choice = copy.deepcopy(model), copy.deepcopy(model)
    config = TrainConfig(steps=4)
    plain = train(formula, batches(), config, progress=False)
    assert plain.provenance["norms"] == "formulas"
    monkeypatch.setattr(labkit.training, "on_gpu", lambda model: True)
    kinds = [type(m) for m in model.modules()]
    fused = train(model, batches(), config, progress=False)
    assert fused.provenance["norms"].startswith("normkernels ")
    assert "5 RMSNorm" in fused.provenance["norms"]
    assert fused.losses == pytest.approx(plain.losses, rel=1e-5)
    assert [type(m) for m in model.modules()] == kinds, "afterwards the model is as it came"
    chosen = train(choice, batches(), config, progress=False, kernels=False)
    assert chosen.provenance["norms"] == "formulas" and chosen.losses == plain.losses
