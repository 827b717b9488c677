"""The benchmark program, without a GPU: correct measurements, stored results, no cheating.

A dry run of our kernels, in Triton's interpreter, is a process of its own.
"""

import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from normkernels import formulas
from normkernels.bench import __main__ as program
from normkernels.bench import check, plan
from normkernels.bench.device import Device
from normkernels.bench.measure import DeviceLost, check_call, measure_size, record_copies
from normkernels.bench.operations import OPERATIONS
from normkernels.bench.plan import Case
from normkernels.bench.providers import find_call

from labkit.plots.kernels import kernel_shares, write_report
from press.cli import main as labkit

from .measure import DEVICE

ROOT = Path(__file__).parents[2]
INTERPRETED = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT / "kernels")}


def words(*options):
    return [sys.executable, "-m", "normkernels.bench", *map(str, options)]


def bench(*options):
    return subprocess.run(words(*options), capture_output=True, text=True, env=INTERPRETED)


def run_here(*options, device=None, find=lambda name, kernel: find_call("eager", kernel)):
    """Do a dry run in this process, with the formula as every provider: no kernel is needed."""
    parsed = program.build_parser().parse_args([*map(str, options)])
    return program.measure_sizes(parsed, device or Device(dry=True), find)


# --- the file ---


@pytest.fixture(scope="module")
def dry(tmp_path_factory):
    """One dry run of two kernels: its file, and its output."""
    file = tmp_path_factory.mktemp("bench") / "dry.json"
    few = ("--cases", "(rms_norm|unit_rows_) ", "--phases", "targets")
    done = bench("--dry-run", "--out", file, "--commit", "c", *few)
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
        assert statistics.median(ours[way]["rounds"]) == pytest.approx(ours[way]["us"], rel=1e-4)
        assert len(ours[way]["rounds"]) == 5
        assert ours[way]["host_us"] > 0
    assert entry["providers"]["copy"]["forward"]["share"] == 1
    assert "backward" not in data["results"]["unit_rows_ 33x48 bf16"]["providers"]["normkernels"]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", OPERATIONS)
def test_every_kernel_of_ours_is_right(kernel):
    case = plan.list_dry_cases(kernel)[0]
    data = check.draw_data(OPERATIONS[kernel], case, DEVICE)
    exact = check.compute_reference(OPERATIONS[kernel], data, case)
    errors, wrong = check_call(find_call("normkernels", kernel), case, data, exact)
    assert errors and not wrong


def test_time_up_stops_before_the_next_size_and_the_same_command_goes_on(tmp_path, capsys):
    file = tmp_path / "x.json"
    options = ("--out", file, "--cases", "rms_norm ")
    assert run_here(*options, "--minutes", "0") == 0
    assert "3 sizes left" in capsys.readouterr().out and not file.exists()
    assert run_here(*options) == 0
    assert "0 sizes left" in capsys.readouterr().out
    before = file.read_bytes()
    assert run_here(*options) == 0
    assert "0 sizes left" in capsys.readouterr().out and file.read_bytes() == before


@pytest.mark.parametrize("key", ["source", "dry_run"])
def test_results_of_different_code_or_versions_are_never_mixed(tmp_path, key):
    file = tmp_path / "x.json"
    assert run_here("--out", file, "--cases", "rms_norm ", "--phases", "targets") == 0
    data = json.loads(file.read_text())
    (data if key == "dry_run" else data["provenance"])[key] = "other"
    file.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=f"{key}: other there.*--out"):
        run_here("--out", file)
    assert json.loads(file.read_text()) == data


