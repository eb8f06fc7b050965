"""scikit-learn's own checks, without exceptions, and its everyday tools."""

import io
import json
import os
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from tests.estimators.problems import QUICK, fitted, rows

from cavity import EPClassifier, EPRegressor

# Five sweeps of two units are rarely enough; that they say so is tested elsewhere.
unconverged = pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")


# The array API is checked only where scipy was imported under this variable, hence a process of its own.
CHECKS = """
import json, sys, warnings
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator
import cavity

warnings.simplefilter("ignore", ConvergenceWarning)
estimator = getattr(cavity, sys.argv[1])(**json.loads(sys.argv[2]))
found = check_estimator(estimator, on_skip=None, on_fail=None)
json.dump([[c["check_name"], c["status"], str(c["exception"])] for c in found], sys.stdout)
"""


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("EPRegressor", QUICK),
        ("EPRegressor", {**QUICK, "likelihood": "student-t"}),
        ("EPClassifier", QUICK),
        ("EPLinearRegressor", {"max_iter": 20}),
        ("EPLinearRegressor", {"max_iter": 20, "prior": "laplace"}),
        ("EPLinearClassifier", {"max_iter": 20}),
    ],
    ids=str,
)
def test_scikit_learn_checks_pass_and_none_is_skipped(name, params):
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHECKS, name, json.dumps(params)],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert [check for check in found if check[1] != "passed"] == []
    assert {"check_array_api_input", "check_sample_weight_equivalence_on_dense_data"} <= {c[0] for c in found}


@unconverged
@pytest.mark.parametrize(
    "name",
    [
        "check_sample_weight_equivalence_on_dense_data",
        "check_regressors_train",
        "check_fit_idempotent",
        "check_methods_sample_order_invariance",
    ],
)
def test_checks_that_depend_on_numbers_with_the_defaults(name):
    getattr(estimator_checks, name)("EPRegressor", EPRegressor())


@unconverged
@pytest.mark.parametrize(
    "name",
    [
        "check_sample_weight_equivalence_on_dense_data",
        "check_classifiers_train",
        "check_methods_sample_order_invariance",
    ],
)
def test_checks_of_classifiers_with_the_defaults(name):
    getattr(estimator_checks, name)("EPClassifier", EPClassifier())


@unconverged
@pytest.mark.parametrize("name", ["check_dataframe_column_names_consistency", "check_readonly_memmap_input"])
def test_checks_that_check_estimator_leaves_out(name):
    getattr(estimator_checks, name)("EPRegressor", EPRegressor(**QUICK))


@unconverged
def test_pipeline_and_search():
    X, y = rows(40)
    pipeline = make_pipeline(StandardScaler(), EPRegressor(max_iter=5))
    search = GridSearchCV(pipeline, {"epregressor__n_hidden": [1, 2]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.5
    assert search.best_estimator_[-1].posterior_.components


@unconverged
def test_cross_validated_predictions():
    X, y = rows(40)
    predicted = cross_val_predict(EPRegressor(**QUICK), X, y, cv=2)
    assert np.corrcoef(predicted, y)[0, 1] > 0.8


@unconverged
def test_search_in_parallel_gives_the_same():
    X, y = rows(30)
    grid = {"prior": ["ard"]}
    alone, together = (
        GridSearchCV(EPRegressor(**QUICK), grid, cv=2, n_jobs=jobs).fit(X, y).cv_results_["mean_test_score"]
        for jobs in (1, 2)
    )
    np.testing.assert_allclose(alone, together, rtol=1e-11)  # predictions are sums by BLAS, on more threads


def test_clone_forgets_the_fit_and_keeps_the_parameters():
    model = fitted(prior="ard", groups=("a", "b", "b"))
    copy = clone(model)
    assert not hasattr(copy, "posterior_")
    assert copy.get_params() == model.get_params()


@pytest.mark.parametrize("how", ["pickle", "joblib"])
def test_pickles(how):
    model, (X, _) = fitted(), rows()
    if how == "pickle":
        copy = pickle.loads(pickle.dumps(model))
    else:
        buffer = io.BytesIO()
        joblib.dump(model, buffer)
        buffer.seek(0)
        copy = joblib.load(buffer)
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert (copy.loo_, copy.log_evidence_) == (model.loo_, model.log_evidence_)


def test_representations_need_no_fit_and_survive_one():
    assert "EPRegressor" in repr(EPRegressor(n_hidden=4))
    assert "relevance_" in fitted()._repr_html_()


@unconverged
def test_progress_callbacks_see_every_sweep_and_can_stop():
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 and newer")

    class Stop:
        sweeps = ended = 0

        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            self.ended += 1

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            self.sweeps += context.parent is not None
            return self.sweeps >= 4

    stop = Stop()
    X, y = rows()
    model = EPRegressor(n_hidden=2).set_callbacks(stop).fit(X, y)
    assert (stop.sweeps, stop.ended, model.n_iter_) == (4, 1, 4)
    assert "Interrupted" in model.status_


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_keep_their_names(library):
    frames = pytest.importorskip(library)
    X, y = rows()
    names = ["age", "height", "shoe size"]
    table = frames.DataFrame({name: X[:, j] for j, name in enumerate(names)})
    model = EPRegressor(n_hidden=3, max_iter=40, n_starts=1).fit(table, frames.Series(y))
    assert list(model.feature_names_in_) == names
    assert model.relevance_.name == tuple(names)
    np.testing.assert_array_equal(model.predict(table), fitted().predict(X))
    with pytest.raises(ValueError, match="same order"):
        model.predict(table[["height", "age", "shoe size"]])
    with pytest.raises(ValueError, match="missing"):
        model.predict(table[["age", "height"]])
