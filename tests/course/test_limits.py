"""Control groups, GPU shares and user numbers: what each user receives."""

import os

import pytest

from press import control_groups
from press.course.gpus import Shares
from press.course.people import People

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")


def test_version_1_limits_memory_and_swap(tmp_path):
    top, group = tmp_path / "memory", tmp_path / "memory" / "course" / "alice"
    group.mkdir(parents=True)
    (top / "memory.limit_in_bytes").write_text("-1")
    (group / "memory.memsw.limit_in_bytes").write_text("5")  # from a crash, below the new limit
    assert control_groups.make_group("alice", "course", 1000, tmp_path).folder == group
    assert (group / "memory.limit_in_bytes").read_text() == "1000"
    assert (group / "memory.memsw.limit_in_bytes").read_text() == "1000"


def test_version_2_hands_the_controller_down_and_allows_no_swap(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    (tmp_path / "course" / "alice").mkdir(parents=True)
    (tmp_path / "course" / "alice" / "memory.swap.max").write_text("max")
    group = control_groups.make_group("alice", "course", 1000, tmp_path).folder
    assert (group / "memory.max").read_text() == "1000"
    assert (group / "memory.swap.max").read_text() == "0"
    for folder in (tmp_path, tmp_path / "course"):
        assert (folder / "cgroup.subtree_control").read_text() == "+memory"


@pytest.mark.parametrize("file", ["memory.events", "memory.oom_control"])
def test_a_group_of_either_version_says_whether_memory_ended_a_process(file, tmp_path):
    group = control_groups.Group(tmp_path)
    assert not group.out_of_memory()
    (tmp_path / file).write_text("oom 3\noom_kill 0\n")
    assert not group.out_of_memory()
    (tmp_path / file).write_text("oom 3\noom_kill 1\n")
    assert group.out_of_memory()


def test_without_a_memory_controller_it_is_said(tmp_path):
    assert "no control group for memory" in control_groups.find_problem(tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    assert "the memory controller, which is not in" in control_groups.find_problem(tmp_path)


def test_the_gpu_with_the_fewest_users_is_next():
    shares = Shares(["0", "1"], 2)
    given = [shares.assign_device(name)["CUDA_VISIBLE_DEVICES"] for name in "abc"]
    assert given == ["0", "1", "0"]
    shares.release_device("b")
    assert shares.assign_device("d")["CUDA_VISIBLE_DEVICES"] == "1"


def test_a_user_keeps_the_gpu_and_a_full_house_says_so():
    shares = Shares(["0"], 2)
    mine = {"CUDA_VISIBLE_DEVICES": "0", "LABKIT_GPU_FRACTION": "0.5"}
    assert shares.assign_device("a") == shares.assign_device("a") == mine
    shares.assign_device("b")
    with pytest.raises(ValueError, match="but all 2 are taken"):
        shares.assign_device("c")


def test_all_shares_fit_and_one_user_has_no_fraction_and_no_gpu_means_none_is_seen():
    assert all(users * float(Shares(["0"], users).fraction) <= 1 for users in (1, 2, 3, 7, 30))
    assert Shares(["GPU-x"], 1).assign_device("a") == {"CUDA_VISIBLE_DEVICES": "GPU-x"}
    assert Shares([], 4).assign_device("a") == {"CUDA_VISIBLE_DEVICES": ""}


def test_numbers_are_given_once_and_never_again(tmp_path):
    people = People(tmp_path, 20_000)
    first = [people.find_person(name).uid for name in ("alice", "bob", "alice")]
    assert first == [20_000, 20_001, 20_000]
    again = People(tmp_path, 20_000)
    assert [again.find_person(name).uid for name in ("carol", "bob")] == [20_002, 20_001]


@ROOT_ONLY
def test_a_home_is_its_owners_and_another_owners_folder_or_a_link_is_refused(tmp_path):
    people = People(tmp_path, 20_000)
    alice, bob = people.find_person("alice"), people.find_person("bob")
    people.make_folders(alice)
    found = alice.home.stat()
    assert (found.st_mode & 0o777, found.st_uid, found.st_gid) == (0o700, 20_000, 20_000)
    assert alice.home.parent.stat().st_mode & 0o777 == 0o711
    bob.home.mkdir()
    with pytest.raises(ValueError, match="its owner is 0"):
        people.make_folders(bob)

    bob.home.rmdir()
    bob.home.symlink_to(alice.home)
    with pytest.raises(ValueError, match="must be a folder of user ID 20001"):
        people.make_folders(bob)
