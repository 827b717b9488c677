"""A chapter's kernel, which ends when the process that started it does.

ipykernel has a watch of its own, but one that misses a parent that died before it looked first.
"""

import os
import sys
import threading
import time

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager


class OwnKernel(KernelSpecManager):
    """Finds this program, in this environment, and no other kernel, whatever the name."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Describe the kernel as Jupyter wants it."""
        argv = [sys.executable, "-m", "press.book.kernel", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python 3 (ipykernel)", language="python")


def end_with(parent: int) -> None:
    """End this process, whatever it is doing, soon after its parent."""

    def watch_parent() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch_parent, daemon=True).start()


if __name__ == "__main__":
    end_with(int(os.environ["JPY_PARENT_PID"]))
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance()
