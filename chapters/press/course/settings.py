"""The settings of a course server, and the file that contains them: course.toml.

Every key has a default except `material`; a key that is not known, or a value that cannot work, is
refused when the file is read, before anything starts.
"""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from labkit.system.units import parse_bytes

ISOLATIONS = ("namespaces", "users")


@dataclass(frozen=True)
class Settings:
    """The contents of `course.toml`; paths are absolute, memory is in bytes."""

    material: Path  # a git repository that every user gets a private copy of
    state: Path = Path("/var/lib/labkit-course")  # homes, passwords, the hub's own database
    port: int = 8000  # on 127.0.0.1; the next two belong to the proxy and the hub
    open: str = ""  # the file or folder of the material that JupyterLab shows first
    admins: tuple[str, ...] = ()  # who may see and stop other people's servers
    memory: int = 4 * 2**30  # bytes a user may hold, kernels and workers together; 0: no limit
    processes: int = 1024  # processes and threads of a user
    cores: int = 2  # how many runs of the book a user trains at the same time
    idle_minutes: float = 60  # a server is stopped after so long without activity
    check_minutes: float = 5  # how often activity is reported, and looked at
    isolation: str = "namespaces"  # or "users": numbers and file permissions only
    first_uid: int = 20_000  # user numbers from here on belong to the course
    gpus: tuple[str, ...] = ()  # what CUDA_VISIBLE_DEVICES may name; empty: no GPU
    gpu_users: int = 1  # how many users share one of them
    visible: tuple[Path, ...] = ()  # more folders that users may read, such as data

    def __post_init__(self) -> None:
        for name in ("material", "state"):
            if not getattr(self, name).is_absolute():
                raise ValueError(f"{name} must be an absolute path, got {getattr(self, name)}")
        if not 1024 <= self.port <= 65533:
            raise ValueError(f"port must be from 1024 to 65533, got {self.port}")
        for name in ("processes", "cores", "gpu_users"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.check_minutes < self.idle_minutes:
            raise ValueError(
                "check_minutes must be above 0 and below idle_minutes, because otherwise servers "
                f"in use count as idle; got {self.check_minutes} and {self.idle_minutes}"
            )
        if self.isolation not in ISOLATIONS:
            raise ValueError(
                f"isolation must be one of {', '.join(ISOLATIONS)}; got {self.isolation!r}"
            )
        if self.first_uid < 1000:
            raise ValueError(
                "first_uid must be at least 1000, because lower user IDs belong to the system; "
                f"got {self.first_uid}"
            )
        if self.open.startswith("/") or ".." in Path(self.open).parts:
            raise ValueError(f"open must name a file inside the material, got {self.open!r}")
        for folder in self.visible:
            if not folder.is_absolute() or self.state.is_relative_to(folder):
                raise ValueError(
                    "visible must list absolute paths that do not contain the state folder, got "
                    f"{folder} with the state folder {self.state}"
                )

    @property
    def passwords(self) -> Path:
        """Return the path of the hashed passwords."""
        return self.state / "passwords.json"

    @property
    def run_memory(self) -> int:
        """Return the bytes per run of a user: the memory left by a kernel, divided by the runs."""
        return max(self.memory - 2**30, self.memory // 2) // self.cores


def read(path: Path) -> Settings:
    """Read course.toml; raise ValueError, naming the key, if a value is invalid."""
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(
            f"the settings must be in a file, but {path} does not exist; create it with the line "
            'material = "/srv/course", or name another file: --settings FILE'
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be valid TOML, but is not: {error}") from error
    kinds: dict[str, Any] = {field.name: field.type for field in fields(Settings)}
    if unknown := [name for name in told if name not in kinds]:
        raise ValueError(
            f"{path} may set only {', '.join(kinds)}, but sets {unknown[0]!r}; remove it or "
            "correct its name"
        )
    if "material" not in told:
        raise ValueError(
            f"{path} must name the course's git repository, as in material = "
            '"/srv/course"; `labkit course material` makes one'
        )
    try:
        return Settings(**{name: _parse_value(name, kinds[name], told[name]) for name in told})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _parse_value(name: str, kind: Any, told: Any) -> Any:
    """Convert a TOML value to the type of the field."""
    if name == "memory" and isinstance(told, str | int) and not isinstance(told, bool):
        return parse_bytes(str(told)) if str(told) != "0" else 0  # 0: no limit
    if kind is Path and isinstance(told, str):
        return Path(told)
    if kind in (int, float) and type(told) in (int, kind):
        return told
    if kind is str and isinstance(told, str):
        return told
    texts = [one for one in told if isinstance(one, str)] if isinstance(told, list) else []
    if texts == told and kind in (tuple[str, ...], tuple[Path, ...]):
        return tuple(Path(one) if kind == tuple[Path, ...] else one for one in texts)
    wanted = {Path: "a path", int: "a number", float: "a number", str: "text"}
    raise ValueError(f"{name} must be {wanted.get(kind, 'a list of strings')}, got {told!r}")
