"""The comparison with peers: what each is given, how they are ranked, and a run of the small form."""

import json
import multiprocessing
import os
import sys
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from benchmarks.harness import Task, command
from benchmarks.harness.measure import TooSlow, cpu_limit
from benchmarks.methods import method
from benchmarks.methods.selection import Selection
from benchmarks.peers import score
from benchmarks.peers.benchmark import PEERS as BENCHMARK
from benchmarks.peers.benchmark import sources, tasks
from benchmarks.peers.peers import CAVITY, PEERS
from benchmarks.peers.ranks import bars, mean_ranks, standing
from benchmarks.peers.relevance import FUNCTIONS, INPUTS, RELEVANT, calibration, problem
from benchmarks.peers.sets import CLASS_SETS, SETS, UCI

ROOT = Path(__file__).resolve().parents[2]
needs_data = pytest.mark.skipif("CAVITY_DATA" not in os.environ, reason="CAVITY_DATA is not set")
WHOLE = tasks(Namespace(quick=False))
MODULES = {t.params["module"]: t for t in WHOLE}


def test_whole_list():
    assert len(WHOLE) == len({task.digest for task in WHOLE})
    assert not {t.digest for t in WHOLE} & {t.digest for t in tasks(Namespace(quick=True))}
    ours = {name: sum(t.set == name and t.method == CAVITY for t in WHOLE) for name in UCI + CLASS_SETS}
    assert all(0 < ours[name] <= SETS[name].n_splits for name in ours)
    json.dumps([task.params for task in WHOLE])


@pytest.mark.parametrize("task", MODULES.values(), ids=MODULES)
def test_sources_exist_and_name_all_that_a_method_imports(task):
    files = set(sources(task))
    assert all(path.is_file() for path in files)
    text = (ROOT / "benchmarks" / "methods" / f"{task.params['module']}.py").read_text()
    imported = [line.split()[1].split(".")[-1] for line in text.splitlines() if line.startswith("from bench")]
    assert set(imported) <= {path.stem for path in files}


def test_packages_are_pinned():
    lines = (ROOT / "benchmarks" / "peers" / "constraints.txt").read_text().splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    assert all("==" in line for line in lines if line and not line.startswith("#"))
    assert {name for peer in PEERS.values() for name in peer.packages} <= pinned


def endless(seconds):
    """In a process of its own: say how a body without end is ended."""
    try:
        with cpu_limit(seconds):
            while True:
                pass
    except TooSlow as error:
        sys.exit(str(error) != f"stopped after {seconds:g} s of CPU time")


def test_a_limit_of_cpu_time():
    process = multiprocessing.get_context("fork").Process(target=endless, args=(0.5,))
    process.start()
    process.join()
    assert process.exitcode == 0
    with cpu_limit(None):
        pass


def test_slow_methods_get_fewer_rows(monkeypatch):
    asked = []

    def run(task):
        asked.append(task.params)
        return {"n_train": min(task.params["most_train"], 80)}

    monkeypatch.setattr(score.numbers, "run", run)
    row = score.run(Task("s", 0, "m", {"most_train": 100, "peer": {"most_train": 50}}))
    assert asked[-1]["most_train"] == 50 and row["note"] == "fitted to 50 of the training rows"
    row = score.run(Task("s", 0, "m", {"peer": {"most_train": 90, "packages": ["numpy"]}}))
    assert asked[-1]["most_train"] == 90 and "note" not in row  # it had 80 anyway
    assert row["versions"] == {"numpy": np.__version__}


def row(name, split, method, lpd):
    return {"set": name, "split": split, "method": method, "lpd": lpd}


def test_ranks_are_on_shared_splits():
    rows = [
        *(row("yacht", split, CAVITY, -1.0) for split in range(3)),
        row("yacht", 0, "mlp", -0.5),
        row("yacht", 1, "mlp", -2.5),
        row("yacht", 1, "gp_ard", -0.7),
        {"set": "yacht", "split": 0, "method": "ebm", "error": "TooSlow"},
    ]
    found = standing(rows, "yacht", fewest=1)
    assert found.n_splits == 1 and found.mean == {CAVITY: -1.0, "gp_ard": -0.7, "mlp": -2.5}
    assert found.rank == {"gp_ard": 1.0, CAVITY: 2.0, "mlp": 3.0}
    more = [row("boston", 0, CAVITY, -2.0), row("boston", 0, "mlp", -3.0)]
    assert mean_ranks(rows + more, UCI, fewest=1) == {CAVITY: (1.5, 2), "mlp": (2.5, 2), "gp_ard": (1.0, 1)}
    enough = standing(rows, "yacht", fewest=2)
    assert enough.n_splits == 2 and enough.rank == {CAVITY: 1.0, "mlp": 2.0}
    assert standing([], "yacht").n_splits == 0


