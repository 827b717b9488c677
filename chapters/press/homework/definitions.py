"""The final definitions of a notebook: only these are graded.

Cells are never run. Of all of them together count the imports and, of each name, the last function,
class or assignment at top level; a duplicated, split, deleted, edited, renamed or moved cell
changes nothing as long as these stay the same. Prints, loops and calls at top level are left out;
where one changes a name that a question needs (`n += 1`, `TABLE[0] = 1`, a def below an if), it is
named.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from press.homework.statements import LeftOut, Statement, read_cell


@dataclass(frozen=True)
class Program:
    """The final definitions as Python source."""

    text: str
    left_out: tuple[str, ...] = ()  # what changes a name in it and does not count


def read_definitions(cells: Sequence[str]) -> "Definitions":
    """Read the definitions of every cell; report each cell that is not valid Python."""
    found: list[Statement] = []
    problems: list[str] = []
    left: list[tuple[int, int, LeftOut]] = []
    for number, cell in enumerate(cells, start=1):
        try:
            for each in read_cell(cell):
                if isinstance(each, LeftOut):
                    left.append((len(found), number, each))
                else:
                    found.append(each)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            place = f", line {line}" if line else ""
            reason = getattr(error, "msg", None) or "it contains characters that Python cannot read"
            problems.append(f"code cell {number}{place} is not Python: {reason}")
        except (RecursionError, MemoryError):
            problems.append(f"code cell {number} is nested too deeply to be read")
    return Definitions(tuple(found), tuple(problems), tuple(left))


class Definitions:
    """All statements of a notebook that bind names, in order, and those that each name needs."""

    def __init__(
        self,
        found: tuple[Statement, ...],
        problems: tuple[str, ...] = (),
        left: tuple[tuple[int, int, LeftOut], ...] = (),
    ):
        # `left` has what does not count: behind how many statements, in which cell.
        self.statements, self.problems, self.left = found, problems, left
        last = {name: index for index, each in enumerate(found) for name in each.names}
        self.last = dict(sorted(last.items(), key=lambda pair: pair[1]))
        # `import torch` and `import torch.nn` both bind torch.
        self.imports: dict[str, list[int]] = {}
        for index, each in enumerate(found):
            if each.imports:
                self.imports.setdefault(each.names[0], []).append(index)

    def build_program(self, wanted: Collection[str] | None = None) -> Program:
        """Return the final definitions that the wanted names need, directly or not; None: all.

        They stand in the notebook's order: a worker runs what fails for want of a name once more,
        after the others. What the notebook's own decorators decorate is always there, because they
        may register it.
        """
        roots = [index for index in self.last.values() if self._is_root(index, wanted)]
        order = [self.statements[index] for index in self._follow_uses(roots)]
        # Imports first, one of a kind; `from __future__` before all.
        imports = dict.fromkeys(each.text for each in order if each.imports)
        texts = sorted(imports, key=lambda text: not text.startswith("from __future__"))
        texts += [each.text for each in order if not each.imports]
        names = {name for each in order if not each.imports for name in each.names}
        text = "".join(f"{text}\n" for text in texts)
        matters = names.union(*(each.uses for each in order), wanted or ())
        return Program(text, self._name_left_out(matters))

    def list_imports(self, wanted: Collection[str]) -> list[str]:
        """List the packages that the wanted names need, directly or through others."""
        roots = [self.last[name] for name in wanted if name in self.last]
        roots += [index for index in self.last.values() if self.statements[index].names == ("*",)]
        needed = (self.statements[index] for index in self._follow_uses(roots))
        # `import a.b as c`, `from a.b import c`
        return sorted({each.text.split()[1].partition(".")[0] for each in needed if each.imports})

    def _follow_uses(self, roots: list[int]) -> list[int]:
        """Extend statements by those that they use, directly or indirectly."""
        waiting, kept = list(roots), set(roots)
        while waiting:
            index = waiting.pop()
            used = {
                i for name in self.statements[index].uses for i in self._find_targets(index, name)
            }
            waiting += used - kept
            kept |= used
        return sorted(kept)

    def _name_left_out(self, matters: Collection[str]) -> tuple[str, ...]:
        """Describe what would have changed one of these names after its last definition."""
        said = []
        for place, cell, each in self.left:
            names = [n for n in sorted(each.names & set(matters)) if self.last.get(n, -1) < place]
            if names:
                said.append(
                    f"code cell {cell}, line {each.line}: {each.text!r} does not count for "
                    f"{', '.join(names)}; only imports, functions, classes and plain assignments "
                    "at top level do"
                )
        return tuple(said)

    def _is_root(self, index: int, wanted: Collection[str] | None) -> bool:
        each = self.statements[index]
        if each.imports and (each.names == ("*",) or each.text.startswith("from __future__")):
            return True  # nobody knows what they bind or change
        if wanted is None or any(
            self.last[name] == index and name in wanted for name in each.names
        ):
            return True
        own = (self.statements[self.last[name]] for name in each.decorators & self.last.keys())
        return any(not one.imports for one in own)

    def _find_targets(self, index: int, name: str) -> list[int]:
        """Return the statements to which a name used by a statement may refer."""
        one = self.statements[index]
        if name in one.again:  # `f = compiled(f)` builds on the f before it
            earlier = (
                other
                for other in range(index - 1, -1, -1)
                if name in self.statements[other].names and self.statements[other].text != one.text
            )
            return list(earlier)[:1]
        if name not in self.last:
            return []
        last = self.last[name]
        return self.imports[name] if self.statements[last].imports else [last]
