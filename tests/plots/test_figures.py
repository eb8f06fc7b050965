"""Every figure: it draws on the axis it is given, and what it draws is what the posterior says."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from tests.plots.models import fit, fitted, mixture, reading, table

from cavity import EPRegressor, plots
from cavity.plots.reading import read
from cavity.plots.style import Z95, plain
from cavity.plots.weights import group_names

FIGURES = {
    "input_weights": lambda ax: plots.input_weights(fitted(), "input", ax),
    "input_weights by unit": lambda ax: plots.input_weights(fitted(), "unit", ax, bias=True),
    "scales": lambda ax: plots.scales(fitted(), ax),
    "output_weights": lambda ax: plots.output_weights(fitted(), ax, bias=True),
    "effect": lambda ax: plots.effect(fitted(), 0, ax),
    "effect of new observations": lambda ax: plots.effect(fitted(), "x1", ax, interval="prediction"),
    "relevance": lambda ax: plots.relevance(fitted(), ax),
    "history": lambda ax: plots.history(fitted(), "loo", ax),
    "history of the mismatch": lambda ax: plots.history(fitted(), "mismatch", ax),
    "history of the noise": lambda ax: plots.history(mixture(), "noise_sd", ax),
    "calibration": lambda ax: plots.calibration(fitted(), ax),
    "observed": lambda ax: plots.observed(fitted(), ax),
    "prediction_1d": lambda ax: plots.prediction_1d(fitted(1), 0, ax),
    "prediction_2d": lambda ax: plots.prediction_2d(fitted(2), (0, 1), ax),
    "prediction_2d of a mixture": lambda ax: plots.prediction_2d(mixture(), (2, 0), ax, data=True),
}


def segments(ax, lw=None):
    """Ends (x0, x1, y) of all horizontal strokes, by place."""
    found = []
    for line in ax.lines:
        x, y = (np.asarray(v, float) for v in line.get_data())
        if len(x) >= 3 and np.isnan(x[2]) and (lw is None or np.isclose(line.get_linewidth(), lw)):
            found += list(zip(x[::3], x[1::3], y[::3], strict=True))
    return np.array(sorted(found, key=lambda s: s[2]))


@pytest.mark.parametrize("name", FIGURES)
def test_draws_on_the_given_axis_and_returns_it(name):
    import matplotlib.pyplot as plt

    ax = Figure().add_subplot()
    assert FIGURES[name](ax) is ax
    assert ax.has_data()
    assert ax.get_title(loc="left")
    assert ax.get_xlabel()
    assert not plt.get_fignums(), "a given axis needs no further figure"
    ax.figure.canvas.draw()


@pytest.mark.parametrize("name", FIGURES)
def test_makes_a_figure_where_none_is_given(name):
    FIGURES[name](None).figure.canvas.draw()


def test_all_figures_are_covered():
    drawn = {name.split()[0] for name in FIGURES}
    of_classes = {"class_calibration", "confusion"}  # tests/report/test_classes.py
    assert drawn | {"effects"} | of_classes == set(plots.__all__)


def test_input_weights_are_the_intervals_of_the_posterior():
    w = fitted().posterior_.main.state.posterior.w
    half = Z95 * np.sqrt(w.var[:, :3])
    ends = np.stack([w.mean[:, :3] - half, w.mean[:, :3] + half], axis=-1)
    for by, expected in (("input", ends.transpose(1, 0, 2)), ("unit", ends)):
        ax = plots.input_weights(fitted(), by)
        drawn = segments(ax, lw=1.0)
        np.testing.assert_allclose(drawn[:, :2], expected.reshape(-1, 2))
        # each interval lies in the row of its group
        np.testing.assert_array_equal(drawn[:, 2].round(), np.repeat(np.arange(3), 3))


def test_scales_and_output_weights_are_the_intervals_of_the_posterior():
    posterior = fitted().posterior_.main
    free = posterior.spec.scale_inferred
    q = posterior.scales
    expected = np.stack([q.mean - Z95 * np.sqrt(q.var), q.mean + Z95 * np.sqrt(q.var)], axis=1)[free]
    np.testing.assert_allclose(segments(plots.scales(fitted()), lw=1.0)[:, :2], expected)
    v = posterior.state.posterior.v
    sd = np.sqrt(np.diag(v.cov))
    expected = np.stack([v.mean - Z95 * sd, v.mean + Z95 * sd], axis=1)
    np.testing.assert_allclose(segments(plots.output_weights(fitted(), bias=True), lw=1.0)[:, :2], expected)


def test_many_inputs_are_cut_to_the_largest_and_the_title_says_so():
    ax = plots.input_weights(fitted(), max_groups=2)
    assert "2 largest of 3 inputs" in ax.get_title(loc="left")
    w = fitted().posterior_.main.state.posterior.w
    size = (w.mean**2 + w.var)[:, :3].sum(axis=0)
    shown = {tick.get_text() for tick in ax.get_yticklabels()}
    assert shown == {f"x{j}" for j in np.argsort(-size)[:2]}


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("common", ["all inputs", "bias"]),
        ("input", ["x0", "x1", "x2", "bias"]),
        ("unit", ["unit 1", "unit 2", "bias"]),
        ([0, 1, 1], ["x0", "x1, x2", "bias"]),
    ],
)
def test_scales_are_named_by_what_they_govern(groups, expected):
    from cavity import network

    assert group_names(network(3, 2, groups=groups), reading()) == expected


def test_effect_is_the_prediction_with_the_other_inputs_at_rest():
    model = fitted()
    X, _ = table(50, 3, seed=3)
    ax = plots.effect(model, "x1")
    x, drawn = ax.lines[0].get_data()
    assert (x[0], x[-1]) == pytest.approx((X[:, 1].min(), X[:, 1].max()))
    at = np.tile(X.mean(axis=0), (len(x), 1))
    at[:, 1] = x
    np.testing.assert_allclose(drawn, model.predict(at), rtol=1e-9)
    f = model.posterior_.latent(at)
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    assert corners[:, 1].max() == pytest.approx((f.mean + Z95 * np.sqrt(f.var)).max())
    assert corners[:, 1].min() == pytest.approx((f.mean - Z95 * np.sqrt(f.var)).min())


def test_effect_of_new_observations_is_wider_and_equals_the_quantiles():
    model = fitted()
    ax = plots.effect(model, 0, interval="prediction")
    at = np.tile(table(50, 3, seed=3)[0].mean(axis=0), (2, 1))
    at[:, 0] = ax.lines[0].get_xdata()[[0, -1]]
    corners = ax.collections[0].get_paths()[0].vertices[:, 1]
    ends = model.predict_interval(at)
    for value in ends.ravel():
        assert np.abs(corners - value).min() < 1e-9 * abs(value)


def test_effect_of_a_yes_or_no_is_two_points():
    X, y = table(40, 2, seed=5)
    X[:, 1] = X[:, 1] > 10.0
    model = fit(2, X, y, max_iter=10)
    ax = plots.effect(model, 1)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "1"]
    assert not ax.collections


def test_effects_share_one_vertical_range():
    axes = plots.effects(fitted())
    assert len(axes) == 3
    assert len({ax.get_ylim() for ax in axes}) == 1
    assert [ax.get_xlabel() for ax in axes] == ["x0", "x1", "x2"]
    (single,) = plots.effects(fitted(), ["x2"], [Figure().add_subplot()])
    assert single.get_xlabel() == "x2"
    with pytest.raises(ValueError, match="1 axes for 3 inputs"):
        plots.effects(fitted(), axes=[Figure().add_subplot()])


def test_relevance_shows_the_table_largest_effect_on_top():
    X, y = table(50, 3, seed=3)
    model = fit(3, X[:, ::-1], y, prior="ard", max_iter=10)
    table_ = model.relevance_.sorted()
    assert table_.name != model.relevance_.name
    ax = plots.relevance(model)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(table_.name)
    drawn = segments(ax, lw=1.4)
    np.testing.assert_allclose(drawn[:, 0], table_.effect_lower)
    np.testing.assert_allclose(drawn[:, 1], table_.effect_upper)
    assert f"{table_.probability[0]:.2f}" in {text.get_text() for text in ax.texts}


def test_history_is_in_the_units_of_the_target_and_names_its_stages():
    model = fitted()
    ax = plots.history(model, "loo")
    drawn = ax.lines[0].get_ydata()
    scale = model.posterior_.main.prepared.scaling.y_scale
    np.testing.assert_allclose(drawn, [r.loo - np.log(scale) for r in model.history_])
    assert drawn[-1] == pytest.approx(model.loo_, abs=0.1)
    assert "converge" in {text.get_text() for text in ax.texts}
    np.testing.assert_allclose(
        plots.history(model, "noise_sd").lines[0].get_ydata()[-1], model.noise_sd_, rtol=0.1
    )


def test_history_of_the_evidence_and_of_nothing():
    model = fitted()
    drawn = plots.history(model, "log_evidence").lines[0].get_ydata()
    assert len(drawn) == len(model.history_) and np.all(np.isfinite(drawn))
    assert len(set(drawn)) > 2  # computed every ten sweeps
    with pytest.raises(ValueError, match="what must be one of"):
        plots.history(fitted(), "loss")


def test_observed_marks_the_rows_outside_their_interval():
    r = reading()
    rows = r.leave_one_out()
    missed = (r.observed < rows.quantile(0.025)) | (r.observed > rows.quantile(0.975))
    ax = plots.observed(fitted())
    dots, triangles = (line for line in ax.lines if line.get_marker() in "o^")
    assert len(dots.get_xdata()) == np.sum(~missed)
    np.testing.assert_allclose(triangles.get_ydata(), r.observed[missed])


def test_observed_draws_some_of_many_rows_and_the_worst_always(monkeypatch):
    from cavity.plots import fit

    monkeypatch.setattr(fit, "POINTS", 20)
    ax = plots.observed(fitted(), label=1, first_row=1)
    assert "20 of 50 rows" in ax.get_title(loc="left")
    r = reading()
    worst = int(np.argmin(r.leave_one_out().tail(r.observed)))
    drawn = np.concatenate([line.get_ydata() for line in ax.lines if line.get_marker() in "o^"])
    assert np.isclose(drawn, r.observed[worst]).any()
    labels = [text.get_text() for text in ax.texts]
    assert labels in ([], [f"row {worst + 1}"])


def test_a_zero_is_a_zero_again():
    X, y = table(40, 2, seed=4)
    X[:, 1] = np.arange(40) < 35
    model = fit(2, X, y, max_iter=5)
    assert sorted(set(read(model).inputs[:, 1])) == [0.0, 1.0]
    ax = plots.effect(model, 1)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "1"]


def test_labels_of_neighbouring_rows_keep_apart():
    X, y = table(40, 2, seed=4)
    X[[6, 7]], y[[6, 7]] = [[10.0, 10.0], [10.05, 10.0]], [120.0, 121.0]
    ax = plots.observed(fit(2, X, y, max_iter=10), label=2)
    ax.figure.canvas.draw()
    first, second = (text.get_window_extent() for text in ax.texts)
    assert {text.get_text() for text in ax.texts} == {"row 6", "row 7"}
    assert not first.overlaps(second)


def test_predictions_in_two_dimensions_show_the_mean():
    from cavity.plots.predictions import round_levels

    ax = plots.prediction_2d(fitted(2), colorbar=False)
    assert [ax.get_xlabel(), ax.get_ylabel()] == ["x0", "x1"]
    np.testing.assert_allclose(round_levels(0.13, 0.88, 4), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert len(round_levels(3.0, 3.0)) == 3
    with pytest.raises(ValueError, match="two different inputs"):
        plots.prediction_2d(fitted(2), ("x0", "x0"))


def test_a_mixture_says_which_fit_is_shown():
    assert "(fit 2 of 2, weight 0.70)" in plots.input_weights(mixture()).get_title(loc="left")
    assert "(fit 1 of 2, weight 0.30)" in plots.output_weights(mixture(), component=0).get_title(loc="left")
    assert "2 fits" in plots.history(mixture()).get_title(loc="left")
    with pytest.raises(ValueError, match="component=2 does not exist"):
        plots.scales(mixture(), component=2)


def test_a_mixture_is_drawn_as_a_whole_where_it_predicts():
    ax = plots.effect(mixture(), 0)
    x, drawn = ax.lines[0].get_data()
    at = np.tile(table(50, 3, seed=3)[0].mean(axis=0), (len(x), 1))
    at[:, 0] = x
    np.testing.assert_allclose(drawn, mixture().predict(at).mean, rtol=1e-9)


def test_names_are_written_as_they_are():
    names = ["$a_1$", "<b>", "a name far too long for the margin of any figure"]
    ax = plots.input_weights(fitted().posterior_, names=names)
    ax.figure.canvas.draw()
    labels = [tick.get_text() for tick in ax.get_yticklabels()]
    assert labels[:2] == [r"\$a_1\$", "<b>"]
    assert len(labels[2]) < 30
    assert "…" in labels[2]
    assert plain("two\nlines\x00") == "two lines"


def test_what_cannot_be_drawn_is_refused_in_words():
    with pytest.raises(NotFittedError, match="EPRegressor is not fitted yet"):
        plots.scales(EPRegressor())
    with pytest.raises(TypeError, match="dict cannot be drawn"):
        plots.scales({})
    with pytest.raises(ValueError, match="2 names for 3 inputs"):
        plots.scales(fitted(), names=["a", "b"])
    with pytest.raises(ValueError, match="no input 'z'; inputs: x0, x1, x2"):
        plots.effect(fitted(), "z")
    with pytest.raises(ValueError, match="no input number 3"):
        plots.effect(fitted(), 3)
    with pytest.raises(ValueError, match="interval must be one of"):
        plots.effect(fitted(), 0, interval="both")
    with pytest.raises(ValueError, match="by must be"):
        plots.input_weights(fitted(), "row")


def test_without_matplotlib_the_line_that_installs_it_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "cavity\[plot\]"'):
        plots.scales(fitted())


def test_importing_the_figures_imports_no_plotting_library():
    code = "import sys, cavity.plots, cavity.report; assert not {'matplotlib', 'jinja2'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
