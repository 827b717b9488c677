"""The valid settings of course.toml, and the messages for invalid ones."""

from pathlib import Path

import pytest

from press.course.settings import Settings, read


@pytest.fixture
def told(tmp_path):
    def write(text: str) -> Settings:
        path = tmp_path / "course.toml"
        path.write_text(f'material = "/srv/course"\n{text}')
        return read(path)

    return write


def test_one_line_is_enough_and_0_is_no_limit(told):
    for text, held in (('"1.5G"', 3 * 2**29), ("0", 0), ('"0"', 0), ("123", 123)):
        assert told(f"memory = {text}\n").memory == held
    found = told("")
    assert found == Settings(Path("/srv/course"))
    assert (found.memory, found.run_memory) == (4 * 2**30, 3 * 2**29)
    assert found.passwords == Path("/var/lib/labkit-course/passwords.json")


def test_every_key_is_read(told):
    found = told(
        'state = "/s"\nport = 9000\nopen = "chapters"\nadmins = ["t"]\nmemory = "700M"\n'
        'processes = 9\ncores = 4\nidle_minutes = 1.5\ncheck_minutes = 1\nisolation = "users"\n'
        'first_uid = 30000\ngpus = ["0", "1"]\ngpu_users = 4\nvisible = ["/data"]\n'
    )
    assert found == Settings(
        material=Path("/srv/course"),
        state=Path("/s"),
        port=9000,
        open="chapters",
        admins=("t",),
        memory=700 * 2**20,
        processes=9,
        cores=4,
        idle_minutes=1.5,
        check_minutes=1,
        isolation="users",
        first_uid=30_000,
        gpus=("0", "1"),
        gpu_users=4,
        visible=(Path("/data"),),
    )


@pytest.mark.parametrize(
    "text, says",
    [
        ("colour = 1", "but sets 'colour'; remove it"),
        ("port = 80", "from 1024 to 65533, got 80"),
        ("port = true", "port must be a number, got True"),
        ('port = "8000"', "port must be a number"),
        ("memory = true", "memory must be a number"),
        ('memory = "3 pages"', "as in 512M or 4G; got '3 pages'"),
        ('state = "here"', "state must be an absolute path, got here"),
        ("cores = 0", "cores must be at least 1, got 0"),
        ("idle_minutes = 4", "below idle_minutes, because otherwise servers"),
        ("check_minutes = 0", "check_minutes must be above 0"),
        ('isolation = "none"', "one of namespaces, users; got 'none'"),
        ("first_uid = 0", "at least 1000"),
        ('open = "../secrets"', "a file inside the material"),
        ('gpus = "0"', "gpus must be a list of strings, got '0'"),
        ("gpus = [0]", "gpus must be a list of strings"),
        ('visible = ["/var"]', "that do not contain the state folder, got /var"),
        ("port = ", "must be valid TOML"),
    ],
)
def test_what_cannot_work_is_refused_by_name(told, text, says):
    with pytest.raises(ValueError, match=r"course\.toml") as caught:
        told(text)
    assert says in str(caught.value)


def test_no_file_and_no_material_are_told_the_way_out(tmp_path):
    with pytest.raises(ValueError, match="--settings FILE"):
        read(tmp_path / "course.toml")
    (tmp_path / "course.toml").write_text("port = 8000\n")
    with pytest.raises(ValueError, match="labkit course material"):
        read(tmp_path / "course.toml")
