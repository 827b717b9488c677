"""The tests of normkernels; a package, so that its `cases` differs from the one in tests/.

Modules of this folder import each other relatively (`from .cases import Make`): that holds under
pytest, under `python -m tests.kernels` and under `python tests/kernels`.
"""
