"""A chapter's kernel, which ends when the process that started it does.

ipykernel has a watch of its own, but one that misses a parent that died before it looked first.
"""

import os

from labkit.pool import end_with

if __name__ == "__main__":
    end_with(int(os.environ["JPY_PARENT_PID"]))
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance()
