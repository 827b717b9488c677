"""Which user computes on which GPU: the one with the fewest users, as long as it has a place.

This is a distribution and no fence: a user who sets CUDA_VISIBLE_DEVICES anew reaches the others.
"""

import math
from collections.abc import Sequence


class Shares:
    """Who has which of the devices; a device has places for `users`."""

    def __init__(self, devices: Sequence[str], users: int):
        self.devices, self.users = tuple(devices), users
        self.held: dict[str, str] = {}  # user -> device

    def __deepcopy__(self, memo: object) -> "Shares":
        """Stay one: a configuration is copied for each server, and all count the same users."""
        return self

    def assign_device(self, name: str) -> dict[str, str]:
        """Assign a user a place; return what their server's environment must say.

        Raises ValueError when every place is taken.
        """
        if not self.devices:
            return {"CUDA_VISIBLE_DEVICES": ""}
        if name not in self.held:
            taken = list(self.held.values())
            device = min(self.devices, key=taken.count)
            if taken.count(device) >= self.users:
                raise ValueError(
                    f"all {len(self.devices) * self.users} places on the GPUs are taken; try "
                    "again when a server has stopped, or ask for a larger gpu_users"
                )
            self.held[name] = device
        told = {"CUDA_VISIBLE_DEVICES": self.held[name]}
        return told | ({"LABKIT_GPU_FRACTION": self.fraction} if self.users > 1 else {})

    @property
    def fraction(self) -> str:
        """Write a user's share, rounded down: all shares together must fit."""
        return str(math.floor(1000 / self.users) / 1000)

    def release_device(self, name: str) -> None:
        """Take a user's place back."""
        self.held.pop(name, None)
