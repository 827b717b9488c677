"""Read names out of expressions: what is read, what is made, what is held."""

import ast
import builtins
import symtable
from collections.abc import Iterator

BUILTINS = set(dir(builtins))
WRAPS = {"list", "dict", "tuple", "zip", "enumerate", "sorted", "reversed", "iter", "map", "filter"}


def free(node: ast.AST) -> set[str]:
    """List the global names that an expression or statement reads, its own variables left out."""
    try:
        table = symtable.symtable(ast.unparse(node), "<cell>", "exec")
    except SyntaxError:  # `nonlocal`, `yield`: nothing outside its function
        return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    found = {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    waiting = list(table.get_children())
    while waiting:
        inner = waiting.pop()
        found |= {s.get_name() for s in inner.get_symbols() if s.is_global() and s.is_referenced()}
        waiting += inner.get_children()
    return found


def targets(node: ast.AST) -> set[str]:
    """List the names that stand to the left of an assignment, or after `for` or `as`."""
    inner = {
        id(part)
        for loop in ast.walk(node)
        if isinstance(loop, ast.comprehension)
        for part in ast.walk(loop.target)
    }
    return {
        part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and id(part) not in inner
    }


def root(node: ast.AST) -> str | None:
    """Find the variable that an expression starts with: `a` in a.b[0].c()."""
    while True:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return None


# Methods whose result is new, or is never changed (records of runs).
_FRESH = "load build run runs values where by best clone copy tolist item numpy keys format join"
FRESH = frozenset(_FRESH.split())


def held(node: ast.AST) -> Iterator[str]:
    """List the variables whose objects the value of an expression may hold."""
    if isinstance(node, ast.Call):
        name = root(node.func) or ""
        if isinstance(node.func, ast.Attribute) and node.func.attr in FRESH:
            return
        if isinstance(node.func, ast.Attribute):
            yield from held(node.func.value)
        if isinstance(node.func, ast.Name):
            yield name  # a function kept in a partial, a module called
        if name in WRAPS or name[:1].isupper() or isinstance(node.func, ast.Attribute):
            named = [keyword.value for keyword in node.keywords] if name in WRAPS else []
            for part in [*node.args, *named]:  # a config, given by keyword, is no part of a model
                yield from held(part)
    elif isinstance(node, ast.Name):
        yield node.id
    elif not isinstance(node, (ast.BinOp, ast.Compare, ast.UnaryOp, ast.JoinedStr)):
        for part in ast.iter_child_nodes(node):
            yield from held(part)


def spread(touched: set[str], shares: dict[str, set[str]]) -> set[str]:
    """Add the names that share an object with a touched one, in either direction."""
    reach = {name: closure({name}, shares) for name in shares}
    up = closure(touched, shares)
    return up | {name for name, reached in reach.items() if reached & touched}


def closure(names: set[str], links: dict[str, set[str]]) -> set[str]:
    """Follow links from these names as far as they lead."""
    seen, waiting = set(names), list(names)
    while waiting:
        new = links.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen
