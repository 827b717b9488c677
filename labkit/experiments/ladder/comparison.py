"""A comparison of two methods, rung by rung of the ladder, on which a chapter can base a claim."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from labkit.experiments import regime
from labkit.experiments.claims import Claimable, Evidence, choose_rung
from labkit.experiments.ladder.method import FEWER
from labkit.experiments.locks import find_lock
from labkit.statistics.pooled import Difference
from labkit.system.root import project_root


@dataclass(frozen=True, eq=False)
class Comparison(Mapping[str, Difference], Claimable):
    """Differences between two methods by rung, sizes before variants."""

    rungs: Mapping[str, Difference]
    find_lacking: Callable[[str], Sequence[str]]  # unmet requirements of the comparison on a rung

    def __getitem__(self, rung: str) -> Difference:
        return self.rungs[rung]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rungs)

    def __len__(self) -> int:
        return len(self.rungs)

    @property
    def largest(self) -> str:
        """Return the largest model size, or else the first variant."""
        return choose_rung(self.rungs)

    def only(self, *rungs: str) -> "Comparison":
        """Return only these rungs, as far as both methods were evaluated on them."""
        return replace(self, rungs={name: of for name, of in self.rungs.items() if name in rungs})

    def pair_strict(self) -> "Comparison":
        """Pair by seed where both methods have a full evaluation: they share seeds there."""
        return replace(
            self,
            rungs={
                name: of.pair() if len(of.pairs) >= FEWER else of for name, of in self.rungs.items()
            },
        )

    def list_lacking(self) -> list[str]:
        """List the requirements that the comparison does not meet on its largest size."""
        if not self.rungs:
            return [f"{regime.YOUNG}the two methods have not both reported"]
        return [*self.find_lacking(self.largest)]

    def list_evidence(self, id: str) -> Evidence:
        """Return the facts that a claim on every rung needs.

        A claim that was locked is judged only on the rungs of its lock, and seed by seed if its
        lock says so. Without a lock, full evaluations are paired.
        """
        lock = find_lock(project_root(), id)
        judged = self if lock else self.pair_strict()
        judged = judged.only(*lock.rungs) if lock and lock.rungs else judged
        return Evidence(rungs=judged.rungs, kind="best", find_lacking=self.find_lacking)
