"""Laws about PyTorch's machinery: compiler, transforms, modes, and clear refusals."""

import contextlib
import inspect
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import torch
from normkernels import launch
from normkernels.rows import MAX_N
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from .cases import Case
from .law import FAMILIES, law, nearest, never, small
from .laws_bits import identical_runs, similar_runs
from .measure import (
    BRAIN,
    DEVICE,
    FLOAT,
    Run,
    Setting,
    Skip,
    as_tuple,
    draw,
    filled_with_nan,
    fused,
    identical,
    learned,
    leaves,
    normal_like,
    run,
)

Function = Callable[..., Any]


def machinery(case: Case, *given: object) -> bool:
    """Test what only `operator` affects with two kernels, of one result and of two."""
    return case.name in FAMILIES[:2]


class Watch(TorchDispatchMode):
    """Observe calls of the kernels' operators; change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple, dict]] = []
        self.results: list[Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace == "normkernels":
            self.calls.append((func, args, kwargs or {}))
            self.results += [r for r in as_tuple(result) if isinstance(r, Tensor)]
        return result


def watched(case: Case, inputs: dict[str, Any]) -> tuple[Run, list[tuple[Any, tuple, dict]]]:
    """Run under an observing mode, which makes every call go through the operators."""
    with Watch() as watch:
        actual = fused(case, inputs)
    return actual, watch.calls


# --- Operators and modes ---


@law(small, never)
def opcheck(case: Case, setting: Setting) -> None:
    """The operators pass PyTorch's own check: schema, fake tensors, autograd, compilation."""
    _, calls = watched(case, draw(case, setting))
    assert calls, "no operator was called"
    for op, args, kwargs in calls:
        args = tuple(a.detach() if isinstance(a, Tensor) else a for a in args)
        torch.library.opcheck(op, args, kwargs)
    op, args, kwargs = calls[0]
    learning = tuple(
        a.detach().requires_grad_() if isinstance(a, Tensor) and a.is_floating_point() else a
        for a in args
    )
    torch.library.opcheck(op, learning, kwargs)


@law(small, machinery)
def modes(case: Case, setting: Setting) -> None:
    """A dispatch mode, a FLOP counter, no_grad or inference_mode does not change the bits."""
    inputs = draw(case, setting)
    plain = fused(case, inputs)
    actual, calls = watched(case, inputs)
    identical_runs(actual, plain)
    assert len({op for op, *_ in calls}) >= 2, "forward and backward are operators"
    names = learned(case, inputs)
    for frozen in {tuple(names[:1]), tuple(n for n in names if n not in case.rows)}:
        before = fused(case, inputs, frozen=frozen)
        with Watch() as watch, filled_with_nan():
            identical_runs(fused(case, inputs, frozen=frozen), before)
        assert not any(result.isnan().any() for result in watch.results), "a result was not filled"
    with FlopCounterMode(display=False):
        identical_runs(fused(case, inputs), plain)
    for quiet in (torch.no_grad, torch.inference_mode):
        with quiet():
            outputs = as_tuple(case.function(**leaves(case, inputs), **case.options))
        assert not any(y.requires_grad for y in outputs)
        identical_runs(Run(outputs, (), {}), Run(plain.outputs, (), {}))


@law(small)
def fake(case: Case, setting: Setting) -> None:
    """On tensors without values the results have the shapes, dtypes and strides of real ones."""
    inputs = draw(case, Setting(setting.m, setting.n, BRAIN, FLOAT))
    real = fused(case, inputs)
    with FakeTensorMode() as mode:
        empty = {n: mode.from_tensor(v) if isinstance(v, Tensor) else v for n, v in inputs.items()}
        shadow = fused(case, empty, dys=tuple(mode.from_tensor(dy) for dy in real.dys))
    theirs = (*real.outputs, *real.grads.values())
    for one, two in zip((*shadow.outputs, *shadow.grads.values()), theirs, strict=True):
        if one is None or two is None:
            assert one is two
            continue
        for what in ("shape", "dtype", "device"):
            assert getattr(one, what) == getattr(two, what), what
        assert one.stride() == two.stride(), "stride"