def test_a_dry_run_is_never_written_among_the_measurements(tmp_path):
    with pytest.raises(ValueError, match="but this is a dry run"):
        run_here("--out", tmp_path / "data/bench/x.json")
    assert not [*tmp_path.iterdir()]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_program_says_how_to_go_on(capsys):
    assert program.main(["--cases", "rms_norm "]) == 2
    assert "--dry-run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("expression", "named"),
    [("layernorm", "'layernorm' matches none; the first is '"), ("(", "got '\\(': missing")],
)
def test_an_expression_that_chooses_no_case_is_refused(tmp_path, expression, named):
    with pytest.raises(ValueError, match=f"--cases must .*{named}"):
        run_here("--out", tmp_path / "x.json", "--cases", expression)
    assert not [*tmp_path.iterdir()]


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


class Overwriting(torch.autograd.Function):
    """RMSNorm that destroys dY after using it."""

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


def spoil_last_row(factor):
    def call(x, weight):
        y = formulas.rms_norm(x, weight)
        return torch.cat((y[:-1], factor * y[-1:]))

    return call


def remember():
    kept = {}

    def call(x, weight):  # right at first sight, and does nothing when it is called again
        if x.data_ptr() not in kept:
            kept[x.data_ptr()] = formulas.rms_norm(x, weight)
        return kept[x.data_ptr()]

    return call


def fail(x, weight):
    raise RuntimeError("no such luck\nmore")


LIARS = {
    "gradient of x is off": Lopsided.apply,
    "writes into what it was given": Overwriting.apply,
    "output 0 is off": spoil_last_row(2),
    "output 0 is off by nan": spoil_last_row(math.nan),
    "captured forward": remember(),
}


@pytest.mark.parametrize("reason", LIARS)
def test_a_provider_that_is_wrong_is_named_and_not_timed(reason):
    calls = {"liar": LIARS[reason], "honest": formulas.rms_norm, "none": "not installed"}
    found = measure_size(Case("rms_norm", 512, 64), calls, Device(dry=True))["providers"]
    assert found["liar"]["status"] == "wrong" and found["liar"]["reason"].startswith(reason)
    assert "forward" not in found["liar"]
    assert found["honest"]["status"] == "ok" and "forward" in found["honest"]
    assert found["none"] == {"status": "absent", "reason": "not installed"}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "bf16+fp32", "fp32"])
@pytest.mark.parametrize("kernel", OPERATIONS)
def test_every_formula_passes_its_own_check(kernel, dtype):
    case = Case(kernel, 40, 96, dtype)
    if kernel == "qk_norm_rope":
        case = Case(kernel, 32, 16, dtype, (4, 2))
    found = measure_size(case, {"eager": find_call("eager", kernel)}, Device(dry=True))["providers"]
    assert found["eager"]["status"] == "ok", found["eager"]


@pytest.mark.parametrize("kernel", ["add_layer_norm", "qk_norm_rope"])
def test_the_reference_is_the_same_in_one_step_and_in_several(kernel):
    case = Case(kernel, 32, 16, "fp32", (4, 2) if kernel == "qk_norm_rope" else None)
    data = check.draw_data(OPERATIONS[kernel], case, torch.device("cpu"))
    whole = check.compute_reference(OPERATIONS[kernel], data, case)
    parts = check.compute_reference(OPERATIONS[kernel], data, case, chunk=100)
    assert whole.keys() == parts.keys()
    assert all(torch.allclose(whole[name], parts[name], rtol=1e-12) for name in whole)


class Lost(Device):
    """A device that no longer responds."""

    def synchronize(self):
        raise RuntimeError("illegal memory access")


def test_a_provider_that_breaks_the_device_is_left_out_from_then_on(tmp_path, capsys):
    with pytest.raises(DeviceLost, match="quack"):
        measure_size(Case("rms_norm", 8, 16), {"quack": fail}, Lost(dry=True))

    def find(name, kernel):
        return fail if name == "quack" else "not installed"

    file = tmp_path / "x.json"
    options = ["--out", file, "--cases", "rms_norm ", "--phases", "targets"]
    assert run_here(*options, device=Lost(dry=True), find=find) == 1
    assert "quack broke the device" in capsys.readouterr().out
    assert not json.loads(file.read_text())["results"]
    assert run_here(*options, find=find) == 0
    entries = json.loads(file.read_text())["results"].values()
    reason = "broke the device at rms_norm 33x48 bf16"
    assert [e["providers"]["quack"] for e in entries] == [
        {"status": "absent", "reason": reason}
    ] * 2


