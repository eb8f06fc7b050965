r"""Moments of f where the output layer also sees products of hidden units *(paper, Section 5)*.

With scaled unit outputs g_k of cavity mean m_k and variance V_k, independent of each other, and products
G_p = ρ_p g_a g_b, f = Σ_k v_k g_k + Σ_p v_p G_p + v_0 = vᵀz. Write S = Σ₋ + μ₋μ₋ᵀ for the second moments of
v. Then E f = μ₋ᵀ E z and Var f = E zᵀ Σ₋ E z + Σ_jl S_jl Cov(z_j, z_l), where products bring

    Var G_p = ρ²(V_a V_b + m_a² V_b + m_b² V_a),   Cov(G_p, g_a) = ρ_p m_b V_a,
    Cov(G_p, G_q) = ρ_p ρ_q m_b m_c V_a            for p = (a, b), q = (a, c), b ≠ c.

Given g_k = m_k + d the mean of z moves along e (1 at k, ρ_p m_b at each p = (k, b)) and
Var(G_p | g_k) = ρ²g_k² V_b, Cov(G_p, g_b | g_k) = ρ g_k V_b, Cov(G_p, G_q | g_k) = ρ_p ρ_q g_k m_c V_b for
q = (b, c): all at most quadratic in d. So f given h_k keeps the engine's form *(eq. qf_cond)*,
m = m_f + μ̃_k d and V = t0 + 2c_k d + s_k d², with

    μ̃_k = μ₋ᵀe,
    c_k = eᵀΣ₋E z + Σ_p [S_pp ρ² V_b m_k + S_pb ρ V_b + Σ_q S_pq ρ_p ρ_q m_c V_b],
    s_k = eᵀΣ₋e + Σ_p S_pp ρ² V_b,
    t0  = V_f - V_k (s_k + μ̃_k²),

the last because f has the variance V_f once d is integrated out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cavity.model.interactions import with_products
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray, Gaussian

Entries = Callable[[int, int], FloatArray]  # an entry of a (J, J) matrix, of each row


class GivenUnits(NamedTuple):
    """What f given each h_k needs, (n, K): m = m_f + mu·d, V = t0 + 2·c·d + s·d²."""

    mu: FloatArray
    c: FloatArray
    s: FloatArray


def product_moments(spec: ModelSpec, g: Gaussian) -> Gaussian:
    """Means and variances of units and products, (n, K + P), from those of the units, (n, K)."""
    if not len(spec.pairs):
        return g
    a, b = spec.pairs.T
    mean = with_products(g.mean, spec.pairs, spec.pair_scale)
    va, vb = g.var[:, a], g.var[:, b]
    var = spec.pair_scale**2 * (va * vb + g.mean[:, a] ** 2 * vb + g.mean[:, b] ** 2 * va)
    return Gaussian(mean, np.concatenate([g.var, var], axis=1))


def _sharing(spec: ModelSpec, unit: int) -> list[tuple[int, int]]:
    """Pairs that contain a unit: output number and partner."""
    K = spec.n_hidden
    return [(K + p, int(b if a == unit else a)) for p, (a, b) in enumerate(spec.pairs) if unit in (a, b)]


def shared_variance(spec: ModelSpec, g: Gaussian, second: Entries) -> FloatArray | float:
    """Σ_{j≠l} S_jl Cov(z_j, z_l): what products that share units add to the variance of f."""
    K, total = spec.n_hidden, 0.0
    for k in range(K if len(spec.pairs) else 0):
        mine = _sharing(spec, k)
        for p, b in mine:
            with_k = spec.pair_scale[p - K] * g.mean[:, b] * g.var[:, k]
            total = total + 2.0 * with_k * second(p, k)
            for q, c in mine:
                if q != p:
                    total = total + with_k * spec.pair_scale[q - K] * g.mean[:, c] * second(p, q)
    return total


def given_units(
    spec: ModelSpec, g: Gaussian, v_mean: FloatArray, image: FloatArray, cov: Entries
) -> GivenUnits:
    """The terms of f given each unit; image = Σ₋E z (n, J), cov the entries of Σ₋."""
    K, n = spec.n_hidden, len(v_mean)
    s = np.stack([np.broadcast_to(cov(k, k), n) for k in range(K)], axis=1)
    out = GivenUnits(v_mean[:, :K].copy(), image[:, :K].copy(), s)

    def second(j: int, i: int) -> FloatArray:
        return cov(j, i) + v_mean[:, j] * v_mean[:, i]

    for k in range(K if len(spec.pairs) else 0):
        mine = _sharing(spec, k)
        for p, b in mine:
            rho = spec.pair_scale[p - K]
            e, spread = rho * g.mean[:, b], rho * g.var[:, b]
            out.mu[:, k] += v_mean[:, p] * e
            out.c[:, k] += e * image[:, p] + spread * (second(p, p) * rho * g.mean[:, k] + second(p, b))
            out.s[:, k] += 2.0 * e * cov(k, p) + rho * spread * second(p, p)
            for q, other in mine:
                out.s[:, k] += e * spec.pair_scale[q - K] * g.mean[:, other] * cov(p, q)
            for q, c in _sharing(spec, b):
                if c != k:
                    out.c[:, k] += spread * spec.pair_scale[q - K] * g.mean[:, c] * second(p, q)
    return out