@law(small, machinery)
def autocast(case: Case, setting: Setting) -> None:
    """Autocast changes neither dtypes nor bits: the kernels are float32 inside anyway."""
    for dtype in (FLOAT, BRAIN):
        inputs = draw(case, Setting(setting.m, setting.n, dtype, FLOAT))
        plain = fused(case, inputs)
        with torch.autocast(DEVICE.type, dtype=BRAIN):
            actual = fused(case, inputs, dys=plain.dys)
            theirs = as_tuple(case.formula(**inputs, **case.options))
        identical_runs(actual, plain)
        assert [y.dtype for y in actual.outputs] == [y.dtype for y in theirs]


# --- Little work in Python ---


@law(small)
def host_work(case: Case, setting: Setting) -> None:
    """A plain call is short: few Python calls besides the launches, none through operators.

    How long it takes is a GPU's to say: `normkernels.bench` measures it.
    """
    inputs = draw(case, setting)
    given = leaves(case, inputs)
    with no_launches():
        outputs = as_tuple(case.function(**given, **case.options))
        dys = normal_like(outputs)
        alone = calls_in(lambda: case.function(**given, **case.options))
        both = calls_in(
            lambda: torch.autograd.backward(as_tuple(case.function(**given, **case.options)), dys)
        )
    assert len(alone) <= 160 and len(both) <= 360, f"{len(alone)}, with backward {len(both)} calls"
    assert not any("/torch/_library/" in file for file in both), "called through the operator"