# --- numbers ---

P, M, N = 132, 8192, 4096  # multiprocessors of an H200
BYTES = {  # by hand, after kernels.md: activations, statistics, parameters, partial sums
    "rms_norm": (2 * 2 * M * N + 4 * M + 2 * N, 3 * 2 * M * N + 4 * M + 4 * N + 8 * P * N),
    "layer_norm": (2 * 2 * M * N + 8 * M + 4 * N, 3 * 2 * M * N + 8 * M + 6 * N + 16 * P * N),
    "add_rms_norm": (8 * M * N + 4 * M + 2 * N, 8 * M * N + 4 * M + 4 * N + 8 * P * N),
    "add_layer_norm": (8 * M * N + 8 * M + 4 * N, 8 * M * N + 8 * M + 6 * N + 16 * P * N),
    "deep_norm": (8 * M * N + 8 * M + 4 * N, 8 * M * N + 8 * M + 6 * N + 16 * P * N),
    "rms_norm_add": (6 * M * N + 4 * M + 2 * N, 6 * M * N + 4 * M + 4 * N + 8 * P * N),
    "rms_norm_add_norm": (8 * M * N + 8 * M + 4 * N, 14 * M * N + 8 * M + 8 * N + 16 * P * N),
    "rms_norm_gated": (6 * M * N + 4 * M + 2 * N, 10 * M * N + 4 * M + 4 * N + 8 * P * N),
    "dynamic_tanh": (4 * M * N + 2 * (2 * N + 1), 6 * M * N + 6 * N + 4 + 8 * P * (2 * N + 1)),
    "dynamic_erf": (4 * M * N + 2 * (2 * N + 2), 6 * M * N + 6 * N + 8 + 8 * P * (2 * N + 2)),
    "ngpt_update": (6 * M * N + 2 * N, 10 * M * N + 4 * N + 8 * P * N),
    "unit_rows_": (4 * M * N, 0),
    "unit_rows_ dim=0": (4 * M * N, 0),
}


@pytest.mark.parametrize("kernel", BYTES)
def test_bytes_are_those_counted_by_hand(kernel):
    counted = OPERATIONS[kernel].count_bytes(Case(kernel, M, N), P)
    assert (counted["forward"], counted["backward"]) == BYTES[kernel]


def test_bytes_of_heads_and_of_wide_parameters():
    heads = Case("qk_norm_rope", 8192, 128, "bf16", (32, 8))
    values, angles = 8192 * 40 * 128, 1024 * 64 * 4
    counted = OPERATIONS["qk_norm_rope"].count_bytes(heads, P)
    assert counted["forward"] == 4 * values + angles + 2 * 256
    assert counted["backward"] == 6 * values + angles + 4 * 256 + 8 * P * 256
    mixed = OPERATIONS["rms_norm"].count_bytes(Case("rms_norm", M, N, "bf16+fp32"), P)
    assert mixed["forward"] == 4 * M * N + 4 * M + 4 * N


def test_the_plan_starts_with_the_targets_and_covers_every_size_once():
    cases = plan.plan_sizes(list(OPERATIONS))
    first = plan.plan_sizes(list(OPERATIONS), ("targets",))
    assert cases[: len(first)] == first
    for case in first:
        heads = sum(case.heads) if case.heads else 1
        assert 2 * case.m * heads * case.n >= 64 * 2**20 and case.dtype == "bf16"
    for kernel in OPERATIONS:
        longest = plan.LONGEST.get(kernel, max(plan.LENGTHS))
        lengths = {n for n in plan.LENGTHS if n <= longest}
        lengths = {128} if kernel == "qk_norm_rope" else lengths
        assert {case.n for case in first if case.kernel == kernel} == lengths
    assert len(cases) == len({case.key for case in cases})


