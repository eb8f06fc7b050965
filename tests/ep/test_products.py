"""Products of units as inputs of the output layer: moments by enumeration, gradients, pruning, prediction."""

import itertools

import numpy as np
import pytest
from scipy.optimize import check_grad
from tests.invariants.problems import wavy_data

from cavity.ep import map_objective
from cavity.ep.ensemble import mean_loo
from cavity.ep.ladder import fit_ensemble
from cavity.ep.latent import latent_moments
from cavity.ep.network_numpy import function_moments
from cavity.ep.options import FitOptions
from cavity.ep.products import given_units, product_moments
from cavity.ep.prune import keep_units
from cavity.ep.starts import zero_state
from cavity.model.data import prepare
from cavity.model.interactions import unit_pairs, with_products
from cavity.model.spec import Noise, network
from cavity.result.draws import Draws, functions
from cavity.types import Gaussian

PAIRS = [(0, 1), (1, 2), (0, 3), (2, 0)]
HELD = Noise(float(np.log(0.1)), 0.0)


def spec_of(n_hidden=4, interactions=PAIRS, d=2, **options):
    return network(d, n_hidden, interactions=interactions, **{"noise": HELD, **options})


def random_row(seed):
    """Unit means and variances, and Gaussian output weights, of one row."""
    rng = np.random.default_rng(seed)
    spec = spec_of()
    g = Gaussian(rng.normal(size=(1, 4)), rng.uniform(0.1, 2.0, (1, 4)))
    root = rng.normal(size=(spec.n_outputs, spec.n_outputs))
    return spec, g, rng.normal(size=(1, spec.n_outputs)), root @ root.T / spec.n_outputs


def enumerated(spec, g, v_mean, v_cov, given=None):
    """Mean and variance of f exactly: each unit at m ± √V with equal odds has just those two moments."""
    means, squares = [], []
    for signs in itertools.product([-1.0, 1.0], repeat=4):
        units = g.mean[0] + np.array(signs) * np.sqrt(g.var[0])
        for k, value in (given or {}).items():
            units[k] = value
        z = np.append(with_products(units, spec.pairs, spec.pair_scale), 1.0)
        means.append(z @ v_mean[0])
        squares.append(means[-1] ** 2 + z @ v_cov @ z)
    return np.mean(means), np.mean(squares) - np.mean(means) ** 2


def moments(spec, g, v_mean, v_cov):
    z = product_moments(spec, g)
    z = Gaussian(np.append(z.mean, [[1.0]], axis=1), np.append(z.var, [[0.0]], axis=1))
    image = z.mean @ v_cov
    quad = np.einsum("nj,nj->n", z.mean, image)

    def cov(j, i):
        return v_cov[[j], [i]]

    return z, image, cov, function_moments(spec, z, v_mean, cov, quad)


@pytest.mark.parametrize("seed", range(4))
def test_moments_of_f(seed):
    row = random_row(seed)
    *_, f = moments(*row)
    mean, var = enumerated(*row)
    assert f.mean[0] == pytest.approx(mean, rel=1e-12) and f.var[0] == pytest.approx(var, rel=1e-12)


@pytest.mark.parametrize("unit", range(4))
@pytest.mark.parametrize("seed", range(4))
def test_f_given_a_unit_keeps_its_form(unit, seed):
    """Linear mean and quadratic variance in the unit's output, with the stated coefficients."""
    spec, g, v_mean, v_cov = random_row(seed)
    z, image, cov, f = moments(spec, g, v_mean, v_cov)
    mu, c, s = (part[0, unit] for part in given_units(spec, z, v_mean, image, cov))
    t0 = f.var[0] - g.var[0, unit] * (s + mu**2)
    for d in (-2.0, 0.0, 0.5, 3.0):
        mean, var = enumerated(spec, g, v_mean, v_cov, {unit: g.mean[0, unit] + d})
        assert f.mean[0] + mu * d == pytest.approx(mean, rel=1e-11)
        assert t0 + 2.0 * c * d + s * d * d == pytest.approx(var, rel=1e-10)


def test_gradient_of_the_map_fit():
    """∂f/∂h of the products, by differences of the whole objective at a random point."""
    spec, rng = spec_of(3, [(0, 1), (1, 2)]), np.random.default_rng(0)
    h, v = rng.normal(size=(5, 3)), rng.normal(size=spec.n_outputs)
    _, slope = map_objective.output_inputs(spec, h, v)
    for i in range(5):

        def f(x, i=i):
            moved = h.copy()
            moved[i] = x
            return float(map_objective.output_inputs(spec, moved, v)[0][i] @ v)

        assert check_grad(f, lambda x, i=i: slope[i], h[i]) < 1e-6


def test_draws_agree_with_moments():
    """Drawn networks have the mean and variance that prediction states."""
    data, spec = wavy_data(40, 2), spec_of()
    state = fit_ensemble(spec, data, FitOptions(start="zero", max_iter=3)).solutions[0].state
    q, rng = state.posterior, np.random.default_rng(1)
    X = data.X[:4]
    S = 40_000
    w = q.w.mean + np.einsum("krc,skc->skr", q.w.factor, rng.normal(size=(S, 4, 3)))
    v = q.v.mean + rng.normal(size=(S, spec.n_outputs)) @ np.linalg.cholesky(q.v.cov).T
    f = functions(spec, Draws(w, v, np.zeros(S), np.zeros((S, 1))), X)
    said = latent_moments(spec, q, X)
    sd = np.sqrt(said.var)
    np.testing.assert_allclose(f.mean(axis=0), said.mean, atol=5.0 * (sd / np.sqrt(S)).max())
    np.testing.assert_allclose(f.std(axis=0), sd, rtol=0.03)


def test_fewer_units_keep_the_products_among_them():
    data, spec = wavy_data(30, 2), spec_of()
    state = zero_state(spec, data)
    small, new = keep_units(spec, data, state, np.array([0, 2, 3]))
    assert small.pairs.tolist() == [[0, 2], [0, 1]]  # (0, 3) and (2, 0)
    assert new.posterior.v.mean.shape == (small.n_outputs,) == (6,)
    assert small.keep_units(np.array([1])).interactions is None


@pytest.mark.parametrize("start", ["zero", "map"])
def test_a_product_is_learnt(start):
    """A product of two linear units is a product of two inputs; the sum of them alone cannot make it."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + 0.7 * X[:, 1] - X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=80)
    data = prepare(X, y).data
    loo = {}
    for interactions in (None, [(0, 1)]):
        spec = network(
            2, 2, activation="linear", mask=[[0], [1]] if start == "zero" else None,
            interactions=interactions, noise=Noise(-3.0, 2.0), scale_prior=(0.0, 1.0), bias_prior=0.1,
        )  # fmt: skip
        solution = fit_ensemble(spec, data, FitOptions(start=start, max_iter=30)).solutions[0]
        loo[interactions is None] = mean_loo(data, solution)
    assert loo[False] > loo[True] + 0.8


@pytest.mark.parametrize(
    ("interactions", "message"),
    [
        ([(0, 4)], "from 0 to 3"),
        ([(0, 1, 2)], "from 0 to 3"),
        ([0, 1], "from 0 to 3"),
        ([(1, 1)], "with itself"),
        ([(0, 1), (1, 0)], "twice"),
        ([(0.5, 1)], "from 0 to 3"),
    ],
)
def test_refused(interactions, message):
    with pytest.raises(ValueError, match=message):
        unit_pairs(interactions, 4)
