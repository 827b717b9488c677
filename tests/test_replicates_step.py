"""A step works on tensors that stay where they are, so that a GPU can record it."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.experiments.replicates import NotTogether, train_together
from labkit.experiments.replicates.optimizer import Optimizer, numbers_of
from labkit.experiments.replicates.stack import Stack, Template
from labkit.experiments.replicates.step import WARM, Captured, Step
from labkit.model import ModelConfig
from labkit.training import TrainConfig

MODEL = ModelConfig(dim=16, depth=1, heads=2, vocab=11, context=8)
TRAIN = TrainConfig(steps=12, lr=1e-2, clip=1.0, weight_decay=0.1)
MODELS = [MODEL, replace(MODEL, norm="batch"), replace(MODEL, recipe="ngpt")]
MODELS += [replace(MODEL, qk_clip=0.05)]


def batches(rows=3, seed=0):
    torch.manual_seed(seed)
    return [(torch.randint(11, (4, 8)), torch.randint(11, (4, 8))) for _ in range(rows)]


def step_of(model=MODEL, train=TRAIN, rows=3, device="cpu"):
    torch.manual_seed(0)
    models = [model.build().to(device) for _ in range(rows)]
    return Step(Stack(models), [train] * rows, [0.1] * rows, batches(rows))


def places(step):
    """Say where everything lies that a step may read or write."""
    optimizer = step.optimizer
    held = {
        "weights": step.stack.weights, "gradients": step.stack.gradients, "mean": optimizer.mean,
        "square": optimizer.square, "inputs": step.inputs, "targets": step.targets,
        "numbers": step.numbers, "losses": step.losses, "alive": step.alive,
        **step.stack.parameters, **step.stack.slopes, **step.stack.buffers,
    }  # fmt: skip
    for row, model in enumerate(step.stack.models):
        held |= {f"{row} {name}": value for name, value in model.named_parameters()}
        held |= {f"{row} slope {name}": p.grad for name, p in model.named_parameters()}
        held |= {f"{row} {name}": value for name, value in model.named_buffers()}
    return {name: (value.data_ptr(), tuple(value.shape)) for name, value in held.items()}


class Asked(TorchDispatchMode):
    """Refuse every operation that tells Python, or a shape, what a tensor holds."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tells = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & {*func.tags}
        name = func.overloadpacket.__name__
        if name.startswith(("index", "_index", "_unsafe_index")) and isinstance(args[1], list):
            # by numbers an index has a known shape; by a mask its places are counted first
            tells = any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1])
        if tells:
            raise AssertionError(f"{func} waits for the device")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("model", MODELS, ids=["rms", "batch", "ngpt", "QK-Clip"])
def test_a_step_asks_no_tensor_what_it_holds_and_moves_none(model):
    step = step_of(model)
    before = places(step)
    for i in range(2):
        step.place_batches(i, batches(seed=i))
        with Asked():
            step.compute_gradients()
            step.update_models()
    assert places(step) == before
    assert step.losses.isfinite().all() and step.alive.all()


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x.sum() > 1),
        lambda x: x[x > 0],
        lambda x: x.__setitem__(x > 0, torch.ones(2)),
        lambda x: x.masked_select(x > 0),
        lambda x: torch.nonzero(x),
        lambda x: x.unique(),
        lambda x: torch.equal(x, x),
    ],
)
def test_asking_is_noticed(ask):
    x = torch.ones(2)
    with Asked(), pytest.raises(AssertionError, match="waits for the device"):
        ask(x)
    with Asked():
        torch.where(x > 0, x, 0.0)[torch.tensor([1, 0])].sum()


MASKED = replace(MODEL, softcap=5.0)  # whose attention takes a mask under vmap


def masked(rows=3):
    """Make batches of several parts: tokens, no source, which of them are real."""
    return [((x, None, x > 2), y) for x, y in batches(rows)]


