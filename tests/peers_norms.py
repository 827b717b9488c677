"""Compare each norm with those of other packages, except torch's (test_norms_torch.py)."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from peers import distance, hf, peer
from torch import nn

from labkit.norms import BatchNorm, GroupNorm, make_norm

DIM = 48
SHAPES = {"tokens": (4, 7, DIM), "image": (3, DIM, 4, 5)}


@dataclass(frozen=True)
class Row:
    """One norm and one peer: how to make both, and which parameters correspond.

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
        """Make both with the same random weights."""
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
    """The largest differences, relative to the largest value, of outputs and gradients."""

    forward: float  # between us and the peer
    gradient: float
    same_bits: bool


def measure(row: Row, dtype: torch.dtype) -> Measured:
    """Run both forward and backward on the same input."""
    ours, theirs = row.pair(dtype)
    shape = SHAPES[row.shape]
    x, probe = (torch.randn(shape) + 0.2).to(dtype), torch.randn(shape).to(dtype)
    a, b = (_results(norm, x, probe) for norm in (ours, theirs))
    for name, their_name in row.names.items():  # in our names and scale
        if (value := b.pop(their_name, None)) is not None and name in a:
            b[name] = value.reshape(a[name].shape) * row.scale.get(name, 1.0)
    assert set(a) == set(b), (row.name, set(a) ^ set(b))
    gradient = max(distance(value, b[name]) for name, value in a.items() if name != "y")
    same_bits = a["y"].dtype == b["y"].dtype and torch.equal(a["y"], b["y"])
    return Measured(distance(a["y"], b["y"]), gradient, same_bits)


def _results(norm: nn.Module, x: torch.Tensor, probe: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return output, gradients and, after the step, running statistics."""
    y = norm(x := x.detach().requires_grad_())
    (y * probe).to(torch.promote_types(y.dtype, torch.float32)).sum().backward()
    running = {name: b for name, b in norm.named_buffers() if "running" in name}
    gradients = {name: p.grad for name, p in norm.named_parameters() if p.grad is not None}
    return {"y": y.detach(), "x": x.grad, **gradients, **running}


def unit(function: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    """Wrap a peer's function as a module without parameters."""

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


PARITY: tuple[Row, ...] = (
    # --- LayerNorm ---
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
    _rms("rms", "olmo2", "Olmo2RMSNorm", ("bfloat16",), ROUNDS),
    _rms("rms", "gemma3n", "Gemma3nRMSNorm", (), ROUNDS),
    Row(
        "rms", "RMSNorm", XT, ours("rms", eps=0.0), x_transformers_norm("RMSNorm"),
        {"weight": "g"}, (), "no eps, only a floor of 1e-12 on the length: as the paper prints it",
    ),
    _rms("rms-llama", "llama", "LlamaRMSNorm"),
    _rms("rms-gemma", "gemma", "GemmaRMSNorm"),
    _rms("rms-gemma", "qwen3_next", "Qwen3NextRMSNorm"),
    _rms("rms-t5", "t5", "T5LayerNorm"),
    # --- norms over the batch, the space, groups ---
    Row(
        "batch", "PatchTSTBatchNorm", TF, ours("batch"), patchtst,
        {name: f"batchnorm.{other}" for name, other in RUNNING.items()}, (), ROUNDS, mode="train",
    ),
    Row(
        "batch", "DetrFrozenBatchNorm2d", TF, lambda: BatchNorm(DIM).requires_grad_(False),
        transformers_norm("detr", "DetrFrozenBatchNorm2d"), RUNNING, (), ROUNDS, "image",
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
    Row(
        "l2", "L2Norm", NG, lambda: make_norm("l2", DIM).requires_grad_(False),
        lambda: peer("nGPT_pytorch.nGPT").L2Norm(dim=-1), {}, (), ONCE,
    ),
    Row(
        "l2", "l2norm", XT, lambda: make_norm("l2", DIM).requires_grad_(False),
        lambda: unit(peer("x_transformers.x_transformers").l2norm), {}, (), ONCE,
    ),
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
)  # fmt: skip

# Norms that no package has; tests/test_norms.py has their formulas.
PEERLESS = {
    "annotated-layer": "taught, never packaged",
    "rms-outside": "the authors' repository is no package",
    "partial-rms": "the authors' repository is no package",
    "power": "the authors' repository is a fork of fairseq",
    "rep-batch": "the authors' repository is no package",
    "prep-batch": "the authors' repository is no package",
    "bhyt": "the authors' repository is no package",
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
