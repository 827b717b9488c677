"""What each recipe learns and where it starts; constants that a forward pass measures."""

import itertools
import math

import pytest
import torch
from each import each
from recipe_equations import EQUATIONS
from recipe_reference import Reference
from torch import Tensor

from labkit.context import Context
from labkit.model import ModelConfig, Transformer
from labkit.placements import RECIPES
from labkit.placements.scaled import Admin
from labkit.training import TrainConfig, train

TOKENS = torch.randint(11, (3, 6), generator=torch.Generator().manual_seed(7))
SOURCE = torch.randint(11, (3, 5), generator=torch.Generator().manual_seed(8))
DIM, DEPTH = 16, 4


def make(recipe: str, kind: str = "decoder", **change) -> Transformer:
    wanted = {"dim": DIM, "heads": 2, "vocab": 11, "depth": DEPTH, "hidden": 24}
    return Transformer(ModelConfig(recipe=recipe, kind=kind, **{**wanted, **change}))


# A letter for each thing that a block or a model learns beside its matrices: where, its size, its
# first value.
LETTERS = {
    "a": ("attention.norm.weight", DIM, 1.0),
    "A": ("attention.norm_out.weight", DIM, 1.0),
    "f": ("feed_forward.norm.weight", DIM, 1.0),
    "F": ("feed_forward.norm_out.weight", DIM, 1.0),
    "q": ("attention.sublayer.norm_q.weight", DIM // 2, 1.0),
    "k": ("attention.sublayer.norm_k.weight", DIM // 2, 1.0),
    "v": ("attention.sublayer.norm_v.weight", DIM // 2, 1.0),
    "c": ("attention.sublayer.norm_c.weight", DIM // 2, 1.0),
    "i": ("feed_forward.sublayer.inner_norm.weight", 24, 1.0),
    "h": ("attention.sublayer.head_gain", 2, 1.0),
    "λ": ("feed_forward.scale", DIM, 1.0),
    "ω": ("attention.omega", DIM, 1.0),
    "Ω": ("feed_forward.omega", DIM, 1.0),
    "T": ("attention.bias", DIM, -2.0),
    "t": ("feed_forward.bias", DIM, -2.0),
    # nGPT stores 0.05 and 1 at the size 1/sqrt(d)
    "s": ("attention.alpha.weight", DIM, DIM**-0.5),
    "S": ("feed_forward.alpha.weight", DIM, DIM**-0.5),
    "r": ("attention.sublayer.s_qk.weight", DIM, DIM**-0.5),
    "u": ("feed_forward.sublayer.s_uv.weight", 48, 1.0),
    "+": ("final_norm.weight", DIM, 1.0),
    "e": ("embedding_norm.weight", DIM, 1.0),
    "d": ("embedding_scale", 1, DIM**0.5),
    "z": ("s_z.weight", 11, DIM**-0.5),
}
# recipe: (its last block, around the blocks, its first block where that is another)
LEARNED = {
    "none": ("", ""),
    "post": ("af", ""),
    "pre": ("af", "+"),
    "output": ("af", "+"),
    "olmo2": ("afqk", "+"),
    "qk": ("afqk", "+"),
    "sandwich": ("aAfF", "+"),
    "peri": ("aAfF", "+e"),
    "gemma2": ("aAfF", "+"),
    "gemma3": ("aAfFqk", "+"),
    "deepnorm": ("af", ""),
    "keel": ("aAfF", "", "afF"),
    "admin": ("afωΩ", ""),
    "b2t": ("af", ""),
    "resi-dual": ("af", "+"),
    "realformer": ("af", ""),
    "sub-ln": ("afci", "+"),
    "normformer": ("aAfihλ", "+"),
    "mix-ln": ("af", "+"),
    "lns": ("af", "+"),
    "hybrid": ("fqkv", "+"),
    "hybrid*": ("fqkv", "+", "afqkv"),
    "first-qkv-pre": ("fqkv", "+"),
    "embed-norm": ("fqkv", "+e"),
    "qkvc-post": ("fqkvc", "+"),
    "qkc-post": ("fqkc", "+"),
    "qk-post": ("fqk", "+"),
    "kv-post": ("fkv", "+"),
    "kc-post": ("fkc", "+"),
    "pre-qkv-post": ("afqkv", "+"),
    "pre-qkv-pre": ("afqkv", "+"),
    "pre-qk-pre": ("afqk", "+"),
    "qkv-pre": ("fqkv", "+"),
    "post-pre": ("af", "+"),
    "pre-post": ("af", "+"),
    "overwritten": ("af", "+"),
    "ngpt": ("sSru", "z"),
    "dyt": ("af", "+d"),
    "derf": ("af", "+d"),
    "resnet-v1": ("af", ""),
    "resnet-v2": ("af", "+"),
    "highway": ("Tt", ""),
}


def test_every_recipe_says_what_it_learns():
    assert set(LEARNED) == set(RECIPES)


@each(name=RECIPES)
def test_a_recipe_learns_its_vectors_and_starts_them_where_it_should(name):
    last, outside, *first = LEARNED[name]
    blocks = [*(first or [last]), *[last] * (DEPTH - 1)]
    expected = {
        f"{f'blocks.{i}.' if letter not in '+edz' else ''}{LETTERS[letter][0]}": letter
        for i, block in enumerate([*blocks, outside])
        for letter in block
    }
    model = make(name)
    extra = {"alpha", "bias", "shift"} if name in ("dyt", "derf") else set()
    actual = {
        path: parameter
        for path, parameter in model.named_parameters()
        if parameter.ndim < 2 and not {path.rpartition(".")[2]} & extra
    }
    assert set(actual) == set(expected)
    zero_based = RECIPES[name].norm == "rms-gemma"  # its gain is 1 + weight
    for path, letter in expected.items():
        _, size, start = LETTERS[letter]
        if (name == "olmo2" and letter in "qk") or (name == "sub-ln" and letter == "c"):
            size = DIM  # over all heads at once
        if zero_based and path.endswith("weight") and ("norm" in path):
            start = 0.0
        # one float32 value, from the same formula
        assert actual[path].numel() == size, path
        assert actual[path].flatten().tolist() == pytest.approx([start] * size), path


@each(
    made=[
        ("dyt", 64, (1.0, 1.0)),
        ("dyt", 1024, (1.0, 1.0)),
        ("dyt", 2048, (1.0, 0.5)),
        ("dyt", 4096, (0.8, 0.2)),
        ("dyt", 8192, (0.2, 0.05)),
        ("derf", 64, (1.0, 1.0)),
        ("derf", 4096, (1.0, 1.0)),
    ]
)
def test_the_slopes_start_by_width_and_apart_for_attention(made):
    recipe, dim, first = made
    assert ModelConfig(recipe=recipe, dim=dim).alphas == first


@pytest.mark.parametrize("recipe", ["dyt", "derf"])
def test_each_squash_has_a_slope_of_its_own(recipe):
    model = make(recipe, "encoder-decoder", depth=2, alpha=(0.3, 0.7))
    slopes = {n: p.item() for n, p in model.named_parameters() if n.endswith(".alpha")}
    # attention, cross-attention and feed-forward of two blocks, two blocks, two ends
    assert len(slopes) == 2 * 3 + 2 * 2 + 2
    for path, slope in slopes.items():
        assert slope == pytest.approx(0.3 if "attention" in path else 0.7), path
    shifts = [p for n, p in model.named_parameters() if n.endswith((".shift", ".bias"))]
    assert not any(shift.any() for shift in shifts)


def test_gemma_2_bounds_attention_and_output():
    model = make("gemma2").double()
    with torch.no_grad():
        model.output.weight.mul_(1e3)
        for name, parameter in model.named_parameters():
            if name.endswith((".q.weight", ".k.weight")):
                parameter.mul_(30)  # logits of several hundred, far above the bound of 50
    logits, expected = model(TOKENS), Reference(EQUATIONS["gemma2"], model).logits(TOKENS)
    torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-9)
    assert 29 < logits.abs().max() <= 30
    free = make("gemma2", softcap=1e9, logit_softcap=1e9).double()
    free.load_state_dict(model.state_dict())
    assert free(TOKENS).abs().max() > 300
    assert make("gemma3").config.attention_cap is None


def writes(model: Transformer, *inputs: Tensor) -> dict[str, list[float]]:
    """Measure Var f of every sublayer in one pass with ω = 1, step by step, by the equation."""
    found: dict[str, list[float]] = {}
    memory = None
    for stack, tokens in zip(("encoder", "blocks")[-len(inputs) :], inputs[::-1], strict=True):
        x = model.embedding.weight[tokens] * DIM**0.5
        context = Context(model.get_buffer("angles")[: tokens.shape[1]], memory=memory)
        for step in (m for m in model.get_submodule(stack).modules() if isinstance(m, Admin)):
            f = step.sublayer(x, context)
            found.setdefault(stack, []).append(((f - f.mean()) ** 2).mean().item())
            x = step.norm(x + f)
        memory = x
    return found


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder-decoder"])
def test_admin_weighs_the_skip_by_what_earlier_sublayers_wrote(kind):
    model = make("admin", kind).double()
    inputs = (TOKENS, SOURCE) if kind == "encoder-decoder" else (TOKENS,)
    expected = {
        stack: [math.sqrt(1 + sum(variances[:i])) for i in range(len(variances))]
        for stack, variances in writes(model, *inputs).items()
    }
    for _ in range(2):  # a second profile starts from ω = 1 again
        model.before_training(*inputs)
        for stack, omegas in expected.items():
            steps = [m for m in model.get_submodule(stack).modules() if isinstance(m, Admin)]
            for step, omega in zip(steps, omegas, strict=True):
                # float64; the same sums in another order
                assert step.omega.tolist() == pytest.approx([omega] * DIM, rel=1e-9)
    assert expected["blocks"][0] == 1 < expected["blocks"][1]


def test_training_profiles_admin_on_its_first_batch():
    model = make("admin")
    profiled = make("admin")
    profiled.load_state_dict(model.state_dict())
    profiled.before_training(TOKENS)
    # a step so small that it moves no float32 near 1
    train(model, itertools.repeat((TOKENS, TOKENS)), TrainConfig(steps=1, lr=1e-12), progress=False)
    for (name, one), two in zip(model.named_parameters(), profiled.parameters(), strict=True):
        torch.testing.assert_close(one, two, msg=lambda m, n=name: f"{n}: {m}")


def test_resi_dual_ends_on_the_stream_plus_the_norm_of_all_writes():
    model = make("resi-dual").double()
    written = []
    for block in model.blocks:
        for half in ("attention", "feed_forward"):
            block.get_submodule(half).sublayer.register_forward_hook(
                lambda module, args, y: written.append(y)
            )
    ends = []
    model.output.register_forward_pre_hook(lambda module, args: ends.append(args[0]))
    streams = []
    model.blocks[-1].register_forward_hook(lambda module, args, y: streams.append(y))
    model(TOKENS)
    total = model.embed(TOKENS) + sum(written)
    r = total / (total**2).mean(-1, keepdim=True).sqrt()
    # float64: two orders of one sum
    torch.testing.assert_close(ends[0], streams[0] + r, rtol=1e-10, atol=1e-12)
    assert len(written) == 2 * DEPTH