SPOILT = {
    "no mask": lambda x, mask, y: ((x, None, None), y),
    "a source": lambda x, mask, y: ((x, x, mask), y),
    "one sequence": lambda x, mask, y: ((x[:1], None, mask[:1]), y[:1]),
    "shorter targets": lambda x, mask, y: ((x, None, mask), y[:, :1]),
    "another dtype": lambda x, mask, y: ((x, None, mask.long()), y),
    "tokens alone": lambda x, mask, y: (x, y),
}


@pytest.fixture(scope="module")
def masked_step():
    models = [MASKED.build() for _ in range(3)]
    return Step(Stack(models), [TRAIN] * 3, [0.1] * 3, masked())


@pytest.mark.parametrize("name", SPOILT)
def test_a_batch_of_other_parts_or_shapes_is_refused(masked_step, name):
    good = masked()
    masked_step.place_batches(0, good)
    assert torch.equal(masked_step.inputs[2], torch.stack([x for (_, _, x), _ in good]))
    torn = [SPOILT[name](x, mask, y) for (x, _, mask), y in good]
    said = "have the same parts at every step, but one has"
    with pytest.raises(NotTogether, match=said):  # a later step, in every row
        masked_step.place_batches(1, torn)
    with pytest.raises(NotTogether, match=said):  # the first step, in one row
        Step(masked_step.stack, [TRAIN] * 3, [0.1] * 3, [good[0], torn[1], good[2]])


def test_training_ends_where_a_mask_does():
    streams = [masked() for _ in range(2)]
    streams[1][2] = SPOILT["no mask"](*[streams[1][2][0][i] for i in (0, 2)], streams[1][2][1])
    models = [MASKED.build() for _ in range(2)]
    with pytest.raises(NotTogether, match="but one has"):
        train_together(models, streams, [replace(TRAIN, steps=3)] * 2, [[], []])


def test_the_models_are_rows_of_the_stack():
    step = step_of(replace(MODEL, norm="batch", tie=True))
    step.place_batches(0, batches())
    step.compute_gradients()
    for row, model in enumerate(step.stack.models):
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, step.stack.parameters[name][row])
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0
        alone = model.train()
        inputs, targets = batches()[row]
        loss = torch.nn.functional.cross_entropy(alone(inputs).flatten(0, 1), targets.flatten())
        slopes = torch.autograd.grad(loss, list(alone.parameters()))
        for parameter, slope in zip(alone.parameters(), slopes, strict=True):
            torch.testing.assert_close(parameter.grad, slope, rtol=1e-4, atol=1e-6)
    step.update_models()
    moved = step.stack.models[1].get_parameter("output.weight")
    assert torch.equal(moved, step.stack.parameters["embedding.weight"][1])


