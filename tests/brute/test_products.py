"""Two units, their product, output weights held: EP against a dense grid over both input weights."""

import numpy as np
import pytest
from tests.brute.test_small_networks import NOISE, Weighted, errors, fit, g
from tests.invariants.problems import panels

from cavity.model.data import TrainingData
from cavity.model.spec import Noise, Output, network

V = np.array([1.2, 0.6, -1.0, 0.1])  # two units, their product, bias
SCALE = 2.0**-0.5


def function(a, b, X):
    """Unit one sees the first input, unit two the second."""
    one, two = g(a * X[:, 0]), g(b * X[:, 1])
    return SCALE * (V[0] * one + V[1] * two + V[2] * one * two) + V[3]


def problem(n, seed):
    rng = np.random.default_rng(seed)
    X = 1.5 * rng.standard_normal((n, 2))
    y = function(1.2, -0.8, X) + 0.3 * rng.standard_normal(n)
    return TrainingData(X, y, np.ones(n), np.zeros(n))


def truth(data):
    w = panels(np.linspace(-5.0, 5.0, 21), 16)
    f = function(w.nodes[:, None, None], w.nodes[None, :, None], data.X)
    log_p = -0.5 * np.sum((data.y - f) ** 2, axis=2) / NOISE - 0.5 * data.n_rows * np.log(2.0 * np.pi * NOISE)
    log_p = log_p - 0.5 * (w.nodes[:, None] ** 2 + w.nodes**2) - np.log(2.0 * np.pi)
    grid = Weighted(log_p, w, w)
    return grid.log_z, np.array([grid.moments(w.nodes[:, None]), grid.moments(w.nodes)])


def spec_of():
    return network(
        2, 2, prior="gaussian", prior_var=1.0, bias=False, mask=[[0], [1]], interactions=[(0, 1)],
        output=Output(fixed=V), noise=Noise(float(np.log(NOISE)), 0.0),
    )  # fmt: skip


# Worst over three data sets: (|mean| in sds, log variance ratio from, to, |log Z|). Measured:
#   5 rows   0.23  -0.23  0.00  0.61
#   40 rows  0.07  -0.42  0.00  0.10   (both weights move the product: dependence that q(w_1)q(w_2) lacks)
STATED = {5: (0.3, -0.3, 0.05, 0.8), 40: (0.1, -0.5, 0.05, 0.15)}


@pytest.mark.parametrize("n", list(STATED))
@pytest.mark.parametrize("seed", range(3))
def test_two_units_and_their_product(n, seed):
    data, spec = problem(n, seed), spec_of()
    solution = fit(spec, data)
    log_z, (one, two) = truth(data)
    zero = (0.0, 1e-30)  # what the mask holds
    gap, low, high, evidence = errors(spec, data, solution, log_z, np.array([one, zero, zero, two]))
    bound = STATED[n]
    assert gap < bound[0] and bound[1] < low and high < bound[2] and abs(evidence) < bound[3]
