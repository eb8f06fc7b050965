r"""Compiled damping of the output site of a row; the NumPy twin is `cavity.ep.output_sites`."""

from __future__ import annotations

import math

from numba import njit

from cavity.numerics.kernel_units import _JIT

# A cavity whose remaining share of the precision is below this counts as improper. With float64
# marginals accurate to ~1e-13 a share of 1e-9 still has four digits; proper cavities of rows that
# alone determine a direction have shares down to noise/prior variance, 1e-6 in bad cases.
IMPROPER = 1e-9


@njit(**_JIT)
def damp_output_site(
    i, eta, delta, site_tau, site_nu, dir_v, tau_v, nu_v, mg, a, sm, mu_c,
    quad, quad_g, a_mg, gain_v, new_dir_v, new_tau_v, new_nu_v,
):  # fmt: skip
    r"""Rank-one damping of the output site of row i; False where the result would be improper.

    The damped precision T = d₁ααᵀ + d₂gg ᵀ (α the old direction, g = m_g; d₁ = (1-δ)τ_old,
    d₂ = δτ_new, signs kept) is replaced by its eigenvector e of largest |λ|, and the location by
    ν = b + (λeeᵀ - T) μ, μ the mean of cavity × full rank-two site: the same mean results.
    """
    outputs = mg.shape[0]
    d1 = (1.0 - delta) * tau_v[i]
    d2 = delta * site_tau
    aa = 0.0
    ag = 0.0
    gg = 0.0
    for j in range(outputs):
        aa += dir_v[i, j] * dir_v[i, j]
        ag += dir_v[i, j] * mg[j]
        gg += mg[j] * mg[j]
    # leading eigenvalue of the 2 x 2 matrix D G
    half_trace = 0.5 * (d1 * aa + d2 * gg)
    det = d1 * d2 * (aa * gg - ag * ag)
    root = math.sqrt(max(half_trace * half_trace - det, 0.0))
    lam = half_trace + root if half_trace >= 0.0 else half_trace - root
    if abs(d1 * aa - lam) >= abs(d2 * gg - lam):
        z1, z2 = -d1 * ag, d1 * aa - lam
    else:
        z1, z2 = d2 * gg - lam, -d2 * ag
    norm2 = z1 * z1 * aa + 2.0 * z1 * z2 * ag + z2 * z2 * gg
    if not norm2 > 0.0:  # δ = 1 and an old direction of zero, or both precisions zero
        z1, z2, norm2 = 0.0, 1.0, gg
    norm = math.sqrt(norm2)
    z1 /= norm
    z2 /= norm
    # Uᵀ(μ₋ + ηΣ₋b) and UᵀΣ₋U for U = [α, g]; Σ₋α = a(1 + gain·quad), Σ₋g = sm
    stretch = 1.0 + gain_v * quad
    m11 = quad * stretch
    m12 = a_mg * stretch
    m22 = quad_g
    y1 = 0.0
    y2 = 0.0
    for j in range(outputs):
        b = (1.0 - delta) * nu_v[i, j] + delta * site_nu * mg[j]
        y1 += dir_v[i, j] * mu_c[j] + eta * stretch * a[j] * b
        y2 += mg[j] * mu_c[j] + eta * sm[j] * b
    # Uᵀμ = (I + ηMD)⁻¹ y
    p11, p12 = 1.0 + eta * m11 * d1, eta * m12 * d2
    p21, p22 = eta * m12 * d1, 1.0 + eta * m22 * d2
    det_p = p11 * p22 - p12 * p21
    if not det_p > IMPROPER:
        return False
    u1 = (p22 * y1 - p12 * y2) / det_p
    u2 = (p11 * y2 - p21 * y1) / det_p
    along = lam * (z1 * u1 + z2 * u2)
    for j in range(outputs):
        e = z1 * dir_v[i, j] + z2 * mg[j]
        b = (1.0 - delta) * nu_v[i, j] + delta * site_nu * mg[j]
        new_nu_v[i, j] = b + along * e - d1 * u1 * dir_v[i, j] - d2 * u2 * mg[j]
        new_dir_v[i, j] = e
    new_tau_v[i] = lam
    return True
