"""Which norms are converted, which are left and why, and the errors."""

import html

import pytest
import torch
from convert_models import gpt2, llama
from peers import hf
from torch import nn

from labkit.convert import convert, fold_norms
from labkit.norms import make_norm


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x, gate):
        return x * gate


class OwnNorm(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return self.weight * x / (1 + x.abs().mean(-1, keepdim=True))


def hooked():
    norm = nn.LayerNorm(4)
    norm.register_forward_hook(lambda *args: None)
    return norm


def parametrized():
    return nn.utils.parametrizations.weight_norm(nn.LayerNorm(4), dim=None)


def failing():
    norm = OwnNorm()
    norm.forward = None
    return norm


class NormAct(nn.BatchNorm2d):
    """A norm and the following activation in one module, like timm's BatchNormAct2d."""

    def __init__(self, channels):
        super().__init__(channels)
        self.act = nn.ReLU()
        nn.init.zeros_(self.weight)

    def forward(self, input):
        return self.act(super().forward(input))


class Doubled(nn.LayerNorm):
    def forward(self, input):
        return 2 * super().forward(input).sin()


# what stays, to what, and why
STUBBORN = {
    "gate": (Gated, "rms", "more than one input \\(gate\\)"),
    "unknown formula": (OwnNorm, "rms", "no formula known here"),
    "unknown formula of one number": (lambda: OwnNorm(1), "rms", "no formula known here"),
    "failing": (failing, "rms", "fails on a trial row"),
    "hook": (hooked, "rms", "has forward hooks, which would be lost"),
    "parametrized": (parametrized, "rms", "parametrized"),
    "two axes": (lambda: nn.LayerNorm((3, 4)), "dyt", "normalizes 2 axes at once; dyt only one"),
    "own heads": (lambda: hf("cohere").CohereLayerNorm((2, 4)), "layer", "weight \\(2, 4\\)"),
    "no width": (lambda: hf("llama4").Llama4TextL2Norm(), "rms", "width cannot be determined"),
    "frozen": (lambda: hf("detr").DetrFrozenBatchNorm2d(4), "batch", "has state of its own"),
    "an activation behind it": (lambda: NormAct(4), "batch", "computes more in the same module"),
    "another forward": (lambda: Doubled(4), "layer", "a LayerNorm that computes something else"),
    "lazy": (nn.LazyBatchNorm1d, "batch", "is lazy"),
    "meta": (lambda: hf("gemma").GemmaRMSNorm(4).to("meta"), "rms", "meta device"),
}


@pytest.mark.parametrize("name", STUBBORN)
def test_what_cannot_be_swapped_is_left_with_its_reason(name):
    make, key, reason = STUBBORN[name]
    norm = make()
    model = nn.Sequential(nn.BatchNorm1d(4), norm)
    kind = type(norm).__name__
    conversion = convert(model, {"BatchNorm1d": "batch", kind: key})
    assert [row.name for row in conversion.swapped] == ["0"]
    assert [(row.name, row.norm) for row in conversion.left] == [("1", kind)]
    assert model[1] is norm
    with pytest.raises(ValueError, match=f"no norm could be swapped. .*{reason}"):
        convert(model, {kind: key})
    # the way out for all of them
    new = nn.Identity()
    convert(model, {kind: lambda old: new})
    assert model[1] is new


# --- which norms ---


def test_only_narrows_by_glob_globs_or_predicate():
    for only in ("*.ln_1", ["*.0.ln_1", "*.1.ln_1"], lambda name: name.endswith("ln_1")):
        model = gpt2()
        conversion = convert(model, {"LayerNorm": "dyt"}, only=only)
        swapped = [row.name for row in conversion.swapped]
        assert swapped == ["transformer.h.0.ln_1", "transformer.h.1.ln_1"]
        assert {row.reason for row in conversion.left} == {"`only` leaves it out"}
        assert len(conversion.left) == 3


def test_globs_and_classes_are_keys():
    for key in ("*RMSNorm", hf("llama").LlamaRMSNorm):
        assert len(convert(llama(), {key: "rms"}).swapped) == 5


def test_arguments_go_to_every_norm_unless_the_pair_says_otherwise():
    model = nn.Sequential(nn.LayerNorm(4), nn.RMSNorm(4))
    convert(model, {"LayerNorm": "dyt", "RMSNorm": ("dyt", {"alpha": 0.2})}, alpha=0.9)
    assert [round(norm.alpha.item(), 6) for norm in model] == [0.9, 0.2]


# --- errors, and nothing half done ---


def test_misuse_says_what_to_do():
    model = gpt2()
    before = dict(model.named_modules())
    for mapping, kw, error, message in (
        ({"LayerNrom": "rms"}, {}, ValueError, "has no LayerNrom; its norms are LayerNorm \\(5\\)"),
        ({"LayerNorm": "rsm"}, {}, ValueError, "unknown norm 'rsm'; did you mean 'rms'"),
        (
            {"LayerNorm": "dyt"},
            {"aplha": 1},
            TypeError,
            "has no option aplha; it takes alpha",
        ),
        ({"LayerNorm": "dyt"}, {"eps": 1e-5}, TypeError, "'dyt' has no option eps"),
        ({"LayerNorm": "rms"}, {"only": "x.*"}, ValueError, "leaves it out: transformer.h.0.ln_1"),
        ({"LayerNorm": lambda old: "rms"}, {}, TypeError, "for LayerNorm, but returned str"),
        ({"LayerNorm": lambda old: old}, {}, ValueError, "returned it unchanged"),
        ({"LayerNorm": 3}, {}, TypeError, "each target must be a key of NORMS like .*, got 3"),
        ({"LayerNorm": []}, {}, TypeError, "must be a key of NORMS like .*, got \\[\\]"),
        ({"LayerNorm": nn.RMSNorm}, {}, TypeError, "like lambda old: Norm.4., got <class .*RMSN"),
        ({"LayerNorm": nn.RMSNorm(32)}, {}, TypeError, "must be a key of .*, got RMSNorm"),
        ({"LayerNorm": "rms"}, {"only": 3}, TypeError, "`only` must be a glob, .* names, got 3"),
        ({"LayerNorm": ("rms",)}, {}, TypeError, "a pair .key, arguments. like .* or a callable"),
        ({"LayerNorm": "rms"}, {"dtype": torch.half}, TypeError, "dtype may not be given, because"),
        ({"LayerNorm": "rms"}, {"only": [3]}, TypeError, "`only` must be a glob, a list of"),
        ({3: "rms"}, {}, ValueError, "has no 3; its norms are"),
        ({}, {}, TypeError, "needs a mapping"),
        ("LayerNorm", {}, TypeError, "needs a mapping"),
    ):
        with pytest.raises(error, match=message):
            convert(model, mapping, **kw)
        assert all(module is before[name] for name, module in model.named_modules())


@pytest.mark.parametrize("call", [lambda m: convert(m, {"LayerNorm": "rms"}), fold_norms])
def test_what_is_no_model_is_refused(call):
    for model, message in (
        (3, "an nn.Module, got 3; pass one"),
        (nn.Linear, "an nn.Module, got the class Linear; pass one"),
        (
            nn.LayerNorm(4),
            "LayerNorm is itself a norm; pass a module that contains it, such as nn.Sequential",
        ),
    ):
        with pytest.raises(TypeError, match=message):
            call(model)


def test_an_error_at_the_last_norm_leaves_the_first_as_it_was():
    model = gpt2()
    before, met = dict(model.named_modules()), []

    def fail_at_last(old):
        met.append(old)
        if len(met) == 5:
            raise RuntimeError("no")
        return make_norm("rms", 32)

    with pytest.raises(RuntimeError, match="no"):
        convert(model, {"LayerNorm": fail_at_last})
    assert len(met) == 5
    assert all(module is before[name] for name, module in model.named_modules())


def test_statistics_over_tokens_come_with_a_warning():
    assert "Padding counts" in convert(gpt2(), {"LayerNorm": "batch"}).notes[0]
    assert not convert(gpt2(), {"LayerNorm": "rms"}).notes


def test_undo_refuses_what_it_would_get_wrong():
    model = nn.Sequential(nn.LayerNorm(4))
    first = convert(model, {"LayerNorm": "rms"})
    second = convert(model, {"RMSNorm": "dyt"})
    with pytest.raises(RuntimeError, match="undo later conversions first"):
        first.undo()
    second.undo()
    first.undo()
    with pytest.raises(RuntimeError, match="can be undone only once"):
        first.undo()


def test_the_report_reads_as_a_table():
    model = gpt2()
    conversion = convert(model, {"LayerNorm": "rms"}, only="transformer.h*")
    text = str(conversion)
    assert text.splitlines()[0] == "4 swapped, 1 left"
    assert "\ntransformer.h.1.ln_1 " in text and "transformer.ln_f" in text
    assert conversion._repr_html_() == f"<pre>{html.escape(text)}</pre>"
    assert repr(conversion) == text


@pytest.mark.parametrize(
    ("places", "shown"), [((0, 1, 4), ["0", "1", "4"]), ((1, 4, 5, 9), ["1 … 9 (4)"])]
)
def test_the_report_says_which_places_it_means(places, shown):
    model = nn.Sequential(*(nn.LayerNorm(4) if i in places else nn.ReLU() for i in range(20)))
    rows = str(convert(model, {"LayerNorm": "rms"})).splitlines()[2:]
    assert [row.split("  ")[0] for row in rows] == shown
