"""One big run in one process: sizes, settings, the loop, checkpoints and how a run goes on."""

import errno
import gc
import itertools
import json
import os
import shutil
import signal
import sys
import weakref
from dataclasses import replace
from functools import partial
from unittest import mock

import pytest
import torch
from each import each
from safetensors.torch import load_file
from scale_ranks import losses, make_tokens, read_log, signal_at

from labkit import train
from labkit.costs.operations import kept_bytes
from labkit.placements import RECIPES
from labkit.scale import checkpoint, parallel, start
from labkit.scale.config import FREE, ScaleConfig
from labkit.scale.folder import hold_folder
from labkit.scale.parallel import Group
from labkit.scale.plan import estimate_memory, settle_plan
from labkit.scale.sampler import Sampler
from labkit.scale.shards import open_shards
from labkit.scale.sizes import SIZES, count_parameters, find_size, model_config
from labkit.training import loss_of
from press import cli

QUICK = {"context": 16, "batch": 8, "steps": 8, "lr": 3e-3, "eval_every": 4, "save_every": 4}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    return make_tokens(tmp_path_factory.mktemp("scale") / "tokens")


@pytest.fixture(scope="module")
def whole(tokens, tmp_path_factory):
    """Train one plain run for all tests; give its folder, which nobody changes."""
    out = tmp_path_factory.mktemp("whole") / "run"
    start.train_run({"data": str(tokens), "out": str(out), **QUICK}, say=lambda text: None)
    return out


@pytest.fixture
def begun(whole, tmp_path):
    """Copy the plain run as it stood after four steps, its log already further."""
    out = shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(out / "checkpoints" / "step-00000008")
    return out


@pytest.fixture
def big(tokens, tmp_path):
    """Train a tiny big run; give its folder."""

    def go(name: str = "run", resume: bool = False, **given):
        out = tmp_path / name
        settings = given if resume else {"data": str(tokens), **QUICK, **given}
        go.outcome = start.train_run({"out": str(out), **settings}, resume, say=said.append)
        return out

    go.said = said = []
    go.folder = tmp_path.joinpath
    return go


# --- sizes ---


@each(name=[name for name in SIZES if name != "tiny"])
def test_a_size_is_what_its_name_says(name):
    count = count_parameters(model_config(name, "hybrid*", "rms", find_size(name).vocab))
    promised = float(name[:-1]) * {"M": 1e6, "B": 1e9}[name[-1]]
    assert count == pytest.approx(promised, rel=0.02)


@pytest.mark.slow
def test_every_recipe_has_every_size_and_an_estimate():
    for recipe in RECIPES:
        config = replace(model_config("tiny", recipe, "rms", 257, 16), depth=2)
        assert count_parameters(config) > 0
        assert estimate_memory(config, 1, 2, half=False).activations


def test_the_estimate_of_activations_is_what_a_pass_keeps():
    config = model_config("tiny", "hybrid*", "rms", 64, 32)
    tokens = torch.randint(64, (3, 32))
    model = config.build()
    with torch.autocast("cpu", torch.bfloat16):
        kept = kept_bytes(partial(loss_of, model, tokens, tokens), model.parameters())
    assert estimate_memory(config, 0, 3, half=True).activations == kept
    assert estimate_memory(config, 600, 3, False, shards=2).states == 16 * 600 / 2
    power = model_config("tiny", "pre", "power", 64, 32)
    assert "unknown" in str(estimate_memory(power, 600, 3, False))


def test_what_a_pass_keeps_is_counted_by_hand():
    n, dim, vocab = 2 * 5, 3, 7
    model = torch.nn.Sequential(
        torch.nn.Embedding(vocab, dim), torch.nn.Linear(dim, vocab, bias=False)
    )
    # tokens as int64, what the matrix reads, log-probabilities, and the loss's count of targets
    due = 8 * n + 4 * n * dim + 4 * n * vocab + 4
    tokens = torch.zeros(2, 5, dtype=torch.int64)
    assert kept_bytes(lambda: loss_of(model, tokens, tokens), model.parameters()) == due


