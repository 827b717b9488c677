"""Figures of the book: numbers in, a `Figure` with alt text and caption out; no torch.

What there is stands in `__init__.pyi`. A module is imported when one of its figures is first asked
for, so that a chapter is drawn anew only where a figure that it shows has changed.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
