"""The cases of the paper: what is measured, when a claim holds, and a run of the small form."""

import json
from argparse import Namespace

import numpy as np
import pytest
from benchmarks.cases import measure
from benchmarks.cases.benchmark import tasks
from benchmarks.cases.claims import CLAIMS, bars, find
from benchmarks.cases.page import page
from benchmarks.cases.publish import main
from benchmarks.cases.settings import CASES, CAVITY, INFINITE, PAPER, SEEDS

from cavity import datasets


def exactly(function):
    """A model that knows the truth and is sure of it."""
    return lambda X: (function(X), np.zeros(len(X)))


def test_whole_list():
    whole = tasks(Namespace(quick=False))
    assert len(whole) == len({task.digest for task in whole}) == 3 * 3 * SEEDS
    assert not {t.digest for t in whole} & {t.digest for t in tasks(Namespace(quick=True))}
    json.dumps([task.params for task in whole])


@pytest.mark.parametrize("steep", [2.0, 8.0])
def test_case1_tells_a_pruned_input(steep):
    data = datasets.case1(0)
    row, _ = measure.case1(exactly(lambda X: np.tanh(steep * X[:, 1])), data)
    assert row["weaker"] == pytest.approx(0.0, abs=1e-12) and row["pruned"] == 1
    # Central differences 0.05 apart: the slope at 0 is tanh(steep·0.05)/0.05.
    assert row["steepest"] == pytest.approx(np.tanh(0.05 * steep) / 0.05)
    both, _ = measure.case1(exactly(lambda X: X[:, 0] - 0.5 * X[:, 1]), data)
    assert both["weaker"] == pytest.approx(0.5) and both["pruned"] == 2


def test_case2_measures_effects_without_their_level():
    data = datasets.case2(5, 0)
    row, _ = measure.case2(exactly(lambda X: 3.0 + data.f(X)), data)
    assert row["effect_error"] == pytest.approx(np.zeros(10), abs=1e-12) and row["input1"] < 1e-12
    off, _ = measure.case2(exactly(lambda X: data.f(X) + 0.1 * X[:, 0]), data)
    assert off["input1"] == pytest.approx(off["effect_error"][0]) and off["input1"] > 0.1


def test_case3_measures_fluctuation():
    data = datasets.case3(5, 0)
    smooth, _ = measure.case3(exactly(lambda X: np.tanh(5.0 * X[:, 0])), data)
    assert smooth["excess"] == pytest.approx(0.0, abs=1e-9) and smooth["turns"] == 0
    assert smooth["steepest"] == pytest.approx(5.0, rel=0.01)
    # -cos falls by 1 and rises by 1 on [-π/2, π/2]: twice the variation, no rise.
    wave, _ = measure.case3(exactly(lambda X: -np.cos(X[:, 0])), data)
    assert wave["excess"] == pytest.approx(2.0, abs=0.01) and wave["turns"] == 1


def seed_row(case, method, seed, **values):
    return {"set": case, "method": method, "split": seed, **values}


def test_a_claim_needs_eight_seeds_of_ten():
    def rows(good):
        return [
            seed_row("case1", INFINITE, seed, weaker=0.01 if seed < good else 0.5, steepest=1.0)
            for seed in range(SEEDS)
        ]

    def verdict(given):
        return next(bar for bar in bars(given) if "gp: pruned" in bar.what)

    assert verdict(rows(8)).reached is True and verdict(rows(7)).reached is False
    assert verdict(rows(8)[:9]).reached is None
    assert verdict([{**row, "error": "x"} for row in rows(8)]).value is None


def test_claims_of_case2():
    good = seed_row(
        "case2", PAPER, 0, mse_f=0.1, gaussian_mse_f=0.4, mean_sd=0.1, gaussian_mean_sd=0.2, input1=0.001,
        gaussian_input1=0.1, clear_weights=[0] * 10, phi=[*range(-9, -4), *range(5), 1.4], n_active=6,
        straight=[0.99, 0.5], slopes=[[0, 3, 3, 3, 3, 0], [9, 1, 1, 1, 1, 9]],
    )  # fmt: skip
    found = [one for one in find([good]) if one.claim.case == "case2" and one.method == PAPER]
    assert all(one.count == 1 for one in found)
    assert {one.claim.key: one.values[0] for one in found}["linear unit"] == pytest.approx(0.75)
    bent = good | {"straight": [0.9, 0.5], "phi": [-5, -9, *range(-9, 0)], "clear_weights": [1] * 10}
    lost = {one.claim.key for one in find([bent]) if one.method == PAPER and one.values and not one.count}
    assert lost == {"linear unit", "order", "weights of input 1", "scales"}


def test_small_form(tmp_path, capsys):
    assert main(["--quick", "--jobs", "1", "--cache", str(tmp_path)]) == 0
    summary = json.loads((tmp_path / "cases" / "summary.json").read_text())
    assert summary["n_tasks"] == 9 and not summary["n_missing"] and not summary["n_failed"]
    docs = tmp_path / "cases" / "docs"
    drawn = {path.stem: path.stat().st_size for path in docs.glob("figures/cases/*.svg")}
    text = (docs / "cases.md").read_text()
    assert len(drawn) == 6 and max(drawn.values()) < 60_000
    assert all(f"figures/cases/{name}.svg" in text for name in drawn)
    assert all(claim.paper in text for claim in CLAIMS) and "not run yet" not in text
    assert "| open |" in text and "| yes |" not in text  # one seed decides nothing
    parts = page({**summary, "rows": summary["rows"][:2], "n_missing": 7})
    assert "2 of 9 fits are in" in parts and "not run yet" in parts
    assert {row["method"] for row in summary["rows"]} == {PAPER, CAVITY, INFINITE}
    assert {row["set"] for row in summary["rows"]} == CASES.keys()
