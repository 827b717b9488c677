"""The course server in use: two users in Chromium, and what each must not reach.

Needs root (user numbers, control groups), Chromium, and configurable-http-proxy. The tests go
through one hub from its start to its end, in this order.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from press import control_groups
from press.course import material, passwords, proxy
from tests import in_jupyterlab
from tests.course import hub_material
from tests.course.hub_material import CHAPTER
from tests.course.test_walls import list_running
from tests.in_jupyterlab import NOTEBOOK, code_cells, errors, free_ports, images

FIRST_UID, NAMES = 27_000, ("alice", "bob")
# Seconds: when a server counts as idle, and how often that is looked at. A chapter's kernel is
# silent while a run trains, for half a minute where the cores are busy with other things.
IDLE, LOOK = 75, 3
MEMORY = 2400  # MiB a user may hold
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PATIENCE = 600  # seconds that a chapter's last cell is waited for
OPEN = "# results = lab.run(my_experiment)"  # in the chapter's open exercise
YOURS = 'results = lab.run(my_experiment.change({"steps": 24, "seed": lab.seeds(6)}))'
FILL = "held = []\nwhile True: held.append(b'x' * 2**26)"
# Has the page execute a text in its notebook's kernel, and tell how that ended.
EXECUTE = """async ([base, kernel, code]) => {
  const socket = new WebSocket(`ws://${location.host}${base}api/kernels/${kernel}/channels`)
  await new Promise(open => socket.onopen = open)
  const ended = new Promise(end => socket.onmessage = event => {
    if (typeof event.data !== 'string') return
    const {header, parent_header, content} = JSON.parse(event.data)
    const state = content.execution_state
    if (state === 'restarting' || state === 'autorestarting' || state === 'dead') end(state)
    if (header.msg_type === 'execute_reply' && parent_header.msg_id === 'ours')
      end(content.status === 'ok' ? 'ok' : content.evalue)
  })
  socket.send(JSON.stringify({
    header: {msg_id: 'ours', msg_type: 'execute_request', username: '', session: 'ours',
             date: new Date().toISOString(), version: '5.3'},
    parent_header: {}, metadata: {}, channel: 'shell', buffers: [],
    content: {code, silent: false, store_history: false, user_expressions: {},
              allow_stdin: false, stop_on_error: true}}))
  return await ended
}"""


def lacking() -> str:
    """Return why these tests cannot run here."""
    if os.geteuid() != 0:
        return "the course server needs root: each user has a number of their own"
    if shutil.which("chromium") is None:
        return "the program chromium is missing"
    if wrong := control_groups.find_problem():
        return wrong
    try:
        proxy.find_proxy()
    except ValueError as error:
        return str(error)
    return ""


LACKING = lacking()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(LACKING), reason=LACKING or "ready")]


@dataclass
class Hub:
    """The properties of the running hub that the tests use."""

    folder: Path
    port: int
    process: subprocess.Popen
    passwords: dict[str, str]
    requests: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def home(self, name: str) -> Path:
        return self.folder / "state" / "homes" / name

    def groups(self) -> list[Path]:
        """List the users' control groups, of either version."""
        return sorted(control_groups.BASE.glob(f"**/labkit-course-{self.port}/*/"))

    def log(self) -> str:
        return (self.folder / "log.txt").read_text(errors="replace")


def until(happens: Callable[[], object], seconds: float, what: str, hub: Hub | None = None) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > end:
            said = hub.log()[-3000:] if hub else ""
            pytest.fail(f"not within {seconds:g} s: {what}\n{said}")
        time.sleep(0.1)


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    # A short path that everybody may pass through: pytest's own is root's alone.
    folder = Path(tempfile.mkdtemp(prefix="hub-"))
    folder.chmod(0o755)
    port = free_ports(3)
    hub_material.write(folder / "clone")
    material.commit_material(folder / "clone", folder / "material")
    state = folder / "state"
    told = {
        "material": str(folder / "material"),
        "state": str(state),
        "port": port,
        "open": f"chapters/{CHAPTER}.py",
        "memory": f"{MEMORY}M",
        "cores": 1,
        "idle_minutes": IDLE / 60,
        "check_minutes": LOOK / 60,
        "first_uid": FIRST_UID,
    }
    settings = folder / "course.toml"
    settings.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in told.items()))
    new = passwords.give_passwords(state / "passwords.json", NAMES)
    with (folder / "log.txt").open("w") as log:
        command = [sys.executable, "-m", "labkit", "course", "serve", "--settings", str(settings)]
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    found = Hub(folder, port, process, new)
    try:
        running = "JupyterHub is now running"
        until(lambda: running in found.log() or process.poll() is not None, 60, "a hub", found)
        assert process.poll() is None, found.log()
        yield found
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(60)
        for empty in control_groups.BASE.glob(f"**/labkit-course-{port}/"):
            empty.rmdir()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def contexts(hub: Hub, browser: Browser) -> Iterator[dict[str, BrowserContext]]:
    made = {name: browser.new_context() for name in NAMES}
    for context in made.values():
        context.set_default_timeout(PATIENCE * 1000)  # a click waits long where the cores are busy
        context.on("request", lambda request: hub.requests.append(request.url))
    yield made
    for context in made.values():
        context.close()


