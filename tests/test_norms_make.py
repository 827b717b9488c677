"""make_norm and facts: names, options, the last axis, and the data that tables read."""

import inspect
import re

import pytest
import torch
from cases import CASES, DIM, GROUPS, NUMBERS, close, truth
from each import each
from torch import nn

from labkit.norms import NORMS, GroupNorm, LayerNorm, RMSNorm, facts, make_norm
from labkit.norms._arguments import check_option

OPTIONS = {"group": {"num_groups": GROUPS}, "power": {"groups": GROUPS}, "partial-rms": {"p": 0.35}}


@each(norm=NORMS)
def test_make_norm_works_on_the_last_axis(norm):
    case = CASES[norm]
    eps = {"eps": 1e-4} if case.has_eps else {}
    module = make_norm(norm, DIM, **eps, **OPTIONS.get(norm, {}))
    if norm == "prep-batch":
        module.steps = 2 * int(module.calls.fill_(2**40))  # λ is a half, as in the formula
    x = torch.randn(4, 6, DIM) + 1
    if norm == "group":  # every vector by itself
        expected = truth(case, x.reshape(-1, DIM), {}, 1e-4).view(x.shape)
    elif case.axis == 1:
        expected = truth(case, x.movedim(-1, 1), {}, 1e-4).movedim(1, -1)
    else:
        expected = truth(case, x, {}, 1e-4, module=True)
    close(module(x), expected, torch.float32, magnified=4)
    assert type(module) is NORMS[norm]


@each(norm=NORMS)
def test_the_options_of_a_norm_are_what_make_norm_takes(norm):
    options = facts(norm).options
    assert make_norm(norm, 16, **options).state_dict().keys() == (
        make_norm(norm, 16).state_dict().keys()
    )
    with pytest.raises(TypeError, match=rf"^norm '{norm}' has no option strength"):
        make_norm(norm, 16, strength=1)
    assert ("eps" in options) == CASES[norm].has_eps
    if "eps" not in options:
        with pytest.raises(TypeError, match=f"^norm '{norm}' has no option eps, got eps=1e-05"):
            make_norm(norm, 16, eps=1e-5)
    for taken in ("dim", "channel_axis", "num_features", "normalized_shape"):
        with pytest.raises(TypeError, match=r"has no|multiple values"):
            make_norm(norm, 16, **{taken: 3})


# The defaults that the sources print, or have in their code.
DEFAULTS = {
    "batch": {"eps": 1e-5, "momentum": 0.1, "affine": True, "track_running_stats": True},
    "layer": {"eps": 1e-5, "elementwise_affine": True, "bias": True},
    "annotated-layer": {"eps": 1e-6},
    "rms": {"eps": None, "elementwise_affine": True},
    "rms-llama": {"eps": 1e-6},
    "rms-gemma": {"eps": 1e-6},
    "rms-t5": {"eps": 1e-6},
    "rms-outside": {"eps": 1e-8},
    "partial-rms": {"eps": 1e-6, "p": 0.0625},
    "instance": {"eps": 1e-5, "momentum": 0.1, "affine": False, "track_running_stats": False},
    "group": {"eps": 1e-5, "affine": True, "num_groups": 8},
    "scale": {"eps": 1e-5},
    "l2": {"eps": 1e-12, "temperature": 1.0},
    "power": {"eps": 1e-5, "groups": 1, "warmup": 10_000},
    "rep-batch": {"eps": 1e-5, "momentum": 0.1},
    "prep-batch": {"eps": 1e-5, "momentum": 0.1, "steps": 300_000},
    "dyt": {"alpha": 0.5, "bias": True},
    "derf": {"alpha": 0.5, "shift": 0.0},
    "bhyt": {"eps": 1e-6, "bound": 10.0, "scale": 1.0},
}  # fmt: skip


@each(norm=DEFAULTS)
def test_defaults_are_the_sources(norm):
    options = facts(norm).options
    assert {name: options[name] for name in DEFAULTS[norm]} == DEFAULTS[norm]
    function = facts(norm).function
    if function and "eps" in options and norm != "rms":  # whose module default is torch's None
        assert inspect.signature(function).parameters["eps"].default == options["eps"]


