"""Norms beside other people's, on the same weights; where they differ, who is right by the paper.

`python tests/peers_table.py` prints the table of largest differences that these tests bound.
"""

import pytest
import torch
import torch.nn.functional as F
from each import each
from peers import hf, peer, show
from peers_norms import DIM, HEAD, ONE_PEER, PARITY, PEERLESS, measure, table, transformers_norm
from torch import nn

from labkit.norms import NORMS, facts, make_norm
from labkit.norms.dynamic_tanh import DynamicTanh
from labkit.norms.fix_norm import FixNorm
from labkit.norms.rms_variants import GemmaRMSNorm, LlamaRMSNorm, T5RMSNorm

ROWS = {row.name: row for row in PARITY}
XT = "x_transformers.x_transformers"


def test_every_norm_stands_beside_two_peers_or_says_why_not():
    counts = {key: sum(row.norm == key for row in PARITY) for key in NORMS}
    invented = {key for key in NORMS if facts(key).source.startswith("own: ")}
    assert len(ROWS) == len(PARITY)
    assert {key for key, count in counts.items() if count == 0} == set(PEERLESS) | invented
    assert {key for key, count in counts.items() if count == 1} == ONE_PEER


@each(name=ROWS)
def test_a_peer_agrees_in_float32(name):
    found = measure(ROWS[name], torch.float32)
    # float32 rounds at 1.2e-7; a statistic sums 40 to 150 terms, a gain's gradient as many
    assert found.forward < 1e-6 and found.gradient < 3e-6
    assert found.same_bits or "float32" not in ROWS[name].bits


@each(name=ROWS)
def test_a_peer_agrees_in_bfloat16_but_for_roundings(name):
    row, found = ROWS[name], measure(ROWS[name], torch.bfloat16)
    ulp = 2.0**-7
    assert found.same_bits or "bfloat16" not in row.bits
    assert found.forward <= ulp
    # One rounding errs by half an ulp at most; the orders of Llama and T5 round twice.
    roundings = 2 if row.norm in ("rms-llama", "rms-t5") else 1
    assert found.our_error[0] <= roundings * ulp / 2 * 1.001
    if roundings == 1:  # no bfloat16 number is nearer than the rounded true one
        assert found.our_error[0] <= found.their_error[0] + 1e-6
    assert found.our_error[1] <= 2 * ulp


# Peers that compute in float64 when asked to.
WIDE = [name for name, row in ROWS.items() if row.package != "transformers"]


@each(name=WIDE)
def test_a_peer_agrees_in_float64(name):
    row = ROWS[name]
    found = measure(row, torch.float64)
    # weights are drawn in float32; ScaleNorm's g is divided by sqrt(d) there, the others copied
    tolerance = 1e-6 if row.scale else 1e-14 * DIM
    assert found.forward < tolerance and found.gradient < 10 * tolerance


def test_the_parity_table_has_every_row():
    rows = table()
    assert rows[0] == HEAD and len(rows) == 1 + 2 * len(PARITY)
    assert show(rows).count("\n") == len(rows) - 1


# --- where a peer differs ---


def formula_rms(x: torch.Tensor) -> torch.Tensor:
    """The paper's Eq. 4, which has no eps."""
    x = x.double()
    return torch.stack([row / (sum(v * v for v in row) / len(row)) ** 0.5 for row in x])


def test_x_transformers_rms_norm_has_no_eps_in_the_root():
    """The paper prints none, so there x-transformers is nearer to it; Llama's eps is a choice."""
    norm, x = peer(XT).RMSNorm(DIM), 1e-4 * torch.randn(3, DIM)
    theirs, ours = norm(x).detach(), make_norm("rms", DIM, eps=1e-6)(x).detach()
    torch.testing.assert_close(theirs.double(), formula_rms(x), rtol=1e-6, atol=1e-6)
    # r / sqrt(r² + 1e-6) with r near 1e-4 is near 0.1
    size = x.double().square().mean(-1).sqrt()
    expected = size / (size**2 + 1e-6).sqrt()
    torch.testing.assert_close(ours.double().square().mean(-1).sqrt(), expected)
    assert (expected < 0.15).all()


