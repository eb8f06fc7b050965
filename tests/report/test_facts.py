"""The numbers and sentences of the summary."""

import collections

import numpy as np
import pytest
from tests.plots.models import fit, fitted, mixture, table

from cavity import EPRegressor
from cavity.ep.solve import Status
from cavity.plots.reading import read
from cavity.report.facts import baseline_left_out, judge_given, judge_left_out
from cavity.report.phrases import count, figure, listing, percent
from cavity.report.words import how_ended, how_sure, how_well, what_matters
from cavity.report.worries import CAUTION, NOTE, PROBLEM, worries
from cavity.result.mixture import MixturePosterior
from cavity.result.posterior import FittedPosterior


def all_worries(model, **more):
    reading = read(model)
    return worries(model, reading, judge_left_out(reading), None, **more)


def texts(model, level=None):
    return [w.text for w in all_worries(model) if level in (None, w.level)]


def changed(model, improper=None, **solution):
    """The same posterior with another ending, or with rows whose leave-one-out is improper."""
    component = model.posterior_.components[0]
    new = FittedPosterior(component.prepared, component.solution._replace(**solution))
    if improper is not None:
        mask = np.zeros(component.prepared.data.n_rows, bool)
        mask[component.prepared.row_of[improper]] = True
        new.loo = component.loo._replace(improper=mask)
    return MixturePosterior([new], np.ones(1))


def test_leave_one_out_numbers_by_hand():
    model = fitted()
    _, y = table(50, 3, seed=3)
    judged = judge_left_out(read(model))
    np.testing.assert_allclose(judged.observed, y)
    np.testing.assert_allclose(judged.log_density, model.loo_i_)
    assert judged.rmse == pytest.approx(np.sqrt(np.mean((y - judged.predicted) ** 2)))
    assert judged.r2 == pytest.approx(1.0 - np.mean((y - judged.predicted) ** 2) / np.var(y))
    inside = np.abs(judged.pit - 0.5) <= 0.475
    assert judged.coverage() == pytest.approx(inside.mean())
    # leave-one-out errors exceed those of the fit that saw the row
    assert judged.rmse > np.sqrt(np.mean((y - model.predict(table(50, 3, seed=3)[0])) ** 2))


def test_copies_and_weights_make_the_same_judgement():
    X, y = table(25, 2, seed=4)
    weight = np.ones(25)
    weight[[2, 9]] = 3.0, 2.0
    settings = {"max_iter": 15}
    weighted = judge_left_out(read(fit(2, X, y, sample_weight=weight, **settings)))
    times = weight.astype(int)
    copied = judge_left_out(read(fit(2, np.repeat(X, times, 0), np.repeat(y, times), **settings)))
    for name in ("r2", "rmse", "target_sd", "epistemic_share", "predictive_sd", "baseline"):
        assert getattr(weighted, name) == pytest.approx(getattr(copied, name), rel=1e-9), name
    assert weighted.coverage() == pytest.approx(copied.coverage())
    assert len(copied.rows) == 28


def test_the_baseline_is_the_normal_of_the_other_rows():
    y = np.array([1.0, 2.0, 4.0, 8.0, 9.0])
    expected = []
    for i in range(5):
        others = np.delete(y, i)
        expected.append(
            -0.5 * ((y[i] - others.mean()) ** 2 / others.var() + np.log(2 * np.pi * others.var()))
        )
    assert baseline_left_out(y, np.ones(5)) == pytest.approx(np.mean(expected))
    copies = baseline_left_out(np.repeat(y, [1, 2, 1, 1, 3]), np.ones(8))
    assert baseline_left_out(y, np.array([1.0, 2.0, 1.0, 1.0, 3.0])) == pytest.approx(copies)
    assert np.isnan(baseline_left_out(np.array([1.0, 2.0]), np.ones(2)))
    assert np.isnan(baseline_left_out(np.ones(5), np.ones(5)))
    assert np.isnan(baseline_left_out(np.array([0.0, 0.0, 0.0, 1.0]), np.ones(4)))


def test_new_rows_are_judged_by_the_predictions():
    model = fitted()
    X, y = table(200, 3, seed=99)
    given = judge_given(read(model), X, y)
    assert given.r2 == pytest.approx(model.score(X, y))
    assert given.mean(given.log_density) == pytest.approx(model.log_density(X, y).mean())
    interval = model.predict_interval(X)
    assert given.coverage() == pytest.approx(np.mean((y >= interval[:, 0]) & (y <= interval[:, 1])))
    with pytest.raises(ValueError, match="at least two rows"):
        judge_given(read(model), X[:1], y[:1])


