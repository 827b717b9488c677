"""The walls around a user's server: what they permit, and that no process outlives them.

Each test starts it with a small shell script in the server's place.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from press import bubblewrap, control_groups
from press.course.walls import Walls

UID, OTHER = 28_000, 28_001
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]
NAMESPACES = pytest.mark.skipif(
    os.geteuid() != 0 or bool(bubblewrap.find_problem("--unshare-pid", "--unshare-ipc")),
    reason="bubblewrap is missing, or refused here",
)
NO_GROUP = "" if os.geteuid() else control_groups.find_problem()
MEMORY = pytest.mark.skipif(bool(NO_GROUP), reason=NO_GROUP)
EACH_WAY = pytest.mark.parametrize("own_root", [False, pytest.param(True, marks=NAMESPACES)])


class House:
    """A folder with the homes of two users, and a secret that neither may read."""

    def __init__(self):
        # Not below pytest's folder, which only root may pass through.
        self.folder = Path(tempfile.mkdtemp(prefix="house-"))
        self.folder.chmod(0o711)
        self.homes = {uid: self.folder / str(uid) for uid in (UID, OTHER)}
        for uid, home in self.homes.items():
            home.mkdir(mode=0o700)
            os.chown(home, uid, uid)
        (self.folder / "open.txt").write_text("readable")
        (self.folder / "shown").mkdir()
        (self.folder / "shown" / "text").write_text("shown")
        (self.homes[OTHER] / "diary").write_text("dear diary")

    def walls(self, own_root: bool, **more) -> Walls:
        named = {"home": self.homes[UID], "known": self.folder / "known", "processes": 64,
                 "readable": [self.folder / "shown"], "writable": [self.homes[UID]],
                 "scratch": 2**20, "own_root": own_root}  # fmt: skip
        return Walls("alice", UID, **{**named, **more})

    def start(self, script: str, *, own_root: bool, **more) -> subprocess.Popen:
        walls = self.walls(own_root, **more)
        pipe = subprocess.PIPE
        return subprocess.Popen(
            walls.build_command(["/bin/sh", "-c", script]), preexec_fn=walls.limit(),
            stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def says(self, script: str, **how) -> str:
        said, _ = self.start(script, **how).communicate(timeout=60)
        return said


@pytest.fixture
def house():
    made = House()
    yield made
    shutil.rmtree(made.folder)
    assert list_running(UID, OTHER) == []


def list_running(*uids: int) -> list[str]:
    """List the processes that run under these user numbers."""
    found = psutil.process_iter(["name", "uids"])
    return [one.info["name"] for one in found if one.info["uids"].real in uids]


def until_quiet(seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while list_running(UID, OTHER) and time.monotonic() < end:
        time.sleep(0.02)
    assert list_running(UID, OTHER) == []


@EACH_WAY
def test_the_server_runs_as_the_user_at_home_and_gains_nothing(house, own_root):
    script = "id -u; id -g; id -G; pwd; grep NoNewPrivs /proc/self/status; umask; ulimit -p;"
    script += "grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status"
    lines = house.says(script, own_root=own_root).split("\n")
    own = str(UID)
    assert lines[:4] == [own, own, own, str(house.homes[UID])]
    assert lines[4].split() == ["NoNewPrivs:", "1"]
    assert lines[5:7] == ["0077", "64"]
    assert [line.split()[1] for line in lines[7:11]] == [16 * "0"] * 4


@EACH_WAY
def test_another_home_cannot_be_read(house, own_root):
    other = house.homes[OTHER]
    assert "dear" not in house.says(f"cat {other}/diary; ls {other}; ls ..", own_root=own_root)


@NAMESPACES
def test_in_a_root_of_its_own_only_what_was_named_exists(house):
    said = house.says(
        f"cat {house.folder}/shown/text; cat {house.folder}/open.txt; ls {house.folder};"
        "ls /dev; echo processes $(ls -d /proc/[0-9]* | wc -l); whoami; cat /etc/shadow",
        own_root=True,
    )
    assert said.startswith("shown")
    assert "readable" not in said
    assert "root\n" not in said.replace("nonroot", "")
    assert str(OTHER) not in said
    assert "alice" in said
    assert int(said.split("processes ")[1].split()[0]) < 9, "its own processes only"
    assert "mem" not in said, "only harmless devices"
    assert "Permission denied" in said  # /etc/shadow


@NAMESPACES
def test_in_a_root_of_its_own_the_machine_cannot_be_changed(house):
    places = ("/etc", "/usr", "/", "/sys", f"{house.folder}/shown", "/dev")
    script = "; ".join(f"echo x > {place}/mine && echo wrote {place}" for place in places)
    assert "wrote" not in house.says(script, own_root=True)
    mine = Path("/tmp") / f"{house.folder.name}-mine"  # nobody else's, whatever lies in /tmp
    assert "wrote" in house.says(f"echo x > mine && echo x > {mine} && echo wrote", own_root=True)
    assert not mine.exists()


@NAMESPACES
def test_scratch_space_has_an_end(house):
    script = "head -c 4000000 /dev/zero > /tmp/much; wc -c < /tmp/much"
    assert int(house.says(script, own_root=True).split()[-1]) <= 2**20


@EACH_WAY
@pytest.mark.parametrize("how", ["by itself", "killed"])
def test_what_a_server_left_running_is_ended(house, own_root, how):
    last = "exit 7" if how == "by itself" else "exec sleep 1000"
    script = f"setsid sleep 1000 & nohup sleep 1000 & echo up; {last}"
    process = house.start(script, own_root=own_root)
    assert process.stdout.readline() == "up\n"
    if how == "killed":
        process.kill()
    process.wait(timeout=60)
    process.stdout.close()
    house.walls(own_root).end()
    until_quiet()


@EACH_WAY
def test_what_cannot_start_says_why_and_ends(house, own_root):
    with pytest.raises(subprocess.SubprocessError):
        house.start("true", own_root=own_root, home=house.folder / "nowhere")


@MEMORY
@EACH_WAY
def test_memory_is_limited_for_all_processes_together_and_the_group_goes(house, own_root):
    group = control_groups.make_group("alice", "labkit-course-test", 80 * 2**20)
    # `tail` must hold all of one line without an end.
    script = "head -c 300m /dev/zero | tail > /dev/null && echo held; echo the server is alive"
    try:
        said = house.says(script, own_root=own_root, group=group)
        assert "the server is alive" in said and "held" not in said
        house.walls(own_root, group=group).end()
        assert not group.folder.exists()
    finally:
        group.remove()
        group.folder.parent.rmdir()
