"""One big run in one process: sizes, settings, the loop, checkpoints and how a run goes on."""

import errno
import gc
import itertools
import json
import os
import shutil
import signal
import sys
import types
import weakref
from dataclasses import replace
from functools import partial

import pytest
import torch
from safetensors.torch import load_file
from scale_ranks import losses, make_tokens, read_log, run, signal_at

from labkit import train
from labkit.costs import kept_bytes
from labkit.placements import RECIPES
from labkit.scale import checkpoint, parallel, start
from labkit.scale.config import FREE, ScaleConfig
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


@pytest.mark.parametrize("name", [name for name in SIZES if name != "tiny"])
def test_a_size_is_what_its_name_says(name):
    count = count_parameters(model_config(name, "hybrid*", "rms", find_size(name).vocab))
    promised = float(name[:-1]) * {"M": 1e6, "B": 1e9}[name[-1]]
    assert count == pytest.approx(promised, rel=0.02)


def test_the_smallest_model_of_the_paper_is_counted_by_hand():
    d, hidden, blocks, vocab = 768, 2048, 12, 100_278
    attention = 2 * d * d + 2 * d * (d // 4) + 3 * (d // 16)  # q, out; k, v; gains of q, k, v
    block = attention + 3 * d * hidden + d
    first = d  # Pre-Norm before the first attention
    config = model_config("151M", "hybrid*", "rms", vocab)
    assert count_parameters(config) == vocab * d + blocks * block + first + d


@pytest.mark.slow
def test_every_recipe_has_every_size_and_an_estimate():
    for recipe in RECIPES:
        config = replace(model_config("tiny", recipe, "rms", 257, 16), depth=2)
        assert count_parameters(config) > 0
        assert estimate_memory(config, 1, 2, half=False).activations


def test_the_estimate_of_activations_is_what_a_pass_keeps():
    config = model_config("tiny", "hybrid*", "rms", 64, 32)
    tokens = torch.randint(64, (3, 32))
    for half in (False, True):
        model = config.build()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            kept = kept_bytes(partial(loss_of, model, tokens, tokens), model.parameters())
        assert estimate_memory(config, 0, 3, half).activations == kept
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


@pytest.mark.parametrize("micro_batch", [2, 1])
def test_accumulated_passes_take_the_step_of_the_whole_batch(big, micro_batch):
    whole, parts = big("whole"), big("parts", micro_batch=micro_batch)
    # the same sum in another order: float32 rounding, which eight Adam steps enlarge
    assert losses(parts) == pytest.approx(losses(whole), rel=1e-5, abs=1e-6)
    norms = [[line["grad_norm"] for line in read_log(o) if "step" in line] for o in (whole, parts)]
    assert norms[1] == pytest.approx(norms[0], rel=1e-4)


def test_bfloat16_computes_in_half_and_keeps_float32_weights(big):
    out, wide = big("half", precision="bfloat16"), big("wide")
    assert losses(out) != losses(wide)
    # three significant digits in each product
    assert losses(out) == pytest.approx(losses(wide), rel=0.02)
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


def test_a_run_that_is_asked_to_stop_leaves_a_checkpoint_and_goes_on(big):
    whole = big("whole")
    signal_at(2, signal.SIGTERM)
    out = big("asked")
    assert (big.outcome.reason, big.outcome.steps) == ("asked", 3)
    assert [path.name for path in checkpoint.list_checkpoints(out / "checkpoints")] == [
        "step-00000003"
    ]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    big("asked", resume=True)
    assert losses(out) == losses(whole)


def test_minutes_end_a_run_with_a_checkpoint(big):
    whole = big("whole")
    out = big("brief", minutes=1e-9)
    assert (big.outcome.reason, big.outcome.steps) == ("minutes", 1)
    big("brief", resume=True, minutes=60.0)
    assert big.outcome.reason == "finished" and losses(out) == losses(whole)


def test_admin_is_profiled_on_the_same_sequences_however_a_step_is_divided(big):
    whole, parts = (
        big("whole", recipe="admin", steps=2),
        big("parts", recipe="admin", steps=2, micro_batch=2),
    )
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


def go_on_from(out, copy, step: int):
    """Copy a run as it stood after `step` steps, its log already further."""
    shutil.copytree(out, copy)
    for path in checkpoint.list_checkpoints(copy / "checkpoints"):
        if path.name != f"step-{step:08d}":
            shutil.rmtree(path)


@pytest.mark.parametrize(
    "options",
    [{"recipe": "hybrid*"}, {"optimizer": "sgd", "lr": 0.1}, {"recipe": "ngpt"}, {"norm": "batch"}],
    ids=lambda options: next(iter(options.values())),
)
def test_a_resumed_run_has_the_same_losses_and_weights_bit_for_bit(big, tmp_path, options):
    out = big(**options)
    go_on_from(out, tmp_path / "again", 4)
    killed = tmp_path / "again" / "checkpoints" / "step-00000008"  # in its save, or its removal
    killed.mkdir()
    (killed / "model.safetensors").write_bytes(b"half")
    big("again", resume=True)
    assert losses(tmp_path / "again") == losses(out)
    ends = [checkpoint.list_checkpoints(o / "checkpoints")[-1] for o in (out, tmp_path / "again")]
    for name in ("model.safetensors", "optimizer.safetensors"):
        ours, theirs = (load_file(end / name) for end in ends)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_a_finished_run_is_left_as_it_is(big):
    out = big(steps=2)
    files = {path: path.read_bytes() for path in out.rglob("*.*") if path.name != "run.json"}
    big(resume=True)
    assert str(big.outcome) == "finished: 2 steps"
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
def test_a_damaged_checkpoint_names_itself_and_the_way_out(big, file, said):
    out = big(steps=2)
    path = checkpoint.list_checkpoints(out / "checkpoints")[-1] / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x80
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said):
        big(resume=True)


