"""Looks: one colour, marker and dash per method throughout the book.

Every colour has a contrast of at least 4.5:1 on white, so that a label may have its line's colour.
Marker and dash together identify a method without colour: the book can be printed in black and
white.
"""

import re
from collections.abc import Iterable
from itertools import product
from typing import Any, NamedTuple
from zlib import crc32

COLOURS = {
    "vermillion": "#c8500a",
    "blue": "#0a63b5",
    "teal": "#087886",
    "navy": "#1d2a6e",
    "wine": "#7d1238",
    "pink": "#c7367f",
    "green": "#0b7a53",
    "purple": "#8b3a9e",
    "olive": "#6f6a00",
    "brown": "#80501a",
    "grey": "#666666",
    "black": "#1a1a1a",
}
DASHES: dict[str, Any] = {
    "solid": "solid",
    "dash": (0, (5, 1.8)),
    "dot": (0, (1.2, 1.5)),
    "dashdot": (0, (6, 1.6, 1.2, 1.6)),
    "long": (0, (10, 2)),
    "dashdotdot": (0, (6, 1.5, 1.2, 1.5, 1.2, 1.5)),
}
SPARE_MARKERS = "H8"  # only for names that have no row below; no arrows, which show a direction
# Thin shapes are drawn larger to weigh the same.
SIZES = {"X": 8.5, "P": 8, "*": 10, "^": 7.5, "v": 7.5, "D": 6, "d": 7.5}


class Look(NamedTuple):
    """Colour, marker and dash of a method in all figures."""

    colour: str
    marker: str
    dash: str

    @property
    def size(self) -> float:
        """Return the size of the marker."""
        return SIZES.get(self.marker, 6.5)

    @property
    def line(self) -> Any:
        """Return matplotlib's line style."""
        return DASHES[self.dash]

    @property
    def marked_line(self) -> dict[str, Any]:
        """Return matplotlib's options for a line whose markers have a white edge."""
        return {
            "color": self.colour,
            "linestyle": self.line,
            "marker": self.marker,
            "markersize": self.size,
            "markeredgecolor": "white",
            "markeredgewidth": 0.5,
        }


# method  colour  marker  dash
_TABLE = """
batch            vermillion o solid      | layer           blue       s dash
rms              teal       ^ dashdot    | group           navy       D long
instance         wine       v dot        | none            black      X dot
annotated-layer  pink       s dashdot    | partial-rms     green      ^ dashdotdot
scale            purple     p solid      | l2              olive      * dash
power            brown      P dashdot    | rep-batch       brown      o dash
prep-batch       pink       o dot        | dyt             purple     h dashdotdot
derf             olive      d long       | bhyt            wine       X solid
post             vermillion o long       | pre             blue       s solid
deepnorm         teal       ^ dash       | hybrid          navy       D dashdot
hybrid*          wine       * solid      | mix-ln          brown      v dash
sandwich         grey       P solid      | peri            grey       p dash
output           olive      h long       | qk              pink       d dot
ngpt             green      X dashdot    | resi-dual       teal       v solid
realformer       grey       d dash       | b2t             brown      p dot
admin            olive      P dot        | sub-ln          purple     v dashdot
normformer       pink       h solid      | lns             brown      d dashdotdot
keel             wine       p dashdot    | gemma2          navy       ^ dot
gemma3           grey       ^ long       | embed-norm      brown      h dash
first-qkv-pre    grey       s dot        | resnet-v1       vermillion D solid
resnet-v2        blue       D dot        | highway         green      * dot
qkvc-post        vermillion * long       | qkc-post        wine       o dashdot
qk-post          pink       v long       | kv-post         olive      D dash
kc-post          purple     P dash       | pre-qkv-post    navy       s long
pre-qkv-pre      teal       d solid      | pre-qk-pre      green      h dot
qkv-pre          olive      p long       | post-pre        brown      ^ solid
pre-post         purple     X dash       | rms-outside     brown      * dashdot
one-pass         vermillion X long       | two-pass        navy       P long
soft-cap         olive      h dashdot    | qk-clip         brown      d dashdot
olmo2            olive      D dashdotdot | yours           black      s dashdotdot
"""
LOOKS: dict[str, Look] = {
    name: Look(COLOURS[colour], marker, dash)
    for name, colour, marker, dash in (
        row.split() for line in _TABLE.strip().splitlines() for row in line.split("|")
    )
}
_ALIASES = {
    "batchnorm": "batch",
    "layernorm": "layer",
    "rmsnorm": "rms",
    "groupnorm": "group",
    "instancenorm": "instance",
    "post-norm": "post",
    "pre-norm": "pre",
    "hybridnorm": "hybrid",
    "hybridnorm*": "hybrid*",
    "no norm": "none",
    "peri-ln": "peri",
    "qkv-post": "hybrid",
    "qk-norm": "qk",
    "soft cap": "soft-cap",
    "olmo 2": "olmo2",
    "gemma 2": "gemma2",
    "gemma 3": "gemma3",
    "residual": "resi-dual",
    "resnet v1": "resnet-v1",
    "resnet v2": "resnet-v2",
    "powernorm": "power",
    "repbn": "rep-batch",
    "prepbn": "prep-batch",
    "gpt": "pre",
    "gpt with qk-norm": "qk",
}


def method_of(name: str) -> str | None:
    """Return the method that a label begins with: "no norm, rate 0.1" is about "none"."""
    words = re.sub(r"[\s,;:(+/=]+", " ", name.lower()).split()
    for end in range(len(words), 0, -1):
        head, rest = " ".join(words[:end]), "".join(words[end:])
        method = _ALIASES.get(head, head)
        counts = re.fullmatch(r"[\d.]+", rest)  # "layer 3", "batch 8": layers, examples
        if method in LOOKS and not counts:
            return method
    return None


def choose_look(name: str) -> Look:
    """Return the look of one method; an unknown name gets a fixed look of its own."""
    return choose_looks([name])[name]


def choose_looks(names: Iterable[str]) -> dict[str, Look]:
    """Return a look for every name in one figure; known methods keep theirs."""
    names = list(names)
    chosen = {name: LOOKS[name] for name in names if name in LOOKS}
    for name in names:
        if name in chosen:
            continue
        method = method_of(name)
        options = _list_spare_looks(name, LOOKS[method].colour if method else None)
        if method:
            options = [LOOKS[method], *options]
        chosen[name] = min(options, key=lambda option: _find_clashes(option, chosen.values()))
    return {name: chosen[name] for name in names}


def _find_clashes(option: Look, others: Iterable[Look]) -> tuple[bool, bool]:
    """Return whether others have its marker and dash, and whether others its colour and dash."""
    # Lines without markers must differ too: another dash where the colour is the same.
    marked = {(other.marker, other.dash) for other in others}
    bare = {(other.colour, other.dash) for other in others}
    return (option.marker, option.dash) in marked, (option.colour, option.dash) in bare


def _list_spare_looks(name: str, colour: str | None) -> list[Look]:
    """List the looks that no method owns, in an order that depends only on the name."""
    colours = [colour] if colour else list(COLOURS.values())
    spare = [Look(c, m, dash) for dash, m, c in product(DASHES, SPARE_MARKERS, colours)]
    start = crc32(name.encode()) % len(spare)
    return spare[start:] + spare[:start]
