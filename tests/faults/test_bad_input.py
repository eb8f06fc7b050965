"""Bad input is refused in a sentence that names the place and the cure, before anything is fitted."""

import numpy as np
import pytest

from cavity.ep.starts import check_fit, zero_state
from cavity.model.data import check_inputs, check_vector, prepare
from cavity.model.spec import Noise, Output, network

X = np.arange(12.0).reshape(4, 3) ** 1.5
Y = np.array([1.0, 2.0, 0.5, -1.0])


def changed(array, index, value):
    out = np.array(array, dtype=object if isinstance(value, str | None) else float)
    out[index] = value
    return out


def refused(words, *args, **options):
    """The error's message holds every one of the words."""
    with pytest.raises((ValueError, TypeError)) as caught:
        prepare(*args, **options)
    message = str(caught.value)
    missing = [word for word in words if word not in message]
    assert not missing, f"{message!r} does not say {missing}"
    assert message.endswith(".") and "\n" not in message


# ── inputs ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (changed(X, (2, 1), np.nan), ["NaN", "row 2", "column 1"]),
        (changed(X, (3, 0), np.inf), ["infinite", "row 3", "column 0"]),
        (changed(X, (1, 2), -np.inf), ["infinite", "row 1", "column 2"]),
        (changed(X, (1, 2), "red"), ["red", "row 1", "column 2", "encode text"]),
        (changed(X, (0, 1), None), ["missing", "row 0", "column 1"]),
        (X[:, 0], ["two dimensions", "reshape(-1, 1)"]),
        (X[None], ["two dimensions", "3"]),
        (np.float64(3.0), ["two dimensions"]),
        (np.empty((4, 0)), ["0 columns"]),
    ],
)
def test_inputs(bad, words):
    refused(words, bad, Y)


def test_no_rows():
    refused(["0 rows"], np.empty((0, 3)), np.empty(0))


def test_names_are_used():
    names = ["age", "height", "weight"]
    refused(["column 1", "'height'", "row 2"], changed(X, (2, 1), np.nan), Y, names=names)
    refused(["column 2", "'weight'"], changed(X, (0, 2), "tall"), Y, names=names)


def test_number_of_bad_cells_is_told():
    bad = X.copy()
    bad[1:3, 0] = np.nan
    refused(["row 1", "2 such values"], bad, Y)


def test_new_rows_are_checked_alike():
    with pytest.raises(ValueError, match=r"row 1, column 0"):
        check_inputs(changed(X, (1, 0), np.nan))


# ── targets, weights, known noise ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (Y[:3], ["y has 3 entries", "4 rows"]),
        (changed(Y, 2, np.nan), ["y is missing", "row 2"]),
        (changed(Y, 1, np.inf), ["y is infinite", "row 1"]),
        (changed(Y, 1, "high"), ["y holds text", "row 1", "high"]),
        (np.column_stack([Y, Y]), ["one dimension", "(4, 2)"]),
    ],
)
def test_targets(bad, words):
    refused(words, X, bad)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (np.zeros(4), ["sample_weight", "zero in every row"]),
        (np.array([1.0, -1.0, 1.0, 1.0]), ["sample_weight", "negative", "row 1"]),
        (np.ones(5), ["sample_weight has 5 entries", "4 rows"]),
        (changed(np.ones(4), 3, np.nan), ["sample_weight", "NaN", "row 3"]),
    ],
)
def test_weights(bad, words):
    refused(words, X, Y, bad)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (np.array([0.1, 0.1, -0.1, 0.1]), ["noise_var", "negative", "row 2"]),
        (np.ones(3), ["noise_var has 3 entries"]),
        (changed(np.ones(4), 0, np.inf), ["noise_var", "infinite", "row 0"]),
    ],
)
def test_known_noise(bad, words):
    refused(words, X, Y, None, bad)


def test_column_vectors_are_taken():
    assert np.array_equal(check_vector(Y[:, None], 4, "y"), Y)
    assert np.array_equal(prepare(X, Y[:, None]).data.y, prepare(X, Y).data.y)


def test_rows_of_weight_zero_are_dropped():
    p = prepare(X, Y, np.array([1.0, 0.0, 2.0, 1.0]))
    assert p.rows.tolist() == [0, 2, 3] and p.data.n_rows == 3
    q = prepare(X[[0, 2, 3]], Y[[0, 2, 3]], np.array([1.0, 2.0, 1.0]))
    assert all(np.array_equal(a, b) for a, b in zip(p.data, q.data, strict=True))


# ── what is allowed, and noted ──────────────────────────────────────────────────────────────────