def test_the_summary_speaks_the_numbers():
    reading = read(fitted())
    judged = judge_left_out(reading)
    well = " ".join(how_well(reading, judged))
    assert f"R² {figure(judged.r2, 2)}" in well
    assert f"off by {figure(judged.rmse)}" in well
    assert f"{figure(fitted().loo_)} per row" in well
    assert percent(judged.coverage()) in well
    (sure,) = how_sure(reading, judged)
    assert percent(judged.epistemic_share) in sure
    assert "disagreement between the fits" not in sure
    mixed = read(mixture())
    assert "disagreement between the fits" in how_sure(mixed, judge_left_out(mixed))[0]


def test_what_matters_names_each_input_once():
    table_ = fitted().relevance_
    lines = what_matters(table_.sorted())
    assert lines[0].startswith("Surely relevant: x0")
    named = [name for name in table_.name if sum(name in line for line in lines[:-1]) == 1]
    assert named == list(table_.name)


def test_an_unsettled_fit_is_a_caution_or_a_problem():
    settled = changed(fitted(), status=Status.CONVERGED, mismatch=1e-4)
    assert not any("converged" in text for text in texts(settled))
    slow = changed(fitted(), status=Status.MAX_SWEEPS, mismatch=0.01)
    assert any(text.startswith(Status.MAX_SWEEPS.value) for text in texts(slow, CAUTION))
    for mismatch in (3.0, np.nan):
        wild = changed(fitted(), status=Status.OSCILLATING, mismatch=mismatch)
        assert any(text.startswith(Status.OSCILLATING.value) for text in texts(wild, PROBLEM))


def test_the_worst_comes_first():
    reading = read(changed(fitted(), status=Status.MAX_SWEEPS, mismatch=0.01))
    judged = judge_left_out(reading)
    useless = judged._replace(predicted=np.full(50, judged.observed.mean() + 1.0))
    levels = [worry.level for worry in worries(None, reading, useless, None)]
    assert levels == sorted(levels, key=(PROBLEM, CAUTION, NOTE).index)
    assert {PROBLEM, CAUTION} < set(levels)


def test_unsettled_fits_of_a_mixture_are_counted():
    several = mixture()
    counts = collections.Counter(
        c.solution.status is Status.SETTLED for c in several.components if not c.solution.converged
    )
    assert counts  # otherwise this says nothing
    for settled, number in counts.items():
        start = f"{number} of {len(several.components)} stacked fits"
        finished = several.main.solution.status in (Status.CONVERGED, Status.SETTLED)
        level = NOTE if settled or finished else CAUTION
        assert any(t.startswith(start) for t in texts(several, level))
    main, other = several.components[:2]
    cut = FittedPosterior(other.prepared, other.solution._replace(status=Status.TIME_LIMIT))
    late = MixturePosterior([main, cut], np.array([0.9, 0.1]))
    assert any("time limit" in t for t in texts(late, CAUTION))
    assert any("stacked" in text for text in texts(several, NOTE))


def test_the_page_says_how_fits_were_weighed():
    several = mixture()
    on_folds = MixturePosterior(several.components, several.weights, on_folds=True)
    again = [any("fitted again" in text for text in texts(found, NOTE)) for found in (several, on_folds)]
    assert again == [False, True]
    assert on_folds.with_note("A note.").on_folds and on_folds.calibrated().on_folds


def test_optimistic_rows_are_named():
    (text,) = [t for t in texts(changed(fitted(), improper=[4, 17]), CAUTION) if "optimistic" in t]
    assert "2 rows" in text
    assert "4, 17 (counted from 0)" in text


@pytest.mark.parametrize(
    ("likelihood", "level", "phrase"),
    [("gaussian", CAUTION, "too far from"), ("outliers", NOTE, "Outliers to the noise model")],
)
def test_an_outlier_is_named_by_its_row(likelihood, level, phrase):
    X, y = table(60, 2, seed=11)
    y[23] += 40.0 * np.std(y)
    weight = np.ones(60)
    weight[:3] = 0.0  # rows the engine never sees shift its numbers, not ours
    settings = {"max_iter": 15, "activation": "linear", "likelihood": likelihood}
    model = fit(2, X, y, sample_weight=weight, **settings)
    (text,) = [t for t in texts(model, level) if phrase in t]
    assert "1 row " in text and "23 (counted from 0)" in text
    (text,) = [w.text for w in all_worries(model, first_row=1) if phrase in w.text]
    assert "24 (counted from 1)" in text
    assert not any(phrase in t for t in texts(fitted()))