def test_a_pickle_is_never_loaded(big, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("a pickle was read")

    for name in ("pickle.load", "pickle.loads", "torch.load", "pickle.Unpickler"):
        monkeypatch.setattr(name, never)
    big(steps=2)
    big(resume=True)
    assert big.outcome.steps == 2


def test_a_run_keeps_what_decides_its_curve(big, tokens, tmp_path):
    big(steps=2)
    with pytest.raises(ValueError, match="holds a run already; --resume goes on"):
        big(steps=2)
    with pytest.raises(ValueError, match=r"keeps --lr 0.003, got 0.1; leave the option out"):
        big(resume=True, lr=0.1)
    other = make_tokens(tmp_path / "other", train=5000)
    with pytest.raises(ValueError, match="was trained on other tokens than those in"):
        big(resume=True, data=str(other))
    assert not {"seed", "batch", "steps", "precision", "recipe", "optimizer"} & set(FREE)


def test_a_full_disk_leaves_the_checkpoints_before_it(big, monkeypatch):
    whole = big("whole", save_every=2)

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
    written = []

    class Writer:
        def __init__(self, folder, purge_step):
            written.append((folder, purge_step))

        def add_scalar(self, *row):
            written.append(row)

        def close(self):
            written.append("closed")

    fake = types.SimpleNamespace(SummaryWriter=Writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    monkeypatch.setattr("labkit.scale.start.check_tensorboard", lambda folder: None)
    out = big(steps=2, tensorboard="board")
    assert written[0] == ("board", 0) and written[-1] == "closed"
    assert [row[1] for row in written if row[0] == "loss"] == losses(out)
    assert [row[2] for row in written if row[0] == "validation_loss"] == [2]


def test_two_trainings_never_share_a_folder(big, tmp_path):
    from labkit.scale.folder import hold_folder

    with (
        hold_folder(tmp_path / "run"),
        pytest.raises(ValueError, match="another process trains in"),
    ):
        big(steps=2)


def test_the_log_is_on_the_disk_before_a_checkpoint_is(big, monkeypatch):
    path, synced, seen = big.folder("run") / "log.jsonl", [0], []
    fsync, save_file = os.fsync, checkpoint.save_file

    def noted(handle):
        fsync(handle)
        if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
            synced.append(len(losses(path.parent)))

    def saving(tensors, file):
        seen.append(synced[-1])
        save_file(tensors, file)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(checkpoint, "save_file", saving)
    big(save_every=3)
    assert seen == [3, 3, 6, 6, 8, 8]


def test_a_log_with_a_hole_is_refused_and_says_how_to_go_on(big):
    out = big()
    shutil.rmtree(checkpoint.list_checkpoints(out / "checkpoints")[-1])
    whole, path = losses(out), out / "log.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2] + lines[3:]))
    with pytest.raises(
        ValueError, match="each of the 4 steps that are done, but step 2 is missing"
    ):
        big(resume=True)
    path.write_text("".join(lines[:2] + lines[1:]))
    with pytest.raises(ValueError, match="but step 2 is missing or out of order"):
        big(resume=True)
    shutil.rmtree(checkpoint.list_checkpoints(out / "checkpoints")[-1])  # the way out that it names
    big(resume=True)
    assert losses(out) == whole


def test_what_a_crash_damaged_in_the_log_is_cut_off(big):
    out = big()
    shutil.rmtree(checkpoint.list_checkpoints(out / "checkpoints")[-1])
    whole, path = losses(out), out / "log.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:6]) + b"\0\0\xff\n")
    big(resume=True)
    assert losses(out) == whole


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["half", "before state"])
def test_a_run_killed_while_it_saves_goes_on_bit_for_bit(big, tokens, tmp_path, moment):
    whole = big("whole", save_every=2)
    given = {"data": str(tokens), "out": str(tmp_path / "killed"), **QUICK, "save_every": 2}
    with pytest.raises(AssertionError):  # the process leaves no answer
        run(tmp_path / "ranks", [{"name": "k", "given": given, "kill": moment}], world=1)
    killed = tmp_path / "killed"
    assert not checkpoint.list_checkpoints(killed / "checkpoints"), (
        "half a checkpoint stands under its name"
    )
    assert len(losses(killed)) == 2, "it was to die in its first save"
    big("killed", resume=True)
    assert losses(killed) == losses(whole)


def test_a_process_group_lives_on_after_its_run(monkeypatch):
    class Made:
        """Stands for a group of gloo."""

    world = types.SimpleNamespace(WORLD=Made())
    alive = weakref.ref(world.WORLD)
    stand_in = types.SimpleNamespace(
        init_process_group=lambda *args, **kwargs: None,
        destroy_process_group=lambda: delattr(world, "WORLD"),
        get_rank=lambda: 1,
        group=world,
    )
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(parallel, "dist", stand_in)
    with parallel.join_processes("cpu") as group:
        assert (group.rank, group.world) == (1, 2)
    gc.collect()
    assert alive() is not None, "its thread and this one would wait for each other"
