"""Few examples: every batch contains all of them, in a new order; the number selects them."""

from itertools import islice

import pytest
import torch

from labkit.corpora import Digits, FewDigits, Points

SMALL = {
    "digits": FewDigits(images=12, draw=3),
    "rings": Points("rings", count=12, draw=3),
    "random": Points("random", count=12, draw=3),
}


def list_pairs(batch):
    """List the examples of a batch with their classes, in sorted order."""
    inputs, targets = batch
    return sorted((*x.flatten().tolist(), int(y)) for x, y in zip(inputs, targets, strict=True))


@pytest.mark.parametrize("name", SMALL)
def test_every_batch_is_the_whole_training_set_in_an_order_of_its_own(name):
    corpus = SMALL[name].load()
    first, second = islice(corpus.train(0), 2)
    assert list_pairs(first) == list_pairs(second) == list_pairs(corpus.whole)
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(first[0], next(corpus.train(1))[0])


@pytest.mark.parametrize("name", SMALL)
def test_the_draw_says_which_examples_and_the_seed_does_not(name):
    config = SMALL[name]
    again, other = config.load(), type(config)(**{**vars(config), "draw": 4}).load()
    assert list_pairs(next(again.train(9))) == list_pairs(config.load().whole)
    assert list_pairs(other.whole) != list_pairs(again.whole)


def test_few_digits_are_the_first_that_digits_would_draw():
    images, classes = next(Digits(batch=128).load().train(7))
    whole = FewDigits(images=128, draw=7).load().whole
    assert torch.equal(whole[0], images) and torch.equal(whole[1], classes)


def test_few_digits_hold_out_every_image_that_digits_hold_out():
    ours, theirs = FewDigits(images=1197).load(), Digits(batch=100).load()
    for split, count in (("validation", 200), ("test", 400)):
        ((images, classes),) = ours.held_out[split]
        assert len(images) == count
        for what, part in ((0, images), (1, classes)):
            assert torch.equal(part, torch.cat([one[what] for one in theirs.held_out[split]]))
    trained = {tuple(row) for row in ours.whole[0].flatten(1).tolist()}
    for ((images, _),) in ours.held_out.values():
        assert not trained & {tuple(row) for row in images.flatten(1).tolist()}


def test_rings_lie_at_their_radii_and_the_middle_one_is_another_class():
    (points, classes), radii = Points("rings", count=3000).load().whole, torch.arange(3) + 0.5
    radius = points.norm(dim=1).view(-1, 3)  # ring by ring: a column each
    assert torch.allclose(radius.mean(0), radii, atol=0.02)
    # The innermost is folded at 0: a point at a radius below it stands on the other side.
    assert torch.allclose(radius[:, 1:].std(0), torch.tensor([0.2, 0.2]), atol=0.01)
    assert classes.view(-1, 3).unique(dim=0).tolist() == [[0, 1, 0]]
    centre = torch.nn.functional.normalize(points).view(-1, 3, 2).mean(0)
    assert centre.abs().max() < 0.08  # all the way round


def test_random_classes_take_turns_among_normal_points():
    points, classes = Points("random", count=4000).load().whole
    assert classes.tolist() == [0, 1] * 2000
    assert torch.allclose(points.std(0), torch.ones(2), atol=0.05)
    means = torch.stack([points[classes == c].mean(0) for c in (0, 1)])
    assert means.abs().max() < 0.1  # neither class lies elsewhere


@pytest.mark.parametrize("name", ["rings", "random"])
def test_other_points_are_held_out(name):
    corpus = SMALL[name].load()
    parts = [corpus.whole, *(part for (part,) in corpus.held_out.values())]
    points = [tuple(point) for inputs, _ in parts for point in inputs.tolist()]
    assert len(set(points)) == len(points) == 3 * 12


def test_the_whole_training_set_moves_with_its_corpus():
    whole = SMALL["rings"].load().to("meta").whole
    assert [part.device.type for part in whole] == ["meta", "meta"]
    assert Digits().load().to("meta").whole is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FewDigits(images=0), "images must be at least 1, got 0"),
        (lambda: FewDigits(images=1198).load(), "images must be at most 1197, .*; got 1198"),
        (lambda: Points("moons"), "unknown task 'moons'"),
        (lambda: Points(count=0), "count must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
