"""Colour Python code where colour says something: names, brackets and commas stay plain text.

Pygments wraps every token in an element, of which two in three have the colour of plain text. A
chapter had 3,500 of these, and a phone lays out each.
"""

from collections.abc import Iterator
from typing import Any

from ipython_pygments_lexers import IPython3Lexer
from pygments.token import Name, Punctuation, Text, Whitespace

PLAIN = {Name, Punctuation, Whitespace}


class PlainNamesLexer(IPython3Lexer):
    """Python of a notebook, where what has no colour of its own is one run of text."""

    def get_tokens_unprocessed(self, *args: Any) -> Iterator[tuple[int, Any, str]]:
        """Return position, kind and text of each token; plain kinds as `Text`."""
        for position, kind, text in super().get_tokens_unprocessed(*args):
            yield position, Text if kind in PLAIN else kind, text