def noted(words, *args, **options):
    notes = " ".join(prepare(*args, **options).notes)
    assert all(word in notes for word in words), notes


def test_constant_columns():
    bad = X.copy()
    bad[:, 1] = 7.0
    noted(["1 constant", "column 1"], bad, Y)
    noted(["1 constant", "column 1"], bad, Y, standardise=False)
    noted(["'height'"], bad, Y, names=["age", "height", "weight"])
    assert np.all(prepare(bad, Y).data.X[:, 1] == 0.0)


@pytest.mark.parametrize("value", [0.0, 7.0])
def test_an_input_that_was_constant_may_change_later(value):
    """Zero has no size of its own: a later one must not become 1e307 standard deviations."""
    bad = X.copy()
    bad[:, 1] = value
    later = changed(bad, (0, 1), value + 1.0)
    assert 0.0 < prepare(bad, Y).scaling.inputs(later)[0, 1] <= 1.0


def test_almost_constant_columns_are_not_blown_up():
    """0.1 + 0.2 is not 0.3: a column of both is constant as far as anyone can tell."""
    bad = X.copy()
    bad[:, 1] = [0.3, 0.1 + 0.2, 0.3, 0.3]
    p = prepare(bad, Y)
    assert np.max(np.abs(p.data.X[:, 1])) < 1e-12
    assert "constant" in " ".join(p.notes)


def test_duplicated_columns():
    noted(["column 3 repeats column 0"], np.column_stack([X, X[:, 0]]), Y)
    noted(["column 3 repeats column 1"], np.column_stack([X, 5.0 + 2.0 * X[:, 1]]), Y)
    two = prepare(np.column_stack([X, X[:, 0], 2.0 * X[:, 0]]), Y).notes
    assert two == ("column 3 and column 4 repeat column 0: their effect is shared between them.",)
    (seven,) = prepare(np.column_stack([X, *(k * X[:, 0] for k in range(1, 8))]), Y).notes
    assert seven.startswith("column 3, column 4, column 5, column 6, column 7 and 2 more repeat column 0:")
    assert prepare(X, Y).notes == ()


@pytest.mark.parametrize("factor", [2.0, 3.0, 0.7])
def test_duplicated_columns_with_a_row_at_the_mean(factor):
    """The row at the mean standardises to +0, -0 or ±1e-17, whichever the rounding gives."""
    x = np.array([0.1, 0.2, 0.3, 0.2, 0.1, 0.3])
    noted(["column 1 repeats column 0"], np.column_stack([x, factor * x + 0.1]), np.arange(6.0))


def test_constant_target():
    p = prepare(X, np.full(4, 3.5))
    assert "y is constant" in " ".join(p.notes)
    assert np.all(p.data.y == 0.0)
    assert p.scaling.y_mean == 3.5 and p.scaling.y_scale == 1.0


def test_one_row():
    p = prepare(X[:1], Y[:1])
    assert np.array_equal(p.data.X, [[0.0, 0.0, 0.0, 1.0]]) and p.data.y[0] == 0.0


