"""Which tokens a step reads: a function of seed and step, split among the processes.

A split is cut into windows of `time` tokens, and each epoch visits every window once, in an order
drawn from (seed, epoch). Step s of a run with global batch B reads the places s·B … s·B + B − 1 of
that endless sequence, and process r of n the r-th n-th of them: so the global batch is the same
whatever n is, and a resumed run needs no more than its step.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor


class Windows:
    """Windows of tokens with their targets, the same tokens one place further."""

    def __init__(self, shards: list[np.ndarray], time: int, seed: int):
        self.shards, self.time, self.seed = shards, time, seed
        # The last token of a window's targets is the first of the next window's inputs.
        self._ends = np.cumsum([max(0, len(shard) - 1) // time for shard in shards])
        self.count = int(self._ends[-1]) if shards else 0
        if self.count < 1:
            raise ValueError(
                f"a sequence takes {time + 1} tokens of one shard, but the longest has "
                f"{max(map(len, shards), default=0)}; give more text or a smaller --context"
            )
        self._order = lru_cache(maxsize=2)(self._draw_order)

    def choose(self, step: int, batch: int, rank: int = 0, world: int = 1) -> np.ndarray:
        """Name the windows that process `rank` of `world` reads at a step."""
        share = batch // world
        places = step * batch + rank * share + np.arange(share)
        epochs, places = np.divmod(places, self.count)
        pairs = zip(epochs.tolist(), places.tolist(), strict=True)
        return np.array([self._order(epoch)[place] for epoch, place in pairs])

    def read(self, windows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Read windows by number: inputs and targets, int64 (windows, time)."""
        rows = torch.from_numpy(np.stack([self._read_window(number) for number in windows]))
        return rows[:, :-1], rows[:, 1:]

    def _read_window(self, number: int) -> np.ndarray:
        shard = int(np.searchsorted(self._ends, number, side="right"))
        start = (number - (int(self._ends[shard - 1]) if shard else 0)) * self.time
        return self.shards[shard][start : start + self.time + 1].astype(np.int64)

    def _draw_order(self, epoch: int) -> np.ndarray:
        # RandomState's stream never changes between versions of NumPy; a Generator's may.
        return np.random.RandomState([self.seed, epoch]).permutation(self.count)