STARTS = {
    "scale": {"weight": 4.0},
    "l2": {"weight": 1.0},
    "rms-gemma": {"weight": 0.0},
    "rep-batch": {"weight": 1.0, "bias": 0.0, "eta": 1.0},
    "power": {"weight": 1.0, "bias": 0.0, "running_square": 1.0, "error": 0.0},
    "dyt": {"alpha": 0.5, "weight": 1.0, "bias": 0.0},
    "derf": {"alpha": 0.5, "shift": 0.0, "weight": 1.0, "bias": 0.0},
    "bhyt": {"scale": 1.0, "weight": 1.0},
}


@each(norm=[norm for norm in DEFAULTS if norm not in ("prep-batch",)])
def test_parameters_start_where_the_sources_start_them(norm):
    state = make_norm(norm, 16).state_dict()
    expected = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 1.0}
    for name, value in state.items():
        if value.is_floating_point():
            start = STARTS.get(norm, {}).get(name, expected.get(name))
            assert (value == start).all(), name


@each(norm=NORMS)
def test_every_norm_says_its_own_equation_and_its_source(norm):
    known = facts(norm)
    assert [facts(other).equation for other in NORMS].count(known.equation) == 1
    assert known.module is NORMS[norm] and known.equation.startswith("y = ")
    if norm != "none":
        published = re.search(r"arXiv \d{4}\.\d{4,5}|harvardnlp", known.source)
        assert published or known.source.startswith("own: "), known.source
        assert "source" in vars(known.module), "not inherited from the class that it extends"


@each(norm=[norm for norm in NORMS if facts(norm).function])
def test_a_function_with_the_modules_attributes_is_the_module(norm):
    case = CASES[norm]
    function = facts(norm).function
    assert function is not None and "function" in {k for c in NORMS[norm].__mro__ for k in vars(c)}
    module = case.module(1e-3)
    names = [name for name in inspect.signature(function).parameters if hasattr(module, name)]
    x = torch.randn(case.shapes[-1])
    y = function(x, **{name: getattr(module, name) for name in names})
    # sums in another order
    torch.testing.assert_close(module(x), y, rtol=1e-5, atol=1e-5)


@each(norm=NORMS)
def test_a_norm_can_be_saved_and_loaded(norm):
    module = make_norm(norm, 16)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    x = torch.randn(4, 5, 16)
    module(x)  # running statistics and counters move
    other = make_norm(norm, 16)
    other.load_state_dict(module.state_dict())
    for training in (False, True):
        module.train(training), other.train(training)
        assert torch.equal(module(x), other(x))


@each(norm=[norm for norm in NORMS if norm != "none"], dtype=[torch.float64, torch.bfloat16])
def test_a_norm_is_made_in_the_dtype_that_is_asked_for(norm, dtype):
    module = make_norm(norm, 16, dtype=dtype)
    assert {p.dtype for p in module.parameters()} <= {dtype}
    assert module(torch.randn(3, 4, 16, dtype=dtype)).dtype == dtype
    assert isinstance(repr(module), str) and isinstance(module, nn.Module)


def test_a_wrong_size_or_name_is_refused_in_words():
    for dim in ("16", None, 2.5, True, (4,), [4]):
        with pytest.raises(TypeError, match=r"dim must be a whole number, .*x\.shape\[-1\]\); got"):
            make_norm("rms", dim)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="at least one feature, got dim=0"):
        make_norm("rms", 0)
    for name in ([], None, 3):
        with pytest.raises(TypeError, match=r"the name of a norm must be a string, got .*; choose"):
            make_norm(name, 16)  # pyright: ignore[reportArgumentType]
    for call in (lambda: make_norm("lyer", 4), lambda: facts("lyer")):
        with pytest.raises(ValueError, match=r"unknown norm 'lyer'; did you mean 'layer'\? Else"):
            call()


def build_of_size(kind, size, **settings):
    """Call a norm's own constructor."""
    return kind(1, size, **settings) if kind is GroupNorm else kind(size, **settings)


@each(norm=[norm for norm in NORMS if norm != "none"])
def test_no_norm_is_made_without_a_feature_or_with_a_fraction_of_one(norm):
    kind = facts(norm).module
    for size in (0, -2):
        with pytest.raises(ValueError, match=rf"needs at least one feature, got .*={size}"):
            build_of_size(kind, size)
    with pytest.raises(TypeError, match=r"needs a whole number as .*, got 2\.5"):
        build_of_size(kind, 2.5)


