"""What a cell does to names: the record of it, and what a call in it may change."""

import ast
from dataclasses import dataclass, field

from labkit.book.expressions import BUILTINS, held, root

# Methods that change their owner; so does every method of torch whose name ends in one "_".
_METHODS = (
    "append extend insert add update pop popitem remove discard clear setdefault sort reverse "
    "load_state_dict backward step train eval zero_grad apply register_forward_hook "
    "register_forward_pre_hook register_buffer register_parameter write"
)
CHANGING = frozenset(_METHODS.split())
ON_MODULES = {"append", "extend", "insert", "update"}  # of these, those meant on `sys.path`
CHANGES_ARGUMENTS = {"setattr", "delattr", "next", "exec", "eval"}
# Imported from elsewhere, a function may change what it is given.
_PURE = (
    "labkit.norms labkit.plots labkit.check labkit.experiments labkit.source labkit.corpora "
    "labkit.describe labkit.costs labkit.model labkit.vision labkit.placements labkit.attention "
    "labkit.roofline labkit.kernel_view "
    "math statistics itertools functools collections inspect numpy scipy torch json pathlib "
    "textwrap dataclasses html time re"
)
PURE = tuple(_PURE.split())


@dataclass
class Names:
    """What one cell does; see the module's docstring."""

    binds: set[str] = field(default_factory=set)
    kills: set[str] = field(default_factory=set)
    uses: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)  # uses, and its own names that it reads
    later: dict[str, set[str]] = field(default_factory=dict)
    touches: set[str] = field(default_factory=set)
    shares: dict[str, set[str]] = field(default_factory=dict)


@dataclass
class Known:
    """What a whole chapter says about its names: imported ones, functions, and those that change
    what they are given (or, by name, globals)."""

    imported: dict[str, str] = field(default_factory=dict)  # name -> where from
    functions: set[str] = field(default_factory=set)
    changing: dict[str, set[str]] = field(default_factory=dict)  # function -> globals it touches


class Calls:
    """Notes, in `names`, what calls may change."""

    def __init__(self, about: Known):
        self.about, self.names = about, Names()

    def call(self, node: ast.Call) -> None:
        """Note what a call may change."""
        callee, name = node.func, root(node.func)
        outside = name in self.about.imported or name in self.about.functions or name in BUILTINS
        words = [*node.args, *(keyword.value for keyword in node.keywords)]
        given = {part for word in words for part in held(word)}
        if isinstance(callee, ast.Attribute):
            method = callee.attr
            if method == "train" and node.args and not isinstance(node.args[0], ast.Constant):
                return  # batches of a corpus, drawn with a seed
            if method.endswith("_") and not method.endswith("__"):
                for changed in {name, *given}:
                    self.touch(changed)
            elif method in CHANGING and (not outside or method in ON_MODULES):
                self.touch(name, part=method in ON_MODULES)
        elif name and not outside:
            self.touch(name)  # a module with a state, say
        if name in self.about.changing:
            self.names.touches |= self.about.changing[name]
        if (
            name in CHANGES_ARGUMENTS
            or name in self.about.changing
            or (name in self.about.imported and not self.pure(self.about.imported[name]))
        ):
            for changed in given:
                self.touch(changed)

    def pure(self, origin: str) -> bool:
        """Tell whether what comes from there leaves its arguments as they are."""
        return any(origin == one or origin.startswith(one + ".") for one in PURE)

    def touch(self, name: str | None, part: bool = False) -> None:
        """Note a change; of what was imported only an assignment to a part of it counts."""
        mine = name not in self.about.imported or part
        if name and mine and name not in {*self.about.functions, *BUILTINS, "lab"}:
            self.names.touches.add(name)
