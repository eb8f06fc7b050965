r"""The fully coupled approximation *(paper, Section 3.1.1)*: one Gaussian q(z), z = [w_1 … w_K, v].

A reference for small networks, not an engine: the tilted moments of u_i = [h_i, v] are K-dimensional
integrals. Given h the network is linear in v, so with u ~ N(m, V) under the cavity, v given h is Gaussian,
f = vᵀg(h) + v_0 too, and the likelihood answers as everywhere else *(eq. tiltedz_gen)*:

    Ẑ = ∫ N(h | cavity) Z(y; m_f(h), V_f(h)) dh,
    E[v | h, y] = μ(h) + Σz ∂,    Cov[v | h, y] = Σ + Σzzᵀ Σ ∂²

with z = [g(h); 1] and ∂, ∂² the derivatives of log Z in m_f. The integral over h is a tensor Gauss–Hermite
rule, laid about the cavity and then laid again about the tilted moments it found. The site of a row is a
(2K + 1)-dimensional Gaussian *(eq. tz)*, and q(z) collects them *(eq. qep_z)*. Sites that would make
q improper are shortened.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.model.data import TrainingData
from cavity.model.priors import GaussianPrior
from cavity.model.spec import ModelSpec
from cavity.numerics.quadrature import gauss_hermite
from cavity.types import FloatArray, Gaussian

MOST_UNITS = 3
NODES = {1: 96, 2: 40, 3: 20}  # a dimension; 3 units: 8000 nodes a row
WIDER = 1.3  # the second rule covers the tilted density with a little to spare


class CoupledPosterior(NamedTuple):
    """q(z) *(paper, eq. qep_z)*: w first, unit by unit, then v with its bias last; held v are left out.

    log_evidence is NaN where a cavity was improper: that row's site stays out of the update.
    """

    mean: FloatArray
    cov: FloatArray
    log_evidence: float
    mismatch: float
    sweeps: int


class _Tilted(NamedTuple):
    log_z: FloatArray  # (n,)
    mean: FloatArray  # (n, D)
    cov: FloatArray  # (n, D, D)


def check_coupled(spec: ModelSpec) -> None:
    """Refuse what this approximation does not cover, in a sentence."""
    if spec.n_hidden > MOST_UNITS:
        raise ValueError(
            f"the coupled approximation integrates over all units at once: at most {MOST_UNITS}, "
            f"got {spec.n_hidden}."
        )
    if spec.noise.inferred or spec.scale_inferred.any() or len(spec.pairs) or spec.held.any():
        raise ValueError(
            "the coupled approximation takes held noise, held prior scales, no mask and no interactions."
        )
    if not all(isinstance(block.prior, GaussianPrior) for block in spec.blocks):
        raise ValueError("the coupled approximation takes Gaussian priors of the input weights only.")


def fit_coupled(
    spec: ModelSpec,
    data: TrainingData,
    start: FloatArray,
    *,
    fraction: float = 1.0,
    damping: float = 0.5,
    max_sweeps: int = 300,
    tol: float = 1e-6,
) -> CoupledPosterior:
    """Parallel EP with joint sites.

    Parameters
    ----------
    start : (K, d) array
        Weights that the zero start is centred at for its first sweep, to tell the units apart.
    fraction, damping, max_sweeps, tol
        As of `cavity.ep.schedule.Step` and `cavity.ep.schedule.Stage`.
    """
    check_coupled(spec)
    K, d, n = spec.n_hidden, spec.n_inputs, data.n_rows
    fixed = spec.output.fixed
    outputs = 0 if fixed is not None else K + 1
    size, width = K * d + outputs, K + outputs
    B = np.zeros((n, width, size))
    for k in range(K):
        B[:, k, k * d : (k + 1) * d] = data.X
    B[:, K:, K * d :] = np.eye(outputs)
    prior = np.zeros(size)
    prior[: K * d] = np.exp(-np.asarray(spec.scale_prior.mean)[spec.group_of]).ravel()
    v_tau, v_nu = np.zeros(outputs), np.zeros(outputs)
    if outputs:
        v_tau[:] = np.append(np.full(K, 25.0), 1.0 / spec.output.bias_var)
        v_nu[:K] = 25.0 * np.linspace(1.0, 1.5, K)
    T, b = np.zeros((n, width, width)), np.zeros((n, width))
    pull = np.zeros(size)
    pull[: K * d] = 4.0 * start.ravel()  # of the first sweep only

    def posterior(T: FloatArray, b: FloatArray, v_tau: FloatArray, v_nu: FloatArray) -> Gaussian | None:
        precision = np.einsum("nia,nij,njb->ab", B, T, B, optimize=True) + np.diag(prior)
        location = np.einsum("nia,ni->a", B, b) + pull
        precision[K * d :, K * d :] += np.diag(v_tau)
        location[K * d :] += v_nu
        precision[: K * d, : K * d] += 4.0 * np.eye(K * d) * bool(pull.any())
        if np.linalg.eigvalsh(precision)[0] <= 0.0:
            return None
        cov = np.linalg.inv(precision)
        return Gaussian(cov @ location, 0.5 * (cov + cov.T))

    q = posterior(T, b, v_tau, v_nu)
    assert q is not None
    evidence, mismatch, sweeps = -np.inf, np.inf, 0
    for sweeps in range(1, max_sweeps + 1):  # noqa: B007
        u_mean, u_cov = np.einsum("nia,a->ni", B, q.mean), B @ q.var @ np.swapaxes(B, 1, 2)
        prec = np.linalg.inv(u_cov)
        loc = np.einsum("nij,nj->ni", prec, u_mean)
        cav_prec, cav_loc = prec - fraction * T, loc - fraction * b
        proper = np.linalg.eigvalsh(cav_prec)[:, 0] > 1e-9
        cav_cov = np.linalg.inv(np.where(proper[:, None, None], cav_prec, prec))
        cav_mean = np.einsum("nij,nj->ni", cav_cov, np.where(proper[:, None], cav_loc, loc))
        tilted = _tilted(spec, data, cav_mean, cav_cov, fraction)
        scale = np.sqrt(np.einsum("nii->ni", u_cov))
        gap = np.abs(tilted.mean - u_mean) / scale
        gap = np.maximum(gap, np.abs(np.einsum("nii->ni", tilted.cov) / scale**2 - 1.0))
        partition = _partition(cav_cov, cav_mean) - _partition(u_cov, u_mean)
        evidence = float(np.sum(tilted.log_z + partition)) / fraction if proper.all() else np.nan
        new_prec = np.linalg.inv(tilted.cov)
        new_T = (new_prec - cav_prec) / fraction
        new_b = (np.einsum("nij,nj->ni", new_prec, tilted.mean) - cav_loc) / fraction
        new_T, new_b = np.where(proper[:, None, None], new_T, T), np.where(proper[:, None], new_b, b)
        new_tau, new_nu, out_gap, out_log_z = _output_priors(spec, q, v_tau, v_nu)
        mismatch = float(max(gap[proper].max(initial=0.0), out_gap))
        exact = np.append(1.0 / prior[: K * d], [spec.output.bias_var] * bool(outputs))
        evidence += out_log_z + float(_partition(q.var[None], q.mean[None])[0])
        evidence -= float(np.sum(0.5 * np.log(2.0 * np.pi * exact)))
        share = damping
        pull[:] = 0.0
        for _ in range(30):
            moved = posterior(
                T + share * (new_T - T), b + share * (new_b - b),
                v_tau + share * (new_tau - v_tau), v_nu + share * (new_nu - v_nu),
            )  # fmt: skip
            if moved is not None:
                break
            share *= 0.5
        if moved is None:
            break
        if mismatch < tol and sweeps > 1:
            break
        T, b = T + share * (new_T - T), b + share * (new_b - b)
        v_tau, v_nu = v_tau + share * (new_tau - v_tau), v_nu + share * (new_nu - v_nu)
        q = moved
    return CoupledPosterior(q.mean, q.var, evidence, mismatch, sweeps)


def _partition(cov: FloatArray, mean: FloatArray) -> FloatArray:
    """Ψ of Gaussians."""
    solved = np.linalg.solve(cov, mean[..., None])[..., 0]
    quad = np.einsum("ni,ni->n", mean, solved)
    return 0.5 * (quad + np.linalg.slogdet(2.0 * np.pi * cov)[1])


def _tilted(
    spec: ModelSpec, data: TrainingData, mean: FloatArray, cov: FloatArray, fraction: float
) -> _Tilted:
    """Moments of u = [h, v] under cavity × likelihood^η, of all rows."""
    K = spec.n_hidden
    first = _rule(spec, data, mean, cov, fraction, mean[:, :K], cov[:, :K, :K])
    return _rule(spec, data, mean, cov, fraction, first.mean[:, :K], WIDER**2 * first.cov[:, :K, :K])


def _rule(
    spec: ModelSpec,
    data: TrainingData,
    mean: FloatArray,
    cov: FloatArray,
    fraction: float,
    centre: FloatArray,
    spread: FloatArray,
) -> _Tilted:
    """The tensor rule about N(centre, spread)."""
    K, n = spec.n_hidden, len(mean)
    x, w = gauss_hermite(NODES[K])
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*[x] * K, indexing="ij")], axis=1)
    log_w = np.sum(np.stack(np.meshgrid(*[np.log(w)] * K, indexing="ij")), axis=0).ravel()
    root = np.linalg.cholesky(spread)
    h = centre[:, None] + np.einsum("nij,qj->nqi", root, grid)
    away = h - mean[:, None, :K]
    inverse = np.linalg.inv(cov[:, :K, :K])
    log_p = (
        log_w
        + 0.5 * np.sum(grid**2, axis=1)
        - 0.5 * np.einsum("nqi,nij,nqj->nq", away, inverse, away, optimize=True)
    )
    ratio = np.linalg.slogdet(spread)[1] - np.linalg.slogdet(cov[:, :K, :K])[1]
    log_p = log_p + 0.5 * ratio[:, None]
    units = [spec.activation_scale[k] * spec.activations[k](h[:, :, k]) for k in range(K)]
    g = np.stack([*units, np.ones(h.shape[:2])], axis=2)
    fixed = spec.output.fixed
    if fixed is None:
        slope = np.einsum("nij,njk->nik", cov[:, K:, :K], inverse)
        v_cov = cov[:, K:, K:] - slope @ cov[:, :K, K:]
        v_mean = mean[:, None, K:] + np.einsum("nik,nqk->nqi", slope, away)
        image = np.einsum("nij,nqj->nqi", v_cov, g)
        f = Gaussian(np.einsum("nqi,nqi->nq", v_mean, g), np.einsum("nqi,nqi->nq", image, g))
    else:
        f = Gaussian(g @ fixed, np.zeros((n, len(grid))))
    z = spec.likelihood.log_z(
        data.y[:, None], f, np.float64(spec.noise.mean), data.row_var[:, None], fraction
    )
    log_p = log_p + z.value
    top = log_p.max(axis=1)
    p = np.exp(log_p - top[:, None])
    log_z = top + np.log(p.sum(axis=1))
    p /= p.sum(axis=1)[:, None]
    if fixed is not None:
        u = h
    else:
        u = np.concatenate([h, v_mean + image * z.d1[..., None]], axis=2)
    u_mean = np.einsum("nq,nqi->ni", p, u)
    away = u - u_mean[:, None]
    u_cov = np.einsum("nq,nqi,nqj->nij", p, away, away, optimize=True)
    if fixed is None:
        u_cov[:, K:, K:] += v_cov + np.einsum("nq,nqi,nqj->nij", p * z.d2, image, image, optimize=True)
    return _Tilted(log_z, u_mean, u_cov)


def _output_priors(
    spec: ModelSpec, q: Gaussian, tau: FloatArray, nu: FloatArray
) -> tuple[FloatArray, FloatArray, float, float]:
    """New prior sites of v_k *(paper, eq. tvk)*, their mismatch, and their part of log Z_EP."""
    if spec.output.fixed is not None:
        return tau, nu, 0.0, 0.0
    K = spec.n_hidden
    here = slice(len(q.mean) - K - 1, len(q.mean) - 1)
    mean, var = q.mean[here], np.diag(q.var)[here]
    rest, location = 1.0 / var - tau[:K], mean / var - nu[:K]
    ok = rest > 1e-9 / var
    rest = np.where(ok, rest, 1.0 / var)
    location = np.where(ok, location, mean / var)
    log_z, m, v = spec.output.prior.conditional_moments(
        Gaussian(location / rest, 1.0 / rest), np.full(K, np.log(spec.output.scale_var)), 1.0
    )
    new_tau, new_nu = tau.copy(), nu.copy()
    new_tau[:K] = np.where(ok, 1.0 / v - rest, tau[:K])
    new_nu[:K] = np.where(ok, m / v - location, nu[:K])
    gap = np.maximum(np.abs(m - mean) / np.sqrt(var), np.abs(v / var - 1.0))
    change = 0.5 * (location**2 / rest - mean**2 / var - np.log(rest * var))
    return new_tau, new_nu, float(np.max(np.where(ok, gap, 0.0))), float(np.sum(log_z + change))
