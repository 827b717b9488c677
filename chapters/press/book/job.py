"""Update one chapter: decide, execute it in a separate kernel, write its twin."""

import os
import re
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.system.files import hold_lock, write_whole
from press.book import chapters, ledger, state
from press.book.asked import mark_whole, path_of, prepare_environment
from press.book.chapters import Chapter
from press.book.declared import list_excesses, sum_costs
from press.book.files import Red, read_json, sha256_of
from press.book.keys import key_of, parts_of

if TYPE_CHECKING:
    from jupyter_client.manager import AsyncKernelManager

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
NAMED = 3  # reasons for a run that are named
HEARTBEAT = 20  # seconds between two words about a chapter that is still running

_speaking = threading.Lock()


@dataclass
class Outcome:
    """The result of updating one chapter."""

    chapter: Chapter
    ok: bool
    ran: bool = False


class Job:
    """One chapter, as it passes through the build."""

    def __init__(self, chapter: Chapter, root: Path, size: str):
        self.chapter, self.root, self.size = chapter, root, size
        self.name = chapter.name
        self.kernel: AsyncKernelManager | None = None
        self.stopped = False
        self.started = self.spoken = 0.0

    def list_reasons(self) -> list[str]:
        """Return what changed since the chapter last finished; nothing if it is up to date."""
        known = state.read_state(self.root, self.size, self.name)
        parts = parts_of(self.chapter, self.root, self.size)
        if known is None:
            failed = state.notebook_path(self.root, self.size, self.name)
            last = failed.with_suffix(".failed.ipynb").is_file()
            return ["failed last time" if last else "for the first time"]
        if known["key"] == key_of(parts):
            return []
        before = known.get("parts", {})
        return [kind for kind in parts if before.get(kind) != parts[kind]] or ["changed"]

    def update_chapter(self) -> Outcome:
        """Update the chapter; only one build may do so at a time."""
        lock = self.root / ".labkit" / f"build-{self.size}-{self.name}.lock"
        try:
            with hold_lock(lock, on_wait=lambda: self.print_lines("waits for another build of it")):
                reasons = self.list_reasons()
                if reasons == ["its prose"]:
                    self.update_prose()
                elif reasons and not self.execute_chapter(reasons):
                    return Outcome(self.chapter, ok=False, ran=True)
                return Outcome(self.chapter, ok=self.finish_chapter(), ran=bool(reasons))
        except (Red, ValueError) as error:
            self.print_lines(f"FAILED: {error}")
            return Outcome(self.chapter, ok=False, ran=True)

    def execute_chapter(self, reasons: list[str]) -> bool:
        """Execute the chapter in a separate kernel; record its claims and its costs."""
        known = state.read_state(self.root, self.size, self.name) or {}
        before = f", {known['seconds']:.0f} s last time" if known.get("seconds") else ""
        more = f" and {len(reasons) - NAMED} more" if len(reasons) > NAMED else ""
        self.print_lines(f"starts ({', '.join(reasons[:NAMED])}{more}{before})")
        # The key is taken before the run: an edit made meanwhile is seen by the next build.
        parts = parts_of(self.chapter, self.root, self.size)
        state.forget_state(self.root, self.size, self.name)
        self.started = self.spoken = time.monotonic()
        why = self.run_cells()
        seconds = time.monotonic() - self.started
        if why:
            if not self.stopped:
                self.print_lines(f"FAILED after {seconds:.1f} s", *why)
            return False
        if path_of(self.root, self.size, self.name).is_file():
            mark_whole(self.root, self.size, self.name)
        cost = self.record_result(parts, seconds)
        runs = f"; {cost['runs']} runs read" if cost["runs"] else ""
        self.print_lines(f"done in {seconds:.1f} s{runs}")
        return True

    def update_prose(self) -> None:
        """Combine the chapter's new prose with its existing results."""
        # Here, because it imports what an idle build does not need.
        from press.book.twins import merge_prose

        known = state.read_state(self.root, self.size, self.name) or {}
        parts = parts_of(self.chapter, self.root, self.size)
        state.forget_state(self.root, self.size, self.name)
        merge_prose(self.chapter, state.notebook_path(self.root, self.size, self.name))
        self.record_result(parts, known.get("seconds", 0.0))
        self.print_lines("reworded: its code is unchanged, so its results stay")

    def record_result(self, parts: dict[str, str], seconds: float) -> dict[str, Any]:
        """Record the claims and the costs of the executed notebook."""
        # What it used is known now; the text is that with which it began.
        text = {kind: parts[kind] for kind in ("its code", "its prose")}
        parts = parts_of(self.chapter, self.root, self.size) | text
        path = state.notebook_path(self.root, self.size, self.name)
        notebook = read_json(path, f"remove it and run `labkit book build --only {self.name}`")
        claims = ledger.collect_claims(notebook, self.name)
        ledger.join_claims(claims)
        cost = sum_costs(notebook)
        finished = {"key": key_of(parts), "parts": parts, "seconds": round(seconds, 1)}
        state.write_state(self.root, self.size, self.name, finished | cost | {"claims": claims})
        return cost

    def run_cells(self) -> list[str]:
        """Execute the chapter and keep its notebook; return why it failed, if it did.

        A failure leaves the last good notebook alone and writes another beside it, to open.
        """
        # Here, because an idle build does not need them.
        import nbformat
        from papermill.exceptions import PapermillExecutionError

        from press.book import execute

        notebook = chapters.read_chapter(self.chapter)
        chapters.check_parameters(notebook, self.chapter.source)
        done = state.notebook_path(self.root, self.size, self.name)
        failed = done.with_suffix(".failed.ipynb")
        log = self.root / ".labkit" / "log" / f"{self.size}-{self.name}.txt"
        asked = prepare_environment(self.root, self.size, self.name)
        around = execute.build_environment(self.root) | asked
        for path in (log, failed):
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("w") as said, execute.manage_kernel() as self.kernel:
                executed = execute.run_notebook(
                    notebook,
                    {"size": self.size},
                    self.kernel,
                    self.chapter.source.parent,
                    around,
                    said,
                    failed,
                    self.announce_cell,
                )
        except Exception as error:
            if self.stopped:
                failed.unlink(missing_ok=True)
                return ["stopped"]
            lines = f"{type(error).__name__}: {error}".strip().splitlines()
            if not isinstance(error, PapermillExecutionError):
                lines += log.read_text(errors="replace").splitlines()[-20:]
            return [*lines, f"open it: {failed.relative_to(self.root)}"]
        failed.unlink(missing_ok=True)
        write_whole(done, nbformat.writes(executed) + "\n")
        return []

    def announce_cell(self, number: int, count: int) -> None:
        """Print the progress of the chapter from time to time."""
        now = time.monotonic()
        if now - self.spoken > HEARTBEAT:
            self.spoken = now
            self.print_lines(f"at cell {number} of {count} after {now - self.started:.0f} s")

    def finish_chapter(self) -> bool:
        """Update the twin and compare the chapter's time and memory with what it declared."""
        known = state.read_state(self.root, self.size, self.name)
        assert known is not None, self.name
        if self.size == "book" and known.get("twin", "none") != sha256_of(self.chapter.twin):
            from press.book.twins import update_twin  # imports that an idle build does not need

            path = state.notebook_path(self.root, self.size, self.name)
            if update_twin(self.chapter, path, self.root):
                self.print_lines(f"wrote {self.chapter.twin.relative_to(self.root)}")
            known["twin"] = sha256_of(self.chapter.twin)
            state.write_state(self.root, self.size, self.name, known)
        found = list_excesses(known)
        elsewhere = bool(found) and ledger.recorded_elsewhere(self.root, self.size)
        for told in found:
            self.print_lines(
                f"note: {told}; that was on another machine" if elsewhere else f"RED: {told}"
            )
        return elsewhere or not found

    def stop_kernel(self) -> None:
        """End the chapter's kernel, and thereby its run."""
        self.stopped = True
        started = self.kernel and self.kernel.provisioner
        with suppress(ProcessLookupError):  # it has ended
            if pid := getattr(started, "pid", None):
                os.kill(pid, signal.SIGKILL)

    def print_lines(self, *lines: str) -> None:
        """Print lines about this chapter without interleaving others."""
        first, *rest = lines
        text = "\n".join([f"  {self.name}: {first}", *(f"    {line}" for line in rest)])
        if not sys.stdout.isatty():
            text = COLOUR.sub("", text)
        with _speaking:
            print(text, flush=True)