def test_bar_is_open_until_all_sets_are_there():
    both = ((CAVITY, 1.0), ("mlp", 0.0))
    rows = [row(name, split, *one) for name in UCI for one in both for split in range(3)]
    assert bars(rows)[0].reached is True and bars(rows[2:])[0].reached is None
    assert bars(rows[1:])[0].wanted == 2.0  # of the sets that we have, not of the one that is missing
    alone = [r for r in rows if r["method"] == CAVITY or r["set"] != UCI[0]]
    assert bars(alone)[0].value is not None and bars(alone)[0].reached is None  # nobody else has all sets
    worse = [one | {"lpd": -one["lpd"]} for one in rows]
    assert bars(worse)[0].reached is False and bars(rows)[1].reached is None


def line(n, classes):
    """Rows on a line with noise of sd 0.3, or which side of it they are on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = 3.0 * X[:, 0] - 1.0 + 0.3 * rng.normal(size=n)
    return X, (y > 0.0).astype(float) if classes else y


def quick(module):
    """Fewer rounds where a method has many."""
    small = {"MOST_ROUNDS": 150, "MOST_TREES": 150, "EPOCHS": 60, "TRAININGS": ((0.03, 20),)}
    small |= {"PENALTIES": (0.01, 1.0), "DRAWS": 40, "TUNE": 40, "TREES": 10, "RATE": 0.05}
    return {name: value for name, value in small.items() if hasattr(module, name)}


BOTH = [name for name, peer in PEERS.items() if peer.both] + ["ard_regression"]


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("name", BOTH)
@pytest.mark.filterwarnings("ignore")
def test_peers_predict(name, classes, monkeypatch):
    peer = PEERS[name]
    if classes and not peer.both:
        pytest.skip("for numbers only")
    for package in peer.packages:
        if find_spec(IMPORTS.get(package, package)) is None:
            pytest.skip(f"{package} is not installed")
    module = method(peer.module)
    for constant, value in quick(module).items():
        monkeypatch.setattr(module, constant, value)
    X, y = line(120, classes)
    model = module.fit(X, y, **({"classes": True} if classes else {}))
    if classes:
        log_p = model.log_proba(X)
        np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0, atol=1e-6)
        assert np.mean(log_p.argmax(axis=1) == y) > 0.85
        return
    assert np.mean((model.mean(X) - y) ** 2) < 0.3 * np.var(y)
    low, high = model.interval(X, 0.95).T
    assert np.mean((low <= y) & (y <= high)) > 0.8
    # A log density that is one: its integral over a grid is one.
    grid = np.linspace(y.min() - 20.0, y.max() + 20.0, 4001)
    density = np.exp(model.log_density(np.repeat(X[:1], len(grid), axis=0), grid))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_relevant_inputs_are_those_that_the_function_depends_on(name):
    found = problem({"relevance": name, "n": 4000}, 0)
    assert found.relevant.sum() == RELEVANT and found.X.shape == (4000, INPUTS)
    # All that the functions are made of, for every input and pair of inputs.
    Z = [found.X, found.X**2, np.abs(found.X), np.sin(2.0 * found.X), np.tanh(3.0 * found.X)]
    pairs = [found.X[:, i] * found.X[:, j] for i in range(INPUTS) for j in range(i)]
    design = np.column_stack([np.ones(4000), *Z, *pairs])
    weight = np.linalg.lstsq(design, found.y, rcond=None)[0]
    error = np.sqrt(np.var(found.y - design @ weight) * np.diag(np.linalg.inv(design.T @ design)))
    clear = np.abs(weight) > 5.0 * error
    owners = [()] + [(j,) for _ in Z for j in range(INPUTS)]
    owners += [(i, j) for i in range(INPUTS) for j in range(i)]
    used = {j for owner, on in zip(owners, clear, strict=True) if on for j in owner}
    assert used == set(np.flatnonzero(found.relevant))


def test_shadows_are_correlated():
    found = problem({"relevance": "correlated", "n": 4000}, 1)
    largest = np.max(np.abs(np.corrcoef(found.X.T) - np.eye(INPUTS)), axis=0)
    # An estimated correlation of 0.8 has an sd of (1 - 0.8²)/sqrt(n) = 0.006, one of zero 0.016.
    assert np.sum(np.abs(largest - 0.8) < 0.05) == 2 * RELEVANT and np.all(largest[found.relevant] > 0.7)


def test_calibration_counts_inputs():
    rows = [{"probability": [0.05, 0.95, 1.0], "relevant": [False, True, False]}, {"error": "x"}]
    low, high = calibration(rows)
    assert (low.n, low.probability, low.relevant) == (1, 0.05, 0.0)
    assert (high.low, high.high, high.n, high.relevant) == (0.9, 1.0, 2, 0.5)
    assert high.probability == pytest.approx(0.975) and calibration([]) == []


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("select_cavity", {"n_hidden": 2, "n_starts": 1, "max_iter": 20}),
        ("select_gp", {}),
        ("select_permutation", {}),
        ("select_permutation", {"of": "mlp"}),
        ("select_ebm", {}),
        ("select_lassonet", {}),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_selectors_find_the_one_input_that_matters(name, settings, monkeypatch):
    package = {"select_ebm": "interpret", "select_lassonet": "lassonet"}.get(name)
    if package and find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    module = method(name)
    monkeypatch.setattr("benchmarks.methods.mlp.PENALTIES", (0.1, 1.0))
    monkeypatch.setattr("benchmarks.methods.gp_ard.RESTARTS", 0)
    if hasattr(module, "TREES"):
        monkeypatch.setattr(module, "TREES", 20)
    X, y = line(80, classes=False)
    found = module.select(X, y, **settings)
    assert found.selected[0] and found.size.argmax() == 0 and found.size.shape == (2,)
    if found.probability is not None:
        assert found.probability[0] > 0.9


def test_scores_of_a_selection(monkeypatch):
    class Module:
        @staticmethod
        def select(X, y):
            data = problem({"relevance": "linear", "n": 30}, 0)
            wrong = np.flatnonzero(~data.relevant)[0]
            selected = data.relevant | (np.arange(INPUTS) == wrong)
            return Selection(selected + 2.0 * data.relevant, selected, data.relevant * 0.8)

    monkeypatch.setattr("benchmarks.peers.relevance.method", lambda name: Module)
    found = score.run(Task("s", 0, "m", {"relevance": "linear", "n": 30, "module": "m", "peer": {}}))
    assert found["precision"] == pytest.approx(0.8) and found["recall"] == 1.0 and not found["exact"]
    assert found["average_precision"] == pytest.approx(1.0)
    assert found["brier"] == pytest.approx(RELEVANT * 0.2**2 / INPUTS)


IMPORTS = {
    "interpret-core": "interpret",
    "laplace-torch": "laplace",
    "pymc-bart": "pymc_bart",
}


@needs_data
def test_small_form(tmp_path, capsys):
    """A peer whose package is not there, or is broken, is a row with its error and no failure of the run."""
    out = tmp_path / "out.json"
    asked = [
        "--quick",
        "--only",
        "yacht,sonar",
        "--methods",
        "bayesian_ridge,ard_regression,lightgbm,logistic_cv",
    ]
    assert command(BENCHMARK, [*asked, "--jobs", "1", "--cache", str(tmp_path), "--out", str(out)]) == 0
    summary = json.loads(out.read_text())
    rows = {(row["set"], row["method"]): row for row in summary["rows"]}
    assert len(rows) == 5 and rows["yacht", "ard_regression"]["n_train"] == 100
    assert 0.0 <= rows["yacht", "bayesian_ridge"]["coverage95"] <= 1.0
    assert {"fit_cpu", "predict_cpu", "peak_mb"} <= rows["sonar", "logistic_cv"].keys()
    if find_spec("lightgbm") is None:
        assert "No module named 'lightgbm'" in rows["yacht", "lightgbm"]["error"]
    else:
        assert summary["versions"]["lightgbm"]
