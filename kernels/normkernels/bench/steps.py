"""Whole training steps: the time that a norm saves in use.

    make bench-kernels BENCH=--steps      forward, backward, AdamW: models of transformers, labkit

At one size all providers train the same model: it is copied with different norms, but all other
parameters and the optimizer's state are the same tensors, so that the memory is that of one model.

First each trains from the same start, on one batch: its losses and the norm of its first gradient
must agree with those of the original model. Then they take turns, in random order. A step is timed
from the end of the one before, without a wait between them; the first of a turn does not count. The
compiled code is the model with its loss.
"""

import argparse
import copy
import math
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import labkit
import normkernels
from labkit.convert import convert
from labkit.fused import fuse
from labkit.model import ModelConfig
from normkernels.bench.device import Device
from normkernels.bench.measure import DeviceLost, recover, shorten
from normkernels.bench.plan import choose_cases
from normkernels.bench.providers import read_versions
from normkernels.bench.results import Results, hash_sources

# Each model's norm, by its name in labkit, which determines the stored gain and the rounding.
NORMS = {
    "llama": "rms-llama",
    "qwen3": "rms-llama",  # norms on q and k
    "gemma2": "rms-gemma",  # a norm before and after each branch
    "olmo2": "rms",
    "labkit pre": "rms",
    "labkit pre-qk-pre": "rms",
    "labkit gemma2": "rms-gemma",
}
CONFIGS = {"llama": "Llama", "qwen3": "Qwen3", "gemma2": "Gemma2", "olmo2": "Olmo2"}
FOREMOST = ("llama", "gemma2", "qwen3")  # are compiled, and tried wide, before all others
PROVIDERS = ("shipped", "torch", "norms alone", "normkernels", "liger", "quack")
MODES = ("eager", "compile")
FIRST = 5  # steps whose losses are compared
TURNS, TURN = 6, 5  # turns of each provider, and steps in one
FAR = 0.02  # a larger relative error of a loss or a gradient's norm is wrong,
NEAR_ZERO = 1e-3  # unless below this fraction of the first: one batch is soon memorized
SCHEMA = "steps 1"
LONGEST = {"eager": 60.0, "compile": 150.0}  # seconds of a case, until one took longer
Call = Callable[[], Tensor]


@dataclass(frozen=True)
class StepCase:
    """One model at one size; all providers are measured together."""

    model: str
    width: int
    depth: int
    batch: int
    time: int
    mode: str = "eager"
    vocabulary: int = 32000

    @property
    def key(self) -> str:
        """Return the case's name in the file; a provider's row adds its name."""
        size = f"{self.depth}x{self.width} {self.batch}x{self.time}"
        return f"{self.model} {size} {self.mode}"


WIDE, USUAL, SMALL = (4096, 4, 4, 2048), (1024, 8, 8, 1024), (1024, 8, 1, 256)


def plan_steps(dry: bool = False) -> list[StepCase]:
    """List the cases, the most informative first: compiled ones take minutes."""
    if dry:
        return [StepCase(m, 32, 1, 1, 8, mode, 64) for m in NORMS for mode in MODES]
    worth = [(model, USUAL, "eager") for model in NORMS]
    worth += [(model, USUAL, "compile") for model in FOREMOST]
    worth += [(model, WIDE, mode) for mode in MODES for model in FOREMOST]
    rest = [(m, size, mode) for size in (USUAL, WIDE, SMALL) for mode in MODES for m in NORMS]
    cases = [*worth, *(case for case in rest if case not in worth)]
    return [StepCase(model, *size, mode) for model, size, mode in cases]


