"""Each norm beside each peer: how both are made, with which weights, and how far apart they are."""

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from peers import distance, hf, peer, version
from torch import nn

from labkit.norms import BatchNorm, GroupNorm, InstanceNorm, make_norm

DIM = 48
SHAPES = {"tokens": (4, 7, DIM), "image": (3, DIM, 4, 5), "volume": (2, DIM, 2, 3, 2)}


@dataclass(frozen=True)
class Row:
    """One norm beside one peer: how both are made, and which parameter is which.

    `names` maps our parameters (and buffers) to the peer's. `bits` holds the dtypes in which both
    give the same bits; elsewhere they differ by rounding alone. `verdict` says what differs and
    who is right by the paper.
    """

    norm: str
    peer: str
    package: str
    ours: Callable[[], nn.Module]
    theirs: Callable[[], nn.Module]
    names: dict[str, str]
    bits: tuple[str, ...] = ("float32", "bfloat16")
    verdict: str = "agrees"
    shape: str = "tokens"
    mode: str = "eval"
    scale: dict[str, float] = field(default_factory=dict)  # theirs = scale · ours, per parameter

    @property
    def name(self) -> str:
        mode = "" if self.mode == "eval" else f" ({self.mode})"
        return f"{self.norm} | {self.peer}{mode}"

    def pair(self, dtype: torch.dtype) -> tuple[nn.Module, nn.Module]:
        """Make both with the same drawn weights."""
        torch.manual_seed(0)
        ours, theirs = self.ours(), self.theirs()
        mine = dict(itertools.chain(ours.named_parameters(), ours.named_buffers()))
        other = dict(itertools.chain(theirs.named_parameters(), theirs.named_buffers()))
        trained = {name for name, _ in theirs.named_parameters()}
        assert trained <= {*self.names.values()}, (self.name, trained)
        for name, their_name in self.names.items():
            drawn = mine[name].data + 0.5 * torch.rand(mine[name].shape)
            mine[name].data = drawn.to(dtype).float()
            factor = self.scale.get(name, 1.0)
            other[their_name].data = (mine[name].data * factor).reshape(other[their_name].shape)
        train = self.mode == "train"
        return ours.to(dtype).train(train), theirs.to(dtype).train(train)


@dataclass(frozen=True)
class Measured:
    """The largest differences, as shares of the largest value, forward and in the gradients."""

    forward: float  # between us and the peer
    gradient: float
    our_error: tuple[float, float]  # from our float64 result, which test_norms.py proves
    their_error: tuple[float, float]
    same_bits: bool


def measure(row: Row, dtype: torch.dtype, size: float = 1.0) -> Measured:
    """Run both forward and backward on the same input of about this size."""
    ours, theirs = row.pair(dtype)
    exact = copy.deepcopy(ours).double()
    shape = SHAPES[row.shape]
    x, probe = (size * (torch.randn(shape) + 0.2)).to(dtype), torch.randn(shape).to(dtype)
    a, b = (_results(norm, x, probe) for norm in (ours, theirs))
    truth = _results(exact, x.double(), probe)
    for name, their_name in row.names.items():  # in our names and scale
        if (value := b.pop(their_name, None)) is not None and name in a:
            b[name] = value.reshape(a[name].shape) * row.scale.get(name, 1.0)
    assert set(a) == set(b), (row.name, set(a) ^ set(b))
    return Measured(
        *_largest(a, b),
        _largest(a, truth),
        _largest(b, truth),
        a["y"].dtype == b["y"].dtype and torch.equal(a["y"], b["y"]),
    )


