"""The kernels without Triton: their source, and facts that the code confirms."""

import json
from importlib.util import find_spec

import pytest

from labkit.costs import kernel_view
from labkit.costs.kernel_view import (
    COMPILED,
    INTERPRETED,
    benches,
    compare_times,
    kernel_text,
    read_steps,
    read_times,
    recorded,
    source_hash,
    write_record,
)

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="there is no Triton here")
AGAIN = "the kernels changed: `python -m labkit.costs.kernel_view record`"


def test_the_record_is_of_the_kernels_as_they_are():
    assert recorded()["source"] == source_hash(), AGAIN


def test_every_setting_is_recorded():
    found = recorded()
    compiled = {
        "/".join(map(str, (r["case"], r["n"], r["dtype"], *([r["warps"]] if r["forced"] else []))))
        for r in found["compiled"]
    }
    interpreted = {
        "/".join(map(str, (r["case"], r["m"], r["n"], r["dtype"]))) for r in found["interpreted"]
    }
    assert compiled == set(COMPILED) and interpreted == set(INTERPRETED)


@pytest.mark.slow
@needs_triton
def test_everything_recorded_is_found_again():
    fresh = kernel_view.measure_kernels()
    kept = recorded()
    assert fresh["compiled"] == kept["compiled"], AGAIN
    strip = [
        [{k: v for k, v in row.items() if k != "errors"} for row in found["interpreted"]]
        for found in (fresh, kept)
    ]
    assert strip[0] == strip[1], AGAIN


def test_a_kernels_text_is_that_of_its_file():
    text = kernel_text("rms_norm", "_forward")
    assert text.startswith("@triton.jit\ndef _forward(") and "tl.rsqrt(squares / N + eps)" in text
    both = kernel_text("layer_norm", "finish", "apply_affine")
    assert both.index("def finish(") < both.index("def apply_affine(")
    with pytest.raises(ValueError, match=r"rms_norm.py has no '_sideways'; it has _forward"):
        kernel_text("rms_norm", "_sideways")


def test_a_record_is_read_as_it_was_written(tmp_path):
    found = {"versions": {"triton": "1"}, "compiled": [{"n": 1}, {"n": 2}], "interpreted": []}
    path = write_record(found, tmp_path / "kernels.json")
    assert recorded(path) == found


def test_dry_runs_are_no_measurements(tmp_path):
    assert benches(tmp_path) == {}
    for name, dry in (("a", True), ("b", False)):
        one = {"provenance": {"device": name}, "dry_run": dry, "results": {}}
        (tmp_path / f"{name}.json").write_text(json.dumps(one))
    assert list(benches(tmp_path)) == ["b"]


def test_times_are_of_large_sizes_and_of_those_who_were_right():
    def take(us):
        return {"us": us, "p20": 0.9 * us, "p80": 1.2 * us}

    providers = {
        "ours": {"status": "ok", "forward": take(10.0)},
        "theirs": {"status": "ok", "forward": take(30.0)},
        "bad": {"status": "wrong", "forward": take(1.0)},
    }
    size = {"kernel": "k", "m": 8, "n": 4, "dtype": "bf16", "large": True, "providers": providers}
    others = [size | {"large": False, "m": 1}, size | {"dtype": "fp32"}, size | {"kernel": "l"}]
    times = read_times({"results": dict(enumerate([size, *others]))}, "k")
    assert {at: [*of] for at, of in times.items()} == {(8, 4): ["ours", "theirs"]}
    ratio = compare_times(times[8, 4]["theirs"], times[8, 4]["ours"])
    assert ratio == pytest.approx((3.0, 27 / 12, 36 / 9))


def test_steps_are_of_those_who_were_right_and_no_dry_run(tmp_path):
    case = {"model": "llama", "width": 4, "batch": 1, "time": 8, "mode": "eager"}
    right = case | {"provider": "torch", "status": "ok", "ms": 3.0, "p20": 2.0, "p80": 4.0}
    rows = [right, right | {"provider": "quack", "status": "absent"}, right | {"mode": "compile"}]
    found = {"provenance": {"device": "x"}, "results": dict(enumerate(rows)), "dry_run": False}
    file = tmp_path / "steps.json"
    file.write_text(json.dumps(found))
    about, steps = read_steps(file)
    assert about == {"device": "x"}
    assert [*steps] == [("llama", 4, 1, 8)]
    assert [*steps["llama", 4, 1, 8]] == [("eager", "torch"), ("compile", "torch")]
    assert compare_times(right, right, "ms") == (1.0, 0.5, 2.0)
    file.write_text(json.dumps(found | {"dry_run": True}))
    with pytest.raises(ValueError, match=r"steps.json must contain measurements, but it is from a"):
        read_steps(file)