def build_model(case: StepCase, device: Device) -> nn.Module:
    """Build a model in bfloat16, with its authors' random initialization.

    Raises:
        ImportError: transformers is not installed.
    """
    torch.manual_seed(0)
    heads, hidden = max(2, case.width // 128), 11 * case.width // 4  # a multiple of 8
    if case.model not in CONFIGS:
        config = ModelConfig(
            case.model.removeprefix("labkit "), dim=case.width, depth=case.depth, heads=heads,
            kv_heads=heads // 2, hidden=hidden, vocab=case.vocabulary, context=case.time,
        )  # fmt: skip
        return config.build().to(device.device, torch.bfloat16)
    transformers = import_module("transformers")
    config = getattr(transformers, f"{CONFIGS[case.model]}Config")(
        hidden_size=case.width, num_hidden_layers=case.depth, num_attention_heads=heads,
        num_key_value_heads=heads // 2, head_dim=case.width // heads,
        intermediate_size=hidden, vocab_size=case.vocabulary, use_cache=False,
        max_position_embeddings=case.time, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    with device.device:
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)


def replace_norms(model: nn.Module, provider: str, case: StepCase) -> None:
    """Replace a model's norms by a provider's, in place; `shipped` changes nothing.

    `normkernels` is `fuse`, with its rotations and sums; `norms alone` are the same kernels called
    like any package's, one for each norm, compiled or not.

    Raises:
        ImportError: the provider is not installed.
    """
    norm = NORMS[case.model]
    if provider == "normkernels":
        if not (done := fuse(model)).modules:
            raise ImportError(str(done))
    elif provider != "shipped":
        convert(model, {"*RMSNorm": lambda old: make_norm(provider, norm, old)})


class KernelNorm(nn.Module):
    """An RMSNorm that is a single call of normkernels."""

    def __init__(self, norm: str, size: int, eps: float):
        super().__init__()
        self.call = getattr(normkernels, norm.replace("-", "_").replace("rms", "rms_norm"))
        self.eps, self.weight = eps, nn.Parameter(torch.empty(size))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        return self.call(x, self.weight, self.eps)


def make_norm(provider: str, norm: str, old: Any) -> nn.Module:
    """Make a peer's norm from a model's own, with its gain and eps."""
    eps = getattr(old, "variance_epsilon", None) or old.eps or torch.finfo(torch.float32).eps
    offset = 1.0 if norm == "rms-gemma" else 0.0
    size, gain = old.weight.numel(), old.weight.detach()
    if provider == "norms alone":
        new = KernelNorm(norm, size, eps)
    elif provider == "liger":
        order = "llama" if norm == "rms-llama" else "gemma"
        kind = import_module("liger_kernel.transformers.rms_norm").LigerRMSNorm
        new = kind(size, eps, offset, order, in_place=False)  # in place destroys dY
    else:
        quack = provider == "quack"
        kind = import_module("quack.rmsnorm").QuackRMSNorm if quack else nn.RMSNorm
        new, gain = kind(size, eps=eps), gain + offset
    new.weight = nn.Parameter(gain.clone())
    return new


def make_step(model: nn.Module, ids: Tensor, state: dict, compiled: bool) -> tuple[Call, Call]:
    """Make a training step of a model on one batch, and the part that computes gradients.

    state    the optimizer's, which copies of a model share
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    optimizer.state = state  # type: ignore[assignment]

    def compute_loss() -> Tensor:
        out = model(ids)
        logits = out if isinstance(out, Tensor) else out.logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())

    backend = "aot_eager" if ids.device.type == "cpu" else "inductor"  # no C++ compiler needed
    compute = compute_loss
    if compiled:
        compute = torch.compile(compute_loss, dynamic=False, backend=backend)

    def differentiate() -> Tensor:
        loss = compute()
        loss.backward()
        return loss.detach()

    def step() -> Tensor:
        loss = differentiate()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step, differentiate


def check_steps(
    model: nn.Module, step: Call, differentiate: Call, device: Device
) -> dict[str, Any]:
    """Train for a few steps; return the losses, the first gradient's norm, and the peak memory."""
    differentiate()
    squares = [p.grad.float().square().sum() for p in model.parameters() if p.grad is not None]
    gradient = math.sqrt(math.fsum(map(float, squares)))
    model.zero_grad()
    losses = [step()]  # allocates the optimizer's state
    device.start_peak()
    losses += [step() for _ in range(FIRST - 1)]
    return {
        "peak_bytes": device.read_peak(),
        "gradient": shorten(gradient),
        "losses": [shorten(float(loss)) for loss in losses],
    }


def compare_steps(found: dict[str, Any], shipped: dict[str, Any]) -> str:
    """Return an error message for a provider's first steps; "" if they are right or unchecked."""
    for name in ("gradient", "losses") if "losses" in shipped else ():
        mine, right = (torch.tensor(row[name]) for row in (found, shipped))
        allowed = FAR * right.abs() + NEAR_ZERO * right.abs().max()
        if not bool(((mine - right).abs() <= allowed).all()):
            return f"{name}: {found[name]}, as shipped {shipped[name]}"
    return ""


def explain_error(error: Exception) -> dict[str, str]:
    """Return status and reason for a row that failed with an error."""
    status = "absent" if isinstance(error, ImportError) else "failed"
    return {"status": status, "reason": f"{type(error).__name__}: {error}".splitlines()[0][:200]}


def measure_steps(
    case: StepCase,
    device: Device,
    absent: dict[str, str],
    shipped: dict[str, Any] | None = None,
    put: Callable[[nn.Module, str, StepCase], None] = replace_norms,
) -> dict[str, dict[str, Any]]:
    """Measure all providers at one case; return a row for each.

    absent     by provider, the reason why it is left out
    shipped    the row of the original model, eager; None: it is measured here
    put        replaces a model's norms by a provider's

    Raises:
        ImportError: the package that has the model is not installed.
        DeviceLost: a provider's error left the device unusable.
    """
    plain = build_model(case, device)
    parameters = list(plain.parameters())
    start = [p.detach().to("cpu", copy=True) for p in parameters]
    ids = torch.randint(case.vocabulary, (case.batch, case.time), device=device.device)
    state: dict[Any, Any] = defaultdict(dict)
    rows: dict[str, dict[str, Any]] = {}
    steps: dict[str, Call] = {}
    torch.compiler.reset()
    for name in PROVIDERS:
        if name in absent:
            rows[name] = {"status": "absent", "reason": absent[name]}
            continue
        try:
            for p, value in zip(parameters, start, strict=True):
                p.data.copy_(value)
                p.grad = None
            state.clear()
            model = copy.deepcopy(plain, {id(p): p for p in parameters})
            put(model, name, case)
            step, differentiate = make_step(model, ids, state, case.mode == "compile")
            rows[name] = {"status": "ok", **check_steps(model, step, differentiate, device)}
        except Exception as error:
            rows[name] = explain_error(error)
            recover(device, name)
            continue
        if wrong := compare_steps(rows[name], shipped or rows["shipped"]):
            rows[name] |= {"status": "wrong", "reason": wrong}
        else:
            steps[name] = step
    for name, times in time_steps(steps, device, case.key).items():
        rows[name] |= times
    return {name: asdict(case) | {"provider": name} | row for name, row in rows.items()}


def time_steps(steps: dict[str, Call], device: Device, seed: str) -> dict[str, dict[str, float]]:
    """Time providers in turns; return a step's milliseconds: median, 20th and 80th percentile."""
    turns = [*steps] * (1 if device.dry else TURNS)
    random.Random(seed).shuffle(turns)
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for name in turns:
        taken[name] += device.time_calls(steps[name], 3 if device.dry else TURN)[1:]
    found = {}
    for name, seconds in taken.items():
        fifths = statistics.quantiles(seconds, n=5, method="inclusive")
        kept = {"ms": statistics.median(seconds), "p20": fifths[0], "p80": fifths[-1]}
        found[name] = {part: shorten(1e3 * value) for part, value in kept.items()}
    return found


def describe_rows(key: str, rows: dict[str, dict[str, Any]]) -> str:
    """Describe a case's measurements in one line: milliseconds, or why there are none."""
    said = (
        f"{n} {row['ms']} ms" if "ms" in row else f"{n} {row['status']}" for n, row in rows.items()
    )
    return f"{key}: {', '.join(said)}"


def record_steps(options: argparse.Namespace, device: Device, measure: Any = measure_steps) -> int:
    """Measure one case after another until the time is up or all are done.

    options    of the command: out, commit, minutes
    measure    `measure_steps`, or a substitute for it
    """
    began = time.monotonic()
    path = options.out or Path(
        "build/bench-dry-steps.json" if device.dry else "data/bench/steps.json"
    )
    versions = read_versions({"transformers": "transformers"})
    sources = hash_sources(Path(str(labkit.__file__)).parent)
    results = Results(path, device, options.commit, SCHEMA, {"labkit": sources, **versions})
    rows, crashed = results.data["results"], results.data["crashed"]
    left = [
        case
        for case in choose_cases(plan_steps(device.dry), options.cases)
        if not all(f"{case.key} {name}" in rows for name in PROVIDERS)
    ]
    longest = {mode: 0.0 if device.dry else LONGEST[mode] for mode in LONGEST}
    while left and time.monotonic() - began + longest[left[0].mode] < 60 * options.minutes:
        case, start = left.pop(0), time.monotonic()
        reasons = {name: crashed.get(f"{name} {case.model}") for name in PROVIDERS}
        absent = {name: reason for name, reason in reasons.items() if reason}
        eager = rows.get(f"{replace(case, mode='eager').key} shipped")
        try:
            found = measure(case, device, absent, eager if case.mode == "compile" else None)
        except DeviceLost as lost:
            crashed[f"{lost} {case.model}"] = reason = f"broke the device at {case.key}"
            results.save()
            print(f"{lost} {reason}: noted; call again to go on without it")
            return 1
        except Exception as error:  # the model itself cannot be built here: the next one may
            found = {n: asdict(case) | {"provider": n} | explain_error(error) for n in PROVIDERS}
        device.free()
        for name, row in found.items():
            results.add(f"{case.key} {name}", row)
        longest[case.mode] = max(longest[case.mode], time.monotonic() - start)
        print(describe_rows(case.key, found), flush=True)
    more = "; the same command goes on where this one stopped" if left else ""
    print(f"{len(left)} cases left; {results.path}{more}")
    return 0
