"""What the next sweep needs, and nothing else: sites and the posterior they make."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.model.spec import HELD_VAR, ModelSpec
from cavity.types import FloatArray, Gaussian, Natural


class RowSites(NamedTuple):
    """Likelihood sites, one set per data row (they live with the rows, wherever those are).

    h : (2, n, K) precision and location of t̃(w_k | row i) in h_ik = x_iᵀw_k *(paper, eq. tz_fact)*.
    v_dir, v_tau, v_nu : (n, J), (n,), (n, J). The output site has precision v_tau·v_dir v_dirᵀ with
        **signed** v_tau and location v_nu (the paper's α̃ loses the sign).
    noise : (2, n) precision and location of t̃(θ) *(eq. ttheta)*.
    """

    h: FloatArray
    v_dir: FloatArray
    v_tau: FloatArray
    v_nu: FloatArray
    noise: FloatArray


class PriorSites(NamedTuple):
    """Prior sites: w and scale (K, d) *(paper, eq. twk)*, v (J,) *(eq. tvk)*, the output bias exact."""

    w: Natural
    scale: Natural
    v: Natural


class Basis(NamedTuple):
    """Coordinates z in which q(w_k) is kept: h = design · z, z ~ exp(-½zᵀdiag(prior_tau)z + prior_nuᵀz).

    "full": z = w, one design shared by all units. "dual" (`cavity.ep.dual`): w = Λ^(-½)(Qz + z⊥), h = Lz,
    design (K, n, r), where the few weights with hardly any or a negative prior precision are coordinates of
    their own.
    """

    design: FloatArray
    prior_tau: FloatArray
    prior_nu: FloatArray
    inputs: FloatArray | None = None  # X (n, d)
    inverse: FloatArray | None = None  # L⁻¹ (K, n, n)
    root: FloatArray | None = None  # Λ^(-½) (K, d), one for weights that are their own coordinate
    own: FloatArray | None = None  # which are (K, d)
    prior_mean: FloatArray | None = None  # of the others under the prior sites alone (K, d)
    rest_partition: FloatArray | None = None  # part of log Ψ that is not in z (K,)


class WeightPosterior(NamedTuple):
    """q(w_k) for all units *(paper, eq. qep_w)* with the marginals of w and of h."""

    mean: FloatArray  # (K, d)
    var: FloatArray  # (K, d) marginal variances
    log_partition: FloatArray  # (K,) Ψ(q(w_k))
    h_mean: FloatArray  # (n, K)
    h_var: FloatArray  # (n, K)
    basis: Basis
    z_mean: FloatArray  # (K, r)
    factor: FloatArray  # (K, r, r): Cov z = factor factorᵀ; (K, 1, d) variances if diagonal
    lik_tau: FloatArray  # (K, r, r) Σ_i τ_ik z z ᵀ; (K, 1, d) if diagonal
    lik_nu: FloatArray  # (K, r)


class OutputPosterior(NamedTuple):
    """q(v) *(paper, eq. qep_v)*; a zero covariance where the output weights are held."""

    mean: FloatArray
    cov: FloatArray
    log_partition: float
    lik_tau: FloatArray
    lik_nu: FloatArray


class LogVariance(NamedTuple):
    """q(u) of a log noise variance φ(x)ᵀu that depends on the inputs (`cavity.ep.noise`)."""

    mean: FloatArray  # (p,), θ first
    cov: FloatArray  # (p, p)

    @property
    def level(self) -> Gaussian:
        """q(θ): the log noise variance at the mean of all inputs."""
        return Gaussian(float(self.mean[0]), float(self.cov[0, 0]))


class Posterior(NamedTuple):
    """q(w) q(v) q(θ) Π q(φ_l) *(paper, eqs. qep, qep_fact)*; a variance of zero means held.

    ``log_var`` is there where the noise depends on the inputs and is free; ``noise`` is then its level.
    """

    w: WeightPosterior
    v: OutputPosterior
    noise: Gaussian
    scale: Gaussian
    log_var: LogVariance | None = None


class EPState(NamedTuple):
    """Everything a sweep reads and writes; pure data, picklable, resumable."""

    rows: RowSites
    priors: PriorSites
    posterior: Posterior


def zero_row_sites(n_rows: int, n_hidden: int, n_products: int = 0) -> RowSites:
    """All likelihood sites at zero *(paper, Sec. 3.3.1)*."""
    outputs = n_hidden + n_products + 1
    return RowSites(
        np.zeros((2, n_rows, n_hidden)),
        np.zeros((n_rows, outputs)),
        np.zeros(n_rows),
        np.zeros((n_rows, outputs)),
        np.zeros((2, n_rows)),
    )


def hold_masked(spec: ModelSpec, priors: PriorSites) -> PriorSites:
    """Sites that hold the weights outside a mask at zero: N(0, 1e-30), never updated."""
    if not spec.held.any():
        return priors
    tau, nu = np.where(spec.held, 1.0 / HELD_VAR, priors.w.tau), np.where(spec.held, 0.0, priors.w.nu)
    return priors._replace(w=Natural(tau, nu))


def initial_prior_sites(
    spec: ModelSpec,
    weight_var: float = 0.5,
    bias_var: float = 4.0,
    output_range: tuple[float, float] = (1.0, 2.0),
    output_var: float = 0.04,
) -> PriorSites:
    """Warm-up prior sites *(paper, Sec. 3.3.1)*: N(0, 0.5) for the weights, N(0, 4) for the bias.

    Output weights get linearly spaced means in [1, 2] and variance 0.2², so that units differ and
    stay positive. Weights whose scale is held start at that scale; `hold_masked` does the rest.

    Periodic units start with a narrower bias, and an even one (cosine) off its axis of symmetry: there its
    weights, of zero mean, would stay so. Without a bias weight it gets small weights of either sign instead.
    """
    K, d = spec.group_of.shape
    var = np.full((K, d), weight_var)
    if spec.bias:
        var[:, -1] = bias_var
    held = ~spec.scale_inferred[spec.group_of]
    var[held] = np.exp(np.asarray(spec.scale_prior.mean)[spec.group_of][held])
    mean, zero = np.zeros((K, d)), np.zeros((K, d))
    for k, activation in enumerate(spec.activations):
        if activation.start is None:
            continue
        if spec.bias:
            mean[k, -1], var[k, -1] = activation.start
        elif activation.start[0] != 0.0:
            mean[k] = np.random.default_rng(k).choice([-0.5, 0.5], d)
    tau_v = exact_output_precisions(spec)
    tau_v[:K] = 1.0 / output_var
    means = np.zeros(spec.n_outputs)
    means[:K] = np.linspace(*output_range, K) if K > 1 else np.mean(output_range)
    return PriorSites(
        Natural(1.0 / var, mean / var),
        Natural(zero, zero),
        Natural(tau_v, tau_v * means),
    )


def exact_output_precisions(spec: ModelSpec) -> FloatArray:
    """(J,) prior precisions of the output weights that have an exact Gaussian prior; zero of the units."""
    products = np.full(len(spec.pairs), 1.0 / spec.output.scale_var)
    return np.concatenate([np.zeros(spec.n_hidden), products, [1.0 / spec.output.bias_var]])
