"""A training step as CUDA graphs: it never reads tensor values on the host, or moves tensors."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.experiments.replicates import train_together
from labkit.experiments.replicates.graphs import WARM, Captured, GraphStep
from labkit.experiments.replicates.stack import Stack
from labkit.model import ModelConfig
from labkit.training import TrainConfig

MODEL = ModelConfig(dim=16, depth=1, heads=2, vocab=11, context=8)
TRAIN = TrainConfig(steps=12, lr=1e-2, clip=1.0, weight_decay=0.1)
MODELS = {
    "rms": MODEL,
    "batch": replace(MODEL, norm="batch"),
    "ngpt": replace(MODEL, recipe="ngpt"),
    "QK-Clip": replace(MODEL, qk_clip=0.05),
}


def batches(rows=3, seed=0, shape=(4, 8)):
    torch.manual_seed(seed)
    return [(torch.randint(11, shape), torch.randint(11, shape)) for _ in range(rows)]


def build(model, rows=3):
    torch.manual_seed(0)
    return [model.build() for _ in range(rows)]


def find_places(step):
    """Return the addresses of everything that a graph may read or write."""
    optimizer, stack = step.optimizer, step.stack
    held = {
        "weights": stack.weights, "gradients": stack.gradients, "mean": optimizer.mean,
        "square": optimizer.square, "inputs": step.inputs, "targets": step.targets,
        "numbers": optimizer.numbers, "alive": step.alive, **stack.parameters, **stack.buffers,
    }  # fmt: skip
    return {name: (value.data_ptr(), tuple(value.shape)) for name, value in held.items()}


class Asked(TorchDispatchMode):
    """Refuse every operation that makes Python, or a shape, depend on a tensor's values."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & {*func.tags}:
            raise AssertionError(f"{func} waits for the device")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", MODELS)
def test_a_step_asks_no_tensor_what_it_holds_and_moves_none(name):
    step = GraphStep(Stack(build(MODELS[name])), [TRAIN] * 3, [0.1] * 3, batches())
    before = find_places(step)
    for i in range(2):
        step.place_batches(i, batches(seed=i))
        with Asked():
            step.compute_gradients()
        step.note_losses()
        with Asked():
            step.update_models()
    assert find_places(step) == before and step.losses.isfinite().all()
    with Asked(), pytest.raises(AssertionError, match="waits for the device"):
        step.losses.sum().item()


@pytest.mark.parametrize("name", MODELS)
def test_it_trains_as_any_other_step_and_rows_that_stop_stay(name):
    configs = [
        TRAIN,
        replace(TRAIN, lr=1e18, weight_decay=0.0),
        replace(TRAIN, lr=3e-3, schedule="linear"),
    ]
    ends = []
    for kind in ({}, {"make_step": GraphStep}):
        models = build(MODELS[name])
        drawn = [[one[row] for one in map(batches, [3] * 12, range(12))] for row in range(3)]
        records = train_together(models, drawn, configs, [[], [], []], **kind)
        ends.append(([one.losses for one in records], [one.state_dict() for one in models]))
    assert ends[0][0] == ends[1][0] and len(ends[0][0][0]) == TRAIN.steps
    if name != "ngpt":  # whose weights are put back on their spheres
        assert len(ends[0][0][1]) < TRAIN.steps
    for one, other in zip(ends[0][1], ends[1][1], strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
        assert name != "rms" or all(value.isfinite().all() for value in one.values())


def test_a_batch_of_another_shape_ends_the_graph_and_not_the_training():
    drawn = [[one[row] for one in map(batches, [3] * 4, range(4))] for row in range(3)]
    for own in drawn:
        own[2] = tuple(part[:1] for part in own[2])
    ends = []
    for kind in ({}, {"make_step": GraphStep}):
        configs = [replace(TRAIN, steps=4)] * 3
        ends.append(train_together(build(MODEL), drawn, configs, [[], [], []], **kind))
    assert [one.losses for one in ends[0]] == [one.losses for one in ends[1]]
    assert ends[1][0].provenance["graphs"] == "batches differ in shape"


# --- the capture ---


def test_without_a_gpu_a_captured_call_is_the_call():
    calls = []
    captured = Captured(lambda: calls.append(1), torch.device("cpu"))
    for _ in range(WARM + 2):
        captured()
    assert len(calls) == WARM + 2 and captured.reason == "graphs are CUDA's"


class FakeStream:
    def __init__(self, device=None):
        pass

    def wait_stream(self, other):
        pass


class FakeCuda:
    """Streams and graphs like torch.cuda's; the current stream stays current if an end fails."""

    def __init__(self):
        self.current = FakeStream()

    class CUDAGraph:
        replays = 0

        def replay(self):
            self.replays += 1

    def current_stream(self):
        return self.current

    def set_stream(self, stream):
        self.current = stream

    @contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    @contextmanager
    def graph(self, graph, stream):
        before, self.current, failed = self.current, stream, True
        try:
            yield
            failed = False
        finally:
            if failed:
                raise RuntimeError("operation failed due to a previous error during capture\nmore")
        self.current = before


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
    for name in ("CUDAGraph", "current_stream", "set_stream", "stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, getattr(fake, name))
    return fake


def test_after_a_few_calls_the_graph_is_replayed(cuda):
    usual, calls = cuda.current, []
    captured = Captured(lambda: calls.append(cuda.current is usual), torch.device("cuda"))
    for _ in range(WARM + 2):
        captured()
    assert calls == [False] * (WARM + 1)  # warm-up and capture, on a stream of their own
    assert captured.graph.replays == 2 and captured.reason == "" and cuda.current is usual


def test_a_capture_that_fails_gives_the_stream_back_and_says_what_failed_first(cuda):
    usual, calls = cuda.current, []

    def call():
        calls.append(cuda.current is usual)
        if len(calls) == WARM + 1:
            raise RuntimeError("item() is not permitted when a stream is capturing\nmore")

    captured = Captured(call, torch.device("cuda"))
    for _ in range(WARM + 2):
        captured()
    assert cuda.current is usual
    assert calls == [False] * (WARM + 1) + [True, True]  # the failed one was no call: made again
    assert captured.reason == "item() is not permitted when a stream is capturing"