def _results(norm: nn.Module, x: torch.Tensor, probe: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return output, gradients and, after the step, running statistics."""
    y = norm(x := x.detach().requires_grad_())
    (y * probe).to(torch.promote_types(y.dtype, torch.float32)).sum().backward()
    running = {name: b for name, b in norm.named_buffers() if "running" in name}
    gradients = {name: p.grad for name, p in norm.named_parameters() if p.grad is not None}
    return {"y": y.detach(), "x": x.grad, **gradients, **running}


def _largest(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> tuple[float, float]:
    others = [distance(value, b[name]) for name, value in a.items() if name != "y"]
    return distance(a["y"], b["y"]), max(others)


def unit(function: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    """Wrap a peer that is a function as a module without parameters."""

    class Function(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    return Function()


def ours(key: str, **kw) -> Callable[[], nn.Module]:
    return lambda: make_norm(key, DIM, **kw)


def transformers_norm(model: str, name: str, *args, **kw) -> Callable[[], nn.Module]:
    return lambda: getattr(hf(model), name)(*(args or (DIM,)), **kw)


def x_transformers_norm(name: str, **kw) -> Callable[[], nn.Module]:
    return lambda: getattr(peer("x_transformers.x_transformers"), name)(DIM, **kw)


def patchtst() -> nn.Module:
    config = peer("transformers").PatchTSTConfig(d_model=DIM, norm_eps=1e-5)
    return hf("patchtst").PatchTSTBatchNorm(config)


def on_tokens(norm: nn.Module) -> nn.Module:
    """Return torch's channels-first norm the tokens' layout (batch, time, dim)."""

    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = norm

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x.mT).mT

    return Turned()


W, WB = {"weight": "weight"}, {"weight": "weight", "bias": "bias"}
RUNNING = WB | {"running_mean": "running_mean", "running_var": "running_var"}
FLOAT = ("float32",)
TF, XT, NG = "transformers", "x-transformers", "nGPT-pytorch"
ROUNDS = "agrees but for rounding"
ONCE = "agrees; in half precision it rounds at every step, we once"
EARLY = "agrees; in half precision it rounds before the gain, we once"


def _rms(key: str, model: str, name: str, bits=("float32", "bfloat16"), verdict="agrees") -> Row:
    theirs = transformers_norm(model, name, eps=1e-6)
    return Row(key, name, TF, ours(key, eps=1e-6), theirs, W, bits, verdict)


def _torch(key: str, name: str, theirs: Callable[[], nn.Module], names, **kw) -> Row:
    mine = kw.pop("ours", ours(key))
    return Row(key, f"torch {name}", "torch", mine, theirs, names, **kw)


PARITY: tuple[Row, ...] = (
    # --- LayerNorm ---
    _torch("layer", "LayerNorm", lambda: nn.LayerNorm(DIM), WB),
    Row(
        "layer", "CohereLayerNorm", TF, ours("layer", bias=False),
        transformers_norm("cohere", "CohereLayerNorm"), W, (), ROUNDS,
    ),
    Row(
        "layer", "OlmoLayerNorm", TF, ours("layer", elementwise_affine=False),
        transformers_norm("olmo", "OlmoLayerNorm"), {},
    ),
    Row(
        "layer", "DebertaLayerNorm", TF, ours("layer", eps=1e-12),
        transformers_norm("deberta", "DebertaLayerNorm"), WB, (),
        EARLY,
    ),
    Row(
        "layer", "LayerNorm", XT, ours("layer", bias=False),
        x_transformers_norm("LayerNorm"), {"weight": "gamma"}, (),
        EARLY,
    ),
    # --- RMSNorm and its rounding orders ---
    _torch("rms", "RMSNorm", lambda: nn.RMSNorm(DIM), W, bits=("bfloat16",), verdict=ROUNDS),
    _rms("rms", "olmo2", "Olmo2RMSNorm", ("bfloat16",), ROUNDS),
    _rms("rms", "gemma3n", "Gemma3nRMSNorm", (), ROUNDS),
    Row(
        "rms", "RMSNorm", XT, ours("rms", eps=0.0), x_transformers_norm("RMSNorm"),
        {"weight": "g"}, (), "no eps, only a floor of 1e-12 on the length: as the paper prints it",
    ),
    _rms("rms-llama", "llama", "LlamaRMSNorm"),
    _rms("rms-llama", "qwen3", "Qwen3RMSNorm"),
    _rms("rms-llama", "llama4", "Llama4TextRMSNorm"),
    _rms("rms-gemma", "gemma", "GemmaRMSNorm"),
    _rms("rms-gemma", "gemma2", "Gemma2RMSNorm"),
    _rms("rms-gemma", "gemma3", "Gemma3RMSNorm"),
    _rms("rms-gemma", "qwen3_next", "Qwen3NextRMSNorm"),
    _rms("rms-t5", "t5", "T5LayerNorm"),
    _rms("rms-t5", "mt5", "MT5LayerNorm"),
    # --- norms over the batch, the space, groups ---
    _torch(
        "batch", "BatchNorm1d", lambda: on_tokens(nn.BatchNorm1d(DIM)),
        {name: f"norm.{other}" for name, other in RUNNING.items()}, mode="train", bits=(),
        verdict=ROUNDS,
    ),
    _torch(
        "batch", "BatchNorm1d", lambda: on_tokens(nn.BatchNorm1d(DIM)),
        {name: f"norm.{other}" for name, other in RUNNING.items()}, bits=(), verdict=ROUNDS,
    ),
    _torch(
        "batch", "BatchNorm2d", lambda: nn.BatchNorm2d(DIM), RUNNING, mode="train", bits=FLOAT,
        ours=lambda: BatchNorm(DIM), shape="image", verdict=ROUNDS,
    ),
    _torch(
        "batch", "BatchNorm3d", lambda: nn.BatchNorm3d(DIM), RUNNING, mode="train", bits=FLOAT,
        ours=lambda: BatchNorm(DIM), shape="volume", verdict=ROUNDS,
    ),
    Row(
        "batch", "PatchTSTBatchNorm", TF, ours("batch"), patchtst,
        {name: f"batchnorm.{other}" for name, other in RUNNING.items()}, (), ROUNDS, mode="train",
    ),
    Row(
        "batch", "DetrFrozenBatchNorm2d", TF, lambda: BatchNorm(DIM).requires_grad_(False),
        transformers_norm("detr", "DetrFrozenBatchNorm2d"), RUNNING, (), ROUNDS, "image",
    ),
    _torch(
        "instance", "InstanceNorm2d", lambda: nn.InstanceNorm2d(DIM, affine=True), WB,
        ours=lambda: InstanceNorm(DIM, affine=True), shape="image", bits=FLOAT, verdict=ROUNDS,
    ),
    _torch(
        "instance", "InstanceNorm3d", lambda: nn.InstanceNorm3d(DIM, affine=True), WB,
        ours=lambda: InstanceNorm(DIM, affine=True), shape="volume", bits=FLOAT, verdict=ROUNDS,
    ),
    _torch(
        "instance", "GroupNorm, a group per channel", lambda: nn.GroupNorm(DIM, DIM), WB,
        ours=lambda: InstanceNorm(DIM, affine=True), shape="image", bits=(), verdict=ROUNDS,
    ),
    _torch(
        "group", "GroupNorm", lambda: nn.GroupNorm(6, DIM), WB,
        ours=lambda: GroupNorm(6, DIM), shape="image",
    ),
    Row(
        "group", "PoolFormerGroupNorm", TF, lambda: GroupNorm(1, DIM),
        transformers_norm("poolformer", "PoolFormerGroupNorm"), WB, shape="image",
    ),
    # --- lengths ---
    Row(
        "scale", "ScaleNorm", XT, ours("scale"), x_transformers_norm("ScaleNorm"),
        {"weight": "g"}, (), "agrees; stores g/sqrt(d), and its least length is 1e-12, not 1e-5",
        scale={"weight": DIM**-0.5},
    ),
    _torch(
        "scale", "normalize · g", lambda: Scaled(DIM**0.5), {"weight": "g"}, bits=(), verdict=ONCE
    ),
    Row(
        "l2", "L2Norm", NG, lambda: make_norm("l2", DIM).requires_grad_(False),
        lambda: peer("nGPT_pytorch.nGPT").L2Norm(dim=-1), {}, (), ONCE,
    ),
    Row(
        "l2", "l2norm", XT, lambda: make_norm("l2", DIM).requires_grad_(False),
        lambda: unit(peer("x_transformers.x_transformers").l2norm), {}, (), ONCE,
    ),
    _torch("l2", "normalize · g", lambda: Scaled(1.0), {"weight": "g"}, bits=(), verdict=ONCE),
    # --- no statistics ---
    Row(
        "dyt", "DynamicTanh", XT, ours("dyt", alpha=1.0), x_transformers_norm("DynamicTanh"),
        {"alpha": "pre_tanh_scale", "weight": "gamma", "bias": "beta"}, FLOAT,
        ONCE + "; alpha starts at 1, in the paper at 0.5",
    ),
    Row(
        "derf", "Derf", XT, ours("derf"), x_transformers_norm("Derf"),
        {"alpha": "alpha", "shift": "s", "weight": "gamma", "bias": "beta"}, FLOAT, ONCE,
    ),
    _torch("none", "Identity", nn.Identity, {}),
)  # fmt: skip

# Norms that no package beside the CPU build of torch has; tests/test_norms.py has their formulas.
PEERLESS = {
    "annotated-layer": "taught, never packaged",
    "rms-outside": "the authors' repository is no package",
    "partial-rms": "the authors' repository is no package",
    "power": "the authors' repository is a fork of fairseq",
    "rep-batch": "the authors' repository is no package",
    "prep-batch": "the authors' repository is no package",
    "bhyt": "the authors' repository is no package",
}
# One peer only: Liger-Kernel's DyT is a GPU kernel (see test_peers_norms.py).
ONE_PEER = {"dyt", "derf", "none"}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Scaled(nn.Module):
    """torch's normalize, times one learned number."""

    def __init__(self, gain: float):
        super().__init__()
        self.g = nn.Parameter(torch.tensor([gain]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.g * torch.nn.functional.normalize(x, dim=-1)


HEAD = ("norm", "peer", "version", "dtype", "forward", "gradient", "our error", "peer's", "verdict")


def table() -> list[tuple[str, ...]]:
    """Return the parity table: largest differences and errors, as shares of the largest value."""
    rows = [HEAD]
    for row in PARITY:
        for name, dtype in DTYPES.items():
            found = measure(row, dtype)
            forward = "same bits" if found.same_bits else f"{found.forward:.1e}"
            errors = (f"{found.our_error[0]:.1e}", f"{found.their_error[0]:.1e}")
            label = row.name.split(" | ")[1]
            label = label if row.package == "torch" else f"{row.package} {label}"
            numbers = (name, forward, f"{found.gradient:.1e}", *errors)
            rows.append((row.norm, label, version(row.package), *numbers, row.verdict))
    return rows