def test_the_copy_reads_one_half_and_writes_the_other():
    for track in record_copies({"forward": 640, "backward": 96}, 3, Device(dry=True)):
        made = track.run(1)
        read = made.as_strided(made.shape, made.stride(), made.storage_offset() + made.numel())
        assert made.nbytes * 2 == track.bytes and made.storage_offset() == 2 * made.numel()
        assert torch.equal(made, ~read)


# --- tables and figure ---


def make_results(dry_run=False):
    """Make an artificial file: our forward at 93 %, backward at 79 %, torch slower, liger wrong."""
    found = {}
    for n in (1024, 8192):
        shares = {"forward": 0.93, "backward": 0.79}
        ours = {w: {"us": 40 / s, "gbps": 1, "share": s, "host_us": 10} for w, s in shares.items()}
        theirs = {way: time | {"share": time["share"] / 2} for way, time in ours.items()}
        wrong = {"status": "wrong", "reason": "gradient of x is off"}
        providers = {"copy": ours, "normkernels": ours, "torch": theirs}
        found[f"rms_norm 8192x{n} bf16"] = {
            **{"kernel": "rms_norm", "n": n, "dtype": "bf16", "heads": None, "large": True},
            **{"bytes": {"forward": 1, "backward": 1}, "cold": True},
            "providers": {k: {"status": "ok", **v} for k, v in providers.items()}
            | {"liger": wrong},
        }
    facts = dict.fromkeys(("driver", "cuda", "torch", "triton", "python", "source"), "1")
    facts |= {"device": "NVIDIA H200", "peers": {"liger": "1", "quack": None}}
    return {"schema": 1, "dry_run": dry_run, "provenance": facts, "results": found}


def test_the_report_says_which_target_is_missed_and_who_was_not_timed():
    report = write_report(make_results())
    assert "| rms_norm | 93 % at N = 1024 | 79 % at N = 1024, missed |" in report
    assert "93% / 79% | 46% / 40% |  | wrong |" in report
    assert "- liger **wrong** at rms_norm: gradient of x is off" in report
    assert "DRY RUN" not in report


@pytest.mark.slow
def test_the_figure_has_a_line_for_each_provider_and_says_what_it_shows():
    figure = kernel_shares(make_results())
    names = [text.get_text() for text in figure.fig.legends[0].get_texts()]
    assert names == ["normkernels", "torch"]
    said = "rms_norm backward: normkernels is 79 at 1024 and at 8192; best of the others is torch"
    assert said in figure.alt and "DRY" not in figure.alt
    assert "NVIDIA H200" in figure.caption and figure.png()
    narrow = figure.draw_narrow().fig
    assert {ax.get_subplotspec().colspan.start for ax in narrow.axes} == {0}, "one below the other"
    with pytest.raises(ValueError, match="nothing to draw"):
        kernel_shares(make_results(), ["layer_norm"])


def test_labkit_writes_tables_and_figure_beside_the_file(tmp_path, capsys):
    file = tmp_path / "dry.json"
    file.write_text(json.dumps(make_results(dry_run=True)))
    assert labkit(["show", str(file)]) == 0
    assert "DRY RUN" in capsys.readouterr().out
    page = file.with_suffix(".md").read_text()
    assert page.count("DRY RUN") >= 3 and "![DRY RUN, no measurements. Line plots" in page
    assert file.with_suffix(".png").stat().st_size > 5_000


def test_labkit_refuses_what_is_no_file_of_results(tmp_path, capsys):
    file = tmp_path / "x.json"
    file.write_text('{"schema": 2}')
    assert labkit(["show", str(file)]) == 2
    assert "schema 1" in capsys.readouterr().err