def calls_in(what: Callable[[], Any]) -> list[str]:
    """List calls of Python and C functions, by the file they are made in."""
    calls: list[str] = []

    def count(frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            calls.append(frame.f_code.co_filename)

    what()
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        what()
    finally:
        sys.setprofile(before)
    return calls


@contextlib.contextmanager
def no_launches() -> Iterator[None]:
    """Replace every launcher by one that launches nothing."""
    replaced = [
        (module, module.launch)
        for name, module in list(sys.modules.items())
        if name.startswith("normkernels.") and callable(vars(module).get("launch"))
    ]
    for module, _ in replaced:
        module.launch = lambda *args, **constants: None
    try:
        yield
    finally:
        for module, launch in replaced:
            module.launch = launch


# --- torch.compile ---


def compiles(backend: str) -> None:
    """Skip if the compiler's backend does not work here."""
    if backend == "inductor" and DEVICE.type == "cpu" and not shutil.which("g++"):
        raise Skip("Inductor needs a C++ compiler")


@contextlib.contextmanager
def fresh_compiler() -> Iterator[None]:
    """Reset the compiler before and after."""
    torch._dynamo.reset()
    try:
        yield
    finally:
        torch._dynamo.reset()


def of_tensors(case: Case, inputs: dict[str, Any]) -> tuple[Function, list[str]]:
    """Make a function of tensors only, in the order of the returned names."""
    names = [name for name, value in inputs.items() if isinstance(value, Tensor)]
    rest = {name: value for name, value in inputs.items() if name not in names}

    def call(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(names, tensors, strict=True))
        return as_tuple(case.function(**given, **rest, **case.options))

    return call, names


def run_by_place(
    function: Function, names: list[str], case: Case, inputs: dict[str, Any], plain: Run
) -> Run:
    """Run a function of tensors in the order of the names, forward and backward."""

    def by_name(**given: Any) -> Any:
        return function(*(given[name] for name in names))

    return run(by_name, replace(case, options={}), inputs, plain.dys)


@law(
    lambda case: [("aot_eager",), ("inductor",)],
    lambda case, backend: backend == "aot_eager" and machinery(case),
)
def compile_whole(case: Case, backend: str) -> None:
    """torch.compile(fullgraph=True) gives the same values and gradients, with work around it."""
    compiles(backend)
    inputs = draw(case, Setting(6, nearest(case, 41), BRAIN, FLOAT))
    plain = fused(case, inputs)
    call, names = of_tensors(case, inputs)
    with fresh_compiler():
        compiled = torch.compile(call, fullgraph=True, backend=backend)
        similar_runs(run_by_place(compiled, names, case, inputs, plain), plain)
        if backend == "inductor":
            return

        def among_others(*tensors: Tensor) -> tuple[Tensor, ...]:
            changed = [
                t * 2 if name in case.rows else t for name, t in zip(names, tensors, strict=True)
            ]
            return tuple(y.float() + 1 for y in call(*changed))

        before = run_by_place(among_others, names, case, inputs, plain)
        compiled = torch.compile(among_others, fullgraph=True, backend=backend)
        similar_runs(run_by_place(compiled, names, case, inputs, plain), before)


@law(quick=never)
def compile_dynamic(case: Case) -> None:
    """Compiled for any number of rows, one graph serves them all."""
    from torch._dynamo.testing import CompileCounterWithBackend

    n = nearest(case, 41)
    counter = CompileCounterWithBackend("aot_eager")
    with fresh_compiler():
        call, names = of_tensors(case, draw(case, Setting(5, n)))
        compiled = torch.compile(call, fullgraph=True, backend=counter)
        for m in (5, 17, 96, 33, 4):
            inputs = draw(case, Setting(m, n))
            plain = fused(case, inputs)
            given = leaves(case, inputs)
            for name in case.rows:
                torch._dynamo.mark_dynamic(given[name], 0)
            outputs = compiled(*(given[name] for name in names))
            learning = learned(case, inputs)
            actual = torch.autograd.grad(outputs, [given[n] for n in learning], plain.dys)
            grads = dict(zip(learning, actual, strict=True))
            identical_runs(Run(tuple(y.detach() for y in outputs), plain.dys, grads), plain)
        assert counter.frame_count == 1, f"compiled {counter.frame_count} times"


# --- torch.func ---


@law(small, machinery)
def vmap(case: Case, setting: Setting) -> None:
    """vmap over rows on any axis, over parameters as in an ensemble, or both equals a loop."""
    two = [draw(case, Setting(setting.m, setting.n), seed=seed) for seed in (0, 7)]
    call, names = of_tensors(case, two[0])
    parameters = [n for n in learned(case, two[0]) if n not in case.rows]
    for batched, axis in (
        (case.rows, 0),
        (case.rows, 1),
        (parameters, 0),
        (parameters[:1], 0),
        ([*parameters, *case.rows], 0),
    ):
        stacked = [
            torch.stack([e[n] for e in two], axis) if n in batched else two[0][n] for n in names
        ]
        dims = tuple(axis if n in batched else None for n in names)
        outputs = torch.func.vmap(call, dims)(*stacked)
        for i in range(len(two)):
            # The slices themselves: elsewhere they might be aligned, and summed in another order.
            one = dict(zip(names, stacked, strict=True))
            alone = call(*(one[n].select(axis, i) if n in batched else one[n] for n in names))
            for y, of_loop in zip(outputs, alone, strict=True):
                identical(f"sample {i} of {batched}, axis {axis}", y[i], of_loop)


@law(small, machinery)
def functional_gradients(case: Case, setting: Setting) -> None:
    """torch.func's vjp and per-sample gradients (vmap of grad) equal autograd's."""
    two = [draw(case, Setting(setting.m, setting.n), seed=seed) for seed in (0, 7)]
    runs = [
        fused(case, each | {n: two[0][n] for n in two[0] if n not in case.rows}) for each in two
    ]
    call, names = of_tensors(case, two[0])
    learning = learned(case, two[0])

    def of_learned(*values: Tensor) -> tuple[Tensor, ...]:
        given = two[0] | dict(zip(learning, values, strict=True))
        return call(*(given[n] for n in names))

    _, back = torch.func.vjp(of_learned, *(two[0][n] for n in learning))
    for name, grad in zip(learning, back(runs[0].dys), strict=True):
        identical(f"gradient of {name} from vjp", grad, runs[0].grads[name])

    def loss(*tensors: Tensor) -> Tensor:
        *given, dys = tensors
        return sum((y * dy).float().sum() for y, dy in zip(call(*given), dys, strict=True))

    places = tuple(names.index(n) for n in learning)
    dims = (*(0 if n in case.rows else None for n in names), 0)
    stacked = [torch.stack([e[n] for e in two]) if n in case.rows else two[0][n] for n in names]
    dys = tuple(torch.stack(pair) for pair in zip(*(each.dys for each in runs), strict=True))
    per_sample = torch.func.vmap(torch.func.grad(loss, places), dims)(*stacked, dys)
    for name, grads in zip(learning, per_sample, strict=True):
        for i, one in enumerate(runs):
            similar_runs(Run((), (), {name: grads[i]}), Run((), (), {name: one.grads[name]}))


@law(small, machinery)
def no_second_derivative(case: Case, setting: Setting) -> None:
    """Second derivatives raise a clear error: in plain calls, through operators, in torch.func."""
    inputs = draw(case, setting)
    call, names = of_tensors(case, inputs)
    message = "no second derivative"

    def twice(around: Any = contextlib.nullcontext, call: Function = call) -> None:
        given = leaves(case, inputs)
        with around():
            outputs = call(*(given[n] for n in names))
            dys = [dy.requires_grad_() for dy in normal_like(outputs)]
            learning = [given[n] for n in learned(case, inputs)]
            grads = torch.autograd.grad(outputs, learning, dys, create_graph=True)
            sum(grad.float().square().sum() for grad in grads).backward()

    def in_func() -> None:
        def total(*tensors: Tensor) -> Tensor:
            return sum(y.square().sum() for y in call(*tensors))

        def size(*tensors: Tensor) -> Tensor:
            return torch.func.grad(total, place)(*tensors).square().sum()

        place = names.index(case.rows[0])
        torch.func.grad(size, place)(*(inputs[n] for n in names))

    refused(RuntimeError, message, twice)
    refused(RuntimeError, message, lambda: twice(Watch))
    refused(RuntimeError, message, in_func)
    compiled = torch.compile(call, backend="aot_eager")
    message += "|double backward"
    refused(RuntimeError, message, lambda: twice(fresh_compiler, compiled))


@law(small, machinery)
def forward_mode(case: Case, setting: Setting) -> None:
    """Forward-mode differentiation raises an error, so that no tangent is lost silently."""
    inputs = draw(case, setting)
    call, names = of_tensors(case, inputs)
    for name in learned(case, inputs):

        def moved(value: Tensor, name: str = name) -> tuple[Tensor, ...]:
            return call(*((inputs | {name: value})[n] for n in names))

        def plainly(moved: Callable = moved, value: Tensor = inputs[name]) -> None:
            with forward_ad.dual_level():
                moved(forward_ad.make_dual(value, torch.ones_like(value)))

        value = inputs[name]
        for way in (plainly, partial(torch.func.jvp, moved, (value,), (torch.ones_like(value),))):
            refused(RuntimeError, "forward|jvp", way)


# --- Refusals ---


def refused(kind: type[Exception] | tuple, words: str, call: Callable[[], Any]) -> None:
    """Require an error of one kind whose message contains one of the words (separated by |)."""
    try:
        call()
    except kind as error:
        assert any(word in str(error) for word in words.split("|")), f"unclear: {error}"
    else:
        raise AssertionError(f"nothing was refused where {words!r} was expected")


@law(small)
def misuse(case: Case, setting: Setting) -> None:
    """Invalid inputs raise an error that states the rule and the value, and nothing runs."""
    inputs = draw(case, setting)

    def refuses(kind: Any, words: str, **changed: Any) -> None:
        refused(kind, words, lambda: case.function(**(inputs | changed), **case.options))

    for name in case.rows:
        x = inputs[name]
        refuses(TypeError, "torch.int64", **{name: x.long()})
        refuses(TypeError, "torch.float64", **{name: x.double()})
        refuses(TypeError, "torch.complex64", **{name: x.to(torch.complex64)})
        refuses((ValueError, RuntimeError), "kernel", **{name: x[..., :-1]})
        refuses(ValueError, "device|on a CUDA device", **{name: x.to("meta")})
        refuses(ValueError, "axis|shape|needs", **{name: x.flatten()[0]})
    for name in learned(case, inputs):
        p = inputs[name]
        if name in case.rows:
            continue
        refuses(TypeError, "torch.int64", **{name: p.long()})
        refuses(TypeError, "torch.float64", **{name: p.double()})
        refuses(ValueError, "shape|element|number", **{name: torch.cat([p.flatten(), p.flatten()])})
        refuses(ValueError, "device|on a CUDA device", **{name: p.to("meta")})
    if "eps" in inspect.signature(case.function).parameters:
        refuses(ValueError, "eps", eps=-1e-6)
        refuses(ValueError, "eps", eps=float("nan"))
    long = {n: inputs[n].new_zeros(1, *inputs[n].shape[1:-1], MAX_N + 1) for n in case.rows}
    refuses(ValueError, "up to|shape", **long)
    with mock.patch.object(launch, "DEVICE_TYPES", {"cuda"}):  # as without the interpreter
        on_cpu = {n: v.cpu() for n, v in inputs.items() if isinstance(v, Tensor)}
        refuses(ValueError, "on a CUDA device", **on_cpu)
