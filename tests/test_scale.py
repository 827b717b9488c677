"""One big run in one process: sizes, settings, the loop, checkpoints and how a run goes on."""

import itertools
import shutil
import signal
import sys
import time

import pytest
import torch
from scale_runs import QUICK, losses, make_tokens, start_command

from labkit import train
from labkit.scale.checkpoints import list_checkpoints
from labkit.scale.config import ScaleConfig
from labkit.scale.folder import FREE, hold_folder, read_log
from labkit.scale.sizes import SIZES
from labkit.scale.tokens import open_shards
from labkit.scale.training import train_run
from labkit.scale.windows import Windows
from press import cli


def slow(case):
    return pytest.param(case, marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    return make_tokens(tmp_path_factory.mktemp("scale") / "tokens")


@pytest.fixture
def big(tokens, tmp_path):
    """Train a tiny big run, or let it go on; give its folder."""

    def go(name="run", resume=False, **given):
        settings = given if resume else {"data": str(tokens), **QUICK, **given}
        go.ended = train_run({"out": str(tmp_path / name), **settings}, resume, said.append)
        return tmp_path / name

    go.said = said = []
    go.folder = tmp_path.joinpath
    return go


@pytest.fixture(scope="module")
def whole(tokens, tmp_path_factory):
    """Train one plain run for all tests; give its folder, which nobody changes."""
    out = tmp_path_factory.mktemp("whole") / "run"
    train_run({"data": str(tokens), "out": str(out), **QUICK}, say=lambda text: None)
    return out


@pytest.fixture
def begun(whole, tmp_path):
    """Copy the plain run as it stood after four steps, its log already further."""
    out = shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(out / "checkpoints" / "step-00000008")
    return out


# --- sizes and settings ---


@pytest.mark.parametrize("name", [name for name in SIZES if name != "tiny"])
def test_a_size_is_what_its_name_says(name):
    vocab = 257 if SIZES[name].context < 4096 else 100_278
    with torch.device("meta"):
        model = ScaleConfig(data="x", out="x", recipe="hybrid*", size=name).model(vocab).build()
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == pytest.approx(float(name[:-1]) * {"M": 1e6, "B": 1e9}[name[-1]], rel=0.02)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": "2T"}, "unknown size '2T'; choose one of tiny, 1M, 10M, 151M"),
        ({"recipe": "pro"}, "unknown recipe 'pro'"),
        ({"batch": 0}, "--batch must be at least 1, got 0"),
        ({"micro_batch": 3}, r"must be a multiple of 1 processes × --micro-batch \(3\)"),
        ({"precision": "half"}, "choose one of auto, float32, bfloat16"),
        ({"optimizer": "muon"}, "choose one of adamw, sgd"),
        ({"parallel": "fsdp2"}, "none is for one process, ddp and fsdp2 for several, got fsdp2 an"),
        (
            {"norm": "batch", "micro_batch": 4},
            "statistics over the batch of 8, which parts of 4 would cut up",
        ),
        ({"context": 5000}, "takes 5001 tokens of one shard, but the longest has 2000"),
        ({"out": ""}, "needs --out; tokens come from: labkit tokens"),
        ({"data": "nowhere"}, "has no index.json; make one: labkit tokens"),
    ],
)
def test_settings_that_contradict_one_another_are_refused_and_leave_nothing(big, options, said):
    with pytest.raises(ValueError, match=said):
        big(**options)
    assert not big.folder("run").exists()


def test_the_command_exits_with_2_and_says_why(capsys, tmp_path):
    assert cli.main(["train", "--size", "tiny"]) == 2
    assert "needs --data; tokens come from" in capsys.readouterr().err
    assert cli.main(["train", "--out", str(tmp_path / "run"), "--resume"]) == 2
    assert "--resume needs a run" in capsys.readouterr().err


