"""Start each user's server as that user, confined; the hub's own processes stay apart."""

import json
import sys
from pathlib import Path
from typing import Any

from jupyterhub.spawner import LocalProcessSpawner
from traitlets import Any as AnyTrait

from press.course import confine, groups
from press.course.gpus import Shares
from press.course.people import People, Person
from press.course.readable_paths import list_readable
from press.course.settings import Settings

# Whatever folders a user makes: -P keeps a labkit in the home from being taken for this one.
SERVER = (sys.executable, "-P", "-m", "jupyterhub.singleuser")


class CourseSpawner(LocalProcessSpawner):
    """A local process under a user number that exists for the course only."""

    course: Settings = AnyTrait(help="The course's settings.").tag(config=True)  # pyright: ignore
    shares: Shares = AnyTrait(help="Who has which GPU.").tag(config=True)  # pyright: ignore

    @property
    def person(self) -> Person:
        """Find the user's number and home."""
        return People(self.course.state, self.course.first_uid).find_person(self.user.name)

    def make_preexec_fn(self, name: str) -> None:  # pyright: ignore
        """Change nothing between fork and exec: the program `confine` does all of it."""
        return None

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """Return who the user is and what their server may take."""
        person, course = self.person, self.course
        interval = max(1, round(course.check_minutes * 60))
        return env | {
            "USER": person.name,
            "LOGNAME": person.name,
            "HOME": str(person.home),
            "SHELL": "/bin/bash",
            "JUPYTER_RUNTIME_DIR": str(person.run),
            # By default a server reports every five minutes, and a faster culler takes it for idle.
            "JUPYTERHUB_ACTIVITY_INTERVAL": str(interval),
            # Git reads a repository of another owner only where a file of the system allows it.
            "GIT_CONFIG_SYSTEM": str(course.state / "public" / "gitconfig"),
            "LABKIT_SLOTS": str(course.cores),
            # labkit ends a run that is too large and says so; the system would end it in silence.
            **({"LABKIT_RUN_MEMORY": str(course.run_memory)} if course.memory else {}),
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",
            **self.shares.assign_device(person.name),
        }

    def build_plan(self, person: Person, group: Path | None) -> dict[str, Any]:
        """Write down for `confine` whose server it is, and what it may see and hold."""
        course = self.course
        own_root = course.isolation == "namespaces"
        return {
            "name": person.name,
            "uid": person.uid,
            "home": str(person.home),
            "groups": [str(group)] if group else [],
            "processes": course.processes,
            "root": str(course.state / "root") if own_root else None,
            "readable": [str(path) for path in list_readable(course)],
            "writable": [str(person.home), str(person.run)],
            # Files there are memory of the user's, so that only a part of it may go to them.
            "scratch": (course.memory or 2**32) // 4,
        }

    async def start(self) -> tuple[str, int]:
        """Furnish the home, make the limits, start the server."""
        person = self.person
        try:
            self.shares.assign_device(person.name)
        except ValueError as error:
            error.jupyterhub_message = str(error)  # pyright: ignore  # shown to the user
            raise
        People(self.course.state, self.course.first_uid).make_folders(person)
        group = None
        if self.course.memory:
            name = f"labkit-course-{self.course.port}"
            group = groups.make_group(person.name, name, self.course.memory)
        launcher = (sys.executable, "-I", "-S", str(Path(confine.__file__)))
        self.cmd = [*launcher, json.dumps(self.build_plan(person, group)), *SERVER]
        return await super().start()

    def get_state(self) -> dict[str, Any]:
        """Keep the user's GPU through a restart of the hub."""
        held = self.shares.held.get(self.user.name)
        return super().get_state() | ({"gpu": held} if held else {})

    def load_state(self, state: dict[str, Any]) -> None:
        """Find the user's GPU again after a restart of the hub."""
        super().load_state(state)
        if "gpu" in state:
            self.shares.held[self.user.name] = state["gpu"]

    def clear_state(self) -> None:
        """Give the GPU back with the process."""
        super().clear_state()
        self.shares.release_device(self.user.name)
