"""The tests of normkernels. A package, so that its `cases` is not the `cases` of labkit's tests.

Modules of this folder import each other relatively (`from .cases import Make`): that holds under
pytest, under `python -m tests.kernels` and under `python tests/kernels`.
"""