def test_the_help_names_every_setting(capsys):
    assert cli.main(["train", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"--{name.replace('_', '-')} " in said for name in ScaleConfig.__dataclass_fields__)


# --- the loop ---


def test_a_big_run_is_the_training_of_the_chapters_on_the_same_batches(big, tokens):
    out = big(steps=6, clip=0.5)
    config = ScaleConfig(data=str(tokens), out="x", **{**QUICK, "steps": 6, "clip": 0.5})
    windows = Windows(open_shards(tokens).splits["train"], 16, 0)
    batches = (windows.read(windows.choose(step, 8)) for step in itertools.count())
    torch.manual_seed(0)
    record = train(config.model(257).build(), batches, config.training(), progress=False)
    assert losses(out) == record.losses
    assert losses(out)[-1] < losses(out)[0]


def test_the_log_has_each_step_and_evaluation_and_the_run_says_what_it_is(big):
    lines = read_log(big(micro_batch=4))
    steps = [line for line in lines if "step" in line]
    assert [line["step"] for line in steps] == list(range(8))
    assert steps[-1]["tokens"] == 8 * 8 * 16
    assert all(line[key] > 0 for line in steps for key in ("grad_norm", "tokens_per_second", "lr"))
    looked = {line["after"]: line["validation_loss"] for line in lines if "after" in line}
    assert list(looked) == [4, 8] and looked[8] < looked[4]
    for words in ("parameters with 257", "128 tokens = 8 sequences × 16, as 1 (none) × 4 × 2"):
        assert words in big.said[0], words
    assert big.ended == "finished: 8 steps"


def test_accumulated_passes_take_the_step_of_the_whole_batch(big, whole):
    parts = big(micro_batch=2)
    # The same sum in another order: float32 rounding, which eight Adam steps enlarge.
    assert losses(parts) == pytest.approx(losses(whole), rel=1e-5, abs=1e-6)
    norms = [[line["grad_norm"] for line in read_log(o) if "step" in line] for o in (whole, parts)]
    assert norms[1] == pytest.approx(norms[0], rel=1e-4)


def test_bfloat16_computes_in_half(big, whole):
    out = big(precision="bfloat16")
    assert losses(out) != losses(whole)
    assert losses(out) == pytest.approx(losses(whole), rel=0.02)  # three digits in each product


@pytest.mark.parametrize("save_every", [0, 1])  # 1: the step before it was saved as a good one
def test_a_loss_that_is_not_finite_is_a_result(big, save_every):
    wild = {"lr": 1e30, "clip": 0.0, "norm": "none", "warmup": 0, "weight_decay": 0.0}
    out = big(steps=20, save_every=save_every, **wild)
    at = len(losses(out))
    assert 0 < at < 20 and read_log(out)[-1] == {"diverged_at": at}
    assert big.ended == f"diverged: the loss of step {at} is not finite; recorded"
    assert list_checkpoints(out)[-1].name == f"step-{at:08d}"
    before = big.ended
    big(resume=True)
    assert big.ended == before


def test_a_run_whose_minutes_are_over_ends_its_step_saves_and_goes_on(big, whole):
    out = big(minutes=1e-9)
    assert big.ended == "stopped after 1 steps; --resume goes on"
    assert [path.name for path in list_checkpoints(out)] == ["step-00000001"]
    big(resume=True, minutes=60.0)
    assert big.ended == "finished: 8 steps" and losses(out) == losses(whole)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_command_that_is_ended_goes_on_to_the_same_curve(big, tokens, number):
    given = {"data": str(tokens), **QUICK, "steps": 100, "save_every": 20}
    same, out = big("same", **given), big.folder("run")
    command = start_command({**given, "out": out}, [sys.executable, "-m", "labkit"])
    while len(read_log(out)) < 30:
        assert command.poll() is None
        time.sleep(0.01)
    command.send_signal(number)
    said = command.communicate()[0]
    assert ("stopped after" in said) == (number != signal.SIGKILL)
    big(resume=True)
    assert losses(out) == losses(same)


# --- checkpoints, and how a run goes on ---


@pytest.mark.parametrize(
    "options",
    [
        {"recipe": "hybrid*"},
        slow({"optimizer": "sgd", "lr": 0.1}),
        slow({"recipe": "ngpt"}),
        slow({"recipe": "admin"}),
        slow({"norm": "batch"}),
        slow({"norm": "power"}),
    ],
    ids=lambda options: next(iter(options.values())),
)
def test_a_resumed_run_has_the_same_losses_and_weights_bit_for_bit(big, options):
    out = big(**options)
    again = shutil.copytree(out, big.folder("again"))
    last = list_checkpoints(again)[-1]
    last.rename(last.with_suffix(".part"))  # as if it was killed in its save, or its removal
    big("again", resume=True)
    assert losses(again) == losses(out)
    file = last.relative_to(again) / "__0_0.distcp"
    assert (again / file).read_bytes() == (out / file).read_bytes()
    assert not list(again.rglob("*.part"))


def test_a_finished_run_is_left_as_it_is(big, begun, whole):
    shutil.copytree(whole, begun, dirs_exist_ok=True)
    before = {path: path.stat().st_mtime_ns for path in begun.rglob("*")}
    big(resume=True)
    assert big.ended == "finished: 8 steps"
    assert before == {path: path.stat().st_mtime_ns for path in begun.rglob("*")}


def test_only_the_newest_two_checkpoints_stay(big):
    out = big(save_every=1, eval_every=0)
    names = sorted(path.name for path in (out / "checkpoints").iterdir())
    assert names == ["step-00000007", "step-00000008"]


@pytest.mark.parametrize("file", ["__0_0.distcp", ".metadata"])
def test_a_damaged_checkpoint_names_itself_and_the_way_out(big, begun, file):
    path = begun / "checkpoints" / "step-00000004" / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match=r"step-00000004 is damaged: .* takes the one before it"):
        big(resume=True)


def test_a_run_keeps_what_decides_its_curve(big, begun, tmp_path):
    with pytest.raises(ValueError, match="holds a run already; --resume goes on"):
        big(steps=2)
    with pytest.raises(ValueError, match=r"keeps --lr 0.003, got 0.1; leave the option out"):
        big(resume=True, lr=0.1)
    with pytest.raises(ValueError, match="was trained on other tokens than those in"):
        big(resume=True, data=str(make_tokens(tmp_path / "other", lines=200)))
    assert not {"seed", "batch", "steps", "precision", "recipe", "optimizer", "betas"} & FREE


def test_a_second_process_in_the_same_folder_is_refused(big, begun, tokens):
    config = ScaleConfig(data=str(tokens), out=str(begun))
    with (
        hold_folder(config, open_shards(tokens).index, 0),
        pytest.raises(ValueError, match="another process trains in"),
    ):
        big(resume=True)


def test_what_a_kill_cut_off_in_the_log_is_dropped(big, begun, whole):
    lines = (begun / "log.jsonl").read_bytes().splitlines(keepends=True)
    (begun / "log.jsonl").write_bytes(b"".join(lines[:6]) + lines[6][:9])
    big(resume=True)
    assert losses(begun) == losses(whole)