@each(norm=[LayerNorm, RMSNorm], size=[(4, 0), [0]])
def test_no_norm_of_several_axes_is_made_without_a_feature(norm, size):
    with pytest.raises(ValueError, match="needs at least one feature, got normalized_shape="):
        norm(size)


NAN, INF = float("nan"), float("inf")
EVERYWHERE = [norm for norm in NORMS if "eps" in facts(norm).options]
PLAIN = [row for row in NUMBERS if row[1] not in ("eps", "momentum")]
REFUSED = [
    *((norm, "eps", "a", TypeError, "a number as eps, got 'a'; the usual") for norm in EVERYWHERE),
    *((norm, "eps", INF, ValueError, "a finite eps, got inf; the usual") for norm in EVERYWHERE),
    *((norm, "eps", NAN, ValueError, "eps >= 0, got nan; the usual") for norm in EVERYWHERE),
    *((norm, "eps", -1e-5, ValueError, "eps >= 0, got -1e-05; the usual") for norm in EVERYWHERE),
    *(
        (norm, "momentum", value, ValueError, f"momentum in .0, 1., got {value}; the default")
        for norm in NORMS if "momentum" in facts(norm).options
        for value in (NAN, -0.1, 1.5, INF)
    ),
    *(
        (norm, key, value, ValueError, f"a finite {key}, got {value}; the default is {default}")
        for norm, key, default in PLAIN
        for value in (NAN, INF, -INF)
    ),
    *(
        (norm, key, 2.5, ValueError, f"a whole number as {key}, got 2.5; the default is {default}")
        for norm, key, default in PLAIN if isinstance(default, int)
    ),
    *(
        (norm, key, "x", TypeError, f"a {kind} as {key}, got 'x'; the default is {default}")
        for norm, key, default in PLAIN
        for kind in ["whole number" if isinstance(default, int) else "number"]
    ),
    ("dyt", "alpha", True, TypeError, "a number as alpha, got True; the default is 0.5"),
    ("layer", "eps", None, TypeError, "a number as eps, got None; the usual value is 1e-5"),
]  # fmt: skip


@each(refusal=REFUSED)
def test_a_wrong_number_is_refused_when_the_norm_is_made(refusal):
    norm, key, value, error, message = refusal
    with pytest.raises(error, match=f"^{norm} needs {message}"):
        make_norm(norm, 16, **{key: value})


@each(norm=EVERYWHERE)
def test_a_norms_own_constructor_refuses_an_eps_given_as_text(norm):
    with pytest.raises(TypeError, match=r"needs a number as eps, got '1e-5'; the usual value"):
        build_of_size(facts(norm).module, 16, eps="1e-5")


@pytest.mark.parametrize("annotation", [float, "float"])
def test_a_number_that_is_annotated_as_float_need_not_be_whole(annotation):
    power = inspect.Parameter("power", inspect.Parameter.KEYWORD_ONLY, default=2)
    assert check_option("mine", power.replace(annotation=annotation), 1.5) == 1.5
    with pytest.raises(
        ValueError, match=r"^mine needs a whole number as power, got 1\.5; the default is 2"
    ):
        check_option("mine", power.replace(annotation=int), 1.5)


def test_what_torch_takes_is_taken():
    assert make_norm("rms", 16, eps=None).eps is None
    for norm in ("batch", "instance", "rep-batch"):
        assert make_norm(norm, 16, momentum=None).momentum is None
        assert make_norm(norm, 16, momentum=1).momentum == 1
    steps = make_norm("prep-batch", 16, steps=1e4).steps
    assert steps == 10_000 and isinstance(steps, int)


@each(norm=["instance", "batch", "group", "prep-batch"])
def test_a_padded_or_half_precision_result_is_contiguous_too(norm):
    x = torch.randn(2, 6, 16)
    for dtype in (torch.float32, torch.bfloat16):
        assert make_norm(norm, 16, dtype=dtype)(x.to(dtype)).is_contiguous()
    if norm in ("batch", "prep-batch"):
        own = NORMS[norm](6)  # channels on axis 1
        assert own(x, mask=torch.ones(2, 16, dtype=torch.bool)).is_contiguous()
