"""Norms beside other people's, on the same weights; where they differ, who is right by the paper.

`python tests/peers_table.py` prints the table of largest differences that these tests bound.
"""

import pytest
import torch
import torch.nn.functional as F
from each import each
from peers import peer, show
from peers_norms import DIM, HEAD, ONE_PEER, PARITY, PEERLESS, measure, table
from torch import nn

from labkit.norms import NORMS, facts, make_norm
from labkit.norms.fix_norm import FixNorm

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
