r"""Coefficients of a linear model in the user's units.

With standardised :math:`f = w^Tz + w_0`, :math:`z_j = (x_j-\bar x_j)/s_j`, the coefficients of
:math:`\bar y + s_y f` are :math:`s_y w_j/s_j`, its intercept :math:`\bar y + s_y w_0 - \sum_j b_j\bar x_j`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from cavity.result.posterior import FittedPosterior
from cavity.types import FloatArray


class Coefficients(NamedTuple):
    """Posterior means and standard deviations, (d,), and those of the intercept, in the units of X and y."""

    mean: FloatArray
    sd: FloatArray
    intercept: float
    intercept_sd: float


def coefficients(fitted: FittedPosterior) -> Coefficients:
    """Coefficients of a model with one linear unit whose output weight is one."""
    s, w = fitted.prepared.scaling, fitted.state.posterior.w
    d = len(s.x_mean)
    unit = s.y_scale / s.x_scale
    mean = unit * w.mean[0, :d]
    at_zero = fitted.latent(np.zeros((1, d)))
    intercept = s.y_mean + s.y_scale * w.mean[0, d] - float(mean @ s.x_mean)
    return Coefficients(mean, unit * np.sqrt(w.var[0, :d]), intercept, float(np.sqrt(at_zero.var[0])))


def interval(mean: FloatArray, sd: FloatArray, level: float) -> FloatArray:
    """Central intervals of Gaussian marginals that hold ``level``: lower and upper on a last axis."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}.")
    reach = ndtri(0.5 + 0.5 * level) * sd
    return np.stack([mean - reach, mean + reach], axis=-1)
