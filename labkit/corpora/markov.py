"""A synthetic language whose entropy rate is computed, not estimated: a Markov chain.

    p(next | last two) drawn once per pair of symbols from a Dirichlet distribution
    H = −Σ_pairs π(pair) Σ_next p(next | pair) log p(next | pair)        (nats per token)

π is the chain's stationary distribution over pairs. No model that sees the past can have a
lower expected loss than H, from the third token of a sequence on.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from labkit.corpora.base import Batch, Corpus, at_least_one


def transition_table(
    symbols: int, concentration: float, seed: int
) -> Float[Tensor, "first second next"]:
    """Draw p(next | first, second) for every pair, in float64."""
    draws = np.random.default_rng(seed).gamma(concentration, size=(symbols, symbols, symbols))
    # A tiny floor keeps every symbol possible, so that the chain has one stationary distribution.
    gamma = torch.from_numpy(draws) + 1e-6
    return gamma / gamma.sum(dim=-1, keepdim=True)


def find_stationary(table: Float[Tensor, "first second next"]) -> Float[Tensor, "first second"]:
    """Find the share of time the chain spends in each pair: π(b, c) = Σ_a π(a, b) p(c | a, b)."""
    symbols = table.shape[0]
    step = torch.zeros(symbols, symbols, symbols, symbols, dtype=torch.float64)
    second = torch.arange(symbols)
    step[:, second, second, :] = table  # (a, b) -> (b, c)
    square = step.reshape(symbols**2, symbols**2)
    # Solve π(P − I) = 0 with one equation replaced by Σπ = 1.
    system = (square - torch.eye(symbols**2, dtype=torch.float64)).T
    system[-1] = 1.0
    right = torch.zeros(symbols**2, dtype=torch.float64)
    right[-1] = 1.0
    return torch.linalg.solve(system, right).reshape(symbols, symbols)


def entropy_rate(table: Float[Tensor, "first second next"]) -> float:
    """Compute the chain's entropy rate H in nats per token."""
    inner = -(table * table.log()).sum(dim=-1)
    return float((find_stationary(table) * inner).sum())


@dataclass(frozen=True)
class Markov:
    """Sequences of `time` + 1 symbols from one order-2 chain, started in its stationary state.

    `symbols` is the alphabet, `concentration` the Dirichlet parameter (small: predictable),
    `language` the seed of the chain itself.
    """

    batch: int = 16
    time: int = 32
    symbols: int = 16
    concentration: float = 0.1
    language: int = 0

    def __post_init__(self) -> None:
        at_least_one(batch=self.batch, time=self.time, symbols=self.symbols)
        if not self.concentration > 0:
            raise ValueError(f"concentration must be above 0, got {self.concentration}")

    def load(self) -> Corpus:
        """Draw the chain, and sequences from it."""
        table = transition_table(self.symbols, self.concentration, self.language)
        cumulative = table.cumsum(dim=-1)
        start = find_stationary(table).clamp(min=0).flatten()

        def draw_sequences(batch: int, seed: int) -> Iterator[Batch]:
            generator = torch.Generator().manual_seed(seed)
            while True:
                pair = torch.multinomial(start, batch, replacement=True, generator=generator)
                tokens = [pair // self.symbols, pair % self.symbols]
                uniform = torch.rand(
                    self.time - 1, batch, 1, dtype=torch.float64, generator=generator
                )
                for u in uniform:
                    drawn = torch.searchsorted(cumulative[tokens[-2], tokens[-1]], u).squeeze(1)
                    tokens.append(drawn.clamp(max=self.symbols - 1))
                sequence = torch.stack(tokens, dim=1)
                yield sequence[:, :-1], sequence[:, 1:]

        def draw_held_out(seed: int) -> list[Batch]:
            stream = draw_sequences(128, seed)
            return [next(stream) for _ in range(16)]

        # Training seeds are small; these two are out of their way.
        return Corpus(
            draw=lambda seed: draw_sequences(self.batch, seed),
            held_out={"validation": draw_held_out(2**40), "test": draw_held_out(2**40 + 1)},
            floor=entropy_rate(table),
        )
