"""Build the book: execute the chapters that changed, write their twins, check their claims."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from labkit.system.files import hold_lock
from labkit.system.pool import Pool
from press.book import chapters, ledger, replays, state
from press.book.chapters import Chapter
from press.book.files import Red
from press.book.job import Job, Outcome
from press.book.stale import resting_on, shown_by


def build_chapters(root: Path, size: str = "book", only: Sequence[str] | None = None) -> int:
    """Bring the book up to date; return 0 on success, 1 if a check failed."""
    everything = chapters.find_chapters(root)
    chosen = chapters.choose_chapters(everything, only)
    if not chosen:
        print("book: no chapters yet; one is chapters/NN_name.py")
        return 0
    jobs = [Job(chapter, root, size) for chapter in chosen]
    waiting = [job for job in jobs if job.list_reasons()]
    at_once = min(len(waiting), Pool(root).slots) if len(waiting) > 1 else 1
    if waiting:
        print(
            f"book ({size}): {len(waiting)} of {len(jobs)} chapters must run, {at_once} at a time",
            flush=True,
        )
    outcomes = _run_jobs(jobs, at_once)
    fresh = sum(not outcome.ran and outcome.ok for outcome in outcomes)
    if fresh:
        print(f"book ({size}): {fresh} of {len(jobs)} chapters up to date")
    fine = _check_claims(root, size, everything, outcomes)
    fine &= _check_replays(root, size, [outcome.chapter for outcome in outcomes if outcome.ok])
    failed = [outcome.chapter.name for outcome in outcomes if not outcome.ok]
    if failed:
        print(f"book ({size}): RED: {', '.join(failed)}")
    return 0 if fine and not failed else 1


def _run_jobs(jobs: list[Job], at_once: int) -> list[Outcome]:
    with ThreadPoolExecutor(at_once) as pool:
        # Later chapters and shelves take longest: begun first, none runs alone at the end.
        futures = [pool.submit(job.update_chapter) for job in reversed(jobs)]
        try:
            return [future.result() for future in reversed(futures)]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for job in jobs:
                job.stop_kernel()
            raise


def _check_replays(root: Path, size: str, chosen: list[Chapter]) -> bool:
    """Compare the records that these chapters read with the results of today's code."""
    stale = replays.check_replays(root, size, chosen)
    for chapter in chosen if stale else ():
        notebook = json.loads(state.notebook_path(root, size, chapter.name).read_text("utf-8"))
        if shown := shown_by(notebook, resting_on(notebook, stale)):
            print(f"    stale in {chapter.name}: {', '.join(shown)}")
    return not stale


def _check_claims(
    root: Path, size: str, everything: list[Chapter], outcomes: list[Outcome]
) -> bool:
    """Collect the claims of all executed chapters and compare them with the ledger."""
    try:
        with hold_lock(root / ".labkit" / f"claims-{size}.lock"):
            states = {c.name: state.read_state(root, size, c.name) for c in everything}
            claims = ledger.join_claims(
                claim for known in states.values() if known for claim in known["claims"]
            )
            ledger.gather_claims(root, size, claims)
        if size != "book":
            return True
        built = {outcome.chapter.name for outcome in outcomes if outcome.ok}
        absent = [chapter.name for chapter in everything if chapter.name not in built]
        return ledger.check_ledger(root, size, absent) == 0
    except Red as error:
        print(f"claims: {error}")
        return False