# --- settings that contradict one another ---


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": "2T"}, "unknown size '2T'; choose one of tiny, 1M, 10M, 151M"),
        ({"recipe": "pro"}, "unknown recipe 'pro'"),
        ({"batch": 0}, "--batch must be a number from 1 on, got 0"),
        ({"micro_batch": 3}, r"--micro-batch \(3\) must divide the 8 .* one of 1, 2, 4, 8"),
        ({"warmup": 9}, r"--warmup \(9\) must not be longer than --steps \(8\)"),
        ({"precision": "half"}, "choose one of auto, float32, bfloat16"),
        ({"parallel": "fsdp2"}, "is for several processes, got one; .* or say --parallel none"),
        ({"norm": "batch", "micro_batch": 4}, "takes statistics over the batch, which 1 processes"),
        ({"formulas": True}, "--formulas is for CUDA"),
        ({"minutes": 0.0}, "--minutes must be above 0, got 0"),
        ({"schedule": "step"}, "choose one of constant, linear, cosine"),
        ({"context": 5000}, "takes 5001 tokens of one shard, but the longest has 4000"),
        ({"tensorboard": "board"}, "needs the package tensorboard, which is not installed"),
        ({"out": ""}, "--out must name a folder"),
        ({"data": "nowhere"}, "has no index.json; make one: labkit tokens"),
        ({"compile": True}, "needs a C.. compiler .* leave it out: nothing depends on it"),
    ],
)
def test_settings_that_contradict_one_another_are_refused(big, monkeypatch, options, said):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    find = start.check_tensorboard.__globals__["importlib"].util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "tensorboard" else find(name)
    )
    with pytest.raises(ValueError, match=said):
        big(**options)
    assert not big.folder("run").exists()


@pytest.mark.parametrize(
    ("options", "world", "divided"),
    [({}, 1, (8, 1)), ({"micro_batch": 2}, 1, (2, 4)), ({"micro_batch": 2}, 2, (2, 2))],
)
def test_a_step_is_divided_without_rest(tokens, options, world, divided):
    config = ScaleConfig(data=str(tokens), out="x", precision="float32", **{**QUICK, **options})
    plan = settle_plan(config, Group(0, world, torch.device("cpu")), open_shards(tokens))
    assert (plan.micro_batch, plan.accumulate) == divided
    assert plan.tokens_per_step == 8 * 16 == world * plan.micro_batch * plan.accumulate * 16
    with pytest.raises(ValueError, match=r"--batch \(8 sequences\) must be a multiple of the 3"):
        settle_plan(config, Group(0, 3, torch.device("cpu")), open_shards(tokens))


def test_the_command_says_what_is_missing_and_exits_with_2(capsys, tokens, tmp_path):
    assert cli.main(["train", "--size", "tiny"]) == 2
    assert "needs --data and --out; tokens come from" in capsys.readouterr().err
    assert cli.main(["train", "--batch", "many"]) == 2
    assert "--batch" in capsys.readouterr().err
    out = str(tmp_path / "run")
    assert cli.main(["train", "--data", str(tokens), "--out", out, "--size", "7B"]) == 2
    assert "choose one of tiny" in capsys.readouterr().err
    assert cli.main(["train", "--out", out, "--resume"]) == 2
    assert "--resume needs a run" in capsys.readouterr().err
    assert cli.main(["tokens", str(tmp_path / "t")]) == 2
    assert "of text files or of one --corpus" in capsys.readouterr().err