def test_noise_is_called_useless_and_constant_columns_are_noted():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    X[:, 2] = 7.0
    model = fit(2, X, y, prior="ard", max_iter=15)
    judged = judge_left_out(read(model))
    useless = judged.r2 <= 0.0 or judged.mean(judged.log_density) < judged.baseline
    assert any("no better than the mean" in text for text in texts(model, PROBLEM)) == useless
    assert any("1 constant input" in text for text in texts(model, NOTE))


def test_wrong_intervals_are_called_narrow_or_wide():
    reading = read(fitted())
    judged = judge_left_out(reading)
    assert judged.coverage_is_off() == 0
    u = (np.arange(50) + 0.5) / 50
    for pit, word in ((0.5 + 0.499 * np.sign(u - 0.5), "too narrow"), (0.4 + 0.2 * u, "too wide")):
        tail = 2.0 * np.minimum(pit, 1.0 - pit)
        bad = judged._replace(pit=pit, tail=tail)
        found = [w.text for w in worries(None, reading, bad, None) if "intervals are" in w.text]
        # all 50 rows inside is within two binomial sds of 95 %, so only its calibration tells
        if bad.coverage_is_off():
            assert word in found[0]
        else:
            assert not bad.calibrated
            assert any("differ by more than chance" in w.text for w in worries(None, reading, bad, None))
            (given,) = [w.text for w in worries(None, reading, judged, bad) if "on the given rows" in w.text]
            assert "figure" not in given, "the figure shows the rows of the fit"


def test_idle_and_pruned_units_are_noted():
    class Pruned:
        posterior_ = fitted().posterior_
        n_hidden = 9

    assert any("6 hidden units of 9 pruned" in text for text in texts(Pruned(), NOTE))
    X, y = table(40, 1, seed=2)
    wide = fit(8, X, y, prior="ard", max_iter=20)
    assert any("idle" in text or "All 8 hidden units" in text for text in texts(wide, NOTE))


def test_numbers_read_well():
    assert [figure(v) for v in (54.1801, 1.0, -5.4361, 0.000123456, 123456.0)] == [
        "54.2",
        "1.00",
        "\N{MINUS SIGN}5.44",
        "0.000123",
        "123000",
    ]
    assert figure(0.0) == "0"
    assert figure(float("nan")) == "unknown"
    assert figure(77.02) == "77.0"
    assert [percent(v) for v in (0.0, 0.037, 0.484, 0.957, 1.0)] == [
        "0 %",
        "3.7 %",
        "48 %",
        "95.7 %",
        "100 %",
    ]
    assert [count(1, "row"), count(0, "row")] == ["1 row", "0 rows"]
    assert [listing(["a"]), listing(["a", "b"]), listing(["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
    assert listing([str(i) for i in range(12)]).endswith("9 and 2 more")


def test_noise_that_varies_is_said_with_its_inputs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(250, 2))
    y = X[:, 0] + np.exp(X[:, 1] - 1.0) * rng.normal(size=250)
    model = EPRegressor(n_hidden=3, n_starts=1, noise="linear", max_iter=30, verbose=0).fit(X, y)
    (said,) = [t for t in texts(model, NOTE) if "noise is not the same" in t]
    assert "x1 (+" in said and "x0" not in said
    even = EPRegressor(n_hidden=3, n_starts=1, max_iter=30, verbose=0).fit(X, y)
    assert not any("not the same" in t for t in texts(even))


def test_the_heaviest_fit_speaks_for_those_that_lag():
    """Stacked fits beside it may have had few sweeps on purpose."""
    model = fitted()
    lagging = changed(model, status=Status.MAX_SWEEPS)
    settled = changed(model, status=Status.SETTLED)
    both = MixturePosterior([*settled.components, *lagging.components], np.array([0.8, 0.2]))
    assert how_ended([both]) == "Its heaviest fit has settled."
    assert how_ended([both, lagging]) == "Not converged." == how_ended([lagging])
    for status in (Status.TIME_LIMIT, Status.INTERRUPTED, Status.OSCILLATING):
        cut = changed(model, status=status)
        assert how_ended([MixturePosterior([*settled.components, *cut.components], both.weights)]) == (
            "Not converged."
        )
    assert how_ended([settled]) == "Its predictions have settled."
