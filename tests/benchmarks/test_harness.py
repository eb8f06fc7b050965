"""The harness of the benchmarks: cache, resumption, failures as rows, and what the summary holds."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numba
import pytest
from benchmarks.harness import Task, command, differences
from benchmarks.harness.benchmark import code_of, source_digest
from benchmarks.harness.pool import environment
from benchmarks.harness.summary import spread
from tests.benchmarks.toys import toy

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "source.py").write_text("x = 1\n")
    return tmp_path


def go(place, *arguments, does="work", **more):
    """Exit code and summary of a run."""
    code_of.cache_clear()
    source_digest.cache_clear()
    out = place / "summary.json"
    code = command(toy(place, does, **more), [*arguments, "--cache", str(place / "cache"), "--out", str(out)])
    return code, json.loads(out.read_text()) if out.exists() else None


def ran(place):
    """Number of tasks that were run, ever."""
    return len((place / "ran").read_text().splitlines()) if (place / "ran").exists() else 0


def test_a_fresh_clone_goes_on_from_committed_rows(place, monkeypatch):
    committed = place / "committed.json"
    monkeypatch.setattr(sys.modules[command.__module__], "committed_path", lambda benchmark: committed)
    _, first = go(place)
    committed.write_text(json.dumps(first))
    shutil.rmtree(place / "cache")
    code, again = go(place)
    assert code == 0 and ran(place) == 4 and again["rows"] == first["rows"] and not again["n_kept"]
    assert again["versions"] == first["versions"]
    (place / "source.py").write_text("x = 2\n")
    _, kept = go(place, "--keep")
    assert ran(place) == 4 and kept["n_kept"] == 4
    _, anew = go(place)
    assert ran(place) == 8 and not anew["n_kept"]


def test_results_are_cached_and_summarised(place, capsys):
    code, first = go(place)
    assert (code, ran(place)) == (0, 4)
    assert go(place) == (0, first)
    assert ran(place) == 4
    assert first["n_tasks"] == 4 and first["n_missing"] == first["n_failed"] == first["n_kept"] == 0
    over_splits = {"mean": 1.5, "se": 0.5, "median": 1.5, "min": 1.0, "max": 2.0}
    assert first["sets"]["a"]["method"]["score"] == over_splits
    assert first["bars"][0]["reached"] is True
    row = first["rows"][0]
    assert row["name"] == "text" and "detail" not in row
    assert row["wall"] >= 0 and row["cpu"] >= 0 and row["peak_mb"] > 1 and row["commit"] and row["sources"]
    assert {"python", "numpy", "scipy", "numba", "scikit-learn", "cavity"} <= first["versions"].keys()
    assert first["machine"]["cores"] == os.cpu_count()
    assert os.uname().nodename not in json.dumps(first["machine"])
    assert "1.5000 ± 0.5000" in capsys.readouterr().out
    kept = json.loads(next((place / "cache" / "toy").glob("a.*.json")).read_text())
    assert kept["detail"] == {"all": [1, 2]}


def test_only_changed_code_runs_again(place):
    go(place)
    (place / "source.py").write_text('"""About x."""\n\nx = 1  # one\n')
    go(place)
    assert ran(place) == 4
    (place / "source.py").write_text("x = 2\n")
    code, kept = go(place, "--keep")
    assert ran(place) == 4 and kept["n_kept"] == 4 and all(row["kept"] for row in kept["rows"])
    code, report = go(place, "--report")
    assert ran(place) == 4 and report["n_missing"] == 4 and report["bars"][0]["reached"] is None
    go(place)
    assert ran(place) == 8


def test_parts_of_a_run_add_up(place):
    go(place, "--only", "a", "--splits", "1")
    assert ran(place) == 1
    go(place, "--quick")
    assert ran(place) == 2
    code, report = go(place, "--report")
    assert report["n_missing"] == 2
    go(place)
    assert ran(place) == 4


def test_what_does_not_exist_is_refused(place, capsys):
    with pytest.raises(SystemExit):
        go(place, "--only", "c")
    assert "--only: no c; there are a, b" in capsys.readouterr().err


def test_listing_runs_nothing(place, capsys):
    assert go(place, "--list") == (0, None)
    listed = capsys.readouterr().out.splitlines()
    assert listed == [f"{name} {split}, method" for split in (0, 1) for name in "ab"]
    assert ran(place) == 0


@pytest.mark.parametrize(
    ("does", "error"),
    [("fail", "ValueError: on purpose"), ("die", "worker ended: killed by SIGKILL, perhaps out of memory.")],
)
def test_a_failure_is_a_row(place, does, error):
    code, summary = go(place, does=does, splits=1)
    assert code == 1 and summary["n_failed"] == 1
    assert summary["rows"][1]["error"].startswith(error)
    assert summary["sets"]["b"]["method"] == {"n_splits": 0, "n_failed": 1}
    assert not list((place / "cache").rglob("*.log"))
    go(place, does=does, splits=1)
    assert ran(place) == 2
    go(place, "--retry", does=does, splits=1)
    assert ran(place) == 3


def test_a_slow_task_is_stopped(place):
    code, summary = go(place, "--time-limit", "1", does="sleep", splits=1)
    assert code == 1 and summary["rows"][1]["error"] == "stopped after 1 s"


def test_warnings_are_kept(place):
    code, summary = go(place, does="warn", splits=1)
    assert summary["rows"][1]["warnings"] == ["UserWarning: careful"]


def test_numbers_that_are_not_finite_stay(place, capsys):
    code, summary = go(place, does="overflow", splits=1)
    assert summary["rows"][1]["score"] == "-inf" and summary["sets"]["b"]["method"]["score"]["mean"] == "-inf"
    assert "b 0, method: score -inf" in capsys.readouterr().err


def test_methods_are_compared_on_common_splits():
    rows = [
        {"set": "a", "split": split, "method": method, "score": score}
        for split, method, score in (
            (0, "m", 1.0),
            (1, "m", 5.0),
            (2, "m", 9.0),
            (1, "n", 4.0),
            (0, "n", 3.0),
        )
    ]
    assert differences(rows, "a", ("m", "n"), "score") == [-2.0, 1.0]


def test_a_torn_record_is_no_record(place):
    go(place, splits=1)
    next((place / "cache" / "toy").glob("a.*.json")).write_text('{"row": {"set"')
    code, summary = go(place, splits=1)
    assert ran(place) == 3 and summary["n_missing"] == 0


def test_an_interrupt_loses_only_what_runs(place):
    script = textwrap.dedent(
        f"""
        import sys
        from tests.benchmarks.toys import toy
        from benchmarks.harness import command
        if __name__ == "__main__":
            sys.exit(command(toy({str(place)!r}, "sleep", splits=1), ["--cache", {str(place / "cache")!r}]))
        """
    )
    (place / "script.py").write_text(script)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    run = [sys.executable, str(place / "script.py")]
    with subprocess.Popen(run, env=env, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith("[1/2] a"):
                break
        until = time.monotonic() + 60
        while ran(place) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "stopped with 1 left; the same command goes on from here\n"
    assert process.returncode == 130
    assert [path.name[0] for path in (place / "cache" / "toy").iterdir()] == ["a"]


def test_two_runs_may_share_a_cache(place):
    script = f"""
        import sys
        from tests.benchmarks.toys import toy
        from benchmarks.harness import command
        if __name__ == "__main__":
            where = ["--cache", {str(place / "cache")!r}, "--out", {str(place)!r} + "/" + sys.argv[1]]
            sys.exit(command(toy({str(place)!r}, "wait", splits=1), where))
        """
    (place / "script.py").write_text(textwrap.dedent(script))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    run = [sys.executable, str(place / "script.py")]
    runs = [subprocess.Popen([*run, name], env=env, stderr=subprocess.DEVNULL) for name in ("one", "two")]
    assert [process.wait() for process in runs] == [0, 0]
    assert (place / "ran").read_text().splitlines().count("b 0") == 2


def test_edits_during_a_run_change_nothing(place):
    """Task 0 edits the source that task 1 reports on."""
    (place / "engine.py").write_text("VALUE = 1\n")
    (place / "edited.py").write_text(
        textwrap.dedent(
            """
            import sys
            from dataclasses import replace
            from pathlib import Path
            from tests.benchmarks.toys import toy
            from benchmarks.harness import command

            def run(task):
                import engine

                Path(engine.__file__).write_text("VALUE = 2 + 1\\n")
                return {"score": engine.VALUE}

            if __name__ == "__main__":
                import edited

                place = Path(__file__).parent
                toys = replace(toy(place), run=edited.run, sources=lambda task: [place / "engine.py"])
                where = ["--cache", str(place / "cache"), "--out", str(place / "out.json")]
                sys.exit(command(toys, ["--jobs", "1", *where]))
            """
        )
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    subprocess.run([sys.executable, str(place / "edited.py")], env=env, check=True, capture_output=True)
    rows = json.loads((place / "out.json").read_text())["rows"]
    assert [row["score"] for row in rows] == [1, 1, 1, 1]


def test_tasks_differ_by_all_they_depend_on():
    one = Task("a", 0, "m", {"x": 1, "y": 2})
    assert one.digest == Task("a", 0, "m", {"y": 2, "x": 1}).digest
    others = [Task("b", 0, "m", one.params), Task("a", 1, "m", one.params), Task("a", 0, "m", {"x": 1})]
    assert len({one.digest, *(task.digest for task in others)}) == 4


def test_one_split_has_no_standard_error():
    assert spread([2.0])["se"] is None


def test_environments_keep_their_compiled_kernels_apart(monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    with environment():
        assert Path(os.environ["NUMBA_CACHE_DIR"]).name == numba.__version__
    assert "NUMBA_CACHE_DIR" not in os.environ
    monkeypatch.setenv("NUMBA_CACHE_DIR", "elsewhere")
    with environment():
        assert os.environ["NUMBA_CACHE_DIR"] == "elsewhere"
