r"""Start EP at a MAP network: L-BFGS on the same model, then sites of the linearised network.

The objective is that of `cavity.ep.map_objective`, at a held noise variance s² and Gaussian weight priors.

With b_ik = ∂f_i/∂h_ik = v_k s_k g'(h_ik) (and what products of units add), d_i = ∂ log p/∂f_i and
λ_i = -∂² log p/∂f_i² (zero where negative), the sites τ_ik = b_ik² λ_i, ν_ik = τ_ik h_ik + b_ik d_i and
(direction [g(h_i); 1], precision λ_i, location λ_i f_i + d_i) make q(w_k) and q(v) whose means are the MAP
weights exactly, because the gradient vanishes there, whatever τ.
For Gaussian noise d_i = (y_i - f_i)/s² and λ_i = 1/s².
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from cavity.ep.latent import latent_moments
from cavity.ep.map_objective import MapObjective, output_inputs, output_prior
from cavity.ep.starts import state_from_sites
from cavity.ep.state import EPState, PriorSites, RowSites, exact_output_precisions
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray, Gaussian, Natural

MIN_OUTPUT = 1e-3  # output weights stay above this in the MAP fit: a unit at zero gets no gradient
PRUNED_VAR = 1e-8  # prior variance of inputs that are held at zero
NOTHING_TOLD = 1e-6  # share of a weight that the data tell, below which it is held at zero
NOISE_RANGE = (1e-6, 0.5)  # of the residual variance EP begins with, standardised target


class MapNetwork(NamedTuple):
    """A point estimate: w (K, d), v (J,), the objective there, and the iterations used."""

    w: FloatArray
    v: FloatArray
    objective: float
    n_iter: int


def map_network(
    spec: ModelSpec,
    data: TrainingData,
    noise_var: float,
    weight_var: FloatArray,
    rng: np.random.Generator,
    *,
    init: MapNetwork | None = None,
    max_iter: int = 400,
) -> MapNetwork:
    """Minimise the negative log posterior over the inputs that are not pruned.

    Parameters
    ----------
    noise_var : float
        The noise variance s², held.
    weight_var : (d,) array
        Prior variance λ_j of the weights of each input; an entry of zero holds that input at zero.
    init : MapNetwork, optional
        Where to begin; otherwise random weights of the prior's size, at most of unit activation.
    """
    K, d = spec.group_of.shape
    on = np.flatnonzero(weight_var > 0.0)
    m = len(on)
    if init is None:
        size = np.sqrt(
            np.minimum(weight_var[on], 1.0) / max(1.0, np.sum(np.minimum(weight_var[on], 1.0)) / 2.0)
        )
        w = rng.normal(size=(K, m)) * size
        v = np.append(rng.uniform(0.5, 1.5, K), np.zeros(len(spec.pairs) + 1))
    else:
        w, v = init.w[:, on], init.v
    fixed = spec.output.fixed
    start = w.ravel() if fixed is not None else np.concatenate([w.ravel(), v])
    bounds: list[tuple[float | None, float | None]] = [(None, None)] * (K * m)
    if fixed is None:
        bounds += [(MIN_OUTPUT, None)] * K + [(None, None)] * (len(spec.pairs) + 1)
    result = minimize(
        MapObjective(spec, data, on, float(np.log(noise_var)), weight_var),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 20},
    )
    w_full = np.zeros((K, d))
    w_full[:, on] = result.x[: K * m].reshape(K, m)
    v = result.x[K * m :] if fixed is None else fixed.copy()
    return MapNetwork(w_full, v, float(result.fun), int(result.nit))


def fitted_values(spec: ModelSpec, data: TrainingData, network: MapNetwork) -> FloatArray:
    """f of every row."""
    return output_inputs(spec, data.X @ network.w.T, network.v)[0] @ network.v


def residual_var(spec: ModelSpec, data: TrainingData, network: MapNetwork) -> float:
    """The noise variance s² that the network's residuals show."""
    f = fitted_values(spec, data, network)
    return float(np.exp(spec.likelihood.fitted_log_scale(data.y, f, data.row_var, data.weight)))


def prior_vars(
    spec: ModelSpec, data: TrainingData, network: MapNetwork, noise_var: float, weight_var: FloatArray
) -> FloatArray:
    """(d,) prior variances that the weights of each input show, from those they were fitted with.

    A fixed-point step for the evidence of the linearised network, its covariance taken as diagonal: the mean
    square of an input's weights by the share of them that the data tell. An input that only follows the
    noise shrinks by the ratio of its residuals to ``noise_var`` with each step; none grows faster than by EM.
    """
    direction, b = output_inputs(spec, data.X @ network.w.T, network.v)
    fit = spec.likelihood.derivatives(data.y, direction @ network.v, float(np.log(noise_var)), data.row_var)
    weight = data.weight * np.maximum(-fit.d2, 0.0)
    told = np.mean(1.0 - 1.0 / (1.0 + weight_var * ((b * b * weight[:, None]).T @ data.X**2)), axis=0)
    size = np.mean(network.w**2, axis=0)
    found = np.minimum(size / np.maximum(told, NOTHING_TOLD), size + (1.0 - told) * weight_var)
    return np.where(told > NOTHING_TOLD, found, 0.0)


def apparent_var(spec: ModelSpec, data: TrainingData, state: EPState) -> float:
    """The noise variance that q sees: what its mean leaves over, and its own variance of f.

    Averaged over q, units that are saturated at the MAP weights move f away from the MAP network, by much
    more than its residuals where those are tiny; sites would overshoot under such a noise variance.
    """
    f = latent_moments(spec, state.posterior, data.X)
    left = np.exp(spec.likelihood.fitted_log_scale(data.y, f.mean, data.row_var, data.weight))
    return float(left + np.average(f.var, weights=data.weight))


def linearised_state(
    spec: ModelSpec, data: TrainingData, network: MapNetwork, noise_var: float, weight_var: FloatArray
) -> EPState:
    """Sites of the network linearised at the MAP weights; θ held at log s²."""
    K, d = spec.group_of.shape
    h = data.X @ network.w.T
    direction, b = output_inputs(spec, h, network.v)
    f = direction @ network.v
    fit = spec.likelihood.derivatives(data.y, f, float(np.log(noise_var)), data.row_var)
    lam = np.maximum(-fit.d2, 0.0) * np.ones_like(f)
    tau = b * b * lam[:, None]
    norm = np.linalg.norm(direction, axis=1)
    rows = RowSites(
        np.stack([tau, tau * h + b * fit.d1[:, None]]),
        direction / norm[:, None],
        norm**2 * lam,
        direction * (lam * f + fit.d1)[:, None],
        np.zeros((2, data.n_rows)),
    )
    var = np.maximum(weight_var, PRUNED_VAR)
    zero = np.zeros((K, d))
    tau_v = exact_output_precisions(spec)
    if spec.output.fixed is None:
        _, gradient = output_prior(spec, network.v[:K])
        tau_v[:K] = np.maximum(gradient / np.maximum(network.v[:K], MIN_OUTPUT), 1e-6)
    priors = PriorSites(
        Natural(np.broadcast_to(1.0 / var, (K, d)).copy(), zero),
        Natural(zero, zero),
        Natural(tau_v, np.zeros(len(tau_v))),
    )
    return state_from_sites(spec, data, rows, priors, Gaussian(float(np.log(noise_var)), 0.0))
