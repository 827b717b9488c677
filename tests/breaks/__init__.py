"""Ways to break labkit that the book must notice: one file `chNN.py` per chapter, with BREAKS.

A claim notices what is computed while its chapter runs. What trained runs rest on is in their
records, which a wrong line does not change: there a run, begun again, has other losses.
"""

from dataclasses import dataclass

from labkit.experiments import Run


@dataclass(frozen=True)
class Break:
    """One wrong line in labkit, and the claim that must fail, or the run that must differ."""

    idea: str  # what is broken, in words
    path: str  # labkit/norms/rms_norm.py
    old: str  # occurs exactly once in the file
    new: str
    claim: str = ""  # the claim's id
    run: Run | None = None  # in place of a claim: a run whose first losses differ
