"""The hub's configuration, computed from the course's settings by one function."""

import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from press.book import lab
from press.course import passwords, proxy
from press.course.authenticator import CourseAuthenticator
from press.course.gpus import Shares
from press.course.settings import Settings
from press.course.spawner import CourseSpawner

HOST = "127.0.0.1"
COPY = "course"  # the folder in a user's home that holds their copy of the material


def configure(c: Any, course: Settings) -> None:
    """Fill JupyterHub's configuration object."""
    _configure_hub(c, course)
    _configure_servers(c, course)
    _configure_culler(c, course)


def _configure_hub(c: Any, course: Settings) -> None:
    c.JupyterHub.bind_url = f"http://{HOST}:{course.port}"
    c.ConfigurableHTTPProxy.api_url = f"http://{HOST}:{course.port + 1}"
    c.JupyterHub.hub_bind_url = f"http://{HOST}:{course.port + 2}"
    c.ConfigurableHTTPProxy.command = proxy.find_proxy()
    c.ConfigurableHTTPProxy.pid_file = str(course.state / "proxy.pid")
    c.JupyterHub.db_url = f"sqlite:///{course.state / 'hub.sqlite'}"
    c.JupyterHub.cookie_secret_file = str(course.state / "cookie_secret")
    c.JupyterHub.last_activity_interval = max(1, round(course.check_minutes * 60))
    c.JupyterHub.authenticator_class = CourseAuthenticator
    c.CourseAuthenticator.file = str(course.passwords)
    # Whoever has a password may come in; there is no other way to be known.
    c.CourseAuthenticator.allow_all = True
    c.CourseAuthenticator.username_pattern = f"^{passwords.NAME.pattern}$"
    c.CourseAuthenticator.admin_users = set(course.admins)


def _configure_servers(c: Any, course: Settings) -> None:
    c.JupyterHub.spawner_class = CourseSpawner
    c.CourseSpawner.course = course
    c.CourseSpawner.shares = Shares(course.gpus, course.gpu_users)
    c.CourseSpawner.mem_limit = course.memory or None
    c.CourseSpawner.notebook_dir = "~"
    c.CourseSpawner.default_url = build_pull_url(course)
    c.CourseSpawner.args = build_arguments(course)
    # Importing everything takes its time when a whole class logs in at once.
    c.CourseSpawner.start_timeout = c.CourseSpawner.http_timeout = 120
    c.CourseSpawner.interrupt_timeout = c.CourseSpawner.term_timeout = 10


def _configure_culler(c: Any, course: Settings) -> None:
    seconds = {
        "timeout": round(course.idle_minutes * 60),
        "cull-every": max(1, round(course.check_minutes * 60)),
    }
    options = [f"--{name}={value}" for name, value in seconds.items()]
    command = [sys.executable, "-m", "jupyterhub_idle_culler", *options]
    c.JupyterHub.services = [{"name": "idle-culler", "command": command}]
    scopes = ["list:users", "read:users:activity", "read:servers", "delete:servers"]
    role = {"name": "idle-culler", "scopes": scopes, "services": ["idle-culler"]}
    c.JupyterHub.load_roles = [role]


def build_pull_url(course: Settings) -> str:
    """Build the address that opens after login: it pulls the newest material, then opens it."""
    target = f"lab/tree/{COPY}/{course.open}".rstrip("/")
    words = {"repo": f"file://{course.material}", "targetpath": COPY, "urlpath": target}
    return "/git-pull?" + urlencode(words)


def build_arguments(course: Settings) -> list[str]:
    """Build each server's arguments: those of the book's own JupyterLab, and private sockets."""
    settings = Path(sys.prefix) / lab.FOLDER
    command = lab.build_command(course.material, settings)
    told = [one for one in command if one.startswith("--LabApp.")]
    return [
        # The hub's own server sets tornado's settings, which say where lab.css lies.
        *(
            one
            for one in told
            if not one.startswith(("--LabApp.default_url", "--LabApp.custom_css"))
        ),
        # On a network port every user of the machine could read every kernel's output.
        "--KernelManager.transport=ipc",
    ]
