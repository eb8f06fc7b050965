"""The objective of a MAP fit: its gradient against differences, its value against the plain sum."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from cavity.ep import map_objective
from cavity.ep.map_objective import MapObjective
from cavity.ep.state import exact_output_precisions
from cavity.model.data import prepare
from cavity.model.likelihoods import GaussianLikelihood, ProbitLikelihood, StudentTLikelihood
from cavity.model.spec import Output, network

CASES = {
    "plain": {"likelihood": GaussianLikelihood()},
    "mixed units": {"likelihood": GaussianLikelihood(), "activation": "linear+erf"},
    "no compiled form": {"likelihood": GaussianLikelihood(), "activation": np.arctan},
    "products": {"likelihood": GaussianLikelihood(), "interactions": [(0, 1), (1, 2)]},
    "robust": {"likelihood": StudentTLikelihood()},
    "classes": {"likelihood": ProbitLikelihood()},
    "output held": {
        "likelihood": GaussianLikelihood(),
        "output": Output(fixed=np.array([1.0, 0.5, 2.0, 0.3])),
    },
}


def problem(case, monkeypatch):
    monkeypatch.setattr(map_objective, "CHUNK", 7)  # several chunks, the last one short
    rng = np.random.default_rng(0)
    X = rng.normal(size=(17, 3))
    y = np.sign(X[:, 0]) if case == "classes" else X[:, 0] + 0.3 * rng.normal(size=17)
    weight = rng.integers(1, 4, size=17).astype(float)
    prepared = prepare(X, y, weight, standardise=case != "classes")
    spec = network(3, 3, **CASES[case])
    on, var = np.array([0, 2, 3]), np.array([0.5, 0.0, 2.0, 1.0])
    objective = MapObjective(spec, prepared.data, on, np.log(0.3), var)
    v = np.append(rng.uniform(0.2, 1.0, 3), rng.normal(size=spec.n_outputs - 3))
    w = rng.normal(size=(3, 3))
    z = w.ravel() if spec.output.fixed is not None else np.concatenate([w.ravel(), v])
    return spec, prepared.data, on, var, objective, z


@pytest.mark.parametrize("case", CASES)
def test_gradient(case, monkeypatch):
    *_, objective, z = problem(case, monkeypatch)
    scale = np.abs(objective(z)[1]).max()
    assert check_grad(lambda z: objective(z)[0], lambda z: objective(z)[1], z) < 2e-6 * max(scale, 1.0)


@pytest.mark.parametrize("case", CASES)
def test_value(case, monkeypatch):
    """Differences of the value between two points, from the definition (constants are left out of it)."""
    spec, data, on, var, objective, z = problem(case, monkeypatch)

    def plain(z):
        w, K = z[:9].reshape(3, 3), spec.n_hidden
        v = z[9:] if spec.output.fixed is None else spec.output.fixed
        h = data.X[:, on] @ w.T
        units = zip(spec.activation_scale, spec.activations, h.T, strict=True)
        g = np.stack([scale * activation(each) for scale, activation, each in units], axis=1)
        pairs = zip(spec.pair_scale, spec.pairs, strict=True)
        seen = [*g.T, *(size * g[:, a] * g[:, b] for size, (a, b) in pairs), np.ones(len(g))]
        fit = spec.likelihood.log_density(data.y, np.stack(seen, 1) @ v, np.log(0.3), data.row_var)
        found = -data.weight @ fit + 0.5 * np.sum(w**2 / var[on])
        if spec.output.fixed is None:
            prior = spec.output.prior.log_density(v[:K], np.log(spec.output.scale_var))
            found += 0.5 * v**2 @ exact_output_precisions(spec) - np.sum(prior)
        return found

    moved = z * np.linspace(0.8, 1.3, len(z))
    assert objective(moved)[0] - objective(z)[0] == pytest.approx(plain(moved) - plain(z), rel=1e-9)
