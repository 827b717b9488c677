"""check.function compares a reader's function with right results, and reports what is wrong."""

import json

import pytest
import torch

from labkit import check
from labkit.check.function import write, write_result
from labkit.display import EXERCISE


def right(x, k):
    return x * k


SLIPS = {"k is added": lambda x, k: x + k, "the sign is lost": lambda x, k: (x * k).abs()}
X = torch.tensor([[1.0, -2.0], [3.0, 4.0]], dtype=torch.float64)


def hold(mine, **more):
    options = {"slips": SLIPS, "name": "1", "hint": "think of k", **more}
    return check.function(mine, {"once": (X, 1), "thrice": (X, 3)}, right, **options)


def message(report) -> str:
    (law,) = report.laws
    return f"{law.message} | {law.cause}".strip(" |")


WRONG = {
    "all": (lambda x, k: x - 7, "not right yet: once, thrice. Hint: think of k"),
    "one": (lambda x, k: x, "not right yet: thrice. Hint: think of k"),
    "a slip": (lambda x, k: x + k, "not right yet: once, thrice | k is added"),
    "the second slip": (lambda x, k: (x * k).abs(), "not right yet: once, thrice | the sign is"),
    "dots": (lambda x, k: ..., "not answered yet"),
    "nothing": (lambda x, k: None, "not answered yet"),
    "dots for one": (lambda x, k: x if k == 1 else ..., "not answered yet: thrice"),
    "a word": (lambda x, k: "x", "not right yet: once, thrice"),
    "ragged": (
        lambda x, k: [[1.0], [1.0, 2.0]],
        "cannot be compared (ValueError: all rows must",
    ),
    "an error": (lambda x, k: x @ k, "raised TypeError"),
    "too few": (lambda x: x, "it raised TypeError"),
    "no function": (7, "the answer must be a function, got int"),
    "no answer": (..., "not answered yet"),
}


def test_what_is_right_holds_and_tensors_lists_and_float32_are_alike():
    for mine in (right, lambda x, k: (x * k).tolist(), lambda x, k: (x * k).float()):
        assert hold(mine).ok


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name):
    mine, words = WRONG[name]
    report = hold(mine)
    assert not report.ok and words in message(report)


def test_a_line_of_the_readers_own_is_named():
    source = "def mine(x, k):\n    y = x\n    return y.nothing\n"
    names: dict = {}
    exec(compile(source, "cell", "exec"), names)
    assert message(hold(names["mine"])).startswith("line 3 raised AttributeError: 'Tensor' object")


def test_one_case_is_told_by_shape_and_count():
    def case(mine):
        return message(check.function(mine, (X, 2), right))

    assert case(lambda x, k: x[0]) == "the answer must have shape (2, 2), got (2,)"
    assert case(lambda x, k: x) == "4 of 4 are wrong"


def test_several_results_are_told_apart():
    def both(x):
        return x.sum(0), x.sum()

    assert check.function(both, (X,), both).ok
    wrong = check.function(lambda x: (x.sum(0), x.sum() + 1), (X,), both)
    assert message(wrong) == "not right yet: result 2"
    assert "must be a tuple of 2 results" in message(check.function(lambda x: x, (X,), both))


def test_several_functions_and_functions_as_arguments():
    def twice(x, f):
        return f(f(x))

    def once(x, f):
        return f(x)

    pair = {"once": once, "twice": twice}
    assert check.function(pair, (X, "lambda x: x.flip(-1) + 1"), pair).ok
    report = check.function({"once": once, "twice": once}, (X, "lambda x: x + 1"), pair)
    assert message(report) == "not right yet: twice"


def test_a_look_compares_something_else():
    found = check.function(
        lambda key: key, (X,), [0, 1], look="lambda f, keys: [(keys @ f(k)).argmax() for k in keys]"
    )
    assert found.ok


def test_arguments_stay_as_they_are_and_each_call_gets_its_own():
    def spoils(x, k):
        y = x * k
        x.zero_()
        return y

    before = X.clone()
    assert hold(spoils).ok and X.equal(before)


@pytest.mark.parametrize(
    "value",
    [1, -2.5, True, None, "post", [1, 2.0], (1,), (), {0.001: 2.0, "a": None}, float("inf"), X,
     torch.arange(3), torch.tensor(2.0), torch.tensor([True]), torch.zeros(2, 0)],
)  # fmt: skip
def test_what_is_written_is_read_back(value):
    back = eval(write(value), {"torch": torch, "inf": float("inf")})
    if isinstance(value, torch.Tensor):
        assert back.dtype == value.dtype and back.equal(value)
    else:
        assert back == value and type(back) is type(value)


def test_what_cannot_be_written_is_refused_with_the_rule():
    with pytest.raises(
        TypeError, match=r"an argument must consist of tensors, numbers.*got object"
    ):
        write(object())
    with pytest.raises(TypeError, match="got function"):
        check.function(lambda f: 1, (print_nothing,), 1)
    assert write_result((X[0], 1)) == "([1.0, -2.0, ], 1, )" or eval(write_result((X[0], 1)))


def print_nothing():
    """Stand-in for a function without source."""


# -- what a report tells the page -------------------------------------------------------------
def asked(report):
    return report._repr_mimebundle_().get(EXERCISE)


def test_a_report_tells_the_page_what_it_needs():
    task = json.loads(json.dumps(asked(hold(right))))
    assert task["kind"] == "code" and task["functions"] == ["right"]
    assert [case["label"] for case in task["cases"]] == ["once", "thrice"]
    assert [slip for slip, _ in task["slips"]] == list(SLIPS)
    by_hand = asked(check.answer(..., {"a": 1.5, "b": [1, 2], "c": True, "d": "x"}, name="2"))
    assert [one["kind"] for one in by_hand["asks"]] == ["number", "numbers", "yes or no", "word"]
    assert asked(check.answer(..., torch.ones(2, 2))) is None
    assert asked(check.answer(..., object())) is None


def my_norm(x, weight=None, eps=1e-6):
    return ...


def my_step(x, f, norm):
    return ...


def my_block(x, attention, feed_forward, norm):
    return ...


def my_batch_norm(x, running_mean, running_var, training=False, momentum=0.1, eps=1e-5):
    return ...


def gated(x, f, gate):
    return ...


def test_norms_and_blocks_export_a_few_cases_where_a_page_can_use_them():
    for report in (
        check.rms_norm(my_norm), check.batch_norm(my_batch_norm), check.block(my_step, "pre"),
        check.block(my_block, "hybrid"),
    ):  # fmt: skip
        task = asked(report)
        assert task and task["cases"] and len(task["slips"]) > 7
    for report in (
        check.rms_norm(lambda x: x), check.rms_norm(torch.nn.RMSNorm), check.block(..., "pre"),
        check.rms_norm(my_norm, variant="gemma"), check.rms_norm(my_norm, eps=0.1),
        check.block(gated, "highway"), check.block(my_step, "resi-dual"),
    ):  # fmt: skip
        assert asked(report) is None, report
