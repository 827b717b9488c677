"""The benchmark program, without a GPU: it measures what it says, keeps it, and lets nobody cheat.

What needs Triton's interpreter runs in a process of its own.
"""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from normkernels import formulas
from normkernels.bench import __main__ as program
from normkernels.bench import check, operations, plan, providers, report, results, timing
from normkernels.bench.device import Gpu, Pretend, host_seconds
from normkernels.bench.measure import measure
from normkernels.bench.plan import Case

from labkit.plots.kernels import kernel_shares
from press.cli import main as labkit

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "kernels/normkernels/bench/report.py"
KERNELS = report.KERNELS


def words(*options):
    return [sys.executable, "-m", "normkernels.bench", *map(str, options)]


def bench(*options):
    env = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT / "kernels")}
    return subprocess.run(words(*options), capture_output=True, text=True, env=env, check=False)


def run_here(*options):
    """Run a dry run in this process, which does for what needs no kernel of ours."""
    return program.run(program.parser().parse_args([*map(str, options)]), Pretend())


# --- the file ---


@pytest.fixture(scope="module")
def dry(tmp_path_factory):
    """One dry run of two kernels: its file, and what it printed."""
    file = tmp_path_factory.mktemp("bench") / "dry.json"
    done = bench("--dry-run", "--out", file, "--kernels", "rms_norm", "unit_rows_", "--commit", "c")
    assert done.returncode == 0, done.stderr
    return file, done.stdout


@pytest.mark.slow
def test_a_dry_run_goes_through_everything_and_says_what_it_is(dry):
    file, printed = dry
    data = json.loads(file.read_text())
    assert data["dry_run"] is True and printed.startswith("**DRY RUN.**")
    assert data["slices"][0]["commit"] == "c" and data["provenance"]["source"]
    entry = data["results"]["rms_norm 33x48 bf16"]
    ours = entry["providers"]["normkernels"]
    assert ours["status"] == "ok" and entry["sets"] > 1
    assert set(ours["errors"]) == {"output 0", "gradient of x", "gradient of weight"}
    for way in ("forward", "backward"):
        assert 0 < ours[way]["p20"] <= ours[way]["us"] <= ours[way]["p80"]
        assert ours[way]["host_us"] > 0 and entry["rms_norm_host_us"][way] > 0
    assert entry["providers"]["copy"]["forward"]["share"] == 1
    assert "DRY RUN" in file.with_suffix(".md").read_text()


@pytest.mark.slow
def test_the_same_command_goes_on_and_finds_nothing_left(dry, capsys):
    file, _ = dry
    before = file.read_bytes()
    assert run_here("--out", file, "--kernels", "rms_norm", "unit_rows_") == 0
    assert "0 sizes measured, 0 left" in capsys.readouterr().out and file.read_bytes() == before


@pytest.mark.slow
def test_what_was_measured_survives_a_kill(tmp_path):
    file = tmp_path / "dry.json"
    options = ("--dry-run", "--out", file, "--kernels", "rms_norm")
    env = os.environ | {"TRITON_INTERPRET": "1"}
    with subprocess.Popen(words(*options), stdout=subprocess.PIPE, text=True, env=env) as process:
        for line in process.stdout:
            if line.startswith("rms_norm 33x48"):
                break
        process.send_signal(signal.SIGKILL)
    first = json.loads(file.read_text())["results"]
    assert "rms_norm 33x48 bf16" in first
    assert bench(*options, "--phases", "targets").returncode == 0
    data = json.loads(file.read_text())
    assert first.items() <= data["results"].items() and len(data["slices"]) == 2
    assert {entry["slice"] for entry in data["results"].values()} == {0, 1}


@pytest.mark.slow
def test_time_up_stops_before_the_next_size(tmp_path, capsys):
    assert run_here("--out", tmp_path / "x.json", "--kernels", "rms_norm", "--minutes", "0") == 0
    assert "0 sizes measured, 5 left" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("key", ["source", "dry_run"])
def test_results_of_different_code_or_versions_are_never_mixed(dry, tmp_path, key):
    data = json.loads(dry[0].read_text())
    (data if key == "dry_run" else data["provenance"])[key] = "other"
    file = tmp_path / "other.json"
    file.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=f"{key}: other there.*--out"):
        run_here("--out", file)
    assert json.loads(file.read_text()) == data


