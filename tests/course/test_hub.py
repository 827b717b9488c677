"""The course server as a class meets it: two users in Chromium, and what each must not reach.

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

from labkit.course import groups, material, passwords, proxy
from tests.course import hub_material

ROOT = Path(__file__).resolve().parents[2]
FIRST_UID, NAMES = 27_000, ("alice", "bob")
IDLE, LOOK = 25, 3  # seconds: when a server counts as idle, and how often that is looked at
MEMORY = 2400  # MiB a user may hold
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
NOTEBOOK = ".jp-NotebookPanel:visible"
FILL = "held = []\nwhile True: held.append(b'x' * 2**26)"
# Has the page execute a text in its notebook's kernel, and to tell when that kernel is gone.
EXECUTE = """async ([base, kernel, code]) => {
  const socket = new WebSocket(`ws://${location.host}${base}api/kernels/${kernel}/channels`)
  await new Promise(open => socket.onopen = open)
  const gone = new Promise(end => socket.onmessage = event => {
    if (typeof event.data !== 'string') return
    const state = JSON.parse(event.data).content.execution_state
    if (state === 'restarting' || state === 'autorestarting' || state === 'dead') end(state)
  })
  socket.send(JSON.stringify({
    header: {msg_id: 'fill', msg_type: 'execute_request', username: '', session: 'fill',
             date: new Date().toISOString(), version: '5.3'},
    parent_header: {}, metadata: {}, channel: 'shell', buffers: [],
    content: {code, silent: false, store_history: false, user_expressions: {},
              allow_stdin: false, stop_on_error: true}}))
  return await gone
}"""


def lacking() -> str:
    """Say why these tests cannot run here."""
    if os.geteuid() != 0:
        return "the course server needs root: each user has a number of their own"
    if shutil.which("chromium") is None:
        return "the program chromium is missing"
    if wrong := groups.problem():
        return wrong
    try:
        proxy.find()
    except ValueError as error:
        return str(error)
    return ""


LACKING = lacking()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(LACKING), reason=LACKING or "ready")]


@dataclass
class Hub:
    """What the tests know of the running hub."""

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
        return sorted(groups.BASE.glob(f"**/labkit-course-{self.port}/*/"))

    def log(self) -> str:
        return (self.folder / "log.txt").read_text(errors="replace")


def until(happens: Callable[[], object], seconds: float, what: str, hub: Hub | None = None) -> None:
    """Look again and again, until it is so."""
    end = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > end:
            said = hub.log()[-3000:] if hub else ""
            pytest.fail(f"not within {seconds:g} s: {what}\n{said}")
        time.sleep(0.1)


def processes(*uids: int) -> list[int]:
    """List the processes that run under user numbers."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if path.stat().st_uid in uids:
                found.append(int(path.name))
        except FileNotFoundError:
            continue
    return found


