"""The simulated cases do what the paper says of them; the reader returns what is stored, or says why not."""

import gzip
import os
import pickle
import zlib

import numpy as np
import pytest

from cavity import datasets

CASES = [datasets.case1, datasets.case2, datasets.case3]
GRID = np.linspace(-np.pi, np.pi, 2001)

needs_data = pytest.mark.skipif(
    not os.environ.get(datasets.DATA_VARIABLE),
    reason=f"real data are read from the folder named by {datasets.DATA_VARIABLE}, which is not set",
)


def turning_points(values):
    """How often a sampled function changes direction."""
    return int(np.sum(np.diff(np.sign(np.diff(values))) != 0))


@pytest.mark.parametrize("case", CASES)
def test_seed_decides_the_data(case):
    first, again, other = case(random_state=3), case(random_state=3), case(random_state=4)
    assert np.array_equal(first.X, again.X) and np.array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)
    from_generator = case(random_state=np.random.default_rng(3))
    assert np.array_equal(first.y, from_generator.y)


@pytest.mark.parametrize("case", CASES)
def test_noise_has_the_stated_size(case):
    n = 20_000
    data = case(n=n, random_state=0)
    noise = data.y - data.f(data.X)
    # Standard errors of a mean and of a standard deviation; five of them.
    assert abs(noise.mean()) < 5 * data.noise_sd / np.sqrt(n)
    assert abs(noise.std() / data.noise_sd - 1) < 5 / np.sqrt(2 * n)


@pytest.mark.parametrize("case", CASES)
def test_pickles(case):
    data = case(random_state=0)
    back = pickle.loads(pickle.dumps(data))
    assert np.array_equal(back.f(data.X), data.f(data.X))


def test_case1_clusters():
    data = datasets.case1(0, n=61)
    assert data.X.shape == (61, 2) and data.noise_sd == 0.1
    f = data.f(data.X)
    assert {float(value): int(np.sum(f == value)) for value in np.unique(f)} == {0.0: 20, 0.8: 20, 1.0: 21}
    assert (data.X[f == 1.0] > 0.5).all()
    assert (np.abs(data.X[f == 0.0]) <= 0.5).all()
    assert (data.X[f == 0.8] < -0.5).all()
    assert np.isnan(data.f(np.array([[1.0, 0.0], [-1.0, 1.0]]))).all()


def test_case1_either_input_explains_it_alone():
    data = datasets.case1(0)
    f = data.f(data.X)
    for j in range(2):
        x = data.X[:, j]
        assert np.array_equal(np.select([x > 0.5, x < -0.5], [1.0, 0.8], 0.0), f)


def test_case2_effects_add_up():
    data = datasets.case2(random_state=1)
    assert data.X.shape == (200, 10) and len(data.effects) == 10 and data.noise_sd == 0.2
    assert np.abs(data.X).max() <= np.pi
    total = sum(effect(data.X[:, j]) for j, effect in enumerate(data.effects))
    np.testing.assert_allclose(data.f(data.X), total, rtol=1e-14, atol=1e-14)


def test_case2_effects_are_as_described():
    values = np.array([effect(GRID) for effect in datasets.case2(random_state=0).effects])
    assert not values[0].any()
    slopes = np.diff(values, axis=1) / np.diff(GRID)
    spread = np.ptp(slopes, axis=1)
    assert (spread[:5] < 1e-10).all(), "inputs 1 to 5 are linear"
    assert (np.diff(slopes[:5].mean(axis=1)) > 0.05).all(), "inputs 1 to 5 are increasingly relevant"
    # Nonlinearity: what the best straight line leaves, as a share of the variance.
    unexplained = [1 - np.corrcoef(GRID, effect)[0, 1] ** 2 for effect in values[5:]]
    assert (np.diff(unexplained) > 0.02).all(), "inputs 6 to 10 are increasingly nonlinear"
    assert [turning_points(effect) for effect in values[5:]] == [0, 0, 2, 2, 2]
    sd = values[4:].std(axis=1)
    assert sd.min() > 0.65 and sd.max() < 0.8, "inputs 5 to 10 matter about equally"


def test_case2_needs_as_many_units_as_said():
    # Gradients of a K-unit network span at most K directions.
    gradients = np.array([np.gradient(effect(GRID), GRID) for effect in datasets.case2().effects])
    at_random_points = np.random.default_rng(0).permuted(gradients, axis=1).T
    assert np.linalg.matrix_rank(at_random_points[:, 7:], tol=1e-3) == 3
    assert np.linalg.matrix_rank(at_random_points, tol=1e-3) == 6