@dataclass
class Visit:
    """What one user did, and the results."""

    page: Page
    began: float  # the click on "Sign in"
    notebook: dict = field(default_factory=dict)  # as JupyterLab saved it after its last cell
    answer: dict = field(default_factory=dict)  # what a look around from its kernel found


@pytest.fixture(scope="module")
def pages(hub: Hub, contexts: dict[str, BrowserContext]) -> dict[str, Visit]:
    """Log in all users; their servers start in parallel."""
    visits = {}
    for name, context in contexts.items():
        page = context.new_page()
        page.goto(hub.url)
        page.fill("input[name=username]", name)
        page.fill("input[name=password]", hub.passwords[name])
        visits[name] = Visit(page, time.monotonic())
        page.click("#login_submit", no_wait_after=True)
    return visits


@pytest.fixture(scope="module")
def visits(hub: Hub, pages: dict[str, Visit], contexts) -> dict[str, Visit]:
    """Have all users open and run their copy of the chapter, then run checks in its kernel."""
    for name, visit in pages.items():
        visit.page.wait_for_url(
            f"**/lab/tree/course/chapters/{CHAPTER}.py*", timeout=PATIENCE * 1000
        )
        (hub.home(name) / "secret.txt").write_text(f"{name}'s")  # by root: the mode is the home's
    for visit in pages.values():
        in_jupyterlab.wait_for_kernel(visit.page, PATIENCE)
        change_exercise(visit.page)
        in_jupyterlab.run_all(visit.page)
    running = dict(pages)
    while running:
        for name, visit in list(running.items()):
            visit.page.wait_for_timeout(200)
            notebook = None
            if in_jupyterlab.idle(visit.page).count():  # saving takes time from the kernels
                notebook = in_jupyterlab.saved(visit.page, copy_of(hub, name).with_suffix(".ipynb"))
            if notebook and in_jupyterlab.ended(visit.page, notebook):
                visit.notebook = notebook
                del running[name]
            assert time.monotonic() < visit.began + PATIENCE, hub.log()[-3000:]
            assert "Culling server" not in hub.log(), "a working server passed for idle"
    look = hub_material.look(hub.folder / "clone", hub.folder / "material")
    for name, visit in pages.items():
        told = visit.page.evaluate(EXECUTE, [f"/user/{name}/", kernel(hub, contexts, name), look])
        assert told == "ok"
        visit.answer = json.loads((hub.home(name) / "answer.json").read_text())
    return pages


def copy_of(hub: Hub, name: str) -> Path:
    return hub.home(name) / "course" / "chapters" / f"{CHAPTER}.py"


def change_exercise(page: Page) -> None:
    """Ask for the open exercise's runs, shorter ones: only these have no records."""
    page.locator(f"{NOTEBOOK} .cm-line", has_text=OPEN).first.click()
    page.keyboard.press("Home")
    page.keyboard.press("Shift+End")
    page.keyboard.insert_text(YOURS)


def kernel(hub: Hub, contexts: dict[str, BrowserContext], name: str) -> str:
    """Return the process number of the kernel of a user's only notebook."""
    (session,) = contexts[name].request.get(f"{hub.url}user/{name}/api/sessions").json()
    return session["kernel"]["id"]


def test_a_wrong_password_lets_nobody_in(hub: Hub, contexts: dict[str, BrowserContext]):
    page = contexts["alice"].new_page()
    page.goto(hub.url)
    page.fill("input[name=username]", "alice")
    page.fill("input[name=password]", hub.passwords["bob"])
    page.click("#login_submit")
    page.get_by_text("Invalid username or password").wait_for()
    page.close()