@pytest.mark.parametrize("model", MODELS, ids=["rms", "batch", "ngpt", "QK-Clip"])
def test_a_rehearsal_leaves_no_trace(model):
    step = step_of(model)
    stack, inputs, targets = step.stack, step.inputs, step.targets
    kept = {name: value.clone() for name, value in stack.buffers.items()}
    weights, slopes, state = stack.weights.clone(), stack.gradients.clone(), torch.get_rng_state()
    stack.rehearse_step(inputs, targets)
    assert torch.equal(stack.weights, weights) and torch.equal(stack.gradients, slopes)
    assert all(torch.equal(value, kept[name]) for name, value in stack.buffers.items())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_template_gives_back_what_it_was_lent():
    model = replace(MODEL, qk_clip=1.0).build()
    template = Template(model)
    own = dict(template.model.named_parameters())
    lent = {name: value.detach() * 0 for name, value in model.named_parameters()}
    tokens = torch.zeros(1, 4, dtype=torch.long)
    result, made = template.run_model(lambda module: module(tokens), lent)
    assert result.abs().max() == 0 and list(made) == ["blocks.0.attention.sublayer.largest_logit"]
    assert all(value is own[name] for name, value in template.model.named_parameters())
    with pytest.raises(ZeroDivisionError):
        template.run_model(lambda module: 1 / 0, lent)
    assert all(value is own[name] for name, value in template.model.named_parameters())
    assert dict(template.model.named_buffers()).keys() == {"angles"}


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_each_row_has_torch_s_optimizer_with_its_own_numbers(kind):
    configs = [
        TrainConfig(5, 1e-2, kind, weight_decay=0.1, warmup=3),
        TrainConfig(5, 3e-2, kind, betas=(0.5, 0.7), momentum=0.0, clip=0.3, schedule="linear"),
    ]
    torch.manual_seed(0)
    weights = torch.randn(2, 7, dtype=torch.float64)
    gradients = torch.empty_like(weights)
    rows = [torch.nn.Parameter(row.clone()) for row in weights]
    theirs = []
    for row, c in zip(rows, configs, strict=True):
        if kind == "sgd":
            made = torch.optim.SGD([row], c.lr, c.momentum, weight_decay=c.weight_decay)
        else:
            made = torch.optim.AdamW([row], c.lr, c.betas, weight_decay=c.weight_decay)
        theirs.append(made)
    ours = Optimizer(weights, gradients, configs)
    table = numbers_of(configs, [c.weight_decay for c in configs])
    for step in range(5):
        gradients.normal_()
        for row, slope, config, one in zip(rows, gradients.clone(), configs, theirs, strict=True):
            row.grad = slope
            one.param_groups[0]["lr"] = config.lr_at(step)
            if config.clip is not None:
                torch.nn.utils.clip_grad_norm_([row], config.clip)
            one.step()
        ours(table[step])
        torch.testing.assert_close(weights, torch.stack([*map(torch.Tensor.detach, rows)]))


def test_without_a_gpu_a_captured_call_is_the_call():
    calls = []
    captured = Captured(lambda: calls.append(1), torch.device("cpu"))
    for _ in range(WARM + 2):
        captured()
    assert len(calls) == WARM + 2 and captured.graph is None
    assert captured.reason == "graphs are CUDA's"


class FakeStream:
    def __init__(self, device=None):
        pass

    def wait_stream(self, other):
        pass


class FakeCuda:
    """Streams and graphs as torch.cuda has them: what was current stays so where an end fails."""

    def __init__(self):
        self.current, self.replayed = FakeStream(), 0

    class CUDAGraph:
        def __init__(self):
            self.replays = 0

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
    captured()
    assert str(captured) == f"not captured: 1 calls, and {WARM} come before"
    for _ in range(WARM + 1):
        captured()
    assert calls == [False] * (WARM + 1)  # warm-up and capture, on a stream of their own
    assert captured.graph.replays == 2 and str(captured) == "captured"
    assert cuda.current is usual


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
    said = "not captured: item() is not permitted when a stream is capturing"
    assert captured.reason == str(captured) == said


def test_an_end_of_capture_that_fails_by_itself_is_the_reason(cuda, monkeypatch):
    @contextmanager
    def graph(graph, stream):
        cuda.current = stream
        yield
        raise RuntimeError("out of graphs")

    monkeypatch.setattr(torch.cuda, "graph", graph)
    usual, captured = cuda.current, Captured(lambda: None, torch.device("cuda"))
    for _ in range(WARM + 1):
        captured()
    assert str(captured) == "not captured: out of graphs" and cuda.current is usual


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
@pytest.mark.parametrize("model", MODELS, ids=["rms", "batch", "ngpt", "QK-Clip"])
def test_a_graph_trains_as_the_call_does(model):
    plain, recorded = step_of(model, device="cuda"), step_of(model, device="cuda")
    look = Captured(recorded.look, torch.device("cuda"))
    move = Captured(recorded.move, torch.device("cuda"))
    for i in range(TRAIN.steps):
        for step in (plain, recorded):
            step.place_batches(i, batches(seed=i))
        plain.compute_gradients()
        plain.update_models()
        look()
        move()
        torch.testing.assert_close(recorded.losses, plain.losses, rtol=1e-4, atol=1e-5)
    assert look.reason == move.reason == "" and look.graph is not None
    torch.testing.assert_close(recorded.stack.weights, plain.stack.weights, rtol=1e-3, atol=1e-4)
