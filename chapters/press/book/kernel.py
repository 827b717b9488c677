"""A chapter's kernel, which ends when the process that started it does.

ipykernel has a watch of its own, but one that misses a parent that died before it looked first.
"""

import os
import threading
import time


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
