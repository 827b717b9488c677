"""Collecting: downloads of learning platforms, the latest of several files, nothing unsafe."""

import json
import os
import stat
import zipfile

import pytest

from press.homework.grading import inbox as inboxes
from press.homework.grading.collect import collect_inbox
from press.homework.grading.file_owner import read_class
from tests.homework.grading_case import NAME, notebook, zipped

ROSTER = """id,name,canvas,moodle,email,extension hw8
ann,Ann Lee,4711,81,ann@x.org,2
bob_ray,Bob Ray,4712,82,bob@x.org,
cem,Ann Lee,4713,83,cem@x.org,
"""


@pytest.fixture
def roster(tmp_path):
    path = tmp_path / "roster.csv"
    path.write_text(ROSTER, encoding="utf-8")
    return read_class(path)


def put(path, text="", when=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or notebook([str(path)]), encoding="utf-8")
    if when is not None:
        os.utime(path, (when, when))
    return path


def taken(done):
    return {each.student: each.label for each in done.taken}


def reasons(done):
    return {each.label: each.why for each in done.refused}


@pytest.mark.parametrize(
    ("path", "student"),
    [
        (f"ann/{NAME}.ipynb", "ann"),
        ("ann_work.ipynb", "ann"),
        (f"bob_ray_{NAME}.ipynb", "bob_ray"),
        ("bob_ray.py", "bob_ray"),
        (f"leeann_4711_90210_{NAME}.ipynb", "ann"),
        (f"raybob_LATE_4712_90210_{NAME}-2.ipynb", "bob_ray"),
        (f"Bob Ray_82_assignsubmission_file_/{NAME}.ipynb", "bob_ray"),
        (f"Ann Lee_83_assignsubmission_file_{NAME}.ipynb", "cem"),
        ("2/work.ipynb", None),  # Ann's two days are no name
        ("cem@x.org/deep/inside/mine.ipynb", "cem"),
        ("Bob Ray/mine.ipynb", "bob_ray"),
        ("ANN/mine.ipynb", "ann"),
        ("Ann Lee/mine.ipynb", None),  # two have this name
        ("eve/mine.ipynb", None),
        (f"{NAME}.ipynb", None),
    ],
)
def test_a_file_is_its_students_by_a_roster(tmp_path, roster, path, student):
    put(tmp_path / "inbox" / path)
    done = collect_inbox(tmp_path / "inbox", NAME, tmp_path / "out", roster)
    assert taken(done) == ({student: path} if student else {})
    assert reasons(done) == ({} if student else {path: "its path names no student on the roster"})
    assert set(done.missing) == set(roster.ids) - {student}


@pytest.mark.parametrize(
    ("path", "student"),
    [
        ("ann_lee/mine.ipynb", "ann_lee"),
        (f"ann_lee_{NAME}.ipynb", "ann_lee"),
        ("ann.py", "ann"),
        (f"leeann_4711_90210_{NAME}.ipynb", "4711"),
        ("Bob Ray_82_assignsubmission_file_/mine.ipynb", "82"),
        (f"{NAME}/{NAME}.ipynb", None),
        ("-rf/--.ipynb", None),
        ("=cmd()/mine.ipynb", "mine"),
    ],
)
def test_a_file_is_its_students_without_a_roster(tmp_path, path, student):
    put(tmp_path / "inbox" / path)
    done = collect_inbox(tmp_path / "inbox", NAME, tmp_path / "out")
    assert list(taken(done)) == ([student] if student else [])