def free_ports() -> int:
    """Find three free ports in a row."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        try:
            for each in range(port, port + 3):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", each))
        except OSError:
            continue
        return port


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    # A short path that everybody may pass through: pytest's own is root's alone.
    folder = Path(tempfile.mkdtemp(prefix="hub-"))
    folder.chmod(0o755)
    port = free_ports()
    hub_material.write(folder / "clone", ROOT, folder / "material")
    material.make(folder / "clone", folder / "material")
    state = folder / "state"
    told = {
        "material": str(folder / "material"),
        "state": str(state),
        "port": port,
        "open": "chapters/00_short.py",
        "memory": f"{MEMORY}M",
        "cores": 1,
        "idle_minutes": IDLE / 60,
        "check_minutes": LOOK / 60,
        "first_uid": FIRST_UID,
    }
    settings = folder / "course.toml"
    settings.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in told.items()))
    new = passwords.give(state / "passwords.json", NAMES)
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
        for empty in groups.BASE.glob(f"**/labkit-course-{port}/"):
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
        context.on("request", lambda request: hub.requests.append(request.url))
    yield made
    for context in made.values():
        context.close()


@pytest.fixture(scope="module")
def pages(hub: Hub, contexts: dict[str, BrowserContext]) -> dict[str, Page]:
    """Log everybody in; their servers start side by side."""
    pages = {name: context.new_page() for name, context in contexts.items()}
    for name, page in pages.items():
        page.goto(hub.url)
        page.fill("input[name=username]", name)
        page.fill("input[name=password]", hub.passwords[name])
        page.click("#login_submit", no_wait_after=True)
    return pages


@pytest.fixture(scope="module")
def answers(hub: Hub, pages: dict[str, Page]) -> dict[str, dict]:
    """Let everybody open their copy of the chapter and run it; read what it found."""
    began = time.monotonic()
    for page in pages.values():
        page.wait_for_url("**/lab/tree/course/chapters/00_short.py*", timeout=180_000)
        (hub.home("alice") / "secret.txt").write_text("alice's")  # by root: the mode is the home's
        (hub.home("bob") / "secret.txt").write_text("bob's")
    for page in pages.values():
        page.locator("#jp-main-statusbar").get_by_text("(ipykernel) | Idle").wait_for(
            timeout=180_000
        )
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    found = {}
    for name, page in pages.items():
        file = hub.home(name) / "answer.json"
        while not file.exists():
            page.wait_for_timeout(200)
            wrong = page.locator("[data-mime-type='application/vnd.jupyter.error']")
            assert wrong.all_inner_texts() == []
            assert time.monotonic() < began + 300, hub.log()[-3000:]
        found[name] = json.loads(file.read_text()) | {"seconds": time.monotonic() - began}
    return found


def test_a_wrong_password_lets_nobody_in(hub: Hub, contexts: dict[str, BrowserContext]):
    page = contexts["alice"].new_page()
    page.goto(hub.url)
    page.fill("input[name=username]", "alice")
    page.fill("input[name=password]", hub.passwords["bob"])
    page.click("#login_submit")
    page.get_by_text("Invalid username or password").wait_for()
    page.close()


def test_each_user_runs_a_private_copy_of_the_chapter_within_a_minute(
    hub: Hub, answers: dict[str, dict], capsys: pytest.CaptureFixture[str]
):
    with capsys.disabled():
        times = ", ".join(f"{name} {answer['seconds']:.0f} s" for name, answer in answers.items())
        print(f"\nfrom login to the chapter's last cell: {times}")
    for name, answer in answers.items():
        assert answer["norm"] == pytest.approx([0.848528, 1.131371])
        assert answer["losses"] == 2
        assert answer["told"] == {
            "LABKIT_SLOTS": "1",
            "LABKIT_GPU_FRACTION": None,
            "CUDA_VISIBLE_DEVICES": "",
        }
        copy = hub.home(name) / "course" / "chapters" / "00_short.py"
        assert copy.stat().st_uid == FIRST_UID + NAMES.index(name)
        # A minute where the cores are free; where others compute too, as much longer as they wait.
        crowd = max(1.0, os.getloadavg()[0] / (2 * (os.cpu_count() or 1)))
        assert answer["seconds"] < 60 * crowd


def test_a_kernel_sees_no_other_home_and_changes_no_material(answers: dict[str, dict]):
    for name, answer in answers.items():
        assert answer["seen"] == {
            "homes": [name],
            "home": "FileNotFoundError",
            "secret": "FileNotFoundError",
            "hashes": "FileNotFoundError",
            "database": "FileNotFoundError",
            "clone": "FileNotFoundError",
            "write": "OSError",  # a read-only file system
        }
        assert answer["owners"] == [FIRST_UID + NAMES.index(name)]


def test_homes_are_private_by_their_mode_too(hub: Hub, answers: dict[str, dict]):
    for name in answers:
        home = hub.home(name).stat()
        assert (home.st_mode & 0o777, home.st_uid) == (0o700, FIRST_UID + NAMES.index(name))


def test_another_users_server_answers_403(hub: Hub, answers, contexts: dict[str, BrowserContext]):
    for path in ("user/alice/lab", "user/alice/api/contents"):
        assert contexts["bob"].request.get(f"{hub.url}{path}").status == 403
    assert contexts["alice"].request.get(f"{hub.url}user/alice/api/contents").status == 200


def test_the_next_visit_brings_new_material_and_keeps_an_edit(
    hub: Hub, answers, contexts: dict[str, BrowserContext]
):
    copy = hub.home("bob") / "course" / "chapters"
    with (copy / "00_short.py").open("a") as file:
        file.write("# bob was here\n")
    new = hub.folder / "clone" / "chapters" / "01_new.py"
    new.write_text("# %%\n1 + 1\n")
    material.make(hub.folder / "clone", hub.folder / "material")
    assert not (copy / "01_new.py").exists()
    page = contexts["bob"].new_page()
    page.goto(hub.url)
    until((copy / "01_new.py").exists, 60, "the new chapter", hub)
    page.close()
    assert (copy / "00_short.py").read_text().endswith("# bob was here\n")
    assert (copy / "01_new.py").stat().st_uid == FIRST_UID + 1


def test_over_the_limit_the_kernel_dies_and_the_server_answers(
    hub: Hub, answers, pages: dict[str, Page], contexts: dict[str, BrowserContext]
):
    page = pages["alice"]
    sessions = contexts["alice"].request.get(f"{hub.url}user/alice/api/sessions").json()
    kernel = sessions[0]["kernel"]["id"]
    assert "restarting" in page.evaluate(EXECUTE, ["/user/alice/", kernel, FILL])
    page.locator(".jp-Dialog").get_by_text("appears to have died").wait_for(timeout=20_000)
    status = contexts["alice"].request.get(f"{hub.url}user/alice/api/status")
    assert status.status == 200
    assert (hub.home("alice") / "answer.json").exists()


def test_no_request_left_the_machine(hub: Hub, answers):
    assert len(hub.requests) > 100
    assert {url for url in hub.requests if not url.startswith((hub.url, "data:", "blob:"))} == set()


def test_an_idle_server_is_stopped_and_a_used_one_is_not(
    hub: Hub, answers, pages: dict[str, Page], contexts: dict[str, BrowserContext]
):
    pages["alice"].close()

    def alone() -> bool:
        assert contexts["bob"].request.get(f"{hub.url}user/bob/api/contents").status == 200
        return not processes(FIRST_UID)

    until(alone, IDLE + 30, "the end of alice's server", hub)
    assert "Culling server alice" in hub.log()
    assert processes(FIRST_UID + 1)


def test_the_end_of_the_hub_leaves_nothing_running(hub: Hub, answers):
    assert processes(FIRST_UID + 1)
    hub.process.send_signal(signal.SIGINT)
    assert hub.process.wait(30) == 0
    until(lambda: not processes(FIRST_UID, FIRST_UID + 1), 5, "the end of all servers", hub)
    assert hub.groups() == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", hub.port)) != 0