@pytest.mark.parametrize("scale", [1e-200, 1e-6, 1e6, 1e200])
def test_extreme_units(scale):
    """Squares of 1e±200 over- and underflow; the standardised rows do not care."""
    p, q = prepare(X, Y), prepare(X * scale, Y * scale)
    np.testing.assert_allclose(p.data.X, q.data.X, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(p.data.y, q.data.y, rtol=1e-12, atol=1e-14)


def test_integers_and_booleans_are_numbers():
    p = prepare([[1, True], [2, False], [4, True]], [0, 1, 1])
    assert p.data.X.dtype == np.float64 and p.data.X.shape == (3, 3)


def test_input_is_left_alone():
    before = X.copy(), Y.copy()
    prepare(X, Y, np.array([1.0, 0.0, 1.0, 1.0]), np.full(4, 0.1))
    assert np.array_equal(X, before[0]) and np.array_equal(Y, before[1])


def test_scaling_goes_back():
    p = prepare(X, Y)
    np.testing.assert_allclose(p.scaling.inputs(X), p.data.X)
    np.testing.assert_allclose(p.scaling.y_mean + p.scaling.y_scale * p.data.y, Y)


# ── models ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"activation": "maxout"}, ["activation", "maxout", "erf"]),
        ({"activation": ["erf", "erf"]}, ["2 entries", "3 hidden units"]),
        ({"prior": "horse"}, ["prior", "horse", "laplace", "spike-and-slab"]),
        ({"groups": "column"}, ["groups", "column", "input"]),
        ({"groups": [0, 1, 0]}, ["groups", "(3,)", "2 inputs"]),
        ({"groups": np.zeros((2, 2))}, ["groups", "(2, 2)", "(3, 2)"]),
        ({"form": "sparse"}, ["form", "sparse", "dual"]),
        ({"parents": "unit"}, ["parents", "unit", "common"]),
        ({"groups": "common", "parents": [0, 1]}, ["parents", "same", "group 0"]),
        ({"groups": "input", "parents": "common", "scale_correlation": 1.0}, ["scale_correlation", "[0, 1)"]),
        ({"mask": "multiplicative"}, ["mask", "multiplicative", "additive"]),
        ({"mask": np.ones((2, 2), bool)}, ["mask", "3 × 2"]),
        ({"mask": np.full((3, 2), 0.5)}, ["mask", "booleans"]),
        ({"mask": np.array([[1, 0], [0, 0], [0, 1]])}, ["mask", "unit 1", "without an input"]),
        ({"mask": [[0], [2]]}, ["mask", "[2]", "0 … 1"]),
        ({"mask": [[0], []]}, ["mask", "[]"]),
        ({"mask": [0, 1, [0, 1], [1]]}, ["4 sets", "got 3"]),
        ({"mask": "additive", "form": "diagonal"}, ["diagonal", "mask"]),
        ({"prior_var": 0.0}, ["prior_var", "positive"]),
        ({"prior_var": -1.0}, ["prior_var", "positive"]),
        ({"scale_prior": (0.0, -1.0)}, ["scale_prior", "variance"]),
        ({"scale_prior": (np.nan, 1.0)}, ["scale_prior", "finite"]),
        ({"bias_prior": "none"}, ["bias_prior", "none"]),
        ({"bias_prior": -4.0}, ["bias_prior", "positive"]),
        ({"bias_prior": "shared", "groups": "input"}, ["shared", "common"]),
        ({"output": Output(fixed=np.ones(3))}, ["output.fixed", "4 values", "(3,)"]),
        ({"output": Output(scale_var=0.0)}, ["variances of the output weights", "positive"]),
        ({"output": Output(bias_var=-1.0)}, ["variances of the output weights", "positive"]),
    ],
)
def test_models(options, words):
    with pytest.raises(ValueError) as caught:
        network(2, 3, **options)
    message = str(caught.value)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(("n_inputs", "n_hidden"), [(0, 3), (2, 0)])
def test_empty_networks(n_inputs, n_hidden):
    with pytest.raises(ValueError, match="at least one input and one unit"):
        network(n_inputs, n_hidden)


@pytest.mark.parametrize(
    "noise",
    [Noise(-2.0, -1.0), Noise(np.nan, 0.0), Noise(-2.0, np.nan), Noise(-np.inf, 1.0), Noise(np.inf, 0.0)],
)
def test_noise_that_is_no_prior(noise):
    with pytest.raises(ValueError, match="noise"):
        network(2, 3, noise=noise)


def test_output_weights_that_are_no_numbers():
    with pytest.raises(ValueError, match="fixed"):
        network(2, 3, output=Output(fixed=np.array([1.0, np.nan, 1.0, 0.0])))


def test_groups_may_be_any_labels():
    spec = network(3, 2, groups=["a", "b", "a"], bias=False)
    assert spec.group_of.tolist() == [[0, 1, 0], [0, 1, 0]] and spec.n_groups == 2


# ── model and data together ─────────────────────────────────────────────────────────────────────


def test_columns_must_match():
    data = prepare(X, Y).data
    with pytest.raises(ValueError, match=r"4 columns .* expects 3 .*bias") as caught:
        check_fit(network(2, 2), data)
    assert "prepare the data with bias=True" in str(caught.value)
    with pytest.raises(ValueError, match=r"4 columns .* expects 3.*bias=False"):
        check_fit(network(3, 2, bias=False), data)
    check_fit(network(3, 2), data)


def test_zero_noise_needs_known_variances():
    spec = network(3, 2, noise=Noise(-np.inf, 0.0))
    with pytest.raises(ValueError, match=r"noise is held at zero and row 0 .* noise_var"):
        check_fit(spec, prepare(X, Y).data)
    with pytest.raises(ValueError, match=r"row 2 has no known noise variance"):
        zero_state(spec, prepare(X, Y, noise_var=np.array([0.1, 0.2, 0.0, 0.1])).data)
    check_fit(spec, prepare(X, Y, noise_var=np.full(4, 0.1)).data)
