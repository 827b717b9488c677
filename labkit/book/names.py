"""Read what a cell of a chapter does to names, without running it.

binds    names that it makes; `kills` are those that it makes whatever happens
uses     names that it reads from earlier cells
later    names that a function reads when it is called, by the function's name
touches  names whose object it may change in place: by an assignment to a part, a method that
         changes its owner, a call that may change its arguments
shares   names whose objects a name may share
"""

import ast
import re
from collections.abc import Iterable

from labkit.book.effects import Calls, Known, Names
from labkit.book.expressions import BUILTINS, closure, free, held, root, spread, targets

SEED = "<seed>"  # torch's random state
RANDOM = re.compile(
    r"\b(rand\w*|multinomial|bernoulli|normal_|uniform_|exponential_|build|Dropout|Linear)\("
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def known(sources: Iterable[str]) -> Known:
    """Look through all cells for imports and functions, and for functions that change things."""
    found, bodies = Known(), []
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    found.imported[name] = alias.name
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    found.imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                found.functions.add(node.name)
                if isinstance(node, FUNCTIONS):
                    bodies.append(node)
    for _ in range(3):  # a function may call one that changes things
        for node in bodies:
            inside = _Reader(found)
            inside.block(node.body, set())
            own = {arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)}
            told = {
                name
                for inner in ast.walk(node)
                if isinstance(inner, ast.Global)
                for name in inner.names
            }
            touched = spread(inside.names.touches, inside.names.shares) | told
            touched -= {*found.imported, *found.functions}
            if told or touched & own or touched - inside.names.binds:
                found.changing[node.name] = touched - inside.names.binds - own | told
    return found


def names_of(source: str, about: Known) -> Names:
    """Read one cell."""
    reader, tree = _Reader(about), ast.parse(source)
    reader.block(tree.body, set())
    if any(map(_seeds, tree.body)):
        reader.names.binds.add(SEED)
        reader.names.kills.add(SEED)
    elif RANDOM.search(source):
        reader.names.uses.add(SEED)
    return reader.names


def _seeds(node: ast.stmt) -> bool:
    """Tell whether a statement seeds torch for what follows; in a loop it serves the loop."""
    call = node.value if isinstance(node, ast.Expr) else None
    callee = call.func if isinstance(call, ast.Call) else None
    return isinstance(callee, ast.Attribute) and callee.attr == "manual_seed"


class _Reader(Calls):
    """Walks the statements of a cell in their order."""

    def block(self, statements: list[ast.stmt], bound: set[str], sure: bool = True) -> None:
        """Read statements; `bound` is what this cell has made so far."""
        for statement in statements:
            self.statement(statement, bound, sure)

    def statement(self, node: ast.stmt, bound: set[str], sure: bool) -> None:
        """Read one statement: first what it reads, then what it makes."""
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            self.definition(node, bound)
            self.make({node.name}, bound, sure)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = {a.asname or a.name.partition(".")[0] for a in node.names}
            self.make(names, bound, sure)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self.head(node.iter, node.target, bound, sure)
            self.block([*node.body, *node.orelse], bound, sure)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self.head(item.context_expr, item.optional_vars, bound, sure)
            self.block(node.body, bound, sure)
        elif isinstance(node, (ast.If, ast.While, ast.Try, ast.Match)):
            self.perhaps(node, bound)
        else:
            self.simple(node, bound, sure)

    def head(self, value: ast.expr, target: ast.expr | None, bound: set[str], sure: bool) -> None:
        """What a loop runs over, or a block holds open, and the names for it."""
        self.expression(value, bound)
        made = targets(target) if target is not None else set()
        self.share(made, value)
        self.make(made, bound, sure)

    def perhaps(self, node: ast.AST, bound: set[str]) -> None:
        """Read branches, handlers and cases, of which each may be passed by."""
        for _, part in ast.iter_fields(node):
            if isinstance(part, list) and part and isinstance(part[0], ast.stmt):
                self.block(part, set(bound), sure=False)
            elif isinstance(part, ast.expr):
                self.expression(part, bound)
                self.make(targets(part), set(bound), sure=False)
            elif isinstance(part, list):
                for inner in part:  # handlers, cases
                    self.perhaps(inner, bound)
            elif isinstance(part, ast.pattern):
                names = {
                    getattr(p, "name", None) or getattr(p, "rest", None) for p in ast.walk(part)
                }
                self.make({name for name in names if name}, bound, sure=False)
            elif isinstance(part, str):  # `except … as part`
                self.make({part}, bound, sure=False)

    def definition(self, node: ast.stmt, bound: set[str]) -> None:
        """A function reads its defaults now and its body's globals when it is called."""
        assert isinstance(node, (*FUNCTIONS, ast.ClassDef))
        reads = free(node) - {node.name}
        if isinstance(node, ast.ClassDef):
            self.names.uses |= reads - bound
        else:
            now = [*node.decorator_list, *node.args.defaults, *node.args.kw_defaults]
            for part in filter(None, now):
                self.expression(part, bound)
        self.names.later[node.name] = reads

    def simple(self, node: ast.stmt, bound: set[str], sure: bool) -> None:
        """An assignment or an expression."""
        self.expression(node, bound)
        made = targets(node)
        if isinstance(node, ast.AugAssign):
            self.names.uses |= made - bound
            self.names.touches |= made
        for target in getattr(node, "targets", None) or [getattr(node, "target", node)]:
            for part in [target, *ast.walk(target)] if isinstance(target, ast.expr) else []:
                if isinstance(part, (ast.Attribute, ast.Subscript)) and not isinstance(
                    part.ctx, ast.Load
                ):
                    self.touch(root(part), part=True)
        value = getattr(node, "value", None)
        if made and value is not None:
            self.share(made, value)
            if any(isinstance(part, ast.Lambda) for part in ast.walk(value)):
                for name in made:
                    self.names.later[name] = free(value)
        self.make(made, bound, sure)

    def expression(self, node: ast.AST, bound: set[str]) -> None:
        """Note what is read, and what the calls in it may change."""
        reads = free(node)
        self.names.uses |= reads - bound
        self.names.reads |= reads
        inner = {  # a comprehension's own variables stand for what it runs over
            name: set(held(loop.iter))
            for loop in ast.walk(node)
            if isinstance(loop, ast.comprehension)
            for name in targets(loop.target)
        }
        before, self.names.touches = self.names.touches, set()
        for part in ast.walk(node):
            if isinstance(part, ast.Call):
                self.call(part)
        own = {name for name in inner if name not in reads}
        behind = {name for var in self.names.touches & own for name in closure({var}, inner)}
        self.names.touches = before | (self.names.touches | behind) - own

    def make(self, names: set[str], bound: set[str], sure: bool) -> None:
        self.names.binds |= names
        bound |= names
        if sure:
            self.names.kills |= names

    def share(self, made: set[str], value: ast.AST) -> None:
        """What a name was made of may be the same object: parts, views, containers."""
        parts = {name for name in held(value) if name not in self.about.imported} - BUILTINS
        for name in made:
            self.names.shares.setdefault(name, set()).update(parts - {name, "lab"})
