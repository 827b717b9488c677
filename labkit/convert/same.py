"""Return on which inputs a swapped norm computes the old one's function."""

from torch import nn

from labkit.convert.fill import Moved, unwrap_norm
from labkit.convert.read import Reading
from labkit.norms import facts


def compare_functions(
    reading: Reading, key: str, old: nn.Module, new: nn.Module, moved: Moved
) -> str:
    """Return on which inputs the new norm computes the old one's function."""
    if not moved.exact:
        return "another function"
    # One function up to where eps stands and what is rounded when, if their gains agree.
    kinds = {facts(name).same_as or name for name in (key, reading.key)}
    if key == reading.key:
        same, settings = "same", _read_settings(old)
        if any(
            settings.get(k, value) != value for k, value in _read_settings(unwrap_norm(new)).items()
        ):
            return "another function"
    elif len(kinds) == 1:
        same = "same"
    elif kinds == {"layer", "rms"}:
        same = "same on zero-mean input"
    else:
        return "another function"
    if reading.eps is not None and "eps" not in moved.kept:
        return f"{same}, but for eps"
    return f"{same}, but for rounding" if same == "same" and key != reading.key else same


def _read_settings(norm: nn.Module) -> dict[str, object]:
    """Return the numbers and switches that a norm's formula depends on, eps apart."""
    skipped = ("training", "eps", "elementwise_affine", "affine", "channel_axis")
    return {
        name: value
        for name, value in vars(norm).items()
        if isinstance(value, int | float) and name not in skipped and name[0] != "_"
    }
