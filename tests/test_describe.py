"""`labkit show`, the counts behind it, and the tables of norms and recipes."""

import inspect
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

from labkit.costs.operations import CountOperations, cost_of
from labkit.describe import describe_norm, describe_recipe
from labkit.leaderboard import starter
from labkit.model import ModelConfig, Transformer
from labkit.norms import NORMS, facts
from labkit.placements import RECIPES
from labkit.probes.diagnosis import SYMPTOMS
from press.book.files import Red
from press.cli import main
from press.site import written
from press.site.explorer import FOLDER, build_files
from press.site.written import PAGE, norms_table, recipes_table, symptoms_table, write_all

ROOT = Path(__file__).resolve().parents[1]
SMALL = ModelConfig(dim=16, depth=4, heads=2, context=8, vocab=11)


@pytest.mark.parametrize("name", RECIPES)
def test_show_says_all_that_is_asked_of_it_and_lists_every_parameter_that_is_no_matrix(name):
    described = describe_recipe(name, SMALL)
    said = dict(described.rows)
    for equation in RECIPES[name].equations:
        assert equation in said["equations"]
    assert said["final norm"] == ("yes" if RECIPES[name].final_norm else "no")
    assert "operations a token" in said["cost"] and "bytes a token" in said["cost"]
    assert RECIPES[name].source in described.title
    model = Transformer(replace(SMALL, recipe=name))
    matrices = {
        f"{path}.weight"
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.Embedding)
    }
    others = [path for path, _ in model.named_parameters() if path not in matrices]
    listed = re.findall(r"^ *(\d+) × (\S+)", said.get("learnable", ""), re.M)
    assert sum(int(count) for count, _ in listed) == len(others)


def test_constants_and_stored_scales_are_shown_with_their_values():
    # (2 · 4)^(1/4) = 1.682; KEEL counts eight sublayers; nGPT stores 1/sqrt(16) for 0.05
    assert "α = 1.682" in str(describe_recipe("deepnorm", SMALL))
    assert "α = 1, 8" in str(describe_recipe("keel", SMALL))
    assert "starts at 0.25 (used as 0.05)" in str(describe_recipe("ngpt", SMALL))
    assert "ω = learned, starts at 1" in str(describe_recipe("admin", SMALL))


def test_operations_of_a_norm_are_those_of_its_formula():
    x = torch.randn(5, 8)
    for norm, each, rows in (
        # centre (mean, subtract), mean of squares (square, mean), times the root; ⊙ gain, + shift
        (nn.LayerNorm(8), None, None),
        # square, mean, times the root, gain; on each row: + eps, root
        (NORMS["rms-llama"](8), 4, 2),
        # α·x, tanh, gain, shift
        (NORMS["dyt"](8), 4, 0),
    ):
        count = CountOperations()
        with torch.no_grad(), count:
            norm(x)
        if each is None:
            assert 5 * 40 <= count.operations <= 9 * 40  # however its variance is taken
        else:
            assert count.operations == each * 40 + rows * 5


def test_costs_are_counted_while_the_model_runs():
    model = Transformer(SMALL).eval()
    cost = cost_of(model, torch.zeros(1, 8, dtype=torch.long))
    assert cost.norms == 2 * 4 + 1
    assert cost.norm_bytes == 9 * 2 * 16 * 2  # each reads and writes 16 values of two bytes
    d, hidden, vocab, time = 16, SMALL.hidden_dim, 11, 8
    attention = 4 * d * d + 2 * time * d
    assert cost.matrix_flops == 2 * (4 * (attention + 3 * d * hidden) + d * vocab)
    nested = Transformer(replace(SMALL, norm="prep-batch")).eval()  # only the outermost counts
    assert cost_of(nested, torch.zeros(1, 8, dtype=torch.long)).norms == 2 * 4 + 1


def test_an_encoder_decoder_is_described_too(capsys):
    assert main(["show", "deepnorm", "--kind", "encoder-decoder", "--depth", "6"]) == 0
    said = capsys.readouterr().out
    # 0.81 (6⁴ · 6)^(1/16) = 1.418 in the encoder, (3 · 6)^(1/4) = 2.06 in the decoder
    assert "1.418" in said and "2.06" in said


