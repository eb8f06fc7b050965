"""Refresh the posterior from its sites: q(w_k) in three forms, q(v), q(θ), q(φ).

Everything that touches rows is a map over row blocks and a small sum; ``row_map`` is the builtin
`map` or an executor's, and the sum runs in block order, so the result does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from cavity.ep.dual import dual_basis, dual_moments
from cavity.ep.state import Basis, OutputPosterior, PriorSites, RowSites, WeightPosterior
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.numerics.linalg import gaussian_log_partition, inverse_factor, squared_lengths
from cavity.types import FloatArray, Gaussian, IntArray, Natural

RowMap = Callable[..., Iterable[Any]]
ROW_BLOCK = 2048  # rows per task: large enough for BLAS, small enough for the cache


def row_blocks(n_rows: int, size: int = ROW_BLOCK) -> list[slice]:
    """Consecutive slices of at most ``size`` rows."""
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


# ── q(w_k): coordinates ─────────────────────────────────────────────────────────────────────────


def full_basis(X: FloatArray, w: Natural) -> Basis:
    """z = w: precision d × d."""
    return Basis(X[None], w.tau, w.nu)


def make_basis(form: str, X: FloatArray, w: Natural) -> Basis:
    """The coordinates of the chosen form."""
    return dual_basis(X, w) if form == "dual" else full_basis(X, w)


# ── q(w_k): sums over rows, factors, marginals ──────────────────────────────────────────────────


def gather(
    basis: Basis, weight: FloatArray, tau: FloatArray, nu: FloatArray, units: IntArray, row_map: RowMap = map
) -> tuple[FloatArray, FloatArray]:
    """Σ_i w_i τ_ik z_i z_iᵀ and Σ_i w_i ν_ik z_i of some units *(paper, eq. qep_w)*; tau, nu (n, U)."""
    shared = basis.design.shape[0] == 1

    def block(rows: slice) -> tuple[FloatArray, FloatArray]:
        w = weight[rows, None]
        t, b = w * tau[rows], w * nu[rows]
        if shared:
            Z = basis.design[0, rows]
            P = np.stack([(Z * t[:, [u]]).T @ Z for u in range(len(units))])
            return P, b.T @ Z
        Zs = basis.design[units][:, rows]
        return np.stack([(Z * t[:, [u]]).T @ Z for u, Z in enumerate(Zs)]), np.einsum("unr,nu->ur", Zs, b)

    total_tau, total_nu = 0.0, 0.0
    for P, b in row_map(block, row_blocks(len(weight))):
        total_tau, total_nu = total_tau + P, total_nu + b
    return np.asarray(total_tau), np.asarray(total_nu)


def solve_unit(
    prior_tau: FloatArray, prior_nu: FloatArray, lik_tau: FloatArray, lik_nu: FloatArray
) -> tuple[FloatArray, FloatArray, float] | None:
    """Mean, factor and Ψ of one unit in its coordinates; None where its precision is improper."""
    precision = lik_tau.copy()
    precision.flat[:: len(prior_tau) + 1] += prior_tau
    factor = inverse_factor(precision)
    if factor is None:
        return None
    location = lik_nu + prior_nu
    mean = factor @ (factor.T @ location)
    return mean, factor, gaussian_log_partition(mean, location, factor)


def marginals(
    basis: Basis, z_mean: FloatArray, factor: FloatArray, units: IntArray, row_map: RowMap = map
) -> tuple[FloatArray, FloatArray]:
    """Means and variances of h_ik, (n, U); z_mean and factor belong to ``units``."""
    n = basis.design.shape[1]

    def block(rows: slice) -> tuple[FloatArray, FloatArray]:
        mean, var = [], []
        for u, k in enumerate(units):
            Z = basis.design[k % basis.design.shape[0], rows]
            mean.append(Z @ z_mean[u])
            var.append(squared_lengths(Z, factor[u]))
        return np.stack(mean, axis=1), np.stack(var, axis=1)

    parts = list(row_map(block, row_blocks(n)))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def weight_moments(basis: Basis, z_mean: FloatArray, factor: FloatArray) -> Gaussian:
    """Marginal means and variances of w, (K, d), from the coordinates."""
    if basis.inputs is None:
        return Gaussian(z_mean, np.einsum("kij,kij->ki", factor, factor))
    return dual_moments(basis, z_mean, factor)


def assemble(
    basis: Basis, lik_tau: FloatArray, lik_nu: FloatArray, h: Gaussian | None = None, row_map: RowMap = map
) -> WeightPosterior | None:
    """q(w) of all units from gathered likelihood sums; None where some unit is improper."""
    K = lik_nu.shape[0]
    solved = [solve_unit(basis.prior_tau[k], basis.prior_nu[k], lik_tau[k], lik_nu[k]) for k in range(K)]
    if any(s is None for s in solved):
        return None
    z_mean = np.stack([s[0] for s in solved if s])
    factor = np.stack([s[1] for s in solved if s])
    partition = np.array([s[2] for s in solved if s])
    if basis.rest_partition is not None:
        partition = partition + basis.rest_partition
    mean, var = weight_moments(basis, z_mean, factor)
    if h is None:
        h = Gaussian(*marginals(basis, z_mean, factor, np.arange(K), row_map))
    return WeightPosterior(mean, var, partition, h.mean, h.var, basis, z_mean, factor, lik_tau, lik_nu)


def refresh_weights(
    spec: ModelSpec,
    data: TrainingData,
    rows: RowSites,
    w: Natural,
    row_map: RowMap = map,
    basis: Basis | None = None,
) -> WeightPosterior | None:
    """q(w) from all sites; None where improper. ``basis`` saves making that of the same prior sites again."""
    form = spec.resolved_form(data.n_rows)
    if form == "diagonal":
        return refresh_diagonal(data, rows, w)
    basis = make_basis(form, data.X, w) if basis is None else basis
    units = np.arange(spec.n_hidden)
    lik_tau, lik_nu = gather(basis, data.weight, rows.h[0], rows.h[1], units, row_map)
    return assemble(basis, lik_tau, lik_nu, row_map=row_map)


def change_weight_prior(
    spec: ModelSpec,
    data: TrainingData,
    rows: RowSites,
    old: WeightPosterior,
    w: Natural,
    with_h: bool,
    row_map: RowMap = map,
) -> WeightPosterior | None:
    """q(w) after new prior sites, the likelihood sums kept where the coordinates allow it.

    Without ``with_h`` the marginals of h are left stale, for the inner iterations on prior sites.
    """
    form = spec.resolved_form(data.n_rows)
    if form != "full":
        return refresh_weights(spec, data, rows, w, row_map)
    h = None if with_h else Gaussian(old.h_mean, old.h_var)
    return assemble(full_basis(data.X, w), old.lik_tau, old.lik_nu, h, row_map)


def refresh_diagonal(
    data: TrainingData, rows: RowSites, w: Natural, max_iter: int = 200
) -> WeightPosterior | None:
    r"""Fully factorised q(w_k) = Π_j N(w_kj | m_j, v_j) for very large d.

    The means solve the coupled system (XᵀTX + Λ)m = Xᵀν + ν_0 exactly (conjugate gradients). The
    variances solve v_j = 1/(Λ_j + Σ_i ρ_i x_ij²), ρ_i = τ_i/(1 + τ_i V_i), V_i = Σ_j x_ij² v_j: one row
    moves no single weight much, so V_i is also its cavity variance, and the marginal of h_i with its
    own site is 1/(1/V_i + τ_i). These are the stationary points of
    log|P| ≈ Σ_j log(1/v_j) + Σ_i [log(1 + τ_i V_i) - ρ_i V_i], used for Ψ.
    """
    X, n, d = data.X, *data.X.shape
    K = w.tau.shape[0]
    X2 = X * X
    var = np.empty((K, d))
    mean = np.empty((K, d))
    spread = np.empty((n, K))
    partition = np.empty(K)
    tau, nu = data.weight[:, None] * rows.h[0], data.weight[:, None] * rows.h[1]
    for k in range(K):
        if not np.all(w.tau[k] > 0.0):
            return None
        v = 1.0 / w.tau[k]
        V = X2 @ v
        for _ in range(max_iter):
            slack = 1.0 + rows.h[0, :, k] * V
            if not np.all(slack > 1e-9):
                return None
            rho = rows.h[0, :, k] / slack
            precision = w.tau[k] + X2.T @ (data.weight * rho)
            if not np.all(precision > 0.0):
                return None
            v = 1.0 / precision
            V_new = X2 @ v
            done = np.max(np.abs(V_new - V)) <= 1e-12 * np.max(V_new)
            V = V_new
            if done:
                break
        location = X.T @ nu[:, k] + w.nu[k]
        m = _conjugate_gradients(X, tau[:, k], w.tau[k], location, v)
        if m is None:
            return None
        slack = 1.0 + rows.h[0, :, k] * V
        rho = rows.h[0, :, k] / slack
        log_det = -np.sum(np.log(v)) + np.sum(data.weight * (np.log(slack) - rho * V))
        partition[k] = 0.5 * (float(location @ m) - log_det + d * np.log(2.0 * np.pi))
        mean[k], var[k], spread[:, k] = m, v, V
    h_var = 1.0 / (1.0 / spread + rows.h[0])
    basis = Basis(X[None], w.tau, w.nu)
    return WeightPosterior(
        mean, var, partition, X @ mean.T, h_var, basis, mean, var[:, None], var[:, None], mean
    )


def _conjugate_gradients(
    X: FloatArray, tau: FloatArray, lam: FloatArray, b: FloatArray, preconditioner: FloatArray
) -> FloatArray | None:
    """Solve (XᵀTX + Λ)m = b to 1e-12; None where a direction of negative curvature turns up."""
    m = np.zeros_like(b)
    r = b.copy()
    z = preconditioner * r
    p = z.copy()
    rz = float(r @ z)
    target = 1e-24 * max(rz, np.finfo(float).tiny)
    for _ in range(10 * len(tau) + 100):
        if rz <= target:
            break
        Ap = X.T @ (tau * (X @ p)) + lam * p
        curvature = float(p @ Ap)
        if not curvature > 0.0:
            return None
        step = rz / curvature
        m += step * p
        r -= step * Ap
        z = preconditioner * r
        rz, previous = float(r @ z), rz
        p = z + rz / previous * p
    return m


# ── q(v), q(θ), q(φ) ────────────────────────────────────────────────────────────────────────────


def gather_output(weight: FloatArray, rows: RowSites, row_map: RowMap = map) -> tuple[FloatArray, FloatArray]:
    """Σ_i w_i τ_i α_i α_iᵀ and Σ_i w_i β_i *(paper, eq. qep_v)*."""

    def block(part: slice) -> tuple[FloatArray, FloatArray]:
        A = rows.v_dir[part]
        return (A * (weight[part] * rows.v_tau[part])[:, None]).T @ A, weight[part] @ rows.v_nu[part]

    tau, nu = 0.0, 0.0
    for P, b in row_map(block, row_blocks(len(weight))):
        tau, nu = tau + P, nu + b
    return np.asarray(tau), np.asarray(nu)


def assemble_output(
    spec: ModelSpec, lik_tau: FloatArray, lik_nu: FloatArray, v: Natural
) -> OutputPosterior | None:
    """q(v) from gathered sums and prior sites; None where improper."""
    if spec.output.fixed is not None:
        J = len(spec.output.fixed)
        return OutputPosterior(spec.output.fixed.copy(), np.zeros((J, J)), 0.0, lik_tau, lik_nu)
    solved = solve_unit(v.tau, v.nu, lik_tau, lik_nu)
    if solved is None:
        return None
    mean, factor, partition = solved
    return OutputPosterior(mean, factor @ factor.T, partition, lik_tau, lik_nu)


def refresh_noise(spec: ModelSpec, weight: FloatArray, noise_sites: FloatArray) -> Gaussian | None:
    """q(θ) *(paper, eq. qep_theta, corrected)*; None where its precision is not positive."""
    tau = 1.0 / spec.noise.var + float(weight @ noise_sites[0])
    nu = spec.noise.mean / spec.noise.var + float(weight @ noise_sites[1])
    return Gaussian(nu / tau, 1.0 / tau) if tau > 0.0 else None


class ScaleField(NamedTuple):
    """q(φ): means and marginal variances (0: held), and its log-partition over the inferred scales."""

    scale: Gaussian
    log_partition: float


def scale_field(spec: ModelSpec, tau: FloatArray, nu: FloatArray) -> ScaleField | None:
    r"""The joint Gaussian of all scales, with site sums ``tau``, ``nu`` (L,) of each; None where improper.

    Scales under one parent have the prior covariance v[(1 - ρ)I + ρ11ᵀ], which is φ_l = φ_parent + ε_l with
    the parent integrated out. Its precision is I/u - c11ᵀ with u = (1 - ρ)v and c = ρv/(u(u + nρv)), so with
    D = diag(1/u + τ), b = prior location + ν and slack 1 - c1ᵀD⁻¹1,

    .. math:: \Sigma = D^{-1} + \frac{c\,D^{-1}11^TD^{-1}}{1 - c1^TD^{-1}1},\qquad
              \log|\Sigma^{-1}| = \log|D| + \log(1 - c1^TD^{-1}1).

    Without parents c = 0 *(paper, after eq. cavity_pw)*.
    """
    mean0, var0 = np.asarray(spec.scale_prior.mean), np.asarray(spec.scale_prior.var)
    on = spec.scale_inferred
    with_parent = on & (spec.parent_of >= 0)
    parent = np.where(with_parent, spec.parent_of, 0)  # the others add nothing, and have c = 0

    def over_parent(values: FloatArray) -> FloatArray:
        return np.bincount(parent, np.where(with_parent, values, 0.0))[parent]

    v = np.where(on, var0, 1.0)
    shared = np.where(with_parent, spec.scale_correlation, 0.0) * v
    own = v - shared
    children = over_parent(np.ones_like(v))
    c = shared / (own * (own + children * shared))
    D = 1.0 / own + tau
    if not np.all(D[on] > 0.0):
        return None
    D = np.where(on, D, 1.0)
    slack = np.where(with_parent, 1.0 - c * over_parent(1.0 / D), 1.0)
    if not np.all(slack > 0.0):
        return None
    b = mean0 / own - c * over_parent(mean0) + nu
    mean = (b + c * over_parent(b / D) / slack) / D
    var = (1.0 + c / (D * slack)) / D
    log_det = np.log(D) + np.where(with_parent, np.log(slack) / np.maximum(children, 1.0), 0.0)
    partition = 0.5 * float(np.sum((b * mean - log_det + np.log(2.0 * np.pi))[on]))
    return ScaleField(Gaussian(np.where(on, mean, mean0), np.where(on, var, 0.0)), partition)


def refresh_scales(spec: ModelSpec, sites: PriorSites) -> Gaussian | None:
    """q(φ) ∝ p(φ) Π t̃(φ_l) as means and marginal variances; None where it is improper."""
    field = scale_field(spec, *scale_sums(spec, sites))
    return None if field is None else field.scale


def scale_sums(spec: ModelSpec, sites: PriorSites) -> tuple[FloatArray, FloatArray]:
    """Precisions and locations of the φ sites, summed over the weights of each group, (L,)."""
    flat, L = spec.group_of.ravel(), spec.n_groups
    return np.bincount(flat, sites.scale.tau.ravel(), L), np.bincount(flat, sites.scale.nu.ravel(), L)
