"""Code that runs in the zygote and its workers; it imports nothing from labkit.

The zygote reads these files as a package of its own, so that a worker sees labkit only where a
homework names it. `wire` is shared with the grader.
"""
