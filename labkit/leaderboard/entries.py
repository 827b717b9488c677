"""Entries of the leaderboard: a recipe, optionally with a different norm.

    pre               an arm of the ladder, with its records; or a key of RECIPES
    at:q,k,middle     your own block: norms in these slots (labkit.placements.slots)
    pre+layer         the recipe with another norm, a key of NORMS
    pre+my_norm.py    the recipe with your own norm, from a file
    my_norm.py        the same, in Pre-Norm

A recipe has its paper's initialization. Everything else is the ladder's: the text, the steps, the
warm-up, the search for the learning rate and the evaluation seeds.
"""

from dataclasses import dataclass

from labkit.experiments.ladder import ARMS, Arm
from labkit.experiments.own import own_norm, strip_hash
from labkit.norms import NORMS
from labkit.placements import ALIASES, recipe
from labkit.system.unknown import explain_unknown


@dataclass(frozen=True)
class Entry:
    """One entry: the displayed name, and the arm of the ladder that it corresponds to."""

    name: str
    arm: Arm

    @property
    def method(self) -> str | Arm:
        """Return the name of an arm of the book, which has the runs of the book; else the arm."""
        return self.name if self.name in ARMS else self.arm


def split_entry(text: str) -> tuple[str, str]:
    """Split RECIPE+NORM; the norm is "" without a +. Raise ValueError if nothing follows the +."""
    first, plus, norm = text.partition("+")
    if plus and not norm:
        raise ValueError(f"a norm must follow the +, as in pre+rms, but {text!r} has none")
    return first, norm


def entry(text: str) -> Entry:
    """Parse RECIPE, RECIPE+NORM, or a norm's file.

    Raises:
        ValueError: an unknown recipe or norm, or a file without a norm; the message lists the
            choices.
    """
    if text.strip() in ARMS:
        return Entry(text.strip(), ARMS[text.strip()])
    first, norm = split_entry(text.strip())
    if first.endswith(".py"):
        first, norm = "pre", text.strip()
    base_recipe, name = recipe(first), ALIASES.get(first, first)
    arm = ARMS.get(name, Arm({"recipe": name}))
    if not norm:
        return Entry(name, arm)
    if base_recipe.norm is not None:
        raise ValueError(
            f"a norm can be combined only with a recipe that does not fix its norm, but {first!r} "
            f"fixes {base_recipe.norm!r}; combine {norm!r} with another recipe, as in pre+{norm}"
        )
    key = own_norm(norm) if norm.endswith(".py") else norm
    if key not in NORMS:
        raise ValueError(
            f"{explain_unknown('norm', norm, NORMS)}, or a file with your norm, as in "
            "pre+my_norm.py"
        )
    with_norm = Arm({**arm.fields, "norm": key}, arm.warmup, arm.kind)
    return Entry(f"{name}+{strip_hash(key)}", with_norm)


def entries(texts: list[str] | tuple[str, ...]) -> list[Entry]:
    """Parse several entries; raise ValueError if two have the same name."""
    parsed = [entry(text) for text in texts]
    names = [each.name for each in parsed]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"every entry needs a different name, but {twice[0]!r} occurs twice; leave one out, "
            "or give your norm another name"
        )
    return parsed
