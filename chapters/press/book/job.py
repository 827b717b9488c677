"""Bring one chapter up to date: decide, execute in a process of its own, settle its twin."""

import ast
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.files import hold_lock
from press.book import ledger, state
from press.book.asked import mark_whole, path_of, prepare_environment
from press.book.chapters import CODE, Chapter
from press.book.declared import list_excesses, sum_costs
from press.book.files import Red, read_json, sha256_of
from press.book.keys import key_of, parts_of

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HEARTBEAT = 20  # seconds between two words about a chapter that is still running

_speaking = threading.Lock()


@dataclass
class Outcome:
    """What became of one chapter."""

    chapter: Chapter
    ok: bool
    ran: bool = False


class Job:
    """One chapter on its way through the build."""

    def __init__(self, chapter: Chapter, root: Path, size: str, seed: int):
        self.chapter, self.root, self.size, self.seed = chapter, root, size, seed
        self.name = chapter.name
        self.process: subprocess.Popen[str] | None = None
        self.stopped = False

    def list_reasons(self) -> list[str]:
        """Return what changed since the chapter last finished; nothing when it is up to date."""
        known = state.read_state(self.root, self.size, self.name)
        parts = parts_of(self.chapter, self.root, self.size, self.seed)
        if known is None:
            failed = state.notebook_path(self.root, self.size, self.name)
            last = failed.with_suffix(".failed.ipynb").is_file()
            return ["failed last time" if last else "for the first time"]
        if known["key"] == key_of(parts):
            return []
        before = known.get("parts", {})
        return [kind for kind in parts if before.get(kind) != parts[kind]] or ["changed"]

    def update_chapter(self) -> Outcome:
        """Bring the chapter up to date, one build at a time."""
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
        """Run the chapter in a process of its own; record what it claims and what it cost."""
        known = state.read_state(self.root, self.size, self.name) or {}
        before = f", {known['seconds']:.0f} s last time" if known.get("seconds") else ""
        self.print_lines(f"starts ({', '.join(reasons)}{before})")
        # The key is taken before the run: an edit made meanwhile is seen by the next build.
        parts = parts_of(self.chapter, self.root, self.size, self.seed)
        state.forget_state(self.root, self.size, self.name)
        start = time.monotonic()
        code, lines = self.run_process()
        seconds = time.monotonic() - start
        if code:
            if not self.stopped:
                self.print_lines(f"FAILED after {seconds:.1f} s", *lines)
            return False
        if path_of(self.root, self.size, self.name).is_file():
            mark_whole(self.root, self.size, self.name)
        cost = self.record_result(parts, seconds)
        runs = f"; {cost['runs']} runs read" if cost["runs"] else ""
        self.print_lines(f"done in {seconds:.1f} s{runs}")
        return True

    def update_prose(self) -> None:
        """Put the chapter's new prose around the results that it has."""
        # Here, because it imports what an idle build does not need.
        from press.book.merge_prose import merge_prose

        known = state.read_state(self.root, self.size, self.name) or {}
        parts = parts_of(self.chapter, self.root, self.size, self.seed)
        state.forget_state(self.root, self.size, self.name)
        merge_prose(self.chapter, state.notebook_path(self.root, self.size, self.name))
        self.record_result(parts, known.get("seconds", 0.0))
        self.print_lines("reworded: its code is unchanged, so its results stay")

    def record_result(self, parts: dict[str, str], seconds: float) -> dict[str, Any]:
        """Record what the executed notebook claims and what it cost."""
        parts["records"] = parts_of(self.chapter, self.root, self.size, self.seed)["records"]
        path = state.notebook_path(self.root, self.size, self.name)
        notebook = read_json(path, f"remove it and run `labkit book build --only {self.name}`")
        claims = ledger.collect_claims(notebook, self.name)
        ledger.join_claims(claims)
        calls = _claim_calls(self.chapter)
        if calls and not claims:
            raise Red(f"calls claim( {calls} times, but no claim came; do its cells run?")
        cost = sum_costs(notebook)
        finished = {"key": key_of(parts), "ok": True, "parts": parts, "seconds": round(seconds, 1)}
        state.write_state(self.root, self.size, self.name, finished | cost | {"claims": claims})
        return cost

    def run_process(self) -> tuple[int, list[str]]:
        """Start the process and pass on, now and then, how far it is; return its last words."""
        command = [sys.executable, "-m", "press.book.execute", self.name]
        command += ["--root", str(self.root), "--size", self.size]
        command += ["--seed", str(self.seed), "--parent", str(os.getpid())]
        paths = [str(CODE), *filter(None, [os.environ.get("PYTHONPATH")])]
        asked = prepare_environment(self.root, self.size, self.name)
        if self.size == "smoke":  # seconds: it asks whether everything runs, training too
            asked.pop("LABKIT_TRAIN")
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **asked},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the builder alone, which then ends the rest
        )
        lines: list[str] = []
        start = spoken = time.monotonic()
        with self.process as process:
            for line in process.stdout or ():
                if not line.startswith("cell "):
                    lines.append(line.rstrip("\n"))
                elif time.monotonic() - spoken > HEARTBEAT:
                    spoken = time.monotonic()
                    self.print_lines(f"at {line.strip()} after {spoken - start:.0f} s")
        return process.returncode, lines

    def finish_chapter(self) -> bool:
        """Bring the twin up to date and hold the chapter to the seconds and bytes it declared."""
        known = state.read_state(self.root, self.size, self.name)
        assert known is not None, self.name
        has_twin = self.size == "book" and self.seed == 0
        if has_twin and known.get("twin", "none") != sha256_of(self.chapter.twin):
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

    def stop_process(self) -> None:
        """End the chapter's process, and by that its kernel."""
        self.stopped = True
        if self.process is not None:
            self.process.kill()

    def print_lines(self, *lines: str) -> None:
        """Print lines about this chapter in one piece."""
        first, *rest = lines
        text = "\n".join([f"  {self.name}: {first}", *(f"    {line}" for line in rest)])
        if not sys.stdout.isatty():
            text = COLOUR.sub("", text)
        with _speaking:
            print(text, flush=True)


def _claim_calls(chapter: Chapter) -> int:
    tree = ast.parse(chapter.source.read_text(encoding="utf-8"))
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sum(isinstance(func, ast.Name) and func.id == "claim" for func in calls)