def test_the_latest_counts_and_the_homeworks_name_before_others(tmp_path):
    box = tmp_path / "inbox"
    put(box / "ann/first.ipynb", when=1_000)
    put(box / "ann/last.ipynb", "the last", when=5_000)
    put(box / f"bob_1_2_{NAME}.ipynb", when=3_000)
    put(box / f"bob_1_2_{NAME}-11.ipynb", "eleven", when=3_000)
    put(box / f"bob_1_2_{NAME}-2.ipynb", when=3_001)
    put(box / f"cem/{NAME} (1).py", "cem = 1", when=10)
    put(box / "cem/notes.ipynb", when=9_000)
    done = collect_inbox(box, NAME, tmp_path / "out")
    folder = tmp_path / "out" / NAME
    assert (folder / "ann.ipynb").read_text() == "the last"
    assert (folder / "1.ipynb").read_text() == "eleven"
    assert (folder / "cem.py").read_text() == "cem = 1"
    assert [len(each.older) for each in done.taken] == [2, 1, 0]
    assert reasons(done) == {"cem/notes.ipynb": f"another file is named {NAME}"}
    assert stat.S_IMODE((folder / "ann.ipynb").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    told = json.loads((tmp_path / "out" / f"{NAME}.collected.json").read_text())
    assert [each["student"] for each in told["taken"]] == ["1", "ann", "cem"]


def test_the_latest_counts_in_whichever_inbox_it_came(tmp_path):
    out, mine = tmp_path / "out", tmp_path / "out" / NAME / "ann.ipynb"
    put(tmp_path / "one/ann.ipynb", "second try", when=5_000)
    collect_inbox(tmp_path / "one", NAME, out)
    put(tmp_path / "two/ann/old.py", "first = 'try'", when=1_000)
    put(tmp_path / "two/bob.ipynb")
    done = collect_inbox(tmp_path / "two", NAME, out)
    assert (list(taken(done)), done.kept) == (["bob"], ("ann",))
    assert reasons(done) == {
        "ann/old.py": "it is older than the ann.ipynb that was collected before; to take it all "
        "the same, move that one away and collect again"
    }
    assert mine.read_text() == "second try"
    put(tmp_path / "three/ann.py", "third = 'try'", when=9_000)
    done = collect_inbox(tmp_path / "three", NAME, out, read_class(None, ["ann", "bob", "cem"]))
    assert [(each.student, each.replaced) for each in done.taken] == [("ann", True)]
    assert (done.kept, done.missing) == (("bob",), ("cem",)) and not mine.exists()
    mine = mine.with_suffix(".py")
    for when in (9_000, 1_000):  # the same file in another download, whose zip has other times
        put(tmp_path / "three/ann.py", "third = 'try'", when=when)
        assert not collect_inbox(tmp_path / "three", NAME, out).taken[0].replaced
    assert mine.stat().st_mtime == 9_000
    # What was moved away is no longer in the way.
    mine.unlink()
    assert taken(collect_inbox(tmp_path / "two", NAME, out))["ann"] == "ann/old.py"


def test_of_two_uploads_of_one_time_the_one_with_the_higher_number_counts(tmp_path, roster):
    """An unpacked download gives all its files the same time; Canvas numbers its uploads."""
    for upload in ("100100", "99900", "100020"):
        put(tmp_path / f"inbox/leeann_4711_{upload}_{NAME}.ipynb", upload, when=5_000)
    put(tmp_path / f"inbox/Ann Lee_81_assignsubmission_file_{NAME}-9.ipynb", "moodle", when=5_000)
    (one,) = collect_inbox(tmp_path / "inbox", NAME, tmp_path / "out", roster).taken
    assert (one.student, one.label) == ("ann", f"leeann_4711_100100_{NAME}.ipynb")
    assert len(one.older) == 3


def test_zips_are_read_and_what_leads_out_of_them_is_refused(tmp_path):
    link = zipfile.ZipInfo("ann/link.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    members = {
        "ann/mine.ipynb": "mine",
        "../../escape.ipynb": "out",
        "/etc/cron.d/escape.ipynb": "out",
        "..\\escape.ipynb": "out",
        "bob/work.zip": zipped({"a/b/hers.py": "hers = 1", "deeper.zip": zipped({"x.py": ""})}),
        "cem/bad.zip": b"PK\3\4 no zip",
        "dan/picture.png": b"png",
        "__MACOSX/ann/._mine.ipynb": b"fork",
        "\x1b[2J.ipynb": b"a name that clears the screen",
        ".": b"a name that is none",
    }
    path = tmp_path / "all.zip"
    path.write_bytes(zipped(members))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, "/etc/shadow")
    done = collect_inbox(path, NAME, tmp_path / "out")
    assert taken(done) == {"ann": "ann/mine.ipynb", "bob": "bob/work.zip/a/b/hers.py"}
    told = reasons(done)
    assert sorted(told.values()) == sorted(
        ["its name leads out of the zip"] * 3
        + [
            "it is a link, which could show another student's file",
            "its path names no student ID",
            "it is a zip inside a submission's zip",
            "the zip is damaged (BadZipFile)",
            "its name does not end in .ipynb or .py",
            "its name does not end in .ipynb or .py",
        ]
    )
    assert "\x1b" not in "".join(told)
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {
        "all.zip",
        "ann.ipynb",
        "bob.py",
        f"{NAME}.collected.json",
        f".{NAME}.lock",
    }


def test_bombs_are_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(inboxes, "MOST_BYTES", 100_000)
    monkeypatch.setattr(inboxes, "MOST_TOGETHER", 150_000)
    box = tmp_path / "inbox"
    box.mkdir()
    (box / "ann.zip").write_bytes(zipped({"big.ipynb": b"0" * 300_000}))
    # A member that says it is small.
    lying = zipped({"big.ipynb": b"0" * 300_000}).replace(
        (300_000).to_bytes(4, "little"), (9).to_bytes(4, "little")
    )
    (box / "bob.zip").write_bytes(lying)
    (box / "cem.zip").write_bytes(zipped({f"{n}.py": b"0" * 60_000 for n in range(9)}))
    (box / "dan.ipynb").write_bytes(b"0" * 100_001)
    done = collect_inbox(box, NAME, tmp_path / "out")
    told = reasons(done)
    assert list(taken(done)) == ["cem"]
    assert sum(why.startswith("it has more than") for why in told.values()) == 9
    assert told["bob.zip/big.ipynb"] == "it cannot be unpacked (BadZipFile)"
    for path in (tmp_path / "out" / NAME).iterdir():
        assert path.stat().st_size <= 100_000


def test_links_in_a_folder_are_refused(tmp_path):
    secret = put(tmp_path / "secret.ipynb", "secret")
    box = tmp_path / "inbox"
    (box / "ann").mkdir(parents=True)
    (box / "ann" / "mine.ipynb").symlink_to(secret)
    (box / "bob").symlink_to(tmp_path)
    os.mkfifo(box / "cem.ipynb")
    done = collect_inbox(box, NAME, tmp_path / "out")
    assert not done.taken and len(done.refused) == 3


def test_an_inbox_is_a_folder_or_a_zip_and_out_lies_beside_it(tmp_path):
    with pytest.raises(ValueError, match="a folder or a zip"):
        collect_inbox(tmp_path / "gone", NAME, tmp_path / "out")
    with pytest.raises(ValueError, match="outside the inbox"):
        collect_inbox(tmp_path, NAME, tmp_path / "out")
