"""The table of replicates is printed; nothing here is timed."""

from labkit.experiments.replicates import bench
from press.cli import main


def test_the_table_has_a_line_for_each_size_and_number(capsys, monkeypatch):
    monkeypatch.setattr(bench, "SIZES", ((16, 1, 2, 8), (8, 1, 2, 8)))
    words = "bench replicates --cpu --sizes 0 1 --replicates 1 2 --turns 1 --steps 1"
    assert main(words.split()) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| dim")]
    assert [row.split("|")[1:3] for row in rows] == [
        [f" dim {dim}, depth 1, batch 2 × 8 ", f" {many} "] for dim in (16, 8) for many in (1, 2)
    ]
    assert all(float(row.split("|")[-2].split()[0]) > 0 for row in rows)


def test_nonsense_is_refused(capsys):
    assert main(["bench", "replicates", "--turns", "0"]) == 2
    assert "greater than or equal to 1" in capsys.readouterr().err
    assert main(["bench", "replicates", "--sizes", "9"]) == 2
    assert "less than or equal to 2, got '9'" in capsys.readouterr().err
