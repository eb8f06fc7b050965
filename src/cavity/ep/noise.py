r"""q of the log noise variance: one θ, or one that depends on the inputs.

With φ(x) = (1, x) for standardised inputs x, and weights u = (θ, b), or with features of the function found
so far behind them (`cavity.ep.guide`),

.. math:: \log \operatorname{Var}(y_i \mid f_i) = s_i = \varphi_i^T u,\qquad
          q(u) \propto p(u) \prod_i \tilde t_i(s_i)^{w_i},\quad
          \tilde t_i(s) = e^{\nu_i s - \tau_i s^2/2} .

A row knows u only through s_i, so it is visited with the marginal of s_i as it would be with that of θ, and
its site is as small. One θ is φ = 1 *(paper, eqs. ttheta, qep_theta)*.
"""

from __future__ import annotations

import numpy as np

from cavity.ep.guide import FEATURES, guide_features
from cavity.ep.posterior import refresh_noise
from cavity.ep.schedule import Step
from cavity.ep.state import EPState, LogVariance, Posterior
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.numerics.linalg import gaussian_log_partition, inverse_factor
from cavity.types import FloatArray, Gaussian, Natural

# Inputs farther from their mean count as so many sds: e^s must not explode at a row of a long tail.
FARTHEST = 4.0
LEAP = 2.0  # most that a block of rows may move E θ, or E s of one of its rows
WIDEST = 10.0  # most that a block of rows may widen q(θ), or q(s) of one of its rows

LogNoise = Gaussian | LogVariance


def features(spec: ModelSpec, X: FloatArray) -> FloatArray:
    """(n, p) φ of the rows of a design (its last column the bias where there is one); p = 0 with one θ."""
    if not spec.noise.varies:
        return np.zeros((len(X), 0))
    parts = [X[:, : X.shape[1] - spec.bias]]
    if spec.noise.guide is not None:
        parts.append(guide_features(spec.noise.guide, X))
    return np.column_stack([np.ones(len(X)), *(np.clip(part, -FARTHEST, FARTHEST) for part in parts)])


def prior(spec: ModelSpec) -> Gaussian:
    """Means and variances of u, (p,)."""
    noise, slopes = spec.noise, spec.n_inputs - spec.bias
    guided = FEATURES if noise.guide is not None else 0
    var = [noise.var] + [noise.slope_var] * slopes + [noise.guide_var] * guided
    return Gaussian(np.append(noise.mean, np.zeros(slopes + guided)), np.array(var))


def of(posterior: Posterior) -> LogNoise:
    """q(u), or q(θ) where there is only one or it is held."""
    return posterior.noise if posterior.log_var is None else posterior.log_var


def level(q: LogNoise) -> Gaussian:
    """q(θ)."""
    return q.level if isinstance(q, LogVariance) else q


def installed(posterior: Posterior, q: LogNoise) -> Posterior:
    """The posterior with another q of the noise."""
    return posterior._replace(noise=level(q), log_var=q if isinstance(q, LogVariance) else None)


def shifted(spec: ModelSpec, state: EPState, shift: float) -> EPState:
    """The state with ``shift`` added to the log noise variance; no site says so, so it is for predictions.

    Where y is the sign of f plus noise, that is f times e^(-shift/2).
    """
    if shift == 0.0:
        return state
    if spec.likelihood.sign:
        return _scaled(state, float(np.exp(-0.5 * shift)))
    q = of(state.posterior)
    if isinstance(q, LogVariance):
        moved: LogNoise = q._replace(mean=np.append(q.mean[:1] + shift, q.mean[1:]))
    else:
        moved = q._replace(mean=q.mean + shift)
    return state._replace(posterior=installed(state.posterior, moved))


def _scaled(state: EPState, factor: float) -> EPState:
    """The state with all output weights, and with them f, times ``factor``."""
    v, rows, prior = state.posterior.v, state.rows, state.priors.v
    square = factor**2
    v = v._replace(
        mean=factor * v.mean, cov=square * v.cov, lik_tau=v.lik_tau / square, lik_nu=v.lik_nu / factor
    )
    return EPState(
        rows._replace(v_tau=rows.v_tau / square, v_nu=rows.v_nu / factor),
        state.priors._replace(v=Natural(prior.tau / square, prior.nu / factor)),
        state.posterior._replace(v=v),
    )


