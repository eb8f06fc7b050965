r"""Tilted moments of a weight and the log-scale it shares: the one place that integrates over a scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cavity.model.priors.base import WeightPrior
from cavity.numerics.normal import log_normal
from cavity.numerics.quadrature import DROP, follow_mixture
from cavity.types import FloatArray, Gaussian, IntArray, Moments, TiltedMoments

# ±9 sd of the cavity of φ: 40.5 nats. ±8 would leave out 1e-15 of its mass, ±6 already 2e-9.
_REACH = 9.0
# First grid over an interval of about ±9 sd (36 panels resolve a Gaussian, and are seen to: 24 would send
# every item through a doubling, 51 nodes instead of 40), and over one that reaches further, where a mode much
# narrower than the interval may sit anywhere in it.
_PANELS, _PANELS_FAR = 36, 384

ConditionalAt = Callable[[Gaussian, FloatArray], Moments]


def scaled_tilted_moments(
    prior: WeightPrior, value: Gaussian, scale: Gaussian, fraction: float = 1.0
) -> TiltedMoments:
    r"""Marginal moments of a tilted weight and its log-scale *(paper, eq. qphi_tilted and eq. qwj_tilted)*.

    .. math:: \hat p(w,\varphi) = \hat Z^{-1}\,\mathcal N(w\mid m, v)\,\mathcal N(\varphi\mid a, b^2)\,
              p(w\mid\varphi)^\eta

    by one quadrature over :math:`\varphi`; given :math:`\varphi` the prior answers itself. With
    :math:`\hat p(\varphi)\propto Z(\varphi,\eta)\,\mathcal N(\varphi\mid a,b^2)`,

    .. math:: \mathrm E\,w = \int \mathrm E(w\mid\varphi)\,\hat p(\varphi)\,d\varphi,\qquad
              \mathrm{Var}\,w = \mathrm E[\mathrm{Var}(w\mid\varphi)]
                              + \mathrm E[(\mathrm E(w\mid\varphi)-\mathrm E\,w)^2].

    Parameters
    ----------
    prior : WeightPrior
        :math:`p(w\mid\varphi)`.
    value : Gaussian of ndarray, shape (J,)
        Cavity of each weight, :math:`m` and :math:`v` *(paper, eq. cavity_pw)*.
    scale : Gaussian of ndarray, shape (J,)
        Cavity of each weight's log-scale, :math:`a` and :math:`b^2`.
    fraction : float
        Power :math:`\eta` of the prior term.

    Returns
    -------
    TiltedMoments, shape (J,)
        :math:`\log\hat Z`, the moments of :math:`w` and of :math:`\varphi`, to about 1e-9 relative (means
        in tilted sds). NaN where a cavity is improper (variance not positive, or not finite): the caller
        skips and counts it.

    Notes
    -----
    The grid follows the tilted density, not the cavity *(paper, eq. tilted_pw)*: a weight 1e4 prior sds
    out pulls a well-known :math:`\varphi` by thousands of its own sds. :math:`Z(\varphi,\eta)`
    rises until :math:`e^\varphi` is about :math:`m^2+v` and falls slowly beyond, so two evaluations, there
    and at :math:`a`, bound how far the density can reach; the rest is left to `follow_mixture`.
    """
    # Departs from the paper: the variance is centred, where eq. qwj_tilted subtracts E(w)² from E(w²) and
    # loses all digits for a narrow tilted density
    # (tests/ep/test_tilted.py::test_narrow_scale_keeps_its_digits).
    return _over_scale(lambda cavity, phi: prior.conditional_moments(cavity, phi, fraction), value, scale)


def scaled_inclusion(prior: WeightPrior, value: Gaussian, scale: Gaussian) -> FloatArray:
    r"""Probability that a weight is not in its prior's spike, :math:`\varphi` integrated out, (J,).

    .. math:: \int P(\text{included}\mid\varphi)\,\hat p(\varphi)\,d\varphi

    with the tilted density of :math:`\varphi` and the cavities of `scaled_tilted_moments`, at the power one.
    The prior has to have an ``inclusion_probability(cavity, log_var)``.
    """

    def conditional(cavity: Gaussian, log_var: FloatArray) -> Moments:
        probability = prior.inclusion_probability(cavity, log_var)  # type: ignore[attr-defined]
        log_z = prior.conditional_moments(cavity, log_var).log_z
        return Moments(log_z, probability, np.ones_like(log_z))  # the variance only says: resolve it to 1e-6

    return np.asarray(_over_scale(conditional, value, scale).value.mean)


def _over_scale(conditional_at: ConditionalAt, value: Gaussian, scale: Gaussian) -> TiltedMoments:
    """The quadrature over φ: moments given φ in, marginal ones out."""
    fields = np.broadcast_arrays(*(np.asarray(part, dtype=float) for part in (*value, *scale)))
    shape = fields[0].shape
    flat = np.stack([field.ravel() for field in fields])
    proper = np.isfinite(flat).all(axis=0) & (flat[1] > 0.0) & (flat[3] > 0.0)
    m, v, a, b2 = flat[:, proper]
    b = np.sqrt(b2)
    lo, hi = _first_interval(conditional_at, Gaussian(m, v), a, b)

    def integrate(members: IntArray, n_panels: int) -> TiltedMoments:
        def conditional(log_var: FloatArray, items: IntArray) -> Moments:
            j = members[items][:, None]
            given = conditional_at(Gaussian(m[j], v[j]), log_var)
            return given._replace(log_z=given.log_z + log_normal(log_var, a[j], b2[j]))

        return follow_mixture(conditional, lo[members], hi[members], n_panels=n_panels)

    out = np.full((5, proper.size), np.nan)
    far = hi - lo > 4.0 * _REACH * b
    for group, n_panels in ((~far, _PANELS), (far, _PANELS_FAR)):
        members = np.flatnonzero(group)
        if members.size:
            part = integrate(members, n_panels)
            out[:, np.flatnonzero(proper)[members]] = np.stack([part.log_z, *part.value, *part.scale])
    rows = [row.reshape(shape) for row in out]
    return TiltedMoments(rows[0], Gaussian(rows[1], rows[2]), Gaussian(rows[3], rows[4]))


def _first_interval(
    conditional_at: ConditionalAt, value: Gaussian, a: FloatArray, b: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Where the tilted density of :math:`\varphi` can lie, judged by :math:`\log Z` at two points.

    If :math:`\log Z` exceeds its value at :math:`a` by at most :math:`g`, then beyond :math:`r` sds of the
    cavity, :math:`r^2/2 = 40 + g`, the tilted density is 40 nats below its value at :math:`a`. The same for
    :math:`Z\,\mathrm E(w^2\mid\varphi)`, the integrand of the variance. On the side where :math:`Z` falls,
    and beyond its peak, the cavity alone decides: 9 sds.
    """
    peak = np.log(np.square(value.mean) + value.var)
    both = conditional_at(Gaussian(value.mean[:, None], value.var[:, None]), np.stack([a, peak], axis=-1))
    square = both.log_z + np.log(np.square(both.mean) + both.var)
    gain = np.maximum(both.log_z[:, 1] - both.log_z[:, 0], square[:, 1] - square[:, 0])
    reach = np.sqrt(2.0 * (DROP + np.maximum(gain, 0.0) + 0.5))
    rises = peak > a
    own = _REACH * b
    lo = np.where(rises, a - own, np.maximum(a - reach * b, np.minimum(peak - 1.0, a) - own))
    hi = np.where(rises, np.minimum(a + reach * b, peak + 1.0 + own), a + own)
    return lo, hi