@each(
    twin=[
        ("llama", "LlamaRMSNorm", "rms-llama"),
        ("gemma", "GemmaRMSNorm", "rms-gemma"),
        ("t5", "T5LayerNorm", "rms-t5"),
        ("olmo2", "Olmo2RMSNorm", "rms"),
        ("cohere", "CohereLayerNorm", "layer"),
    ]
)
def test_transformers_computes_float64_in_float32(twin):
    model, name, key = twin
    """Ours stays in float64, as the input asks; theirs fails gradcheck."""
    x = torch.randn(3, DIM, dtype=torch.float64)
    theirs = getattr(hf(model), name)(DIM, eps=0.0).double()(x)
    ours = make_norm(key, DIM, eps=0.0).double()(x)
    expected = formula_rms(x - x.mean(-1, keepdim=True) if key == "layer" else x)
    assert (ours - expected).abs().max() < 1e-14
    assert (theirs - expected).abs().max() > 1e-9


def test_coheres_layer_norm_is_layer_norm_without_bias_up_to_rounding():
    norm, x = hf("cohere").CohereLayerNorm(DIM), torch.randn(64, DIM)
    theirs, native = norm(x), make_norm("layer", DIM, bias=False)(x)
    assert not torch.equal(theirs, native)
    torch.testing.assert_close(theirs, native, rtol=1e-6, atol=1e-6)  # a few ulp at size 3


@pytest.mark.parametrize(
    ("kind", "result"),
    [(LlamaRMSNorm, torch.float32), (T5RMSNorm, torch.float32), (GemmaRMSNorm, torch.bfloat16)],
)
def test_a_float32_gain_on_bfloat16_input_gives_each_orders_dtype(kind, result):
    peers = {
        LlamaRMSNorm: ("llama", "LlamaRMSNorm"),
        T5RMSNorm: ("t5", "T5LayerNorm"),
        GemmaRMSNorm: ("gemma", "GemmaRMSNorm"),
    }
    x, weight = torch.randn(4, DIM).bfloat16(), torch.randn(DIM)
    ours, theirs = kind(DIM), transformers_norm(*peers[kind])()
    for norm in (ours, theirs):
        norm.weight.data = weight
    assert ours(x).dtype == theirs(x).dtype == result
    assert torch.equal(ours(x), theirs(x))


def test_llamas_and_gemmas_orders_differ_by_one_rounding_in_bfloat16():
    x, gain = torch.randn(512, DIM).bfloat16(), (1 + torch.randn(DIM)).bfloat16()
    llama = hf("llama").LlamaRMSNorm(DIM).bfloat16()
    olmo = hf("olmo2").Olmo2RMSNorm(DIM).bfloat16()
    llama.weight.data = olmo.weight.data = gain
    differ = (llama(x) != olmo(x)).float().mean()
    assert 0.1 < differ < 0.5
    # where the gain is 1 nothing is rounded twice
    llama.weight.data = olmo.weight.data = torch.ones_like(gain)
    assert torch.equal(llama(x), olmo(x))


def test_muse_sparks_gain_is_rounded_before_it_is_used():
    """Gemma adds 1 in float32; MuseSpark's centred norm adds it in the weight's dtype."""
    x, weight = torch.randn(64, DIM).bfloat16(), (0.01 * torch.randn(DIM)).bfloat16()
    gemma, muse = hf("gemma").GemmaRMSNorm(DIM), hf("muse_spark").MuseSparkTextCenteredRMSNorm(DIM)
    ours = make_norm("rms-gemma", DIM)
    for norm in (gemma, muse, ours):
        norm.weight.data = weight
    truth = formula_rms(x) * (1 + weight.double())
    assert torch.equal(ours(x), gemma(x)) and not torch.equal(ours(x), muse(x))
    assert (muse(x) - truth).abs().mean() > 1.1 * (ours(x) - truth).abs().mean()


def test_llama_4s_l2_norm_is_an_rms_norm_without_gain():
    """Its name says L2, its length is sqrt(d): RMSNorm, with eps in the root."""
    x = torch.randn(3, DIM)
    theirs = hf("llama4").Llama4TextL2Norm(eps=1e-6)(x)
    assert torch.equal(theirs, make_norm("rms-llama", DIM, eps=1e-6)(x))
    torch.testing.assert_close(theirs.norm(dim=-1), torch.full((3,), DIM**0.5))
    torch.testing.assert_close(make_norm("l2", DIM)(x).norm(dim=-1), torch.ones(3))