def test_case3_jumps_at_zero():
    data = datasets.case3(random_state=0)
    assert data.X.shape == (100, 1)
    tiny = 1e-9
    left, at, right = data.f(np.array([[-tiny], [0.0], [tiny]]))
    assert right - left == pytest.approx(2.0, abs=1e-8) and at == pytest.approx(right)
    one_side = data.f(np.linspace(0, 3, 3001)[:, None])
    assert np.abs(np.diff(one_side)).max() < 1e-3, "smooth elsewhere"


def test_load_round_trip(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((50, 3)) * 10.0 ** rng.integers(-200, 200, size=(50, 3))
    text = "a,b,y\n" + "".join(",".join(repr(float(v)) for v in row) + "\n" for row in values)
    (tmp_path / "toy.csv.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setenv(datasets.DATA_VARIABLE, str(tmp_path))
    without = datasets.load("toy")
    assert without.feature_names == ("a", "b") and without.splits == {}
    assert np.array_equal(np.column_stack([without.X, without.y]), values)

    np.savez(tmp_path / "toy.splits.npz", train=np.arange(40, dtype=np.uint8), n_splits=np.int64(1))
    splits = datasets.load("toy").splits
    assert splits["train"].dtype == np.int64 and np.array_equal(splits["train"], np.arange(40))
    assert splits["n_splits"] == 1


def test_load_says_what_to_set(tmp_path, monkeypatch):
    monkeypatch.delenv(datasets.DATA_VARIABLE, raising=False)
    with pytest.raises(
        FileNotFoundError, match=r"set the environment variable CAVITY_DATA .* boston\.csv\.gz"
    ):
        datasets.load("boston")
    monkeypatch.setenv(datasets.DATA_VARIABLE, str(tmp_path))
    (tmp_path / "iris.csv.gz").write_bytes(gzip.compress(b"a,y\n1,2\n"))
    with pytest.raises(
        FileNotFoundError, match=r"no boston\.csv\.gz in .* CAVITY_DATA; data sets there: iris"
    ):
        datasets.load("boston")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "called 'y'"),
        ("a,b\n1,2\n", "called 'y'"),
        ("a,y\n", "no rows"),
        ("a,y\n1,2\n1\n", "line 3: 1 values, 2 columns"),
        ("a,y\n1,2\nred,3\n", "line 3: .*red"),
    ],
)
def test_load_refuses_a_torn_table(text, message, tmp_path, monkeypatch):
    (tmp_path / "torn.csv.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setenv(datasets.DATA_VARIABLE, str(tmp_path))
    with pytest.raises(ValueError, match=message):
        datasets.load("torn")


def test_load_does_not_accept_a_torn_file(tmp_path, monkeypatch):
    whole = gzip.compress(b"a,y\n" + b"1.5,2.5\n" * 1000)
    (tmp_path / "torn.csv.gz").write_bytes(whole[:-6])
    monkeypatch.setenv(datasets.DATA_VARIABLE, str(tmp_path))
    with pytest.raises((EOFError, zlib.error)):
        datasets.load("torn")


def test_load_diabetes():
    table = datasets.load_diabetes()
    assert table.X.shape == (442, 10) and table.y.shape == (442,) and len(table.feature_names) == 10
    assert table.X[:, 0].min() >= 18, "age in years, not standardised"


@needs_data
def test_boston():
    table = datasets.load("boston")
    assert table.X.shape == (506, 13) and table.feature_names[0] == "CRIM"
    # The table of the data folder's own description: mean and standard deviation of the target.
    assert table.y.mean() == pytest.approx(22.533, abs=5e-4)
    assert table.y.std() == pytest.approx(9.188, abs=5e-4)
    assert table.splits["n_splits"] == 20
    for i in range(20):
        rows = np.concatenate([table.splits[f"train_{i}"], table.splits[f"test_{i}"]])
        assert np.array_equal(np.sort(rows), np.arange(506))


@needs_data
def test_wide_table():
    table = datasets.load("leukemia")
    assert table.X.shape == (72, 7129) and set(table.y) == {0.0, 1.0}
    assert len(table.splits["train"]) == 38 and len(table.splits["test"]) == 34


@needs_data
def test_raw_table_with_text_is_refused():
    with pytest.raises(ValueError, match=r"crime_unnorm_raw\.csv\.gz"):
        datasets.load("crime_unnorm_raw")
