"""Norms agree with other people's, with the same weights."""

import torch
from cases import CASES
from each import each
from peers_norms import DIM, DTYPES, PARITY, PEERLESS, measure

from labkit.norms import NORMS, facts

ROWS = {row.name: row for row in PARITY}


def test_every_norm_stands_beside_a_peer_or_says_why_not():
    invented = {key for key in NORMS if facts(key).source.startswith("own: ")}
    torchs = {key for key, case in CASES.items() if case.torch_module}
    assert len(ROWS) == len(PARITY)
    assert set(NORMS) - {row.norm for row in PARITY} - torchs == set(PEERLESS) | invented


@each(name=ROWS, dtype=DTYPES)
def test_a_peer_agrees_but_for_roundings(name, dtype):
    row, found = ROWS[name], measure(ROWS[name], DTYPES[dtype])
    assert found.same_bits or dtype not in row.bits
    if dtype == "float32":
        # it rounds at 1.2e-7; a statistic sums 40 to 150 terms, a gain's gradient as many
        assert found.forward < 1e-6 and found.gradient < 3e-6
    else:
        assert found.forward <= 2.0**-7


# Peers that compute in float64 when asked to.
WIDE = [name for name, row in ROWS.items() if row.package != "transformers"]


@each(name=WIDE)
def test_a_peer_agrees_in_float64(name):
    found = measure(ROWS[name], torch.float64)
    # weights are drawn in float32; ScaleNorm's g is divided by sqrt(d) there, the others copied
    tolerance = 1e-6 if ROWS[name].scale else 1e-14 * DIM
    assert found.forward < tolerance and found.gradient < 10 * tolerance
