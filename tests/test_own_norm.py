"""A reader's own norm: one file, known by content, in this process and in workers; its check."""

import inspect

import pytest
import torch
from torch import nn
from variants_common import Gain

from labkit import ModelConfig, TrainConfig, check
from labkit.corpora import Text
from labkit.experiments import Run, sweep
from labkit.experiments.own import own_norm, register_sources, sources_of, strip_hash
from labkit.leaderboard import starter
from labkit.norms import NORMS, facts, make_norm

TEXT = inspect.getsource(starter).replace('"mean-abs"', '"test-abs"')
CLASS = "from torch import nn\nclass N(nn.Module):\n    name = 'test-n'\n"
INIT = "    def __init__(self, dim):\n        pass\n"


def run(norm):
    model = ModelConfig(norm=norm, dim=16, depth=1, heads=2, context=8)
    return Run(model, Text(batch=2, time=8), TrainConfig(steps=2))


def test_a_file_becomes_a_norm_known_by_content(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(TEXT)
    name = own_norm(file)
    assert strip_hash(name) == "test-abs" and name in NORMS
    assert isinstance(make_norm(name, 4, eps=1e-3), nn.Module)
    assert own_norm(TEXT + "# a remark\n") == name
    other = own_norm(TEXT.replace("1e-6", "1e-5"))
    assert other != name and strip_hash(other) == "test-abs"
    assert run(name).key() != run(other).key()
    x = torch.randn(3, 4)
    assert torch.allclose(make_norm(name, 4)(x), x / (x.abs().mean(-1, keepdim=True) + 1e-6))


def test_a_name_comes_from_the_file_where_the_class_has_none(tmp_path):
    file = tmp_path / "my_best_norm.py"
    file.write_text(TEXT.replace('    name = "test-abs"\n', ""))
    assert strip_hash(own_norm(file)) == "my-best-norm"


@pytest.mark.parametrize(
    "text, said",
    [
        ("def (\n", "must be Python, but line 1"),
        ("x = 1\n", "must define exactly one nn.Module, but norm defines none"),
        (CLASS + "    pass\nclass M(nn.Module):\n    pass\n", "defines N, M"),
        (CLASS + "    def __init__(self, width):\n        pass\n", "must be dim"),
        (CLASS + "    def __init__(self, dim, k):\n        pass\n", "k of N has none"),
        (CLASS.replace("test-n", "rms") + INIT, "'rms' is one of labkit's"),
        (CLASS.replace("test-n", "A B") + INIT, "a-z, 0-9 and -"),
        ("1 / 0\n", "raised ZeroDivisionError"),
        (TEXT.replace("torch.ones(dim)", "torch.ones(dim + 1)"), "accept a tensor of shape"),
        ("from . import x\n", "imports '.' from its folder"),
    ],
)  # fmt: skip
def test_what_is_no_norm_is_refused_with_the_way_out(text, said):
    with pytest.raises(ValueError, match=said):
        own_norm(text)


def test_a_neighbour_is_refused(tmp_path):
    (tmp_path / "helper.py").write_text("x = 1\n")
    (tmp_path / "mine.py").write_text("import helper\n" + TEXT)
    with pytest.raises(ValueError, match="imports 'helper' from its folder"):
        own_norm(tmp_path / "mine.py")
    with pytest.raises(ValueError, match=r"ends in \.py, got 'nowhere.txt'"):
        own_norm("nowhere.txt")


def test_sources_travel_with_a_task_and_only_so():
    name = own_norm(TEXT)
    assert sources_of([run(name), run("rms")]) == {name: TEXT}
    register_sources({name: TEXT})
    with pytest.raises(ValueError, match="must define the norm that it was sent as"):
        register_sources({"other@000000000000": TEXT})


@pytest.mark.slow
def test_workers_train_it_and_the_store_holds_its_name_only(tmp_path):
    name = own_norm(TEXT)
    (record,) = sweep([run(name)], "processes", root=tmp_path, progress=False)
    assert record.probes["test"]["loss"] > 0
    (file,) = (tmp_path / ".labkit/runs").glob("[0-9a-f]*.json")
    text = file.read_text()
    assert name in text and "class MeanAbsNorm" not in text
    (serial,) = sweep([run(name)], "serial", root=tmp_path / "b", progress=False)
    assert serial.losses == record.losses


# -- its check --------------------------------------------------------------------------------
# Llama's and T5's widen half precision to that of the gain; eight groups do not fit 12 features.
EXCEPT = {"rms-llama", "rms-t5", "group"}


@pytest.mark.parametrize(
    "name", [name for name in NORMS if facts(name).scope == "token" and name not in EXCEPT]
)
def test_labkits_norms_of_the_last_axis_pass(name):
    assert check.any_norm(name).ok, check.any_norm(name)


def test_a_formula_is_compared():
    assert check.any_norm(own_norm(TEXT), lambda x: x / (x.abs().mean(-1, keepdim=True) + 1e-6)).ok
    report = check.any_norm(own_norm(TEXT), lambda x: x)
    assert [law.name for law in report.failed] == ["formula"]
    assert "blind to scale" in report.notes and "not blind to a constant" in report.notes


def norm(line):
    """Make a norm whose forward is one expression."""
    names = {"torch": torch, "F": nn.functional}
    return type("Mine", (Gain,), {"forward": eval(f"lambda self, x: {line}", names)})


@pytest.mark.parametrize(
    "line, law",
    [
        ("self.weight * F.normalize(x)", "each token by itself"),
        ("self.weight * x / (x.abs().mean() + 1e-6)", "each token by itself"),
        ("self.weight * x / (x.abs().amax() + 1e-6)", "each token by itself"),
        (
            "self.weight * x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-6)",
            "finite",
        ),
        ("self.weight * x / x.abs().mean(-1, keepdim=True)", "finite"),
        ("self.weight * x / (x.abs().mean(-1, keepdim=True).detach() + 1e-6)", "gradient"),
        ("self.weight * x.div_(x.abs().mean(-1, keepdim=True) + 1e-6)", "input kept"),
        (
            "(self.weight * x / (x.float().abs().mean(-1, keepdim=True) + 1e-6)).float()",
            "half precision",
        ),
        ("x / (x.abs().mean(-1, keepdim=True) + 1e-6)", "every parameter learns"),
        ("self.weight * x.flatten(1)", "shape and dtype kept"),
        ("self.weight * torch.dropout(x, 0.5, True)", "same result twice"),
    ],
)
def test_a_slip_is_found_by_its_law(line, law):
    report = check.any_norm(norm(line))
    assert law in [one.name for one in report.failed], report


def test_a_class_a_key_a_file_and_a_function_are_checked_alike(tmp_path):
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "two.py").write_text(TEXT + TEXT.replace("MeanAbsNorm", "Second"))
    for given in (starter.MeanAbsNorm, "rms", starter.__file__, nn.functional.silu):
        assert check.any_norm(given).ok, check.any_norm(given)
    for axes, where in ((None, "in another example"), ((-2, -1), "at another position")):
        wrong = check.any_norm(lambda x, axes=axes: x / (x.abs().mean(axes, keepdim=True) + 1e-6))
        assert where in {law.name: law.message for law in wrong.failed}["each token by itself"]
    for given, said in {
        "rmss": "did you mean 'rms'",
        str(tmp_path / "none.py"): "--starter my_norm.py",
        str(tmp_path / "broken.py"): "ZeroDivisionError",
        str(tmp_path / "two.py"): "defines 2",
    }.items():
        report = check.any_norm(given)
        assert not report.ok and said in report.laws[0].message


def test_what_is_no_class_is_refused():
    assert "a norm must be a class or a key of NORMS" in str(check.any_norm(nn.LayerNorm(4)))