def test_image_gpts_layer_norm_is_rms_norm_and_overflows_in_float16():
    """It squares in the input's dtype: from 256 on the square is infinite, the result 0."""
    norm = hf("imagegpt").ImageGPTLayerNorm((DIM,), eps=1e-5)
    norm.weight.data = torch.ones(DIM)
    x = torch.randn(3, DIM)
    ours = make_norm("rms", DIM, eps=1e-5)
    torch.testing.assert_close(norm(x), ours(x), rtol=1e-6, atol=1e-6)
    large = (300 * x).half()
    assert (norm.half()(large) == 0).all()
    torch.testing.assert_close(
        ours.half()(large).double(), formula_rms(large), rtol=1e-3, atol=1e-3
    )


def test_nemotrons_layer_norm_stores_gain_minus_one():
    norm, ours = hf("nemotron").NemotronLayerNorm1P(DIM), make_norm("layer", DIM)
    norm.weight.data = torch.randn(DIM)
    ours.weight.data = 1 + norm.weight.data
    x = torch.randn(3, DIM)
    assert torch.equal(norm(x), ours(x))


def test_x_transformers_scale_norm_has_another_least_length():
    """The paper's code divides by max(|x|, 1e-5), as ours; x-transformers' floor is 1e-12."""
    x = torch.zeros(1, DIM)
    x[0, 0] = 1e-7
    ours, theirs = make_norm("scale", DIM)(x), peer(XT).ScaleNorm(DIM)(x)
    assert ours[0, 0].item() == pytest.approx(DIM**0.5 * 1e-7 / 1e-5, rel=1e-5)
    assert theirs[0, 0].item() == pytest.approx(DIM**0.5, rel=1e-5)


def test_dynamic_tanh_starts_at_one_half_and_derf_too():
    """As the papers have it; x-transformers starts DyT at 1."""
    assert DynamicTanh(4).alpha.item() == 0.5 == make_norm("derf", 4).alpha.item()
    assert peer(XT).DynamicTanh(4).pre_tanh_scale.item() == 1.0
    assert peer(XT).Derf(4).alpha.item() == 0.5


def test_a_bfloat16_slope_keeps_its_gradient_here():
    """x-transformers sums alpha's gradient in bfloat16 products; ours in float32."""
    found = measure(ROWS["dyt | DynamicTanh"], torch.bfloat16)
    assert found.our_error[1] < 0.01 < 0.05 < found.their_error[1]


def test_unit_embeddings_are_those_of_x_transformers_times_sqrt_d():
    """FixNorm's paper multiplies the unit rows by sqrt(d); x-transformers hands out unit rows."""
    theirs, ours = peer(XT).TokenEmbedding(DIM, 11, l2norm_embed=True), FixNorm(11, DIM)
    ours.weight.data = theirs.emb.weight.data.clone()
    tokens = torch.arange(11)
    torch.testing.assert_close(ours(tokens), DIM**0.5 * theirs(tokens), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(ours.unit_rows(), F.normalize(theirs.emb.weight), rtol=1e-6, atol=0)


# --- Liger-Kernel: GPU kernels, but their modules can be made and their orders read ---

LIGER = {
    "LigerRMSNorm": ("rms_norm", "rms-llama"),
    "LigerRMSNormForGemma": ("rms_norm", "rms-gemma"),
    "LigerLayerNorm": ("layer_norm", "layer"),
    "LigerGroupNorm": ("group_norm", "group"),
    "LigerDyT": ("dyt", "dyt"),
}


def liger(name: str, module: str) -> nn.Module:
    kind = getattr(peer(f"liger_kernel.transformers.{module}"), name)
    return kind(DIM, 6) if name == "LigerGroupNorm" else kind(DIM)


def test_liger_starts_its_parameters_as_ours_do():
    for name, (module, key) in LIGER.items():
        theirs, ours = liger(name, module), make_norm(key, DIM)
        values = sorted(p.detach().flatten()[0].item() for p in theirs.parameters())
        assert values == sorted(p.detach().flatten()[0].item() for p in ours.parameters()), name


@each(name=LIGER)
def test_liger_agrees_where_its_kernels_run(name):
    if not torch.cuda.is_available():
        pytest.skip("Liger-Kernel's norms are Triton kernels and run on a GPU only")
    module, key = LIGER[name]
    theirs, ours = liger(name, module).cuda(), make_norm(key, DIM).cuda()
    if key == "group":
        ours = nn.GroupNorm(6, DIM).cuda()
    x = torch.randn(4, DIM, 6, device="cuda") if key == "group" else torch.randn(4, DIM).cuda()
    # a fused kernel sums in another order
    torch.testing.assert_close(theirs(x.clone()), ours(x), rtol=1e-5, atol=1e-5)
