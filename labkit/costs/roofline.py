"""Roofline estimates: the time of a kernel, of a norm, and of a whole model's step.

    time = max(bytes / bandwidth, operations / peak, shortest)          of one kernel
    intensity = operations / bytes        ridge = peak / bandwidth

Below the ridge a kernel waits for memory, above it for arithmetic; `shortest` is the time from the
start of the smallest kernel to the start of the next. These are bounds and estimates, computed from
published data about devices and models and from adjustable assumptions; nothing here is measured.
Source: Williams, Waterman and Patterson 2009, Communications of the ACM 52(4).
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """A device's limits from its data sheet: dense, without sparsity."""

    bandwidth: float  # bytes a second
    matrix: float  # operations a second of bfloat16 matrix units
    vector: float  # operations a second of float32 outside them


DEVICES = {
    "A100": Device(2.039e12, 312e12, 19.5e12),
    "H100": Device(3.35e12, 989e12, 67e12),
    "H200": Device(4.8e12, 989e12, 67e12),
}


@dataclass(frozen=True)
class LanguageModel:
    """A decoder like Llama: grouped queries, SwiGLU, two norms per block and a final one."""

    dim: int
    depth: int
    heads: int
    kv_heads: int
    hidden: int
    vocab: int = 128_256

    @property
    def head_dim(self) -> int:
        """Return the number of values per head."""
        return self.dim // self.heads

    @property
    def norms(self) -> int:
        """Return the number of vectors that are normalized per token."""
        return 2 * self.depth + 1

    @property
    def matrices(self) -> tuple[tuple[int, int, int], ...]:
        """List (count, inputs, outputs) of the matrices that every token passes."""
        keys = 2 * self.kv_heads * self.head_dim
        return (
            (self.depth, self.dim, self.dim + keys),
            (self.depth, self.dim, self.dim),
            (self.depth, self.dim, 2 * self.hidden),
            (self.depth, self.hidden, self.dim),
            (1, self.dim, self.vocab),
        )

    @property
    def parameters(self) -> int:
        """Return the number of parameters, including the embedding and the norms' gains."""
        inside = sum(n * a * b for n, a, b in self.matrices)
        return inside + self.vocab * self.dim + self.norms * self.dim


SIZES = {
    "8B": LanguageModel(4096, 32, 32, 8, 14336),
    "70B": LanguageModel(8192, 80, 64, 8, 28672),
    "405B": LanguageModel(16384, 126, 128, 8, 53248),
}


@dataclass(frozen=True)
class Norm:
    """Execution of a norm and the sum before it: kernel launches, and bytes moved per value."""

    kernels: int
    forward: float  # bytes a value in bfloat16
    backward: float
    kernels_back: int


# The sum alone moves 6 bytes a value forward (two read, one written); backward it moves 6 too,
# where the gradients of both ways meet. "eager": the formula of transformers' Llama, counted by
# labkit.costs.operations.CountBytes (its claim is in chapter 09).
NORMS = {
    "fused": Norm(1, 8, 8, 2),
    "alone": Norm(2, 4 + 6, 6 + 6, 3),
    "eager": Norm(9, 36 + 6, 92 + 6, 17),
}


@dataclass(frozen=True)
class Assumptions:
    """Assumptions of the estimate; each can be changed."""

    norms: str = "fused"  # a key of NORMS
    shortest: float = 2e-6  # seconds of the smallest kernel; started one by one from Python: 5e-6
    of_bandwidth: float = 0.9  # share of the data sheet that a good kernel reaches
    of_matrix: float = 0.6
    split: int = 1  # GPUs that share matrices and attention; each of them computes every norm


def kernel_time(
    bytes: float, operations: float, device: Device, given: Assumptions, matrix: bool = True
) -> float:
    """Return the seconds of one kernel."""
    peak = device.matrix * given.of_matrix if matrix else device.vector
    return max(bytes / (device.bandwidth * given.of_bandwidth), operations / peak, given.shortest)


def step(
    size: LanguageModel,
    device: Device,
    *,
    way: str,
    batch: int,
    context: int,
    given: Assumptions | None = None,
) -> dict[str, float]:
    """Estimate the seconds of one step by part: matrices, attention, activation, norms and sums.

    way      decode: one token for each of `batch` sequences, each after `context` others
             prefill: all `context` tokens of `batch` sequences, forward
             train: the same, forward and backward (no optimizer, nothing recomputed)

    Communication between GPUs is left out, so with `split` the fraction of norms is an upper bound.

    Raises:
        ValueError: `way` is not one of the three.
    """
    if way not in ("decode", "prefill", "train"):
        raise ValueError(f"way must be one of decode, prefill, train; got {way!r}")
    given = given or Assumptions()
    parts = {"matrices": 0.0, "attention": 0.0, "activation": 0.0, "norms and sums": 0.0}
    for part, count, bytes, operations, matrix in _list_kernels(size, way, batch, context, given):
        parts[part] += count * kernel_time(bytes, operations, device, given, matrix)
    return parts


def norm_share(size: LanguageModel, device: Device, **how: object) -> float:
    """Return the fraction of a step's time spent on norms and sums; arguments as for `step`."""
    parts = step(size, device, **how)  # type: ignore[arg-type]
    return parts["norms and sums"] / sum(parts.values())


def _list_kernels(
    size: LanguageModel, way: str, batch: int, context: int, given: Assumptions
) -> Iterator[tuple[str, float, float, float, bool]]:
    """Yield (part, count, bytes, operations, on matrix units) for a step's kernels."""
    tokens = batch if way == "decode" else batch * context
    passes = 3 if way == "train" else 1  # backward is two products for each of forward
    for many, inputs, outputs in size.matrices:
        # The output's logits of a prompt are needed for its last token only.
        rows = batch if outputs == size.vocab and way == "prefill" else tokens
        moved = 2 * (inputs * outputs / given.split + rows * (inputs + outputs / given.split))
        yield "matrices", passes * many, moved, 2 * rows * inputs * outputs / given.split, True
    width, keys = size.dim, size.kv_heads * size.head_dim
    seen = context if way == "decode" else context / 2  # causal: half on average
    cache = batch * context * 2 * keys
    moved = 2 * (cache + 2 * tokens * width) / given.split
    operations = 4 * tokens * seen * width / given.split
    # Backward attention is two and a half times forward: the weights are computed once more.
    yield "attention", size.depth * (3.5 if passes == 3 else 1), moved, operations, True
    values = tokens * size.hidden / given.split
    yield "activation", size.depth, 6 * values, 5 * values, False
    norm, values = NORMS[given.norms], tokens * size.dim
    # Each of several kernels counts an equal part of the bytes and operations.
    each = norm.kernels
    yield "norms and sums", size.norms * each, norm.forward * values / each, 5 * values, False
    if passes == 3:
        inner = tokens * size.hidden / given.split
        yield "activation", size.depth, 10 * inner, 8 * inner, False
        each = norm.kernels_back
        yield "norms and sums", size.norms * each, norm.backward * values / each, 8 * values, False