def test_the_help_names_every_setting(capsys):
    assert cli.main(["train", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"--{name.replace('_', '-')} " in said for name in ScaleConfig.__dataclass_fields__)


# --- the loop ---


def test_a_big_run_is_the_training_of_the_chapters_on_the_same_batches(big, tokens):
    out = big(steps=6, clip=0.5, weight_decay=0.1, optimizer="adamw")
    config = ScaleConfig(data=str(tokens), out="x", **{**QUICK, "steps": 6, "clip": 0.5})
    torch.manual_seed(0)
    sampler = Sampler(open_shards(tokens).splits["train"], 16, 0)
    batches = (sampler.read_batch(step, 8) for step in itertools.count())
    record = train(config.model(32).build(), batches, config.training(), progress=False)
    assert losses(out) == record.losses
    assert losses(out)[-1] < losses(out)[0]


def test_the_log_and_the_plan_say_what_was_done(big):
    out = big(residual=True, micro_batch=4)
    lines = read_log(out)
    steps = [line for line in lines if "step" in line]
    assert [line["step"] for line in steps] == list(range(8))
    assert steps[-1]["tokens"] == 8 * 8 * 16
    assert all(line[key] > 0 for line in steps for key in ("grad_norm", "tokens_per_second", "lr"))
    assert all(line["peak_memory"] > 2**20 for line in steps)
    looked = [line for line in lines if "after" in line]
    assert [line["after"] for line in looked] == [4, 8]
    assert looked[1]["validation_loss"] < looked[0]["validation_loss"]
    assert looked[0]["residual_rms"] > 0.5
    plan = "\n".join(big.said)
    count = count_parameters(model_config("tiny", "pre", "rms", 32, 16))
    for words in (
        f"{count:,}",
        "128 tokens = 8 sequences × 16",
        "1 process (none) × 4 × 2 passes",
        " MiB a process",
    ):
        assert words in plan, words
    assert str(big.outcome) == "finished: 8 steps"


@pytest.mark.parametrize("micro_batch", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_accumulated_passes_take_the_step_of_the_whole_batch(big, whole, micro_batch):
    parts = big("parts", micro_batch=micro_batch)
    # the same sum in another order: float32 rounding, which eight Adam steps enlarge
    assert losses(parts) == pytest.approx(losses(whole), rel=1e-5, abs=1e-6)
    norms = [[line["grad_norm"] for line in read_log(o) if "step" in line] for o in (whole, parts)]
    assert norms[1] == pytest.approx(norms[0], rel=1e-4)


def test_bfloat16_computes_in_half_and_keeps_float32_weights(big, whole):
    out = big("half", precision="bfloat16")
    assert losses(out) != losses(whole)
    # three significant digits in each product
    assert losses(out) == pytest.approx(losses(whole), rel=0.02)
    kept = load_file(checkpoint.list_checkpoints(out / "checkpoints")[-1] / "model.safetensors")
    assert {value.dtype for value in kept.values()} == {torch.float32}


@pytest.mark.parametrize("save_every", [0, 1])  # 1: the step before it was saved as a good one
def test_a_loss_that_is_not_finite_is_a_result(big, save_every):
    wild = {"lr": 1e30, "clip": 0.0, "norm": "none", "warmup": 0, "weight_decay": 0.0}
    out = big(steps=20, save_every=save_every, **wild)
    at = big.outcome.diverged_at
    assert big.outcome.reason == "diverged" and 0 < at < 20 and "is not finite" in str(big.outcome)
    assert len(losses(out)) == at and read_log(out)[-1] == {"diverged_at": at}
    state = checkpoint.read_state(checkpoint.list_checkpoints(out / "checkpoints")[-1])
    assert (state["step"], state["diverged_at"]) == (at, at)
    assert big(resume=True) == out and big.outcome.diverged_at == at


@pytest.mark.parametrize(
    ("reason", "options", "steps"), [("asked", {}, 3), ("minutes", {"minutes": 1e-9}, 1)]
)
def test_a_run_that_is_stopped_leaves_a_checkpoint_and_goes_on(big, whole, reason, options, steps):
    handler = signal.getsignal(signal.SIGTERM)
    if reason == "asked":
        signal_at(steps - 1, signal.SIGTERM)
    out = big(**options)
    assert (big.outcome.reason, big.outcome.steps) == (reason, steps)
    names = [path.name for path in checkpoint.list_checkpoints(out / "checkpoints")]
    assert names == [f"step-{steps:08d}"]
    assert signal.getsignal(signal.SIGTERM) == handler
    big(resume=True, minutes=60.0)
    assert big.outcome.reason == "finished" and losses(out) == losses(whole)


@pytest.mark.slow
def test_admin_is_profiled_on_the_same_sequences_however_a_step_is_divided(big):
    whole = big("whole", recipe="admin", steps=2)
    parts = big("parts", recipe="admin", steps=2, micro_batch=2)
    assert losses(parts) == pytest.approx(losses(whole), rel=1e-5)
    kept = load_file(checkpoint.list_checkpoints(whole / "checkpoints")[-1] / "model.safetensors")
    assert kept["blocks.3.attention.omega"].mean() > 1.01  # Adam moves it by 0.006 at most


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch's own look at inputs
def test_every_block_is_compiled_where_each_has_a_number_of_its_own(big, monkeypatch):
    graphs = []

    def counted(graph, inputs):
        graphs.append(graph)
        return graph.forward

    plain, compile = big("plain", recipe="lns", steps=2), torch.nn.Module.compile
    monkeypatch.setattr("labkit.scale.plan._has_compiler", lambda device: True)
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self: compile(self, backend=counted))
    torch._dynamo.reset()
    with torch._dynamo.config.patch(recompile_limit=3):  # below the number of blocks
        out = big("compiled", recipe="lns", steps=2, compile=True)
    torch._dynamo.reset()
    assert len(graphs) >= 2 * find_size("tiny").depth  # to train, and to evaluate
    assert losses(out) == pytest.approx(losses(plain), rel=1e-6)


# --- checkpoints ---


@pytest.mark.parametrize(
    "options",
    [
        {"recipe": "hybrid*"},
        pytest.param({"optimizer": "sgd", "lr": 0.1}, marks=pytest.mark.slow),
        pytest.param({"recipe": "ngpt"}, marks=pytest.mark.slow),
        pytest.param({"norm": "batch"}, marks=pytest.mark.slow),
    ],
    ids=lambda options: next(iter(options.values())),
)
def test_a_resumed_run_has_the_same_losses_and_weights_bit_for_bit(big, tmp_path, options):
    out, again = big(**options), tmp_path / "again"
    shutil.copytree(out, again)
    last = again / "checkpoints" / "step-00000008"
    (last / "state.json").unlink()  # as if it was killed in its save, or its removal
    big("again", resume=True)
    assert losses(again) == losses(out)
    for name in ("model.safetensors", "optimizer.safetensors"):
        ours, theirs = load_file(out / "checkpoints" / last.name / name), load_file(last / name)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_a_finished_run_is_left_as_it_is(big, whole, tmp_path):
    out = shutil.copytree(whole, tmp_path / "run")
    files = {path: path.read_bytes() for path in out.rglob("*.*") if path.name != "run.json"}
    big(resume=True)
    assert str(big.outcome) == "finished: 8 steps"
    assert files == {path: path.read_bytes() for path in files}


def test_only_the_newest_checkpoints_stay(big):
    out = big(save_every=1, keep=3, eval_every=0)
    names = [path.name for path in checkpoint.list_checkpoints(out / "checkpoints")]
    assert names == [f"step-{step:08d}" for step in (6, 7, 8)]
    state = json.loads((out / "checkpoints" / names[-1] / "state.json").read_text())
    assert state["sequences"] == 64 and state["config"]["lr"] == 3e-3
    assert state["versions"]["torch"] == torch.__version__


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("model.safetensors", "is damaged: its sha256 is not the one saved; remove the folder"),
        ("optimizer.safetensors", "is damaged: its sha256"),
        ("state.json", "must be JSON, but it is damaged"),
    ],
)
def test_a_damaged_checkpoint_names_itself_and_the_way_out(big, begun, file, said):
    path = begun / "checkpoints" / "step-00000004" / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x80
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said):
        big(resume=True)


