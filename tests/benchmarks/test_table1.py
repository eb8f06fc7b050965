"""Table 1 of the paper: tasks, pooled columns, bars, the page, and a run of the small form."""

import json
import os
from argparse import Namespace

import numpy as np
import pytest
from benchmarks.accuracy.sets import SETS as ACCURACY
from benchmarks.harness import Task
from benchmarks.methods import nn_mc
from benchmarks.table1.bars import bars
from benchmarks.table1.benchmark import refusal, tasks
from benchmarks.table1.page import page, remark
from benchmarks.table1.publish import main
from benchmarks.table1.published import CAVITY, EP_LA, GP, GP_ARD, MC, PAPER
from benchmarks.table1.score import columns
from benchmarks.table1.settings import SETS
from benchmarks.table1.table import table
from scipy.stats import norm

needs_data = pytest.mark.skipif("CAVITY_DATA" not in os.environ, reason="CAVITY_DATA is not set")
WHOLE, SMALL = (tasks(Namespace(quick=quick)) for quick in (False, True))


def test_whole_list():
    assert len(WHOLE) == len({task.digest for task in WHOLE})
    assert not {t.digest for t in WHOLE} & {t.digest for t in SMALL}
    json.dumps([task.params for task in WHOLE])
    assert {(t.set, t.method) for t in WHOLE} == {(t.set, t.method) for t in SMALL}


def test_protocols_are_those_of_the_accuracy_benchmark():
    for task in WHOLE:
        name = task.set.removesuffix("_raw")
        own = {k: v for k, v in task.params.items() if k not in ("module", "settings", "most_train")}
        wanted = dict(ACCURACY[name].params)
        if task.set == "crime_raw":
            del wanted["target"]
        assert own == wanted


def test_every_published_row_is_planned():
    assert all(PAPER[name].keys() <= SETS[name].plans.keys() for name in PAPER)


def record(set, split, method, lpd, se=(0.1, 0.2), **row):
    values = {"n_train": 450, "n_inputs": 13, "cpu_total": 2.0, "fit_cpu": 1.0, "peak_mb": 9.0}
    lpd, se = np.array(lpd), np.array(se)
    tails = {"lpd_low": np.sort(lpd), "se_high": -np.sort(-se), "n_test": len(lpd)}
    row = {
        "set": set,
        "split": split,
        "method": method,
        **values,
        **columns({"lpd": lpd, "se": se}),
        **tails,
    } | row
    return Task(set, split, method, {}), {"row": row}


def test_columns_are_over_the_test_rows_of_all_splits():
    found = [
        record("housing", 0, EP_LA, [-1.0, -2.0], converged=True),
        record("housing", 1, EP_LA, [-3.0], se=[0.6], status="Not converged: the sweeps ran out."),
        record("housing", 1, CAVITY, [-1.5], status="Converged: all agrees."),
        (Task("housing", 0, CAVITY), {"row": {"error": "on purpose"}}),
    ]
    paper, ours = table(found)
    assert (paper["method"], paper["n_splits"], paper["n_test"]) == (EP_LA, 2, 3)
    assert paper["mlpd"] == -2.0 and paper["mse"] == pytest.approx(0.3)
    assert paper["lpd_sd"] == pytest.approx(np.sqrt(2.0 / 3.0))
    # Linear between order statistics: 1 % of the way from -3 to -1 over two gaps.
    assert paper["lpd_p01"] == pytest.approx(-2.98) and paper["se_p99"] == pytest.approx(0.592)
    assert paper["n_converged"] == 1 and paper["to_cavity"] == [-1.5, None, 1]
    assert ours["n_failed"] == 1 and ours["n_converged"] == 1


def test_the_page_tells_how_far_the_sampler_got():
    names = ("rhat_noise", "rhat_f_median", "rhat_f_max", "ess_noise", "ess_f_median")
    facts = dict(zip(names, (1.01, 1.02, 1.3, 55.0, 66.0), strict=True))
    row = record("housing", 0, MC, [-1.0], [0.5], sampler="numpyro 0", lpd_of_halves=[-1.0, -1.25], **facts)
    task = Task("housing", 0, MC, {"settings": {"chains": 2, "draws": 30, "warmup": 40}})
    (entry,) = table([(task, row[1])])
    said = remark(entry, 460)
    for words in ("450 training rows only", "2 × 30 draws after 40", "worst 1.30", "f: 66", "half: 0.250"):
        assert words in said


def rows(method, mlpd, splits, set="housing", **more):
    return [
        {
            "set": set,
            "split": s,
            "method": method,
            "mlpd": mlpd + 0.01 * s,
            "lpd_sd": 1.0,
            "n_test": 100,
            **more,
        }
        for s in range(splits)
    ]


def verdict(given, *words):
    return next(bar for bar in bars(given) if all(word in bar.what for word in words))


def test_bars_of_published_rows():
    assert verdict(rows(EP_LA, -0.5, 10), EP_LA, "-0.49").reached is True
    assert verdict(rows(EP_LA, -0.6, 10), EP_LA, "-0.49").reached is False
    assert verdict(rows(EP_LA, -0.5, 9), EP_LA, "-0.49").reached is None


