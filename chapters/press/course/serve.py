"""Prepare the folders, check the machine, and become JupyterHub."""

import os
import sys
from pathlib import Path

from labkit.system.files import write_whole
from press.book import lab
from press.book.files import Red
from press.course import check
from press.course.settings import Settings

CONFIG = Path(__file__).with_name("jupyterhub_config.py")


def start_hub(course: Settings, file: Path) -> None:
    """Start the hub in this process; raise Red, before anything starts, if something is missing.

    Ctrl-C or SIGTERM ends it and every server; allow it half a minute.
    """
    if wrong := [f"{name}: {problem}" for name, problem in check.check_needs(course) if problem]:
        raise Red("this machine cannot serve the course yet\n  " + "\n  ".join(wrong))
    prepare_state(course)
    file = file.resolve()
    os.umask(0o077)  # the hub's database and secrets are nobody else's
    os.chdir(course.state)
    environment = os.environ | {"LABKIT_COURSE": str(file)}
    command = [sys.executable, "-m", "jupyterhub", "--config", str(CONFIG)]
    os.execve(sys.executable, command, environment)


def prepare_state(course: Settings) -> None:
    """Make the folders of the state, and write the settings that every server reads."""
    course.state.mkdir(parents=True, exist_ok=True)
    course.state.chmod(0o711)  # homes are below it; what is in it is not listed
    for name, mode in (("known", 0o700), ("public", 0o755)):
        (course.state / name).mkdir(exist_ok=True)
        (course.state / name).chmod(mode)
    git = course.state / "public" / "gitconfig"
    write_whole(git, format_gitconfig(course.material))
    git.chmod(0o644)
    lab.write_settings(Path(sys.prefix))


def format_gitconfig(material: Path) -> str:
    """Allow git to read the material, which does not belong to the user who pulls it."""
    lines = ["[include]", "path = /etc/gitconfig", "[safe]"]
    lines += [f'directory = "{folder}"' for folder in (material, material / ".git")]
    return "\n".join(lines) + "\n"
