"""The benchmark of whole training steps, without a GPU: the kernels run in Triton's interpreter."""

import json
import os
import sys

import pytest
import torch
from normkernels.bench import steps
from normkernels.bench.__main__ import build_parser
from normkernels.bench.device import Device

from tests.kernels import quick

if os.environ.get("TRITON_INTERPRET") == "1":
    quick.install()
CASES = [steps.StepCase(model, 32, 1, 2, 8, vocabulary=64) for model in ("llama", "labkit gemma2")]


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(steps, "TURNS", 1)
    monkeypatch.setattr(steps, "TURN", 3)
    monkeypatch.setattr(steps, "PROVIDERS", ("shipped", "torch", "normkernels", "quack"))
    monkeypatch.setattr(steps, "plan_steps", lambda dry: CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.model)
def test_providers_train_alike_and_a_missing_one_is_left_out_with_its_reason(
    few, case, monkeypatch
):
    if case.model == "llama":
        pytest.importorskip("transformers")
    monkeypatch.setitem(sys.modules, "quack", None)
    rows = steps.measure_steps(case, Device(dry=True), {})
    assert rows["quack"]["status"] == "absent" and "quack" in rows["quack"]["reason"]
    shipped = rows["shipped"]
    for name in ("torch", "normkernels"):
        assert rows[name]["status"] == "ok", rows[name]
        assert rows[name]["losses"] == pytest.approx(shipped["losses"], rel=5e-3)
        assert 0 < rows[name]["p20"] <= rows[name]["ms"] <= rows[name]["p80"]
    assert shipped["losses"][-1] < shipped["losses"][0]


def test_a_provider_whose_gain_is_not_the_models_is_wrong_and_not_timed(few):
    def put(model, name, case):
        if name == "torch":
            steps.convert(model, {"*RMSNorm": lambda old: torch.nn.RMSNorm(32).bfloat16()})
            torch.nn.init.constant_(model.get_parameter("final_norm.weight"), 1.1)

    absent = dict.fromkeys(("normkernels", "quack"), "not asked")
    rows = steps.measure_steps(CASES[1], Device(dry=True), absent, put=put)
    assert rows["shipped"]["status"] == "ok"
    assert rows["torch"]["status"] == "wrong" and "ms" not in rows["torch"]


def test_a_model_as_shipped_that_fails_stops_nobody_else(few):
    def put(model, name, case):
        if name == "shipped":
            raise RuntimeError("out of memory")

    absent = dict.fromkeys(("normkernels", "quack"), "not asked")
    rows = steps.measure_steps(CASES[1], Device(dry=True), absent, put=put)
    assert rows["shipped"]["status"] == "failed" and rows["torch"]["status"] == "ok"


def test_a_model_that_cannot_be_built_is_noted_and_the_next_is_measured(few, tmp_path):
    def measure(case, *others):
        if case is CASES[0]:
            raise ModuleNotFoundError("No module named 'transformers'")
        return {name: {"status": "ok", "ms": 1.0} for name in steps.PROVIDERS}

    file = tmp_path / "steps.json"
    options = build_parser().parse_args(["--steps", "--out", str(file)])
    assert steps.record_steps(options, Device(dry=True), measure) == 0
    rows = json.loads(file.read_text())["results"]
    assert {row["status"] for row in rows.values()} == {"absent", "ok"}
    options = build_parser().parse_args(["--steps", "--cases", "labkit", "--out", f"{file}.1"])
    assert steps.record_steps(options, Device(dry=True), measure) == 0
    chosen = json.loads((tmp_path / "steps.json.1").read_text())["results"]
    assert {row["status"] for row in chosen.values()} == {"ok"}


def test_rows_survive_a_kill_and_the_same_command_measures_the_rest(few, tmp_path, monkeypatch):
    file = tmp_path / "steps.json"
    options = build_parser().parse_args(["--steps", "--out", str(file)])
    asked = []

    def measure(case, device, absent, shipped):
        asked.append(case)
        return {name: {"status": "ok", "ms": 1.0} for name in steps.PROVIDERS}

    def die(self, key, entry):
        if key == f"{CASES[1].key} torch":
            raise KeyboardInterrupt
        add(self, key, entry)

    add = steps.Results.add
    monkeypatch.setattr(steps.Results, "add", die)
    with pytest.raises(KeyboardInterrupt):
        steps.record_steps(options, Device(dry=True), measure)
    kept = json.loads(file.read_text())
    assert len(kept["results"]) == len(steps.PROVIDERS) + 1 and kept["schema"] == "steps 1"
    monkeypatch.setattr(steps.Results, "add", add)
    asked.clear()
    assert steps.record_steps(options, Device(dry=True), measure) == 0
    assert asked == [CASES[1]]
    assert len(json.loads(file.read_text())["results"]) == 2 * len(steps.PROVIDERS)


def test_every_case_is_planned_once_and_compared_with_one_before_it():
    cases = steps.plan_steps()
    assert len({case.key for case in cases}) == len(cases) == 2 * 3 * len(steps.NORMS)
    for i, case in enumerate(cases):
        assert case.mode == "eager" or steps.replace(case, mode="eager") in cases[:i]


def test_a_loss_near_zero_may_differ_by_a_thousandth_of_the_first():
    """Measured for Llama on an H200: after three steps on one batch, 0.0069 and 0.0067."""
    shipped = {"gradient": 6.37, "losses": [11.186, 0.24413, 0.0068858]}
    near = {"gradient": 6.37, "losses": [11.186, 0.24482, 0.0066555]}
    assert steps.compare_steps(near, shipped) == ""
    for far in ({"losses": [11.6, 0.244, 0.0069]}, {"losses": [11.186, 0.27, 0.0069]}):
        assert "losses: [11." in steps.compare_steps(near | far, shipped)
    assert "gradient: 6.6" in steps.compare_steps(near | {"gradient": 6.6}, shipped)
