"""q(w_k) with more inputs than rows: what is inverted is n × n, and nothing of size n × d is kept."""

from __future__ import annotations

import numpy as np

from cavity.ep.state import Basis
from cavity.numerics.linalg import gram_factor, signed_factor
from cavity.types import FloatArray, Gaussian, Natural

# Prior precision below which a weight is its own coordinate in the dual form: a prior sd of 100 for
# standardised inputs. Whitened coordinates of such weights would cost digits (1e-7 of a variance at 1e-4),
# and those of weights with negative precisions, which priors that are not log-concave ask for, do not exist.
OWN_COORDINATE = 1e-4


def dual_basis(X: FloatArray, w: Natural) -> Basis:
    r"""Coordinates for d > n: no d × d matrix anywhere.

    With Λ = diag(w.tau) > 0 and LLᵀ = XΛ⁻¹Xᵀ, w = Λ^(-½)(Qz + z⊥), Qᵀ = L⁻¹XΛ^(-½), h = Lz, z ~ N(·, I) under
    the prior sites, and z⊥ keeps its prior. The few weights with Λ_j below `OWN_COORDINATE` stand beside z as
    they are, with their Λ_j of either sign. Units with fewer of those have coordinates that nothing depends
    on, N(0, 1), so that all units have as many.

    Q is never formed here. It would be orthogonal only as far as the digits of LLᵀ allow; but marginals take
    away QQᵀ and give back QΣQᵀ, and what is wrong with Q is wrong with both.
    """
    K, d = w.tau.shape
    n = X.shape[0]
    own = w.tau < OWN_COORDINATE
    r = n + int(np.max(own.sum(axis=1)))
    root = 1.0 / np.sqrt(np.where(own, 1.0, w.tau))
    shared = np.where(own, 0.0, root)
    design, inverse = np.zeros((K, n, r)), np.empty((K, n, n))
    tau, nu = np.ones((K, r)), np.zeros((K, r))
    for k in range(K):
        white = X * shared[k]
        design[k, :, :n], inverse[k] = gram_factor(white @ white.T)
        nu[k, :n] = inverse[k] @ (white @ (shared[k] * w.nu[k]))
        alone = np.flatnonzero(own[k])
        beside = n + np.arange(len(alone))
        design[k][:, beside], tau[k, beside], nu[k, beside] = X[:, alone], w.tau[k, alone], w.nu[k, alone]
    # Ψ of z⊥ and of the change of variables w = Λ^(-½)(·), less that of coordinates nothing depends on
    square = np.sum((shared * w.nu) ** 2, axis=1) - np.sum(nu[:, :n] ** 2, axis=1)
    partition = 0.5 * square + np.sum(np.log(root), axis=1) + 0.5 * (d - r) * np.log(2 * np.pi)
    return Basis(design, tau, nu, X, inverse, root, own, shared**2 * w.nu, partition)


def dual_moments(basis: Basis, z_mean: FloatArray, factor: FloatArray) -> Gaussian:
    r"""Marginal means and variances of w, (K, d).

    With q_j the row of Q of a weight and Σ = Cov z, its variance is Λ_j⁻¹(1 - q_jᵀ(I - Σ)q_j), and
    q_jᵀ(I - Σ)q_j a sum of signed squares of n linear functions of the column x_j: one product with X.
    """
    X, inverse, own = basis.inputs, basis.inverse, basis.own
    assert X is not None and inverse is not None and own is not None
    assert basis.root is not None and basis.prior_mean is not None
    n = len(X)
    square = np.where(own, 0.0, basis.root**2)
    mean, var = np.empty_like(square), np.empty_like(square)
    for k in range(len(mean)):
        # Σ is its part given the weights beside z, which rows of positive sites only make smaller than I,
        # and what those weights add to it
        given, added = factor[k, :n, :n], factor[k, :n, n:]
        known, sign = signed_factor(np.eye(n) - given @ given.T)
        lost = _signed_squares(known @ inverse[k] @ X, sign)
        if added.shape[1]:
            lost -= _signed_squares(added.T @ inverse[k] @ X, np.ones(added.shape[1]))
        least = np.finfo(float).eps  # of the prior's variance: below it all is rounding
        var[k] = square[k] * np.maximum(1.0 - square[k] * lost, least)
        shift = inverse[k].T @ (z_mean[k, :n] - basis.prior_nu[k, :n])
        mean[k] = basis.prior_mean[k] + square[k] * (shift @ X)
        alone = np.flatnonzero(own[k])
        beside = n + np.arange(len(alone))
        mean[k, alone], var[k, alone] = z_mean[k, beside], np.sum(factor[k, beside] ** 2, axis=1)
    return Gaussian(mean, var)


def _signed_squares(image: FloatArray, sign: FloatArray) -> FloatArray:
    """Sum of the squares of each column, those of a row with its sign."""
    signed = image if np.all(sign > 0.0) else sign[:, None] * image
    return np.einsum("rd,rd->d", signed, image)


def rotation(basis: Basis, k: int) -> FloatArray:
    """Q of unit k, (d, r): w = E w + root·(Qz + z⊥), with a column for each weight that stands beside z."""
    X, inverse, own, root = basis.inputs, basis.inverse, basis.own, basis.root
    assert X is not None and inverse is not None and own is not None and root is not None
    n, d = X.shape
    turned = np.zeros((basis.design.shape[2], d))
    turned[:n] = inverse[k] @ (X * np.where(own[k], 0.0, root[k]))
    alone = np.flatnonzero(own[k])
    turned[n + np.arange(len(alone)), alone] = 1.0
    return turned.T
