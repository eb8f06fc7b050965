"""Masks through the estimator: names of inputs, number of units, what tables and pictures show."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from tests.estimators.problems import rows

import cavity
from cavity import EPRegressor, plots
from cavity.model.masks import weight_mask


def test_additive_fit(tmp_path):
    X, y = rows()
    model = EPRegressor(mask="additive").fit(X, y)
    assert model.converged_ and model.score(X, y) > 0.94
    held = ~weight_mask("additive", 15, 3)
    assert model.input_weights_.mean.shape == (15, 3)  # a quarter of 60 rows: five units for each input
    assert np.all(model.input_weights_.mean[held] == 0.0) and np.all(model.input_weights_.sd[held] == 0.0)
    assert np.all(model.input_weights_.sd[~held] > 0.0)
    model.save(tmp_path / "model.cavity")
    np.testing.assert_array_equal(cavity.load(tmp_path / "model.cavity").predict(X), model.predict(X))


def test_sets_by_name_and_inputs_that_no_unit_sees():
    X, y = rows()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = EPRegressor(n_hidden=4, max_iter=20, mask=[["a"], ["a", "b"]]).fit(frame, y)
    np.testing.assert_array_equal(
        model.posterior_.main.spec.held[:2, :3], [[False, True, True], [False, False, True]]
    )
    table = model.relevance_
    assert np.isnan(table.scale_mean[2]) and table.effect[2] == pytest.approx(0.0, abs=1e-12)
    by_number = EPRegressor(n_hidden=4, max_iter=20, mask=[[0], [0, 1]]).fit(X, y)
    np.testing.assert_array_equal(by_number.predict(X), model.predict(frame))


def test_pictures_leave_masked_weights_out():
    X, y = rows()
    model = EPRegressor(n_hidden=3, max_iter=20, mask="additive").fit(X, y)
    ax = plots.input_weights(model, by="unit", ax=Figure().subplots())
    drawn = np.concatenate(
        [np.asarray(line.get_xdata(), float) for line in ax.lines if len(line.get_xdata()) > 2]
    )
    # two strokes for each weight, one thin and one thick; of the nine weights three exist
    assert np.isfinite(drawn).sum() == 2 * 2 * 3
