"""Claims: sentences with measured numbers, judged by a criterion that was written before the run.

A claim combines the facts that a result has (`Evidence`) with those that only its author has: the
tested sentence, its criterion and its source. A chapter calls the method `claim` of a sample
(labkit.experiments.sample) or of a comparison on the ladder (labkit.experiments.ladder.comparison).

A claim that was locked (labkit.experiments.locks) is judged on the model sizes and with the number
of seeds that its lock names, and seed by seed if its lock requires it. Until these runs exist, the
card shows a preliminary evaluation, names the missing runs, and has no verdict. A comparison with
unmet requirements (labkit.experiments.regime) gets no verdict, and its card lists them.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from numbers import Integral
from string import Formatter

from labkit.display import CLAIM, publish_bundle
from labkit.experiments.card_html import TRIED
from labkit.experiments.cards import Claim
from labkit.experiments.locks import (
    SEEN,
    Lock,
    LockError,
    choose_word,
    describe_waiting,
    find_lock,
    find_time,
    refuse_difference,
    refuse_seed_count,
)
from labkit.statistics.criteria import Criterion, Estimate, parse_criterion
from labkit.statistics.pooled import Difference, has_pairs
from labkit.statistics.proportions import Gap, Proportion
from labkit.statistics.seeds import Given, Seeds
from labkit.statistics.verdicts import judge_claim, split_rungs
from labkit.system.root import project_root

SHARE = 0.05  # of the mean: allowed change of a later mean, at least half of the interval
EFFECT = re.compile(r"(.+) of (\S+)")  # a criterion, and the effect to compare its margin with
_collections: list[list["Claim"]] = []  # of the blocks that collect claims, the innermost last


@dataclass(frozen=True)
class Domain:
    """The domain of a source's statement, in the source's words, and that of our runs.

    If our runs are outside that domain, a card gives no verdict.
    """

    theirs: str
    ours: str
    inside: bool = True


@dataclass(frozen=True)
class Evidence:
    """The facts that a claim reads from a result: its numbers and their origin."""

    estimate: Estimate | None = None
    rungs: Mapping[str, Estimate] = field(default_factory=dict)  # on the ladder, in its place
    kind: str = "at"  # a key of card_html.KINDS
    since: str = ""  # when its first run began (UTC); "" without runs or dates
    looked: str | None = None  # the same for runs seen before; None without such runs
    seeds: tuple[int, ...] = ()  # of each value, if it is of one run
    live: bool = True  # some of it was computed just now; else it comes from records alone
    find_lacking: Callable[[str], Sequence[str]] = lambda rung: ()  # by the rung of the result
    unit: str | None = None  # what the sample consists of, if not seeds or runs
    tolerance: float | None = None  # the allowed change of a later mean

    def check(self, id: str) -> "Evidence":
        """Refuse an invalid id, and numbers that are not evidence; return itself."""
        _check_id(id)
        if not isinstance(one := self.estimate, Seeds):
            return self
        if not one.values or not all(map(math.isfinite, one.values)):
            pairs = zip(self.seeds, one.values, strict=True) if self.seeds else ()
            lost = ", ".join(str(seed) for seed, value in pairs if not math.isfinite(value))
            raise ValueError(
                f"claim {id!r} needs at least one value, each finite; got {list(one.values)}"
                + (f", not finite with seed {lost}" if lost else "")
                + ". If runs diverged, claim how many: results.count(lambda record: "
                "record.diverged_at is not None)"
            )
        if self.kind == "best" and len(one.values) < 5:
            raise ValueError(
                f"a claim of kind 'best' needs at least five seeds, but {id!r} has "
                f"{len(one.values)}"
            )
        if self.kind != "exact" and one.flat:
            raise ValueError(
                "a claim needs values that vary, because an interval of width 0 is no evidence, "
                f"but claim {id!r} has {len(one.values)} value{'s' * (len(one.values) > 1)} of "
                f"{one.values[0]:g}; measure it with several seeds or repetitions, give a count "
                "if it counts runs, or declare it exact if it is algebra or counts what code does"
            )
        return self


class Claimable(ABC):
    """A result on which a chapter can base a claim."""

    @abstractmethod
    def list_evidence(self, id: str) -> Evidence:
        """Return the facts that the claim with this id needs."""

    def claim(
        self,
        id: str,
        criterion: str,
        sentence: str | None,
        *,
        found: str = "",
        source: str = "",
        published: str | None = None,
        beside: Mapping[str, object] | None = None,
        domain: Domain | None = None,
        predicted: float | None = None,
    ) -> Claim | None:
        """Judge and show a claim; if there are no runs yet, print that it waits for them.

        `sentence` is the tested statement, in words and without our numbers: a source's statement,
        or our prediction. `found` states the result. Simple math is typeset in both: d_k, x^2,
        3e-16. `found` may contain {mean}, {low}, {high}, {n} and any number or word in `beside`,
        with a format such as {mean:.3f}; for proportions also {k}, {other_k} and {other_n}, on the
        ladder {rung}, and for an improvement {apart}, its size in loss, and {side}: "lower than" or
        "higher than".

        `criterion` looks like "> 0", "<= 1.5" or "in [0.9, 1.1]". With two bounds it needs the
        theoretical number (`predicted`), or the chapter's main effect in the same unit, and its
        margin may be at most a quarter of that effect: "in [-0.02, 0.02] of 0.8".

        The keys *second value*, *last step* and *control* of `beside` describe robustness checks of
        the finding. A comparison on the ladder adds its model sizes and its tuned learning rates.

        Raises:
            ValueError: an argument breaks one of these rules; the message names it.
            LockError: the claim differs from its lock.
        """
        evidence = self.list_evidence(id).check(id)
        lock = None if evidence.kind == "exact" else find_lock(project_root(), id)
        if evidence.estimate is None and not evidence.rungs:
            return _say_waiting(id, sentence, lock)
        criterion, effect = read_effect(criterion)
        rule, kind = parse_criterion(criterion), evidence.kind
        estimate, rungs, reporting, waits = _read_evidence(id, evidence, lock)
        _check_lock(lock, sentence, criterion, estimate)
        _check_margin(id, rule, criterion, kind, effect, predicted)
        lacking = tuple(evidence.find_lacking(reporting))
        limits = {"waits": bool(waits), "inside": domain is None or domain.inside}
        judged = judge_claim(rungs or estimate, rule, lacking=lacking, **limits)
        wording = found or sentence or ""
        made = Claim(
            id=id,
            said=sentence,
            wording=wording,
            numbers=_collect_numbers(wording, estimate, beside or {}, reporting),
            estimate=estimate,
            source=source,
            criterion=criterion,
            kind=kind,
            **judged._asdict(),
            published=published,
            domain=domain and asdict(domain),
            effect=effect,
            predicted=predicted,
            rungs=rungs,
            runs=None if evidence.live else _describe_runs(evidence, estimate),
            word=None if kind == "exact" or waits else _date_runs(evidence, lock, rungs, estimate),
            lock=lock and _sum_up_lock(lock, waits),
            lacking=lacking,
            unit=evidence.unit,
            tried=_list_trials(beside or {}, rungs, kind),
            tolerance=_choose_tolerance(evidence, estimate),
        )
        return _show_claim(made)


def _say_waiting(id: str, sentence: str | None, lock: Lock | None) -> None:
    forecast = f" We give it {lock.probability:.0%}." if lock else ""
    print(f"{id} waits for its runs. Asked: {sentence}{forecast}")


def _describe_runs(evidence: Evidence, estimate: Estimate) -> dict[str, object]:
    """Return the fields of a claim that come from records, which are the same on every machine."""
    return {
        "seeds": list(evidence.seeds),
        "values": [float(f"{value:.12g}") for value in estimate.values],
        "since": evidence.since,
        "looked": evidence.looked,
    }


def read_effect(criterion: str) -> tuple[str, float | None]:
    """Split "in [-0.02, 0.02] of 0.8" into the criterion and the effect."""
    match = EFFECT.fullmatch(criterion)
    return (match[1], float(match[2])) if match else (criterion, None)


def _check_id(id: str) -> None:
    if not re.fullmatch(r"(?:[A-Z]-)?[a-z0-9][a-z0-9*.-]*", id):
        raise ValueError(
            "a claim's id must consist of lower-case letters, digits, - and ., after the number "
            f"of its chapter or the letter of its appendix; got {id!r}"
        )


@contextmanager
def collect_claims() -> Iterator[list[Claim]]:
    """Collect the claims made in a block; they are shown as usual."""
    _collections.append([])
    try:
        yield _collections[-1]
    finally:
        _collections.pop()


def _show_claim(made: Claim) -> Claim:
    for collection in _collections:
        collection.append(made)
    bundle = {"text/plain": str(made), "text/html": made.to_html(), CLAIM: made.to_dict()}
    publish_bundle(bundle, "claim", id=made.id)
    return made


def _read_evidence(
    id: str, evidence: Evidence, lock: Lock | None
) -> tuple[Estimate, dict[str, Estimate], str, list[str]]:
    """Return the judged estimate, those of all rungs, its own rung, and what the lock still lacks.

    A lock that waits for nothing is judged only on its own rungs.
    """
    paired = lock is not None and lock.paired
    if evidence.estimate is not None:
        return _pair_seeds(id, evidence.estimate) if paired else evidence.estimate, {}, "", []
    rungs, waits = dict(evidence.rungs), list[str]()
    if lock is not None and not (waits := describe_waiting(lock, rungs)):
        rungs = {rung: one for rung, one in rungs.items() if rung in (lock.rungs or rungs)}
    if paired:
        # While a lock waits, a rung without shared seeds shows its first look as it is.
        rungs = {
            rung: one if waits and not has_pairs(one) else _pair_seeds(id, one)
            for rung, one in rungs.items()
        }
    reporting = choose_rung(rungs)
    return rungs[reporting], rungs, reporting, waits


def _pair_seeds(id: str, one: Estimate) -> Estimate:
    """Compare two arms seed by seed, as their lock requires."""
    if not isinstance(one, Difference):
        raise LockError(
            f"claim {id!r} was preregistered as a paired comparison, but the chapter gives one "
            "sample; give the return value of the ladder's `improvement`, or lock the claim again"
        )
    return one.pair()


def _find_starts(evidence: Evidence, estimates: Sequence[Estimate]) -> tuple[str, str | None]:
    """Return when the first judged run began, and the first run of all; "" if unknown."""
    if evidence.since:
        return evidence.since, evidence.looked
    found = [one for one in estimates if isinstance(one, Difference)]
    looks = [one.looked for one in found if one.looked is not None]
    return min((one.since for one in found), default=""), min(looks, default=None)


def _date_runs(
    evidence: Evidence, lock: Lock | None, rungs: Mapping[str, Estimate], estimate: Estimate
) -> str:
    """Return the word for runs older than the lock; outside the ladder, check the seed count."""
    locked = find_time(project_root(), lock) if lock else ""
    word = choose_word(locked, *_find_starts(evidence, list(rungs.values()) or [estimate]))
    if lock is not None and not rungs and word != SEEN and (n := _count_seeds(estimate)):
        refuse_seed_count(lock, n)
    return word


def _count_seeds(estimate: Estimate) -> int | None:
    """Return the number of seeds, of the smaller of two samples; None if it was computed."""
    match estimate:
        case Given():
            return None
        case Proportion() | Gap():
            return min(n for _, n in estimate.counts)
        case Difference():
            return estimate.count_seeds(estimate.paired)
        case _:
            return len(estimate.values)


def _choose_tolerance(evidence: Evidence, estimate: Estimate) -> float:
    """Return how far a later mean may differ from this one."""
    if evidence.tolerance is not None:
        return evidence.tolerance
    low, high = estimate.compute_interval()
    return max(SHARE * abs(estimate.mean), (high - low) / 2)


def choose_rung(rungs: Mapping[str, Estimate]) -> str:
    """Return the rung whose result the card shows: the largest size, or else the first variant."""
    sizes, directions = split_rungs(rungs)
    return [*sizes][-1] if sizes else next(iter(directions))


def _check_lock(lock: Lock | None, said: str | None, criterion: str, estimate: Estimate) -> None:
    """Refuse a claim that differs from its lock."""
    if lock is not None:
        arms = {"arms": estimate.arms} if isinstance(estimate, Difference) else {}
        refuse_difference(lock, {"said": said, "criterion": criterion, **arms})


def _read_number(name: str, value: object) -> float:
    """Read a number, or the mean of a sample or a comparison."""
    number = getattr(value, "mean", value)
    if callable(number):  # of an array with one element
        number = value
    try:
        return int(number) if isinstance(number, Integral) else float(number)  # type: ignore[arg-type, return-value]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"a value given with a finding must be a number, a word or a result; {name!r} is "
            f"{type(value).__name__}"
        ) from error


def _list_trials(
    beside: Mapping[str, object], rungs: Mapping[str, Estimate], kind: str
) -> dict[str, str]:
    """List the robustness checks of a finding, including those that its kind implies.

    If none are given, or the claim is exact, the card does not mention them.
    """
    tried = {name: str(value) for name, value in beside.items() if name in TRIED}
    known = {}
    if kind != "exact" and (tried or rungs):
        if len(rungs) > 1:
            known["second value"] = f"on {' and '.join(rungs)}"
        if rungs and kind == "best":
            known["last step"] = "the test loss at the end"
        if kind == "best":
            known["control"] = "tuned learning rates"
        if kind == "range":
            known["control"] = "all learning rates tried"
    return known | tried


def _sum_up_lock(lock: Lock, waits: Sequence[str]) -> Mapping[str, object]:
    """Summarize a lock for a card: its date, its probability, and the missing runs."""
    kept = {"at": lock.at, "probability": lock.probability, "sum": lock.compute_sum()}
    return kept | ({"waits": list(waits)} if waits else {})


def _check_margin(
    id: str,
    rule: Criterion,
    criterion: str,
    kind: str,
    effect: float | None,
    predicted: float | None,
) -> None:
    """Refuse a criterion with two bounds that is too wide or excludes the predicted value."""
    if effect is None and (kind == "exact" or not rule.two_sided):
        return
    if effect is None and (predicted is None or kind == "best"):
        raise ValueError(
            f"a two-sided criterion needs a reference for its margin, but claim {id!r} of kind "
            f"{kind!r} has only {criterion!r}; add the chapter's main effect in the same unit, as "
            f"in '{criterion} of 0.8', or, where theory gives a number, predicted="
        )
    if effect is not None and rule.margin > abs(effect) / 4 * (1 + 1e-9):
        raise ValueError(
            f"an equivalence margin must be at most a quarter of the effect, but claim {id!r} has "
            f"a margin of {rule.margin:g} for an effect of {effect:g}; use {abs(effect) / 4:g} or "
            "less"
        )
    if predicted is not None and not rule.is_met(predicted):
        raise ValueError(
            f"a criterion must include the predicted value, but claim {id!r} predicts "
            f"{predicted:g} and has the criterion {criterion!r}; move the bounds, or correct the "
            "prediction"
        )


def _collect_numbers(
    statement: str, estimate: Estimate, beside: Mapping[str, object], rung: str
) -> dict[str, int | float | str]:
    """Return the numbers (or words) that the statement names."""
    more = {
        name: value if isinstance(value, str) else _read_number(name, value)
        for name, value in beside.items()
        if name not in TRIED
    }
    low, high = estimate.compute_interval()
    known: dict[str, float | str] = {"mean": estimate.mean, "low": low, "high": high}
    side = "higher than" if estimate.mean < 0 else "lower than"
    known |= {"apart": abs(estimate.mean), "side": side}
    if isinstance(estimate, Proportion | Gap):
        counts = [count for pair in estimate.counts for count in pair]
        known |= dict(zip(("k", "n", "other_k", "other_n"), counts, strict=False))
    else:
        known["n"] = len(estimate.values)
    if replaced := set(more) & set(known):
        raise ValueError(
            "the values passed as `beside` must not replace a number of the finding itself, but "
            f"{', '.join(sorted(replaced))} would; choose other names"
        )
    known |= {**more, **({"rung": rung} if rung else {})}
    named = [name for _, name, _, _ in Formatter().parse(statement) if name]
    if unused := set(more) - {*named}:
        raise ValueError(
            "each value passed as `beside` must be named in the sentence or be one of the checks "
            f"{', '.join(TRIED)}; {', '.join(sorted(unused))} is neither"
        )
    if missing := set(named) - set(known):
        raise ValueError(
            "a statement may only name the numbers that are passed to it, but it names "
            f"{', '.join(sorted(missing))}; it may name {', '.join(known)}"
        )
    return {name: known[name] for name in dict.fromkeys(named)}