def test_bars_of_rivals_use_common_splits():
    near = rows(CAVITY, -0.2, 10) + rows(GP, -0.201, 10)
    assert verdict(near, f"less that of {GP} ").reached is True
    far = rows(CAVITY, -0.3, 10) + rows(GP, -0.2, 10)
    assert verdict(far, f"less that of {GP} ").reached is False
    part = rows(CAVITY, -0.3, 10) + rows(GP, -0.2, 2)
    found = verdict(part, f"less that of {GP} ")
    assert found.value == pytest.approx(-0.1) and found.reached is None


def test_one_split_is_compared_by_its_test_rows():
    # Two means of 100 rows of sd 1: a standard error of √2/10.
    both = rows(CAVITY, 0.5, 1, "kin40k", cpu_total=10.0) + rows(GP_ARD, 0.6, 1, "kin40k", cpu_total=70.0)
    kin = [bar for bar in bars(both) if bar.set == "kin40k" and GP_ARD in bar.what and bar.value is not None]
    tied, cheaper = kin
    assert tied.wanted == pytest.approx(-np.sqrt(0.02)) and tied.reached is True
    assert cheaper.value == pytest.approx(7.0) and cheaper.reached is True


def test_what_is_missing_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "numpyro" in refusal([Task("toy", 0, MC)]) and refusal([Task("toy", 0, GP)]) is None
    monkeypatch.setenv("CAVITY_DATA", str(tmp_path))
    assert "boston: not found" in refusal([task for task in WHOLE if task.set == "housing"])


@needs_data
def test_small_form(tmp_path):
    asked = [
        "--quick",
        "--only",
        "housing",
        "--methods",
        "ep_la,ep_units,ep_anew,ep_map,gp,gp_ard,cavity",
        "--jobs",
        "1",
    ]
    assert main([*asked, "--cache", str(tmp_path)]) == 0
    summary = json.loads((tmp_path / "table1" / "summary.json").read_text())
    assert summary["n_tasks"] == 7 and not summary["n_missing"]
    text = (tmp_path / "table1" / "summary.md").read_text()
    assert "| *NN-EP-LA, paper* | *-0.44* |" in text and "private" in text
    for entry in summary["table"]:
        assert f"{entry['mlpd']:.2f} | {entry['lpd_sd']:.2f}" in text
    assert "1 start; at most 5 iterations; converged in 0 of 1" in text
    assert page({**summary, "n_missing": 2, "table": []}).count("No rows yet.") == len(SETS)


def draws(chains=2, count=6, units=3, inputs=2):
    rng = np.random.default_rng(0)
    shapes = {"z": (units, inputs + 1), "phi": (inputs + 1,), "v": (units,), "bias": (), "theta": ()}
    return {name: 0.5 * rng.standard_normal((chains, count, *shape)) for name, shape in shapes.items()}


def test_sampled_network_is_a_mixture_over_draws():
    given, X = draws(), np.random.default_rng(1).normal(size=(5, 2))
    model = nn_mc.SampledNetwork(given, (np.zeros(2), np.ones(2), 2.0, 3.0), {})
    f = model.functions(X)
    # One draw and row by hand: units are 2Φ(h) - 1, outputs divided by √K.
    w = given["z"][1, 0] * np.exp(0.5 * given["phi"][1, 0])
    g = 2.0 * norm.cdf(w @ np.append(X[4], 1.0)) - 1.0
    by_hand = given["bias"][1, 0] + given["v"][1, 0] @ g / np.sqrt(3.0)
    assert f[6, 4] == pytest.approx(2.0 + 3.0 * by_hand, rel=1e-5)
    y = np.linspace(-1.0, 3.0, 5)
    density = norm.pdf(y, f, 3.0 * np.exp(0.5 * given["theta"].reshape(-1, 1)))
    assert model.log_density(X, y) == pytest.approx(np.log(density.mean(axis=0)), rel=1e-5)
    halves = [
        np.log(density[part].mean(axis=0)).mean() for part in ([0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11])
    ]
    assert model.facts()["lpd_of_halves"] == pytest.approx(halves, rel=1e-5)
    low, high = model.interval(X, 0.9).T
    assert np.all(low < model.mean(X)) and np.all(model.mean(X) < high)


def test_sampler_finds_a_line():
    pytest.importorskip("numpyro")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    y = 3.0 * X[:, 0] + 0.3 * rng.normal(size=60)
    model = nn_mc.fit(
        X,
        y,
        scale_prior=(0.0, 1.0),
        noise=(-4.0, 4.0),
        n_hidden=1,
        chains=2,
        warmup=150,
        draws=100,
        max_depth=6,
    )
    facts = model.facts()
    # The noise sd of 60 rows is known to 1/√120 = 9 %; three of those.
    assert facts["noise_sd"] == pytest.approx(0.3, rel=0.3) and facts["rhat_noise"] < 1.2
    assert np.mean((model.mean(X) - 3.0 * X[:, 0]) ** 2) < 0.02
