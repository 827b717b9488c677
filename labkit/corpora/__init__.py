"""Data that needs no network: real text, real digits, and points of the plane.

Each data set is a frozen config; its `load()` returns a `Corpus`, whose batches depend only on the
config and a seed.
"""

from labkit.corpora.base import Corpus
from labkit.corpora.digits import Digits
from labkit.corpora.few import FewDigits, Points
from labkit.corpora.text import Text
