"""Ways to break labkit that a claim must notice: one file `chNN.py` a chapter, BREAKS each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Break:
    """One wrong line in labkit, and the claim of a chapter that turns red by it."""

    idea: str  # what is broken, in words
    path: str  # labkit/norms/rms_norm.py
    old: str  # occurs exactly once in the file
    new: str
    claim: str  # the claim's id