@pytest.mark.slow
def test_a_dry_run_is_never_written_among_the_measurements(tmp_path):
    done = bench("--dry-run", "--out", tmp_path / "data/bench/x.json")
    assert done.returncode == 2 and "dry run is none" in done.stderr and not [*tmp_path.iterdir()]


def test_without_a_gpu_the_program_says_how_to_go_on(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert program.main(["--kernels", "rms_norm"]) == 2
    assert "--dry-run" in capsys.readouterr().err


# --- right and wrong ---


class Lopsided(torch.autograd.Function):
    """RMSNorm without the projection in its backward pass."""

    @staticmethod
    def forward(ctx, x, weight):
        rstd = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)
        ctx.save_for_backward(x, weight, rstd)
        return (x * rstd * weight).to(x.dtype)

    @staticmethod
    def backward(ctx, dy):
        x, weight, rstd = ctx.saved_tensors
        return (dy * weight * rstd).to(x.dtype), (dy * x * rstd).sum(0).to(weight.dtype)


def one_bad_row(x, weight):
    y = formulas.rms_norm(x, weight)
    return torch.cat((y[:-1], 2 * y[-1:]))


def nan_row(x, weight):
    y = formulas.rms_norm(x, weight)
    return torch.cat((y[:-1], y[-1:] * math.nan))