def test_a_pickle_is_never_loaded(big, begun, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("a pickle was read")

    for name in ("pickle.load", "pickle.loads", "torch.load", "pickle.Unpickler"):
        monkeypatch.setattr(name, never)
    big(resume=True)
    assert big.outcome.steps == 8


def test_a_run_keeps_what_decides_its_curve(big, begun, tmp_path):
    with pytest.raises(ValueError, match="holds a run already; --resume goes on"):
        big(steps=2)
    with pytest.raises(ValueError, match=r"keeps --lr 0.003, got 0.1; leave the option out"):
        big(resume=True, lr=0.1)
    other = make_tokens(tmp_path / "other", train=5000)
    with pytest.raises(ValueError, match="was trained on other tokens than those in"):
        big(resume=True, data=str(other))
    assert not {"seed", "batch", "steps", "precision", "recipe", "optimizer"} & set(FREE)
    with hold_folder(begun), pytest.raises(ValueError, match="another process trains in"):
        big(resume=True)


def test_a_full_disk_leaves_the_checkpoints_before_it(big, whole, monkeypatch):
    def full(tensors, path):
        if path.name == "optimizer.safetensors" and path.parent.name.endswith("6"):
            raise OSError(errno.ENOSPC, "No space left on device")
        save_file(tensors, path)

    save_file = checkpoint.save_file
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(checkpoint, "save_file", full)
        big("full", save_every=2)
    folder = big.folder("full") / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == ["step-00000002", "step-00000004"]
    big("full", resume=True)
    assert losses(big.folder("full")) == losses(whole)


def test_tensorboard_gets_the_numbers_of_the_log(big, monkeypatch):
    fake = mock.MagicMock()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    monkeypatch.setattr("labkit.scale.start.check_tensorboard", lambda folder: None)
    out = big(steps=2, tensorboard="board")
    fake.SummaryWriter.assert_called_once_with("board", purge_step=0)
    board = fake.SummaryWriter.return_value
    rows = [call.args for call in board.add_scalar.call_args_list]
    assert [value for key, value, _ in rows if key == "loss"] == losses(out)
    assert [after for key, _, after in rows if key == "validation_loss"] == [2]
    board.close.assert_called_once_with()


def test_the_log_is_on_the_disk_before_a_checkpoint_is_and_its_state_comes_last(big, monkeypatch):
    path, synced, seen = big.folder("run") / "log.jsonl", [0], []
    fsync, save_file = os.fsync, checkpoint.save_file

    def noted(handle):
        fsync(handle)
        if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
            synced.append(len(losses(path.parent)))

    def saving(tensors, file):
        seen.append(synced[-1])
        assert not (file.parent / "state.json").exists(), "what vouches for it is written last"
        save_file(tensors, file)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(checkpoint, "save_file", saving)
    big(save_every=3)
    assert seen == [3, 3, 6, 6, 8, 8]


@pytest.mark.parametrize("twice", [False, True])
def test_a_log_with_a_hole_is_refused_and_says_how_to_go_on(big, whole, begun, twice):
    path = begun / "log.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2] + lines[1 if twice else 3 :]))
    with pytest.raises(ValueError, match="each of the 4 steps that are done, but step 2 is miss"):
        big(resume=True)
    shutil.rmtree(begun / "checkpoints" / "step-00000004")  # the way out that it names
    big(resume=True)
    assert losses(begun) == losses(whole)


def test_what_a_crash_damaged_in_the_log_is_cut_off(big, whole, begun):
    path = begun / "log.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:6]) + b"\0\0\xff\n")
    big(resume=True)
    assert losses(begun) == losses(whole)


def test_a_process_group_lives_on_after_its_run(monkeypatch):
    dist = mock.MagicMock(**{"get_rank.return_value": 1})
    alive = weakref.ref(dist.group.WORLD)
    dist.destroy_process_group.side_effect = lambda: delattr(dist.group, "WORLD")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(parallel, "dist", dist)
    with parallel.join_processes("cpu") as group:
        assert (group.rank, group.world) == (1, 2)
    gc.collect()
    assert alive() is not None, "its thread and this one would wait for each other"
