"""The configuration of the hub and of each server."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlparse

import pytest

pytest.importorskip("jupyterhub", reason="the extra course is not installed")

import jupyterhub
from traitlets.config import Config

from press.book import lab
from press.course import config, proxy, readable_paths, serve
from press.course.gpus import Shares
from press.course.settings import Settings
from press.course.spawner import SERVER, CourseSpawner


@pytest.fixture
def course(tmp_path):
    return Settings(tmp_path / "material", state=tmp_path / "state", gpus=("0",), gpu_users=4)


@pytest.fixture
def spawner(course):
    course.state.mkdir()
    made = CourseSpawner(course=course, shares=Shares(course.gpus, course.gpu_users))
    made.user = SimpleNamespace(name="alice")  # pyright: ignore
    return made


@pytest.fixture
def told(course, monkeypatch, tmp_path):
    program = tmp_path / "proxy"
    program.touch(mode=0o755)
    monkeypatch.setenv("LABKIT_PROXY", str(program))
    c = Config()
    config.configure(c, course)
    return c


def test_everything_listens_on_this_machine_only(told):
    addresses = (
        told.JupyterHub.bind_url,
        told.JupyterHub.hub_bind_url,
        told.ConfigurableHTTPProxy.api_url,
    )
    assert [urlparse(address).hostname for address in addresses] == ["127.0.0.1"] * 3
    assert [urlparse(address).port for address in addresses] == [8000, 8002, 8001]


def test_the_culler_sees_what_is_reported_and_may_stop_servers_and_nothing_else(told, spawner):
    culler = told.JupyterHub.services[0]["command"]
    assert "--timeout=3600" in culler and "--cull-every=300" in culler
    assert told.JupyterHub.last_activity_interval == 300
    assert spawner.user_env({})["JUPYTERHUB_ACTIVITY_INTERVAL"] == "300"
    scopes = {scope for role in told.JupyterHub.load_roles for scope in role["scopes"]}
    assert scopes == {"list:users", "read:users:activity", "read:servers", "delete:servers"}


def test_a_login_pulls_the_material_into_the_home(course, tmp_path):
    address = urlparse(config.build_pull_url(course))
    assert address.path == "/git-pull"
    assert parse_qs(address.query) == {
        "repo": [f"file://{tmp_path}/material"],
        "targetpath": ["course"],
        "urlpath": ["lab/tree/course"],
    }


def test_servers_ask_nothing_of_the_network_and_keep_their_kernels_sockets_private(told):
    options = told.CourseSpawner.args
    assert "--LabApp.news_url=None" in options
    assert f"--LabApp.app_settings_dir={Path(sys.prefix) / lab.FOLDER}" in options
    assert "--KernelManager.transport=ipc" in options
    assert not any(option.startswith(("--ServerApp.", "--LabApp.custom_css")) for option in options)


def test_a_servers_environment_says_whose_it_is_and_what_it_may_take(spawner, course):
    env = spawner.user_env({"PATH": "/bin"})
    home = str(course.state / "homes" / "alice")
    wanted = {
        "PATH": "/bin",
        "USER": "alice",
        "HOME": home,
        "LABKIT_SLOTS": "2",
        "LABKIT_RUN_MEMORY": str(3 * 2**29),
        "LABKIT_GPU_FRACTION": "0.25",
        "CUDA_VISIBLE_DEVICES": "0",
        "OMP_NUM_THREADS": "1",
    }
    assert env | wanted == env


def test_the_walls_show_the_packages_and_hide_the_clone(spawner, course):
    walls = spawner.build_walls()
    package = Path(config.__file__).parents[1]
    assert package in walls.readable and Path(sys.prefix) in walls.readable
    assert course.material in walls.readable
    clone = package.parent
    for hidden in (clone, clone / "chapters", clone / "tests", course.state, course.passwords):
        assert not any(hidden.is_relative_to(path) for path in walls.readable), hidden
    assert walls.writable == [spawner.person.home, spawner.person.run]
    assert walls.own_root and Path(walls.build_command(["server"])[0]).name == "bwrap"
    spawner.course = replace(course, isolation="users")
    assert spawner.build_walls().build_command(["server"])[0] == "setpriv"


def test_all_count_the_same_users_of_a_gpu_which_goes_back_with_the_server(spawner, course, told):
    one, two = CourseSpawner(config=told), CourseSpawner(config=told)
    one.shares.assign_device("alice")
    assert two.shares.held == {"alice": "0"} and one.course == two.course
    spawner.user_env({})
    state = spawner.get_state()
    again = CourseSpawner(course=course, shares=Shares(course.gpus, course.gpu_users))
    again.user = spawner.user
    again.load_state(state)
    assert again.shares.held == {"alice": "0"}
    again.clear_state()
    assert again.shares.held == {}


@pytest.mark.slow  # importing JupyterHub takes longest
def test_the_server_is_jupyterhubs_own_whatever_the_home_holds(tmp_path):
    for name in ("labkit", "jupyterhub"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('of the home')")
    python, *words = SERVER
    told = subprocess.run(
        [python, *words, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == [jupyterhub.__version__]


def test_without_a_proxy_the_command_that_installs_it_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_PROXY", str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="must name a program"):
        proxy.find_proxy()
    monkeypatch.delenv("LABKIT_PROXY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="labkit fetch proxy"):
        proxy.find_proxy()
    program = tmp_path / "node_modules" / ".bin" / proxy.NAME
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    assert proxy.find_proxy()[-1] == str(program)


def test_npm_fetches_the_pinned_proxy_or_its_absence_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr("press.npm.find_packaged", lambda file: [])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="Node 20 or newer with npm"):
        proxy.install_proxy(tmp_path)
    npm = tmp_path / "npm"
    npm.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n')
    npm.chmod(0o755)
    proxy.install_proxy(tmp_path)
    asked = (tmp_path / "asked").read_text().strip()
    assert asked == f"install --prefix {tmp_path} configurable-http-proxy@5.3.0"
    npm.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(ValueError, match="code 3"):
        proxy.install_proxy(tmp_path)


def test_the_folder_that_others_may_not_pass_is_named(tmp_path):
    shut = tmp_path / "shut"
    (shut / "inner").mkdir(parents=True)
    shut.chmod(0o700)
    tmp_path.chmod(0o755)
    found = readable_paths.find_closed(shut / "inner")
    # pytest's own folder is shut as well, further up.
    assert found is not None and shut.is_relative_to(found)
    assert not found.stat().st_mode & 0o001


@pytest.mark.skipif(os.geteuid() != 0, reason="the state is root's")
def test_the_state_can_be_passed_through_and_not_listed(course):
    course.state.mkdir()
    serve.prepare_state(course)
    modes = {name: (course.state / name).stat().st_mode & 0o777 for name in ("", "public", "known")}
    assert modes == {"": 0o711, "public": 0o755, "known": 0o700}
    text = (course.state / "public" / "gitconfig").read_text()
    assert f'directory = "{course.material}"' in text