def of_rows(q: LogNoise, phi: FloatArray) -> Gaussian:
    """Marginals of s for rows with features ``phi``, (n,); q(θ) itself where there is one for all."""
    if not isinstance(q, LogVariance):
        return q
    return Gaussian(phi @ q.mean, np.einsum("np,np->n", phi @ q.cov, phi))


def farthest(q: LogNoise, phi: FloatArray, log_var: float) -> float:
    """How far from ``log_var`` the mean of s of any row is; zero where there is one θ for all."""
    return float(np.max(np.abs(of_rows(q, phi).mean - log_var))) if isinstance(q, LogVariance) else 0.0


def refreshed(spec: ModelSpec, data: TrainingData, sites: FloatArray) -> LogNoise | None:
    """q from its prior and the sites of all rows, (2, n); None where it is improper."""
    if not spec.noise.varies:
        return refresh_noise(spec, data.weight, sites)
    phi, p = features(spec, data.X), prior(spec)
    precision = (phi * (data.weight * sites[0])[:, None]).T @ phi + np.diag(1.0 / p.var)
    factor = inverse_factor(precision)
    if factor is None:
        return None
    location = (data.weight * sites[1]) @ phi + p.mean / p.var
    return LogVariance(factor @ (factor.T @ location), factor @ factor.T)


def partition_gain(spec: ModelSpec, q: LogVariance) -> float:
    """Ψ(q(u)) - Ψ(p(u)), the part of log Z_EP that stands for the weights of the noise."""
    p = prior(spec)
    before = gaussian_log_partition(p.mean, p.mean / p.var, np.diag(np.sqrt(p.var)))
    return gaussian_log_partition(q.mean, np.linalg.solve(q.cov, q.mean), np.linalg.cholesky(q.cov)) - before


def for_step(spec: ModelSpec, data: TrainingData, state: EPState, step: Step) -> LogNoise:
    """q for this step: freed from its sites and prior, or held where it stands, the same for all rows."""
    noise = state.posterior.noise
    if not (step.infer_noise and spec.noise.inferred):
        return Gaussian(noise.mean, 0.0)
    if noise.var > 0.0 and (state.posterior.log_var is not None or not spec.noise.varies):
        return of(state.posterior)
    fresh = refreshed(spec, data, state.rows.noise)
    if fresh is not None:
        return fresh
    p = prior(spec)
    return (
        LogVariance(p.mean, np.diag(p.var))
        if spec.noise.varies
        else Gaussian(spec.noise.mean, spec.noise.var)
    )


def applied(
    q: LogNoise, phi: FloatArray, weight: FloatArray, old: FloatArray, proposed: FloatArray
) -> tuple[LogNoise, FloatArray, int]:
    """Install proposed sites of a block; halve the step while q would be improper or leap.

    Where rows leave far less than the noise level says, each asks for a lower one and none says by how much:
    the sum of their sites would move θ by hundreds. Returns q, the sites, and how often they were halved.
    """
    if not level(q).var > 0.0:
        return q, old, 0
    change = proposed - old
    for cut in range(40):
        moved = _moved(q, phi, weight, change)
        if moved is not None:
            return moved, old + change, cut
        change = 0.5 * change
    return q, old, 40


def _moved(q: LogNoise, phi: FloatArray, weight: FloatArray, change: FloatArray) -> LogNoise | None:
    """q times a change of sites; None where that is improper, far wider, or far away."""
    if not isinstance(q, LogVariance):
        tau = 1.0 / q.var + float(weight @ change[0])
        nu = q.mean / q.var + float(weight @ change[1])
        near = tau > 1.0 / (WIDEST * q.var) and abs(nu / tau - q.mean) <= LEAP
        return Gaussian(nu / tau, 1.0 / tau) if near else None
    precision = np.linalg.inv(q.cov)
    factor = inverse_factor(precision + (phi * (weight * change[0])[:, None]).T @ phi)
    if factor is None:
        return None
    new = LogVariance(
        factor @ (factor.T @ (precision @ q.mean + (weight * change[1]) @ phi)), factor @ factor.T
    )
    before, after = of_rows(q, phi), of_rows(new, phi)
    near = np.all(after.var < WIDEST * before.var) and np.all(np.abs(after.mean - before.mean) <= LEAP)
    return new if near else None
