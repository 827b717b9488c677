"""A homework of two questions for the tests of release, and ways to damage it."""

from pathlib import Path

TOY = '''# %% [markdown]
r"""
# A toy
Write $\\frac{1}{2}$ as a number.
"""

# %% tags=["homework"]
HOMEWORK = {"title": "A toy", "about": "Two questions.", "packages": ["math"], "minutes": 5}

# %%
import math

from labkit.check.public import public

# %% tags=["variant"]
FACTOR = draw.choice([2, 3, 7, 12, 41, 100, 365, 999])  # yours alone
SHIFTS = draw.choice([[1.5, -2.0, 0.25], [-0.5, 3.0, 1.0]])

# %% tags=["solution:q1"]
def times(x):
    """Multiply by FACTOR."""
    ### BEGIN SOLUTION
    answer_of_q1 = x * FACTOR
    return answer_of_q1
    ### END SOLUTION

# %% tags=["test:q1", "points:3"]
public("q1", lambda: (times(1) == FACTOR, "times(1) is FACTOR"))
### BEGIN HIDDEN TESTS
def expected_of_q1(x, given):
    return x * given["FACTOR"]


def test_q1(student, draw, given):
    seven = expected_of_q1(7, given)
    yield part("seven", 2, equal(student.call("times", 7), seven), says="Is it a product?")
    yield part("zero", 1, equal(student.call("times", 0), 0), says="Zero | times all is zero.")
### END HIDDEN TESTS

# %% [markdown]
r"""
Now `times` again, in a class.
"""

# %% tags=["solution:q2"]
class Scale:
    def __init__(self, by):
        ### BEGIN SOLUTION stub: self.by = None  # keep what was given
        self.by = by
        ### END SOLUTION

    def __call__(self, x):
        ### BEGIN SOLUTION
        product_of_q2 = x * self.by  # “größer”
        return product_of_q2
        ### END SOLUTION

# %% tags=["probe:q2"]
def probe_scaled(student, by, x):
    return student.Scale(by)(x)

# %% tags=["test:q2", "points:2"]
public("q2", lambda: Scale(2)(3) == 6)
### BEGIN HIDDEN TESTS
def test_q2(student, draw, given):
    by = draw.integers(3, 90)
    five = expected_of_q1(5, {"FACTOR": by})
    yield part("scaled", 2, equal(student.probe("probe_scaled", by, 5), five))
### END HIDDEN TESTS
'''

# A question that a person marks.
PROSE = '''
# %% [markdown] tags=["answer:q3", "points:4"]
r"""
## Why is `times` linear?

### BEGIN SOLUTION
Because a product distributes over a sum.
### END SOLUTION
"""
'''


def write(folder: Path, *changes: tuple[str, str], name: str = "hw9_toy") -> Path:
    """Write the toy homework, with the first occurrence of each text replaced."""
    text = TOY
    for old, new in changes:
        assert old in text, f"the toy has no {old!r}"
        text = text.replace(old, new, 1)
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return path


def files_of(folder: Path) -> dict[str, bytes]:
    """Read every file in a folder and its subfolders."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
