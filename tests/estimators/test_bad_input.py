"""Every refusal says what is wrong, where, and what to do."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from tests.estimators.problems import fitted, rows

from cavity import EPClassifier, EPRegressor

METHODS = [
    ("predict", ()),
    ("predict_components", ()),
    ("predict_quantiles", (0.5,)),
    ("predict_interval", ()),
    ("log_density", ([0.0, 1.0],)),
    ("predict_density", ([0.0, 1.0],)),
    ("sample_y", ()),
    ("score", ([0.0, 1.0],)),
]


def fit(X=None, y=None, **more):
    given = rows(20)
    return EPRegressor(n_hidden=1, max_iter=3).fit(
        given[0] if X is None else X, given[1] if y is None else y, **more
    )


@pytest.mark.parametrize(("method", "arguments"), METHODS)
def test_predict_before_fit(method, arguments):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(EPRegressor(), method)(np.zeros((2, 3)), *arguments)


@pytest.mark.parametrize(
    "name", ["relevance_", "log_evidence_", "noise_sd_", "input_weights_", "history_", "notes_"]
)
def test_attributes_before_fit(name):
    assert not hasattr(EPRegressor(), name)


def changed(value, as_object=False):
    X = rows(20)[0].astype(object if as_object else float)
    X[7, 1] = value
    return X


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, r"X is missing \(NaN\) in row 7, column 1 .*impute or drop"),
        (np.inf, r"X is infinite in row 7, column 1"),
        (-np.inf, r"X is infinite in row 7, column 1"),
    ],
)
def test_values_that_are_not_finite(value, message):
    with pytest.raises(ValueError, match=message):
        fit(changed(value))
    with pytest.raises(ValueError, match=message):
        fitted().predict(changed(value))


def test_text_in_a_numeric_column_names_row_and_column():
    with pytest.raises(
        ValueError, match=r"X holds text in row 7, column 1: 'red'; encode text columns first"
    ):
        fit(changed("red", as_object=True))
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(changed("red", as_object=True), columns=["a", "colour", "c"])
    with pytest.raises(ValueError, match=r"text in row 7, column 1 \('colour'\): 'red'"):
        fit(table)
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({"a": [1.0, 2.0, 3.0], "colour": ["1", "red", "2"]})
    with pytest.raises(ValueError, match=r"text in row 1, column 1 \('colour'\): 'red'"):
        fit(table, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, r"y is missing \(NaN\) in row 3"),
        (np.inf, r"y is infinite in row 3"),
        ("high", r"y holds text in row 3: 'high'; only numbers can be fitted"),
    ],
)
def test_bad_targets(value, message):
    y = rows(20)[1].astype(object if isinstance(value, str) else float)
    y[3] = value
    with pytest.raises(ValueError, match=message):
        fit(y=y)


def test_missing_values_of_pandas_and_polars():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for table in (
        pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [1.0, 2.0, 3.0]}),
        pl.DataFrame({"a": [1, None, 3], "b": [1.0, 2.0, 3.0]}),
    ):
        with pytest.raises(ValueError, match=r"missing \(NaN\) in row 1, column 0 \('a'\)"):
            fit(table, [1.0, 2.0, 3.0])


def test_too_few_rows():
    with pytest.raises(ValueError, match="1 sample.*minimum of 2"):
        fit(np.zeros((1, 3)), [1.0])
    with pytest.raises(ValueError, match="0 sample"):
        fit(np.zeros((0, 3)), [])


def test_shapes():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fit(y=np.zeros(7))
    with pytest.raises(ValueError, match="Reshape your data"):
        fitted().predict(np.zeros(3))
    with pytest.raises(ValueError, match="2 features.*expecting 3"):
        fitted().predict(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="y has 3 entries but X has 4 rows"):
        fitted().log_density(np.zeros((4, 3)), np.zeros(3))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.r_[np.ones(19), -1.0], r"sample_weight is negative in row 19: weights count copies"),
        (np.zeros(20), r"sample_weight is zero in every row"),
        (np.ones(3), r"sample_weight has 3 entries but X has 20 rows"),
        (np.r_[np.nan, np.ones(19)], r"sample_weight is missing \(NaN\) in row 0"),
        (-1.0, r"sample_weight is negative in row 0"),
    ],
)
def test_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        fit(sample_weight=weight)


def test_noise_variances():
    with pytest.raises(ValueError, match="noise_var is negative in row 2"):
        fit(noise_var=np.r_[1.0, 1.0, -1.0, np.ones(17)])
    X, y = rows(20)
    with pytest.raises(ValueError, match="noise=0 but row 4 has no known noise variance: give noise_var"):
        EPRegressor(n_hidden=1, noise=0.0).fit(X, y, noise_var=np.arange(20) != 4)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_hidden": 0}, 'n_hidden must be "auto" or a positive integer, got 0'),
        ({"n_hidden": "many"}, 'n_hidden must be "auto"'),
        ({"n_hidden": 2.5}, 'n_hidden must be "auto"'),
        ({"prior": "horse"}, "prior='horse' is unknown: use one of .*'ard', 'gaussian', 'student-t'"),
        ({"activation": "relu6"}, "activation 'relu6' is unknown"),
        ({"groups": "rows"}, "groups='rows' is unknown"),
        ({"groups": [1, 2]}, "groups has shape"),
        ({"prior_scale": -1.0}, "prior_scale must be a positive sd"),
        ({"prior_scale": (1.0,)}, "prior_scale must be a pair"),
        ({"noise": -1.0}, "noise must be a standard deviation >= 0"),
        ({"noise": (0.0, -1.0)}, "noise must be .*variance >= 0"),
        ({"form": "cube"}, "form='cube' is unknown"),
        ({"n_starts": 0}, "n_starts must be an integer of at least 1"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1"),
        ({"tol": 0.0}, "tol must be positive"),
        ({"time_limit": -1.0}, "time_limit must be positive"),
        ({"fraction": 1.5}, r"fraction must lie in \(0, 1\]"),
        ({"damping": 2.0}, r"damping must lie in \[0, 1\]"),
        ({"block_size": 0}, "block_size must be at least 1"),
    ],
)
def test_parameters(params, message):
    X, y = rows(20)
    with pytest.raises(ValueError, match=message):
        EPRegressor(**{"n_hidden": 1, **params}).fit(X, y)


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("predict_quantiles", ([0.5, 1.0],), "levels strictly between 0 and 1"),
        ("predict_interval", (1.5,), "level must lie strictly between 0 and 1"),
        ("sample_y", (0,), "n_samples must be an integer of at least 1"),
    ],
)
def test_questions_that_make_no_sense(method, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(fitted(), method)(rows()[0], *arguments)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"time_limit": "5"}, "time_limit must be positive, got '5'"),
        ({"tol": None}, "tol must be positive, got None"),
        ({"fraction": "big"}, r'fraction must be "auto" or a number in \(0, 1\]'),
        ({"damping": "x"}, r'damping must be "auto" or a number in \(0, 1\]'),
        ({"block_size": "x"}, 'block_size must be "auto", None or a positive integer'),
        ({"verbose": "loud"}, 'verbose must be "auto", a number or a function'),
    ],
)
def test_settings_of_the_wrong_kind_are_named(params, message):
    with pytest.raises(ValueError, match=message):
        EPRegressor(n_hidden=1, n_starts=1, **{"max_iter": 2, **params}).fit(*rows(20))


def test_integers_too_large_for_a_float_name_their_cell():
    with pytest.raises(ValueError, match=r"integer beyond the largest number .* in row 7, column 1"):
        fit(changed(10**400, as_object=True))
    with pytest.raises(ValueError, match=r"y holds an integer .* in row 1"):
        fit(y=[1, 10**400, *range(18)])
    with pytest.raises(ValueError, match=r"y is 2e\+180 in row 4: variances .* overflow. Use a larger unit"):
        fit(y=np.where(np.arange(20) == 4, 2e180, 1.0))


def test_weights_too_large_to_be_copies():
    with pytest.raises(ValueError, match=r"sample_weight is 1e\+50 in row 2: .*Divide all weights"):
        fit(sample_weight=np.where(np.arange(20) == 2, 1e50, 1.0))


def test_frames_with_dates_or_two_columns_of_one_name():
    pd = pytest.importorskip("pandas")
    X, _ = rows(20)
    dates = pd.DataFrame({"a": X[:, 0], "day": pd.date_range("2020", periods=20)})
    with pytest.raises(TypeError, match=r"row 0, column 1 \('day'\); turn it into numbers first"):
        fit(dates)
    with pytest.raises(ValueError, match="X has more than one column called 'a': rename or remove one"):
        fit(pd.DataFrame(X, columns=["a", "b", "a"]))


def test_sparse_tables_keep_the_advice_of_scikit_learn():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="toarray"):
        fit(sparse.csr_matrix(rows(20)[0]))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", None] * 10, r"y is missing \(NaN\) in row 1 \(10 such rows\): drop them"),
        ([1.0, 0.0, np.nan, *[1.0] * 17], r"y is missing \(NaN\) in row 2"),
        (["a", "b", 3, *["a"] * 17], r"y mixes text with other labels: 'a' in row 0, 3 in row 2"),
        ([1.0] * 20, r"y holds one class only, 1\.0, in rows"),
    ],
)
def test_labels(labels, message):
    kind = object if any(isinstance(label, str) for label in labels) else float
    with pytest.raises(ValueError, match=message):
        EPClassifier(n_hidden=1, max_iter=2).fit(rows(20)[0], np.array(labels, dtype=kind))


def test_negative_weights_of_classes():
    X, y = rows(20)
    model = EPClassifier(n_hidden=1, max_iter=2)
    with pytest.raises(ValueError, match="sample_weight is negative in row 0"):
        model.fit(X, y > 5.0, sample_weight=-np.ones(20))
    with pytest.raises(ValueError, match="class_weight is negative for the class True"):
        model.set_params(class_weight={True: -1.0, False: 1.0}).fit(X, y > 5.0)
