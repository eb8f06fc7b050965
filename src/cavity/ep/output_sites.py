r"""Damped output sites, kept rank one *(paper, eqs. siteupdate_tauv, siteupdate_nuv, signed)*.

The damped precision T = (1-δ)τ_old αα ᵀ + δ τ gg ᵀ becomes λeeᵀ, its eigenpair of largest \|λ\|; the
location becomes ν = b + (λeeᵀ - T)μ, b = (1-δ)ν_old + δν and μ the mean of cavity × full site, so the mean
stays exact. Everything happens in the plane of α and g: with U = [α, g], D = diag((1-δ)τ_old, δτ) and the
cavity N(μ₋, Σ₋), Uᵀμ = (I + η UᵀΣ₋U D)⁻¹ Uᵀ(μ₋ + ηΣ₋b).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.numerics.kernel_output import IMPROPER
from cavity.types import FloatArray


class OutputSite(NamedTuple):
    """Sites of n rows: precision tau·direction directionᵀ with signed tau (n,), location nu (n, J)."""

    direction: FloatArray
    tau: FloatArray
    nu: FloatArray


class OutputCavity(NamedTuple):
    """Cavities of v: means (n, J), and covariances cov + gain·image imageᵀ."""

    mean: FloatArray
    cov: FloatArray
    gain: FloatArray
    image: FloatArray

    def times(self, x: FloatArray) -> FloatArray:
        """Σ₋x row by row."""
        return x @ self.cov + (self.gain * np.einsum("nj,nj->n", self.image, x))[:, None] * self.image


def damp_output_sites(
    old: OutputSite, proposed: OutputSite, cavity: OutputCavity, fraction: float, damping: float
) -> tuple[OutputSite, FloatArray]:
    """The damped sites of all rows, and which of them are proper."""
    alpha, g = old.direction, proposed.direction
    d1, d2 = (1.0 - damping) * old.tau, damping * proposed.tau
    b = (1.0 - damping) * old.nu + damping * proposed.nu

    def dot(x: FloatArray, y: FloatArray) -> FloatArray:
        return np.einsum("nj,nj->n", x, y)

    aa, ag, gg = dot(alpha, alpha), dot(alpha, g), dot(g, g)
    # leading eigenvalue of the 2 x 2 matrix D UᵀU, and e = z1 α + z2 g
    half = 0.5 * (d1 * aa + d2 * gg)
    root = np.sqrt(np.maximum(half**2 - d1 * d2 * (aa * gg - ag * ag), 0.0))
    lam = np.where(half >= 0.0, half + root, half - root)
    first = np.abs(d1 * aa - lam) >= np.abs(d2 * gg - lam)
    z1 = np.where(first, -d1 * ag, d2 * gg - lam)
    z2 = np.where(first, d1 * aa - lam, -d2 * ag)
    norm2 = z1 * z1 * aa + 2.0 * z1 * z2 * ag + z2 * z2 * gg
    alone = ~(norm2 > 0.0)  # δ = 1 and an old direction of zero, or both precisions zero
    z1, z2, norm2 = np.where(alone, 0.0, z1), np.where(alone, 1.0, z2), np.where(alone, gg, norm2)
    z1, z2 = z1 / np.sqrt(norm2), z2 / np.sqrt(norm2)
    image_a, image_g = cavity.times(alpha), cavity.times(g)
    m11, m12, m22 = dot(alpha, image_a), dot(g, image_a), dot(g, image_g)
    y1 = dot(alpha, cavity.mean) + fraction * dot(image_a, b)
    y2 = dot(g, cavity.mean) + fraction * dot(image_g, b)
    p11, p12 = 1.0 + fraction * m11 * d1, fraction * m12 * d2
    p21, p22 = fraction * m12 * d1, 1.0 + fraction * m22 * d2
    det = p11 * p22 - p12 * p21
    proper = det > IMPROPER
    det = np.where(proper, det, 1.0)
    u1, u2 = (p22 * y1 - p12 * y2) / det, (p11 * y2 - p21 * y1) / det
    e = z1[:, None] * alpha + z2[:, None] * g
    along = (lam * (z1 * u1 + z2 * u2))[:, None]
    nu = b + along * e - (d1 * u1)[:, None] * alpha - (d2 * u2)[:, None] * g
    return OutputSite(e, lam, nu), proper
