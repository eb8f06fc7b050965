"""The memory estimate against traced peaks, and the refusal."""

import tracemalloc

import numpy as np
import pytest
from tests.estimators.problems import rows

import cavity
from cavity import EPRegressor, estimate_memory
from cavity.model import memory


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("n", "d", "units"), [(10000, 3, 2), (300, 90, 3), (100, 400, 3)])
def test_estimate_is_within_a_factor_of_two_of_the_peak(n, d, units):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = np.tanh(X[:, 0]) + 0.1 * rng.normal(size=n)
    model = EPRegressor(n_hidden=units, max_iter=1, n_starts=1)
    model.fit(X[:20], y[:20])  # kernels are loaded outside the count, and outside the estimate below
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.5 < peak / (estimate_memory(n, d, units) - estimate_memory(1, 1, 1)) < 2.0


def test_estimate_grows_with_everything():
    base = estimate_memory(1000, 20, 5)
    assert base < estimate_memory(2000, 20, 5) < estimate_memory(2000, 40, 5) < estimate_memory(2000, 40, 9)
    assert estimate_memory(1000, 20, 5, n_jobs=2) == 2 * base
    # the dual form grows linearly with the inputs, the diagonal form does not square them either
    assert estimate_memory(50, 20000, 5) < 3 * estimate_memory(50, 10000, 5)
    assert estimate_memory(5000, 4000, 5, form="diagonal") < 0.5 * estimate_memory(5000, 4000, 5)
    assert cavity.estimate_memory is estimate_memory


@pytest.mark.parametrize("arguments", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1, "cube")])
def test_estimate_refuses_nonsense(arguments):
    with pytest.raises(ValueError):
        estimate_memory(*arguments)


def test_a_fit_that_cannot_fit_is_refused_with_numbers(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000_000)
    X, y = rows()
    with pytest.raises(
        MemoryError, match=r"60 rows, 3 inputs and 2 hidden units takes about 0\.0\d+ GB.*0\.01 GB"
    ):
        EPRegressor(n_hidden=2).fit(X, y)


def test_available_memory_is_a_number_or_unknown(monkeypatch):
    assert memory.available_memory() > 0
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    memory.check_memory(10**9, 10**9, 10**9)  # unknown: no refusal
