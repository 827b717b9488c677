"""Data without a network: real text, real digits, and points of the plane.

Each is a frozen config that says how batches are made; `load()` gives a `Corpus`, whose batches
depend on the config and a seed alone.
"""

from labkit.corpora.base import Corpus
from labkit.corpora.digits import Digits
from labkit.corpora.few import FewDigits, Points
from labkit.corpora.text import Text

__all__ = ["Corpus", "Digits", "FewDigits", "Points", "Text"]