class Overwriting(torch.autograd.Function):
    """RMSNorm that destroys dY once it is done with it."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return formulas.rms_norm(x, weight)

    @staticmethod
    def backward(ctx, dy):
        leaves = [t.detach().requires_grad_() for t in ctx.saved_tensors]
        with torch.enable_grad():
            grads = torch.autograd.grad(formulas.rms_norm(*leaves), leaves, dy)
        dy.zero_()
        return grads


def remembering():
    kept = {}

    def call(x, weight):  # right at first sight, and does nothing when it is called again
        if x.data_ptr() not in kept:
            kept[x.data_ptr()] = formulas.rms_norm(x, weight)
        return kept[x.data_ptr()]

    return call


def failing(x, weight):
    raise RuntimeError("no such luck\nmore")


LIARS = {
    "gradient of x is off": Lopsided.apply,
    "writes into what it was given": Overwriting.apply,
    "output 0 is off": one_bad_row,
    "output 0 is off by nan": nan_row,
    "captured forward": remembering(),
}


def measured(monkeypatch, case=None, **calls):
    """Measure with calls in the place of providers, as the dry run would."""
    for name, call in calls.items():
        monkeypatch.setitem(providers._MAKERS, name, lambda kernel, call=call: call)
    case = case or Case("rms_norm", 512, 64)
    return measure(case, tuple(calls), Pretend())["providers"]


@pytest.mark.parametrize(
    "reason", [pytest.param(r, marks=[pytest.mark.slow] * r.startswith("output")) for r in LIARS]
)
def test_a_provider_that_is_wrong_is_named_and_not_timed(monkeypatch, reason):
    right = formulas.rms_norm
    entries = measured(monkeypatch, quack=LIARS[reason], eager=right)
    assert entries["quack"]["status"] == "wrong"
    assert entries["quack"]["reason"].startswith(reason)
    assert "forward" not in entries["quack"]
    assert entries["eager"]["status"] == "ok" and "forward" in entries["eager"]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "bf16+fp32", "fp32"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_formula_passes_its_own_check(monkeypatch, kernel, dtype):
    if kernel == "qk_norm_rope":
        case = Case(kernel, 32, 16, dtype, (4, 2))
    else:
        case = Case(kernel, 40, 96, dtype)
    monkeypatch.setattr(check, "CHUNK", 1000)  # the reference in several steps
    entries = measured(monkeypatch, case, eager=operations.OPERATIONS[kernel].formula)
    assert entries["eager"]["status"] == "ok", entries["eager"]


def test_a_provider_that_breaks_the_device_is_left_out_from_then_on(monkeypatch, tmp_path, capsys):
    def lost(device):
        raise RuntimeError("illegal memory access")

    monkeypatch.setattr(Pretend, "synchronize", lost)
    monkeypatch.setitem(providers._MAKERS, "quack", lambda kernel: failing)
    monkeypatch.setattr(program, "NAMES", ("quack",))
    options = ["--out", tmp_path / "x.json", "--kernels", "rms_norm", "--phases", "peers"]
    assert run_here(*options) == 1 and "quack broke the device" in capsys.readouterr().out
    data = json.loads((tmp_path / "x.json").read_text())
    assert data["crashed"] == {"rms_norm 33x48 bf16": ["quack"]} and not data["results"]
    monkeypatch.setattr(Pretend, "synchronize", lambda device: None)
    assert run_here(*options) == 0
    entries = json.loads((tmp_path / "x.json").read_text())["results"]
    found = [entry["providers"]["quack"] for entry in entries.values()]
    reasons = ["broke the device's context", "RuntimeError: no such luck"]
    assert found == [{"status": "failed", "reason": reason} for reason in reasons]


# --- numbers ---

P, M, N = 132, 8192, 4096  # multiprocessors of an H200
BYTES = {  # by hand, after kernels.md: activations, statistics, parameters, partial sums
    "rms_norm": (2 * 2 * M * N + 4 * M + 2 * N, 3 * 2 * M * N + 4 * M + 4 * N + 8 * P * N),
    "layer_norm": (2 * 2 * M * N + 8 * M + 4 * N, 3 * 2 * M * N + 8 * M + 6 * N + 16 * P * N),
    "add_rms_norm": (8 * M * N + 4 * M + 2 * N, 8 * M * N + 4 * M + 4 * N + 8 * P * N),
    "add_layer_norm": (8 * M * N + 8 * M + 4 * N, 8 * M * N + 8 * M + 6 * N + 16 * P * N),
    "deep_norm": (8 * M * N + 8 * M + 4 * N, 8 * M * N + 8 * M + 6 * N + 16 * P * N),
    "dynamic_tanh": (4 * M * N + 2 * (2 * N + 1), 6 * M * N + 6 * N + 4 + 8 * P * (2 * N + 1)),
    "dynamic_erf": (4 * M * N + 2 * (2 * N + 2), 6 * M * N + 6 * N + 8 + 8 * P * (2 * N + 2)),
    "ngpt_update": (6 * M * N + 2 * N, 10 * M * N + 4 * N + 8 * P * N),
    "unit_rows_": (4 * M * N, 0),
    "unit_rows_ dim=0": (4 * M * N, 0),
}


@pytest.mark.parametrize("kernel", BYTES)
def test_bytes_are_those_counted_by_hand(kernel):
    case = Case(kernel, M, N)
    counted = operations.OPERATIONS[kernel].bytes(case, P)
    assert (counted["forward"], counted["backward"]) == BYTES[kernel]


def test_bytes_of_heads_and_of_wide_parameters():
    every = operations.OPERATIONS
    heads = Case("qk_norm_rope", 8192, 128, "bf16", (32, 8))
    values, angles = 8192 * 40 * 128, 1024 * 64 * 4
    counted = every["qk_norm_rope"].bytes(heads, P)
    assert counted["forward"] == 4 * values + angles + 2 * 256
    assert counted["backward"] == 6 * values + angles + 4 * 256 + 8 * P * 256
    mixed = every["rms_norm"].bytes(Case("rms_norm", M, N, "bf16+fp32"), P)
    assert mixed["forward"] == 4 * M * N + 4 * M + 4 * N
    assert every["rms_norm"].bytes(Case("rms_norm", 1, N), P)["partials"] == 8 * N


def test_spread_gives_percentiles_and_the_median():
    assert timing.spread([float(i) for i in range(101)]) == pytest.approx((20, 50, 80))
    assert timing.spread([3.0]) == (3.0, 3.0, 3.0)
    assert report.geometric([0.5, 2.0, 8.0]) == pytest.approx(2)


def test_the_plan_starts_with_the_targets_and_covers_every_size_once():
    work = plan.plan(list(KERNELS))
    phases = [phase for phase, _ in work]
    assert phases == sorted(phases, key=plan.PHASES.index)
    first = [case for phase, case in work if phase == "targets"]
    for case in first:
        heads = sum(case.heads) if case.heads else 1
        assert 2 * case.m * heads * case.n >= 64 * 2**20 and case.dtype == "bf16"
    for kernel in KERNELS:
        lengths = {128} if kernel == "qk_norm_rope" else {*report.LENGTHS, 16384}
        assert {case.n for case in first if case.kernel == kernel} == lengths
    later = [case.key for phase, case in work if phase != "targets"]
    assert len(later) == len(set(later)) and {case.key for case in first} <= set(later)
    assert sum(key.startswith("rms_norm ") for key in later) == 6 * 6 * 3


def test_every_kernel_is_measured_and_exists():
    import normkernels

    assert tuple(operations.OPERATIONS) == KERNELS
    assert not [name for name in KERNELS if not hasattr(normkernels, name.split()[0])]


# --- the GPU's own part, as far as it goes without one ---


def test_the_gpus_methods_call_what_torch_offers(monkeypatch, tmp_path):
    facts = types.SimpleNamespace(
        name="NVIDIA H200", multi_processor_count=132, L2_cache_size=60 << 20, uuid="ab-c"
    )
    captured = []
    graph = types.SimpleNamespace(replay=lambda: captured.append("replay"))
    event = types.SimpleNamespace(record=lambda: None, elapsed_time=lambda end: 2.0)  # ms

    def capture(cuda_graph, *, stream, capture_error_mode):
        assert cuda_graph is graph and stream == "stream"
        captured.append("capture")
        return contextlib.nullcontext()

    fake = {
        "is_available": lambda: True, "current_device": lambda: 0, "empty_cache": lambda: None,
        "get_device_properties": lambda device: facts, "synchronize": lambda: None,
        "Stream": lambda device: "stream", "stream": lambda s: contextlib.nullcontext(s),
        "CUDAGraph": lambda: graph, "Event": lambda enable_timing: event, "graph": capture,
    }  # fmt: skip
    for name, value in fake.items():
        assert hasattr(torch.cuda, name)
        monkeypatch.setattr(torch.cuda, name, value)
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        '#!/bin/sh\necho "$@" >&2\necho 580.1, 1980 MHz, 1980, 3201, 3201, 40, 90, 700, 0, 1\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    device = Gpu()
    with device.working():
        replay = device.capture(lambda: captured.append("run"))
        assert captured == ["run", "run", "capture", "run"]
        assert device.seconds(replay, 3) == [2e-3] * 3
    assert captured[4:] == ["replay"] * 4
    device.free()
    device.synchronize()
    assert device.clocks()["clocks.sm"] == "1980 MHz"
    assert device.facts()["driver"] == "580.1" and device.facts()["processors"] == 132
    assert results.file_name(device) == Path("data/bench/nvidia-h200.json")
    assert host_seconds(device, lambda: None) < 1


@pytest.mark.slow
def test_tuning_prints_a_verdict_for_each_direction():
    done = bench("tune", "--dry-run", "--kernels", "rms_norm")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("choices: present") == 4
    assert "rows.forward_tile(48) = Tile(rows=" in done.stdout


@pytest.mark.slow
def test_a_dry_run_of_every_kernel_finds_ours_right(tmp_path):
    file = tmp_path / "dry.json"
    assert bench("--dry-run", "--out", file, "--phases", "targets").returncode == 0
    results = json.loads(file.read_text())["results"]
    states = {key: entry["providers"]["normkernels"]["status"] for key, entry in results.items()}
    assert set(states.values()) == {"ok"}, states


# --- table and figure ---


def recorded(shares, dry_run=False, host=10.0, peer=1.25):
    """Make up a file: our shares by direction, torch slower by a factor, liger wrong."""
    found = {}
    for kernel in KERNELS[:-1]:  # the last one was not measured
        for n in (128,) if kernel == "qk_norm_rope" else report.LENGTHS:
            ways = ("forward",) if kernel.startswith("unit_") else ("forward", "backward")
            time = {way: {"us": 40.0, "p20": 39.0, "p80": 41.0, "gbps": 4000.0, "share": 1.0,
                          "host_us": 5.0} for way in ways}  # fmt: skip
            ours = {w: t | {"us": 40 / shares[w], "share": shares[w], "host_us": host}
                    for w, t in time.items()}  # fmt: skip
            theirs = {w: t | {"us": peer * t["us"], "share": t["share"] / peer}
                      for w, t in ours.items()}  # fmt: skip
            found[f"{kernel} 8192x{n} bf16"] = {
                "slice": 0, "kernel": kernel, "m": 8192, "n": n, "dtype": "bf16", "large": True,
                "heads": [32, 8] if kernel == "qk_norm_rope" else None, "sets": 2, "cold": True,
                "bytes": {"forward": 1, "backward": len(ways) - 1, "partials": 0},
                "rms_norm_host_us": {"forward": 8.0, "backward": 8.0},
                "providers": {
                    "copy": {"status": "ok", **time}, "normkernels": {"status": "ok", **ours},
                    "torch": {"status": "ok", **theirs},
                    "liger": {"status": "wrong", "reason": "gradient of x is off"},
                },
            }  # fmt: skip
    provenance = {
        "device": "NVIDIA H200", "driver": "1", "cuda": "13", "torch": "2", "triton": "3",
        "python": "3", "peers": {"liger": "1", "quack": None}, "source": "abc",
    }  # fmt: skip
    return {"schema": 1, "dry_run": dry_run, "provenance": provenance, "slices": [{"date": "d"}],
            "results": found}  # fmt: skip


def table_of(data, tmp_path):
    """Write the table with nothing but Python's own library."""
    file = tmp_path / "nvidia-h200.json"
    file.write_text(json.dumps(data))
    command = [sys.executable, "-I", "-S", str(REPORT), str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_each_target_is_met_or_not_or_not_measured(tmp_path):
    data = recorded({"forward": 0.93, "backward": 0.79})
    entries = data["results"]
    entries["layer_norm 8192x5120 bf16"]["providers"]["normkernels"]["forward"]["share"] = 0.88
    del entries["deep_norm 8192x1024 bf16"]
    entries["ngpt_update 8192x2048 bf16"]["providers"]["normkernels"] = {
        "status": "wrong", "reason": "output 0 is off",
    }  # fmt: skip
    lines = table_of(data, tmp_path).splitlines()

    def row(start):
        return next(line for line in lines if line.startswith(f"| {start} |"))

    assert row("rms_norm") == (
        "| rms_norm | met: 93% at N = 1024 | **not met**: 79% at N = 1024 "
        "| met: forward 1.25×, backward 1.25× |"
    )
    assert "**not met**: 88% at N = 5120" in row("layer_norm")
    assert "met so far: 93% at N = 2048, 4 of 5 lengths" in row("deep_norm")
    assert "| **not met**: wrong at N = 2048 | **not met**: wrong" in row("ngpt_update")
    assert row("unit_rows_ dim=0").count("not measured") == 2
    assert "met: 1.25 |" in row("torch") and "not measured" in row("liger")
    assert any(line.startswith("- liger **wrong** at rms_norm, layer_norm") for line in lines)


def test_a_peer_that_leads_and_a_slow_host_are_told(tmp_path):
    table = table_of(recorded({"forward": 0.95, "backward": 0.9}, host=13.0, peer=0.8), tmp_path)
    assert "| torch | **not met**: 0.80 |" in table
    assert "| **not met**: forward 1.62×, backward 1.62× |" in table


def test_a_dry_run_meets_no_target(tmp_path):
    table = table_of(recorded({"forward": 2.0, "backward": 2.0}, dry_run=True), tmp_path)
    assert "> **DRY RUN.**" in table and "met:" not in table


@pytest.mark.slow
def test_the_figure_has_a_line_for_each_provider_and_says_what_it_shows():
    figure = kernel_shares(recorded({"forward": 0.93, "backward": 0.79}))
    panels = [ax for ax in figure.fig.axes if ax.axison]
    assert len(panels) == 10 + 9  # a kernel in place has no backward
    names = [text.get_text() for text in figure.fig.legends[0].get_texts()]
    assert names == ["normkernels", "torch"]
    said = "rms_norm backward: normkernels is 79 at 1024 and at 8192; best of the others is torch"
    assert said in figure.alt
    assert "NVIDIA H200" in figure.caption and "DRY" not in figure.alt
    assert figure.png()


def test_labkit_writes_table_and_figure_beside_the_file(tmp_path, capsys):
    file = tmp_path / "dry.json"
    file.write_text(json.dumps(recorded({"forward": 0.9, "backward": 0.8}, dry_run=True)))
    assert labkit(["bench", "kernels", str(file)]) == 0
    assert "DRY RUN" in capsys.readouterr().out
    page = file.with_suffix(".md").read_text()
    assert page.count("DRY RUN") >= 3 and "![DRY RUN, no measurements. Line plots" in page
    assert file.with_suffix(".png").stat().st_size > 10_000


def test_labkit_refuses_what_is_no_file_of_results(tmp_path, capsys):
    file = tmp_path / "x.json"
    file.write_text('{"schema": 2}')
    assert labkit(["bench", "kernels", str(file)]) == 2
    assert "schema 1" in capsys.readouterr().err
