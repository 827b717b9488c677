"""The statements of a cell that bind names: imports, functions, classes, assignments."""

import ast
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

# A cell that begins so holds Python after its first line; other cell magics hold something else.
PYTHON_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")
MAGIC = re.compile(r"^(\s*)(?:[%!?].*|[\w.,\s]*=\s*[%!].*|.*\?\s*)$")
TIMED = re.compile(r"^%time\s+(?=[\w,\s]+=[^=])")  # IPython binds the name
MOST_MAGICS = 50


@dataclass(frozen=True)
class Statement:
    """One top-level statement that binds names, as written in its cell.

    `again` are names of its own that it builds on: `f = compiled(f)`, `class Norm(Norm)`.
    """

    text: str
    names: tuple[str, ...]
    uses: frozenset[str] = frozenset()
    imports: bool = False
    again: frozenset[str] = frozenset()
    decorators: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LeftOut:
    """A top-level statement that binds or changes names but is ignored, such as `n += 1`."""

    line: int
    text: str  # its first line
    names: frozenset[str]


def read_cell(cell: str) -> list[Statement | LeftOut]:
    """List a cell's statements that bind names, and those that change names but are ignored.

    Lines of IPython's own (`%matplotlib`, `!ls`, `name?`) are neither; `%time x = 1` is x = 1. A
    call may change anything and is not looked into. Raises what Python raises for a text that is
    not Python.
    """
    source, tree = _parse_cell(cell)
    lines = source.encode().split(b"\n")
    found: list[Statement | LeftOut] = []
    for node in tree.body:
        if binding := [*_list_binding(lines, ast.Module([node], []))]:
            found += binding
        elif not isinstance(node, ast.Expr) and (names := _list_changed(node)):
            found.append(LeftOut(node.lineno, _cut_text(node, lines).partition("\n")[0], names))
    return found


def list_defined(cell: str) -> list[str]:
    """List the names that a cell defines, without those that it imports."""
    binding = (each for each in read_cell(cell) if isinstance(each, Statement))
    return [name for each in binding if not each.imports for name in each.names]


def _parse_cell(cell: str) -> tuple[str, ast.Module]:
    # A tree counts lines by \n, and its columns in bytes: the text must agree.
    # Some editors begin a text with a byte order mark, which is no Python.
    cell = cell.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if cell.lstrip().startswith("%%"):
        first, _, rest = cell.lstrip().partition("\n")
        cell = rest if first.split()[0] in PYTHON_MAGICS else ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a student's odd escapes are no concern of the grader
        for _ in range(MOST_MAGICS):
            try:
                return cell, ast.parse(cell)
            except SyntaxError as error:
                lines = cell.split("\n")
                at = (error.lineno or 0) - 1
                if not (0 <= at < len(lines) and MAGIC.match(lines[at])):
                    raise
                while lines[at].endswith("\\") and at + 1 < len(lines):  # !pip install a \
                    lines[at : at + 2] = [lines[at][:-1] + lines[at + 1]]
                kept = TIMED.sub("", lines[at])
                lines[at] = kept if kept != lines[at] else MAGIC.sub(r"\1pass", lines[at])
                cell = "\n".join(lines)
        return cell, ast.parse(cell)


def _list_binding(lines: list[bytes], tree: ast.Module) -> Iterable[Statement]:
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                yield Statement(_write_import(node, alias), (name,), imports=True)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names = _join_uses(node.decorator_list)
            again = (_join_uses(_list_before(node)) | names) & {node.name}
            yield Statement(
                _cut_text(node, lines), (node.name,), list_uses(node), decorators=names, again=again
            )
        elif assigned := _list_assigned(node):
            used = list_uses(node)
            yield Statement(_cut_text(node, lines), assigned, used, again=used & set(assigned))


def _list_changed(node: ast.stmt) -> frozenset[str]:
    """List the names that a statement binds or changes in its own scope."""
    names: set[str] = set()
    waiting: list[ast.AST] = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(each.name)
            continue
        if isinstance(
            each, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
        ):
            continue
        if isinstance(each, ast.alias):
            names.add(each.asname or each.name.partition(".")[0])
        stored = isinstance(getattr(each, "ctx", None), (ast.Store, ast.Del))
        if stored and isinstance(each, (ast.Name, ast.Subscript, ast.Attribute)):
            base: ast.AST = each
            while isinstance(base, (ast.Subscript, ast.Attribute)):
                base = base.value
            names |= {base.id} if isinstance(base, ast.Name) else set()
        waiting += ast.iter_child_nodes(each)
    return frozenset(names - {"*"})


def _list_before(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[ast.expr]:
    """Return what runs before the name is bound: a class's bases, a function's defaults."""
    if isinstance(node, ast.ClassDef):
        return [*node.bases, *(each.value for each in node.keywords)]
    return [*node.args.defaults, *filter(None, node.args.kw_defaults)]


def _join_uses(nodes: Iterable[ast.expr]) -> frozenset[str]:
    return frozenset().union(*map(list_uses, nodes))


def _write_import(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    if isinstance(node, ast.Import):
        return ast.unparse(ast.Import([alias]))
    return ast.unparse(ast.ImportFrom(node.module, [alias], node.level))


def _list_assigned(node: ast.stmt) -> tuple[str, ...]:
    """The names of a simple assignment: `a = …`, `a, *b = …`, `a = b = …`, `a: int = …`."""
    if isinstance(node, ast.AnnAssign):
        targets = [node.target] if node.value is not None else []
    else:
        targets = node.targets if isinstance(node, ast.Assign) else []
    names: list[str] = []
    waiting: list[ast.expr] = [*reversed(targets)]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (ast.Tuple, ast.List)):
            waiting += each.elts[::-1]
        elif isinstance(each, ast.Starred):
            waiting.append(each.value)
        elif isinstance(each, ast.Name):
            names.append(each.id)
        else:
            return ()
    return tuple(names)


def _cut_text(node: ast.stmt, lines: list[bytes]) -> str:
    """Return the source of the statement, including comments."""
    first, start = node.lineno - 1, node.col_offset
    decorators = getattr(node, "decorator_list", [])
    if decorators:
        first, start = decorators[0].lineno - 1, 0
        while not lines[first].lstrip().startswith(b"@"):
            first -= 1
    taken = lines[first : node.end_lineno]
    taken[-1] = taken[-1][: node.end_col_offset]
    taken[0] = taken[0][start:]
    return b"\n".join(taken).decode()


def list_uses(node: ast.AST) -> frozenset[str]:
    """List the names that code uses, when it runs or when its functions are called.

    A text that could be a name counts: an annotation in quotes, or a name that is looked up. Too
    much does no harm.
    """
    names = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
            names.add(each.id)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            names |= {each.value} if each.value.isidentifier() else set()
    return frozenset(names)
