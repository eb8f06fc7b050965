"""The page of the benchmarks and the README's table: they are what the summaries say, and up to date."""

from pathlib import Path

import pytest
from benchmarks.harness.summary import aggregate
from benchmarks.mixtures.benchmark import ALL, NAMES, pair
from benchmarks.peers.peers import CAVITY
from benchmarks.publish import write
from benchmarks.publish.cells import cell, shown
from benchmarks.publish.page import page
from benchmarks.publish.readme import table
from benchmarks.publish.write import END, RESULTS, START, fill, read, wanted

ROOT = Path(__file__).resolve().parents[2]


def summary(rows, **more):
    """A summary of rows as the harness writes it."""
    return {
        "commit": "abc",
        "dirty": False,
        "versions": {"numpy": "2"},
        "machine": {"processor": "some", "cores": 2},
        "seeds": "0",
        "n_tasks": len(rows) + 1,
        "n_missing": 1,
        "n_kept": 0,
        "bars": [{"set": "yacht", "what": "lpd ≥ 0", "value": -1.5, "wanted": 0.0, "reached": False}],
        "sets": aggregate(rows),
        "rows": rows,
        **more,
    }


def row(name, split, method, **values):
    return {"set": name, "split": split, "method": method, **values}


PEERS = summary(
    [
        row("yacht", 0, CAVITY, lpd=-1.0, rmse=0.5),
        row("yacht", 1, CAVITY, lpd=-2.0, rmse=0.7),
        row("yacht", 0, "mlp", lpd=-3.0, rmse=0.9, note="fitted to 50 of the training rows"),
        row("yacht", 0, "ebm", error="TooSlow: stopped"),
        row("sonar", 0, CAVITY, lpd=-0.4, accuracy=0.8),
        row(
            "relevance_linear",
            0,
            CAVITY,
            average_precision=1.0,
            probability=[0.95, 0.2],
            relevant=[True, False],
        ),
        row("relevance_linear", 0, "lassonet", average_precision=0.75),
    ]
)


def test_the_page_and_the_readme_are_up_to_date():
    """Run `make bench-docs` where this fails."""
    if not read(ROOT / "benchmarks" / "results"):
        pytest.skip("there are no summaries")
    for path, text in wanted(ROOT).items():
        assert path.read_text("utf-8") == text, f"{path.name} is old: make bench-docs"


def test_the_page_says_what_the_summary_holds():
    text = page({"peers": PEERS}, RESULTS)
    assert "| **cavity** | -1.500 ± 0.500 | – | 0.6 ± 0.1 |" in text
    assert "| mlp | -3.000 | -2.000 (1) | 0.9 |" in text and "mlp: fitted to 50 of the training rows." in text
    assert "- ebm on yacht, 1 split: TooSlow: stopped" in text and "| 0, 1 failed |" in text
    assert "| lassonet | 0.750 | -0.250 (1) |" in text
    assert "| 0.9 to 1 | 1 | 0.950 | 1.000 |" in text
    assert "share: yacht 1. That is too few for a verdict." in text
    assert "7 of 8 fits are in" in text and "- missed, yacht: lpd ≥ 0 (-1.5)" in text
    assert (
        "`make bench-accuracy`, `make bench-mixtures`, `make bench-starts`, `make bench-structures`" in text
    )


def test_other_sections():
    accuracy = summary([row("yacht", 0, CAVITY, lpd=-0.25, loo_bias=0.1), row("yacht", 0, "ridge", lpd=-3.0)])
    cases = summary([], bars=[{"reached": True}, {"reached": False}, {"reached": None}])
    paper = summary([row("housing", 0, CAVITY, mlpd=-0.2), row("housing", 0, "gp", mlpd=-0.3, fit_cpu=2.0)])
    found = {"accuracy": accuracy, "structures": PEERS, "cases": cases, "table1": paper}
    text = page(found, RESULTS)
    assert "| yacht | -0.250 | – | – | – | – | 0.100 | – | 1 |" in text and "ridge" not in text
    assert "1 reproduce, 1 do not, 1 are open" in text
    assert "| gp | -0.300 | -0.100 (1) | 2 | 1 |" in text and "`make bench-peers`" in text
    one = {pair(a, b): 0.4 if a == b else 0.0 for a in NAMES for b in NAMES}
    mixed = summary([row("crime", 0, ALL, n_test=10, **one)])
    whole = page(found | {"peers": PEERS, "starts": paper, "mixtures": mixed}, RESULTS)
    assert "| crime | 0.4000 | 0.4000 | 0.4000 | 0.4000 | 0.4000 | 0.0800 | **cavity** 0.20, gp 0.20" in whole
    assert "Not run yet" not in whole
    assert "| gp | -0.300 | -0.100 (1) | – | 2 | 1 |" in whole.split("### housing with changes")[1]


def test_the_table_of_the_readme():
    assert "No results yet" in table({"peers": PEERS})  # one or two splits rank nobody
    four, three = (
        [row("yacht", split, name, lpd=-split) for split in range(n)] for name, n in ((CAVITY, 4), ("mlp", 3))
    )
    lines = table({"peers": summary(four + [one | {"lpd": -3.0} for one in three])}).splitlines()
    assert lines[0].endswith("| mean rank | yacht |")
    assert lines[2:4] == ["| **cavity** | 1.0 | -1.000 |", "| mlp | 2.0 | -3.000 |"]  # on the splits of both
    assert "(yacht 3)" in lines[-1]
    alone = table({"accuracy": summary([row("yacht", 0, CAVITY, lpd=-0.25, rmse=0.4, coverage95=0.9)])})
    assert "| yacht | -0.250 | 0.4 | 0.900 | 1 |" in alone
    assert "No results yet" in table({})


def test_only_what_is_between_the_markers_changes():
    text = f"before\n{START}\nold\n{END}\nafter\n"
    assert fill(text, "| new |\n") == f"before\n{START}\n| new |\n{END}\nafter\n"
    assert fill(fill(text, "x"), "x") == fill(text, "x")


def test_files_are_written_once(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("no markers\n")
    assert [path.name for path in write.publish(tmp_path)] == ["benchmarks.md"]
    assert write.publish(tmp_path) == []
    (tmp_path / "README.md").write_text(f"{START}\n{END}\n")
    assert [path.name for path in write.publish(tmp_path)] == ["README.md"]


def test_numbers():
    assert (
        shown(0.00591, "rmse") == "0.00591"
        and shown(1234.6, "peak_mb") == "1235"
        and shown(2.5e-7) == "2.5e-07"
    )
    assert cell({"mean": "-inf", "se": None}, "lpd") == "-inf" and cell(None, "lpd") == "–"