def test_each_user_runs_a_chapter_of_the_book(hub: Hub, visits: dict[str, Visit]):
    source = (hub.folder / "clone" / "chapters" / f"{CHAPTER}.py").read_text()
    for name, visit in visits.items():
        assert errors(visit.notebook) == []
        assert all(cell["execution_count"] for cell in code_cells(visit.notebook))
        assert images(visit.notebook) > 5
        copy, uid = copy_of(hub, name), FIRST_UID + NAMES.index(name)
        assert source.count(OPEN) == 1 and copy.read_text() == source.replace(OPEN, YOURS)
        trained = list((hub.home(name) / "course" / ".labkit" / "runs").glob("*.json"))
        assert len(trained) > 10
        assert {path.stat().st_uid for path in (copy, *trained)} == {uid}


def test_a_kernel_sees_no_other_home_and_changes_no_material(hub: Hub, visits: dict[str, Visit]):
    for name, visit in visits.items():
        told = {"LABKIT_SLOTS": "1", "LABKIT_GPU_FRACTION": None, "CUDA_VISIBLE_DEVICES": ""}
        assert visit.answer["told"] == told
        home = hub.home(name).stat()
        assert (home.st_mode & 0o777, home.st_uid) == (0o700, FIRST_UID + NAMES.index(name))
        assert visit.answer["seen"] == {
            "homes": [name],
            "home": "FileNotFoundError",
            "secret": "FileNotFoundError",
            "hashes": "FileNotFoundError",
            "database": "FileNotFoundError",
            "clone": "FileNotFoundError",
            "write": "OSError",  # a read-only file system
        }
        # Root's is bubblewrap's own process, the first there.
        assert visit.answer["owners"] == [0, FIRST_UID + NAMES.index(name)]


def test_another_users_server_answers_403(hub: Hub, visits, contexts: dict[str, BrowserContext]):
    for path in ("user/alice/lab", "user/alice/api/contents"):
        assert contexts["bob"].request.get(f"{hub.url}{path}").status == 403
    assert contexts["alice"].request.get(f"{hub.url}user/alice/api/contents").status == 200


def test_the_next_visit_brings_new_material_and_keeps_an_edit(
    hub: Hub, visits, contexts: dict[str, BrowserContext]
):
    copy = copy_of(hub, "bob")
    with copy.open("a") as file:
        file.write("# bob was here\n")
    new = hub.folder / "clone" / "chapters" / "01_new.py"
    new.write_text("# %%\n1 + 1\n")
    material.commit_material(hub.folder / "clone", hub.folder / "material")
    assert not (copy.parent / "01_new.py").exists()
    page = contexts["bob"].new_page()
    page.goto(hub.url)
    until((copy.parent / "01_new.py").exists, 60, "the new chapter", hub)
    page.close()
    assert copy.read_text().endswith("# bob was here\n")
    assert (copy.parent / "01_new.py").stat().st_uid == FIRST_UID + 1


def test_over_the_limit_the_kernel_dies_and_the_server_answers(
    hub: Hub, visits: dict[str, Visit], contexts: dict[str, BrowserContext]
):
    page = visits["alice"].page
    told = page.evaluate(EXECUTE, ["/user/alice/", kernel(hub, contexts, "alice"), FILL])
    assert "restarting" in told
    page.locator(".jp-Dialog").get_by_text("appears to have died").wait_for(timeout=20_000)
    status = contexts["alice"].request.get(f"{hub.url}user/alice/api/status")
    assert status.status == 200
    assert (hub.home("alice") / "answer.json").exists()


def test_no_request_left_the_machine(hub: Hub, visits):
    assert len(hub.requests) > 100
    assert in_jupyterlab.left(hub.requests, hub.url) == []


def test_an_idle_server_is_stopped_and_a_used_one_is_not(
    hub: Hub, visits: dict[str, Visit], contexts: dict[str, BrowserContext]
):
    visits["alice"].page.close()

    def alone() -> bool:
        assert contexts["bob"].request.get(f"{hub.url}user/bob/api/contents").status == 200
        return not list_running(FIRST_UID)

    until(alone, IDLE + 30, "the end of alice's server", hub)
    assert "Culling server alice" in hub.log()
    assert list_running(FIRST_UID + 1)


def test_the_end_of_the_hub_leaves_nothing_running(hub: Hub, visits):
    assert list_running(FIRST_UID + 1)
    hub.process.send_signal(signal.SIGINT)
    assert hub.process.wait(30) == 0
    until(lambda: not list_running(FIRST_UID, FIRST_UID + 1), 5, "the end of all servers", hub)
    assert hub.groups() == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", hub.port)) != 0
