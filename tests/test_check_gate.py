"""Mutations of labkit's own source text: each turns a law red."""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest
from settled import explain_nothing, rest_after

from labkit import check, norms

SOURCE = Path(norms.__file__).parent

# file, check, function or class; what stands in the text, what is put in its place
MUTATIONS = {
    "layer, not centred": (
        "layer", "layer_norm", "centred * torch.rsqrt", "wide * torch.rsqrt"),
    "layer, sign": ("layer", "layer_norm", "centred * torch.rsqrt", "-centred * torch.rsqrt"),
    "layer, unbiased": (
        "layer", "layer_norm", "centred.square().mean(dim=-1, keepdim=True)",
        "centred.var(dim=-1, keepdim=True)"),
    "layer, eps outside": (
        "layer", "layer_norm", "torch.rsqrt(variance + eps)", "(1 / (variance.sqrt() + eps))"),
    "layer, eps subtracted": ("layer", "layer_norm", "variance + eps", "variance - eps"),
    "layer, root": ("layer", "layer_norm", "torch.rsqrt(variance + eps)", "(variance + eps)"),
    "layer, other default": ("layer", "layer_norm", "eps: float = 1e-5", "eps: float = 1e-6"),
    "layer module, shift lost": (
        "layer", "LayerNorm", "torch.layer_norm(input, shape, weight, bias",
        "torch.layer_norm(input, shape, weight, None"),
    "rms, eps outside": (
        "rms", "rms_norm", "torch.rsqrt(mean_square + eps)", "(1 / (mean_square.sqrt() + eps))"),
    "rms, sum": ("rms", "rms_norm", "wide.square().mean(", "wide.square().sum("),
    "rms, half": ("rms", "rms_norm", "wide = at_least_float32(x)", "wide = x"),
    "rms, d − 1": (
        "rms", "rms_norm", "wide.square().mean(dim=-1, keepdim=True)",
        "wide.square().sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)"),
    "rms module, backward sign": ("rms", "RMSNorm", "native:dx.add_(", "dx.sub_("),
    "rms module, eps outside": (
        "rms", "RMSNorm", "native:rstd = torch.rsqrt(length.square() / x.shape[-1] + eps)",
        "rstd = 1 / (length / x.shape[-1] ** 0.5 + eps)"),
    "batch, unbiased": (
        "batch", "batch_norm", "variance = centred.square().mean(dim=0)",
        "variance = rows.var(dim=0)"),
    "batch, biased stored": ("batch", "batch_norm", "(len(rows) / (len(rows) - 1))", "1.0"),
    "batch, momentum": (
        "batch", "batch_norm", "running_mean.dtype), momentum",
        "running_mean.dtype), 1 - momentum"),
    "batch, eps outside": (
        "batch", "batch_norm", "torch.rsqrt(variance + eps)", "(1 / (variance.sqrt() + eps))"),
    "batch, sign": ("batch", "batch_norm", "centred * torch.rsqrt", "-centred * torch.rsqrt"),
    "batch, evaluation": (
        "batch", "batch_norm", "if training or running_mean", "if True or running_mean"),
    "batch module, mode lost": (
        "batch", "BatchNorm", "training = self.training or mean is None", "training = True"),
    "group, eps outside": (
        "group", "group_norm", "torch.rsqrt(variance + eps)", "(1 / (variance.sqrt() + eps))"),
    "group, strided": (
        "group", "group_norm", "num_groups, x[0:1].numel() // num_groups",
        "x[0:1].numel() // num_groups, num_groups).transpose(1, 2).reshape("
        "x.shape[0], num_groups, -1"),
    "affine, order": (
        "layer", "layer_norm", "_common:y = y + bias.to(y.dtype)", "y = y - bias.to(y.dtype)"),
    "affine, gain": (
        "rms", "rms_norm", "_common:y = y * weight.to(y.dtype)", "y = y * weight.abs()"),
}  # fmt: skip
HOLD = {
    "layer": check.layer_norm,
    "rms": check.rms_norm,
    "batch": check.batch_norm,
    "group": check.group_norm,
}


def load_copy(folder: Path, package: str):
    """Import the package that lies in a folder, under a name of its own."""
    spec = importlib.util.spec_from_file_location(
        package, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[package] = module
    spec.loader.exec_module(module)
    return module


def copy_of_norms(tmp_path: Path, package: str) -> Path:
    folder = tmp_path / package
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.glob("*.py"):
        # The laws hold small inputs up: let RMSNorm take its own path for them too.
        text = path.read_text().replace("_FEW = 2**15", "_FEW = 0")
        path.write_text(re.sub(r"\blabkit\.norms\b", package, text))
    return folder


@pytest.fixture
def forget():
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("mutated_"):
            del sys.modules[name]


@pytest.mark.parametrize("name", MUTATIONS)
def test_one_changed_line_of_a_norm_turns_a_law_red(name, tmp_path, forget, monkeypatch):
    rest_after(monkeypatch, lambda law: True)
    explain_nothing(monkeypatch)
    norm, attribute, old, new = MUTATIONS[name]
    package = "mutated_" + re.sub(r"\W", "_", name)
    folder = copy_of_norms(tmp_path, package)
    elsewhere = old.startswith(("_common:", "native:"))
    stem, _, old = old.partition(":") if elsewhere else (f"{norm}_norm", "", old)
    path = folder / f"{stem}.py"
    text = path.read_text()
    assert old in text, "the source has changed: say the mutation anew"
    path.write_text(text.replace(old, new))
    assert not HOLD[norm](getattr(load_copy(folder, package), attribute)).ok


def test_an_unchanged_copy_keeps_every_law(tmp_path, forget):
    package = "mutated_not"
    copied = load_copy(copy_of_norms(tmp_path, package), package)
    for norm, attribute in dict.fromkeys(mutation[:2] for mutation in MUTATIONS.values()):
        report = HOLD[norm](getattr(copied, attribute))
        assert report.ok, report