def test_show_prints_a_norm_lists_and_refuses(capsys):
    for name in NORMS:
        assert facts(name).equation in str(describe_norm(name, 32))
    assert main(["show", "rms", "--dim", "32"]) == 0
    told = capsys.readouterr().out
    assert "1910.07467" in told and "eps=None" in told and "weight (32)" in told
    assert "device" not in told, "what every module of torch takes"
    assert main(["show"]) == 0
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} == set(RECIPES)
    for unknown, near in (("groop", "group"), ("hybird", "hybrid")):
        assert main(["show", unknown]) == 2
        said = f"unknown recipe or norm '{unknown}'; did you mean '{near}'?"
        assert said in capsys.readouterr().err
    assert main(["show", "pre", "--dim", "30"]) == 2


def test_show_takes_a_recipe_with_its_norm_as_the_leaderboard_writes_it(capsys):
    assert main(["show", "pre", "--norm", "layer"]) == 0
    written = capsys.readouterr().out
    assert main(["show", "pre+layer"]) == 0
    assert capsys.readouterr().out == written and "layer" in written
    for wrong, why in (
        ("pre+norm-of-mine", "unknown norm 'norm-of-mine'"),
        ("rms+layer", "recipe 'rms'"),
        ("pre+", "a norm must follow the +"),
    ):
        assert main(["show", wrong]) == 2
        assert why in capsys.readouterr().err


def test_show_takes_a_norm_of_ones_own_from_a_file(tmp_path, capsys):
    file = tmp_path / "my_norm.py"
    file.write_text(inspect.getsource(starter))
    assert main(["show", str(file)]) == 0
    said = capsys.readouterr().out
    assert "mean(|x|)" in said and f"labkit show RECIPE --norm {file}" in said
    for words in ([f"pre+{file}"], ["pre", "--norm", str(file)]):
        assert main(["show", *words]) == 0
        assert re.search(r"norm +mean-abs@[0-9a-f]+\n", capsys.readouterr().out)
    assert main(["show", f"pre+{tmp_path / 'other.py'}"]) == 2
    assert "is no file" in capsys.readouterr().err
    file.write_text(re.sub("(equation|source) = ", "other = ", file.read_text()))
    assert main(["show", str(file)]) == 0
    assert re.search(r": your own norm\n +equation +not declared\n", capsys.readouterr().out)


def test_the_tables_name_every_norm_recipe_and_symptom_with_its_fix():
    for table, keys in ((norms_table(), NORMS), (recipes_table(), RECIPES)):
        assert re.findall(r"^\| `([^`]+)`", table, re.M) == list(keys)
    for one, line in zip(SYMPTOMS, symptoms_table().splitlines()[2:], strict=True):
        assert one.see in line and one.fix in line


@pytest.mark.slow
def test_a_stale_table_is_red_and_is_written_anew(tmp_path, monkeypatch, capsys):
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    for each in (PAGE, "pyproject.toml", "chapters/index.md", written.PICTURE):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / each, tmp_path / each)
    (tmp_path / "data").symlink_to(ROOT / "data")
    (tmp_path / PAGE).write_text(page.replace("| `post`<br>", "| `poste`<br>"), "utf-8")
    drawn = (tmp_path / written.PICTURE).read_text(encoding="utf-8")
    (tmp_path / written.PICTURE).write_text(drawn.replace("qk 0.0", "qk 0.1"), "utf-8")
    shutil.copytree(ROOT / FOLDER, tmp_path / FOLDER)
    rung = (tmp_path / FOLDER / "S.json").read_text(encoding="utf-8")
    (tmp_path / FOLDER / "S.json").write_text(rung.replace('"mean":1.3', '"mean":1.2', 1), "utf-8")
    (tmp_path / FOLDER / "X.json").write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("press.site.explorer.build_files", cache(build_files))  # half a minute
    assert main(["book", "check", "tables"]) == 1
    *stale, told = capsys.readouterr().out.splitlines()
    explorer = ["the block explorer's S.json", "the block explorer's X.json"]
    assert stale == ["the table of recipes", *explorer, "START.ipynb", "README's picture"]
    assert (tmp_path / FOLDER / "X.json").exists(), "a check changes nothing"
    assert told == "tables: 5 faults, not what labkit has; `labkit book tables` writes them again"
    assert main(["book", "tables"]) == main(["book", "check", "tables"]) == 0
    assert (tmp_path / PAGE).read_text(encoding="utf-8") == page
    assert (tmp_path / FOLDER / "S.json").read_text(encoding="utf-8") == rung
    (tmp_path / PAGE).write_text("no marks here")
    with pytest.raises(Red, match="must have marks for its table of norms"):
        write_all(tmp_path, check=True)
