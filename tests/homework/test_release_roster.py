"""A roster names folders: names that are no valid folder are refused, with their line."""

import pytest

from press.homework import roster


def read(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "roster.csv"
    path.write_text(text, encoding=encoding)
    return roster.read_roster(path)


def test_a_roster_keeps_its_order_and_its_other_columns(tmp_path):
    found = read(tmp_path, "name,id,Email\nAda, ada ,a@b.c\n\nBob,bob@x.org,\n")
    assert [each.id for each in found] == ["ada", "bob@x.org"]
    assert found[0].others == {"name": "Ada", "email": "a@b.c"}


def test_semicolons_and_a_byte_order_mark_are_fine(tmp_path):
    assert [each.id for each in read(tmp_path, "id;name\ns1;Zoë\n", "utf-8-sig")] == ["s1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name\nAda\n", "one column `id`"),
        ("", "one column `id`"),
        ("id,id\na,b\n", "one column `id`"),
        ("id\n", "must list at least one student"),
        ("id\nada\nAda\n", "line 3: every id must be unique, but 'Ada' is already on line 2"),
        ("id\n../ada\n", "line 2: an id must consist of"),
        ("id\n.hidden\n", "an id must consist of"),
        ("id\nada.\n", "an id must consist of"),
        ("id,name\n,Ada\n", "an id must consist of"),
        (f"id\n{'a' * 65}\n", "an id must consist of"),
        ("id\nzoë\n", "a CSV file in UTF-8"),
    ],
)
def test_a_wrong_roster_is_refused(text, said, tmp_path):
    with pytest.raises(ValueError) as caught:
        read(tmp_path, text, "utf-8" if text.isascii() else "latin-1")
    assert said in str(caught.value)
