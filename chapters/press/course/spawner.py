"""Start each user's server as that user, confined and separate from the hub's processes."""

import sys
from collections.abc import Callable
from typing import Any

from jupyterhub.spawner import LocalProcessSpawner
from traitlets import Any as AnyTrait

from labkit.system.threads import build_one_thread_environment
from press import control_groups
from press.course.gpus import Shares
from press.course.people import People, Person
from press.course.readable_paths import list_readable
from press.course.settings import Settings
from press.course.walls import Walls

# Whatever folders a user makes: -P keeps a labkit in the home from being taken for this one.
SERVER = (sys.executable, "-P", "-m", "jupyterhub.singleuser")


class CourseSpawner(LocalProcessSpawner):
    """A local process whose user number exists for the course only."""

    course: Settings = AnyTrait(help="The course's settings.").tag(config=True)  # pyright: ignore
    shares: Shares = AnyTrait(help="Who has which GPU.").tag(config=True)  # pyright: ignore

    @property
    def person(self) -> Person:
        """Find the user's number and home."""
        return People(self.course.state, self.course.first_uid).find_person(self.user.name)

    def make_preexec_fn(self, name: str) -> Callable[[], None]:
        """Return the function that limits the new process; `build_walls` isolates it."""
        return self.build_walls().limit()

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """Return the user's environment variables and the limits of their server."""
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
            **build_one_thread_environment(),
            **self.shares.assign_device(person.name),
        }

    @property
    def group_owner(self) -> str:
        """Return the name of the control group that contains those of all users."""
        return f"labkit-course-{self.course.port}"

    def build_walls(self) -> Walls:
        """Define what the user's server may see and use."""
        course, person = self.course, self.person
        groups = control_groups.list_groups(self.group_owner)
        return Walls(
            person.name,
            person.uid,
            person.home,
            course.state / "known" / person.name,
            readable=list_readable(course),
            writable=[person.home, person.run],
            processes=course.processes,
            # Files there are memory of the user's, so that only a part of it may go to them.
            scratch=(course.memory or 2**32) // 4,
            own_root=course.isolation == "namespaces",
            group=next((each for each in groups if each.folder.name == person.name), None),
        )

    async def start(self) -> tuple[str, int]:
        """Prepare the home, set the limits, start the server."""
        person = self.person
        try:
            self.shares.assign_device(person.name)
        except ValueError as error:
            error.jupyterhub_message = str(error)  # pyright: ignore  # shown to the user
            raise
        People(self.course.state, self.course.first_uid).make_folders(person)
        if self.course.memory:
            control_groups.make_group(person.name, self.group_owner, self.course.memory)
        self.cmd = self.build_walls().build_command(SERVER)
        return await super().start()

    def get_state(self) -> dict[str, Any]:
        """Save the user's GPU across a restart of the hub."""
        held = self.shares.held.get(self.user.name)
        return super().get_state() | ({"gpu": held} if held else {})

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the user's GPU after a restart of the hub."""
        super().load_state(state)
        if "gpu" in state:
            self.shares.held[self.user.name] = state["gpu"]

    def clear_state(self) -> None:
        """End the processes that the server left running, and release the GPU."""
        super().clear_state()
        self.build_walls().end()
        self.shares.release_device(self.user.name)
