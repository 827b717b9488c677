"""Recipes agree with other people's models, with the same weights, forward and gradients."""

import pytest
from peers import distance
from peers_recipes import TWINS, views

from labkit.placements import RECIPES

BY_NAME = {twin.name: twin for twin in TWINS}
# Recipes that no package beside the CPU build of torch has, whole or up to settings.
PEERLESS = set(RECIPES) - {twin.recipe for twin in TWINS}


def test_every_twin_has_its_own_name_and_a_recipe():
    assert len(BY_NAME) == len(TWINS)
    assert {twin.recipe for twin in TWINS} <= set(RECIPES)
    # the main families stand beside a peer; pre and post beside two kinds of code
    assert not PEERLESS & {"pre", "post", "sandwich", "olmo2", "gemma2", "gemma3", "ngpt", "dyt"}
    for recipe in ("pre", "post"):
        assert len({twin.package for twin in TWINS if twin.recipe == recipe}) >= 2


@pytest.mark.parametrize("name", BY_NAME)
def test_a_peer_with_our_weights_computes_our_function(name):
    twin = BY_NAME[name]
    forward, gradient = twin.compare()
    # transformers runs in float32, three blocks deep; x-transformers takes its softmax in float32
    # even for float64; torch stays in float64
    assert forward < twin.tolerance and gradient < 10 * twin.tolerance


def test_the_comparison_sees_a_wrong_weight():
    twin = BY_NAME["ngpt | nGPT"]
    ours, theirs = twin.models()
    views(theirs)["layers.2.1.branch_scale.scale"].mul_(1.05)
    mine, other = twin.run(ours, theirs)
    assert distance(mine, other) > 100 * twin.tolerance
