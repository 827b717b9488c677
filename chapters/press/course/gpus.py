"""Assign users to GPUs: the GPU with the fewest users, while it has a free place.

This is a distribution and no fence: a user who sets CUDA_VISIBLE_DEVICES anew reaches the others.
"""

import math
from collections.abc import Sequence


class Shares:
    """Which user has which device; each device has places for `users`."""

    def __init__(self, devices: Sequence[str], users: int):
        self.devices, self.users = tuple(devices), users
        self.held: dict[str, str] = {}  # user -> device

    def __deepcopy__(self, memo: object) -> "Shares":
        """Return the object itself: configurations are copied, but must share one count."""
        return self

    def assign_device(self, name: str) -> dict[str, str]:
        """Assign a place to a user; return the environment variables for their server.

        Raises ValueError when every place is taken.
        """
        if not self.devices:
            return {"CUDA_VISIBLE_DEVICES": ""}
        if name not in self.held:
            taken = list(self.held.values())
            device = min(self.devices, key=taken.count)
            if taken.count(device) >= self.users:
                raise ValueError(
                    f"a server needs a place on a GPU, but all {len(self.devices) * self.users} "
                    "are taken; try again when a server has stopped, or ask for a larger "
                    "gpu_users"
                )
            self.held[name] = device
        told = {"CUDA_VISIBLE_DEVICES": self.held[name]}
        return told | ({"LABKIT_GPU_FRACTION": self.fraction} if self.users > 1 else {})

    @property
    def fraction(self) -> str:
        """Format a user's share, rounded down so that all shares fit together."""
        return str(math.floor(1000 / self.users) / 1000)

    def release_device(self, name: str) -> None:
        """Free a user's place."""
        self.held.pop(name, None)
