r"""Heavy-tailed noise as a finite mixture of Gaussians that share θ: closed forms, and outliers named."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from cavity.model.likelihoods.base import Bounds, KernelForm, Likelihood, LogZ
from cavity.numerics.compilation import announced
from cavity.numerics.kernel_likelihoods import MIXTURE
from cavity.numerics.kernel_mixture import mixture_cdf
from cavity.types import FloatArray, Floats, Gaussian

_LOG_2PI = float(np.log(2.0 * np.pi))
Components = tuple[FloatArray, FloatArray]


class ScaleMixtureLikelihood(Likelihood):
    r"""p(y | f, θ)^η = σ^(1-η) Σ_j w_j N(y | f, c_j σ²) with σ² = e^θ + s², s² the row's known variance.

    .. math:: \log Z = \tfrac{1-\eta}{2}\log\sigma^2 + \log \sum_j w_j N(y \mid m, V + c_j\sigma^2)

    Its derivatives follow from the mean and variance of 1/T_j = 1/(V + c_j σ²) over the components that y
    speaks for: ∂ = r E[1/T], ∂² = r² Var[1/T] - E[1/T], r = y - m.
    """

    robust: ClassVar[bool] = True

    @abstractmethod
    def components(self, fraction: float) -> Components | None:
        """Weights w_j and variance ratios c_j, increasing; None where p^η is no finite mixture."""

    @abstractmethod
    def outlying(self, ratio: FloatArray) -> FloatArray:
        """Which components c_j (at fraction 1) an outlier comes from."""

    def kernel_form(self, fraction: float) -> KernelForm | None:
        parts = self.components(fraction)
        if parts is None:
            return None
        return KernelForm(MIXTURE, np.stack([parts[0] / np.sqrt(2.0 * np.pi), parts[1]]))

    def log_z(
        self,
        y: Floats,
        f: Gaussian,
        log_scale: Floats,
        row_var: Floats,
        fraction: float = 1.0,
        derivatives: bool = True,
    ) -> LogZ:
        """Closed form where p^η is a finite mixture, else by quadrature."""
        parts = self.components(fraction)
        if parts is None:
            return super().log_z(y, f, log_scale, row_var, fraction, derivatives)
        sigma2 = np.exp(log_scale) + row_var
        resid = y - f.mean
        value, inverse, spread = _mixed(parts, resid**2, np.asarray(f.var, float), sigma2)
        value = value + 0.5 * (1.0 - fraction) * np.log(sigma2)
        return LogZ(value, resid * inverse, resid**2 * spread - inverse)

    def bounds(
        self, y: Floats, f: Gaussian, var_min: Floats, log_scale: Floats, row_var: Floats, fraction: float
    ) -> Bounds:
        parts = self.components(fraction)
        if parts is None:
            return super().bounds(y, f, var_min, log_scale, row_var, fraction)
        sigma2 = np.exp(log_scale) + row_var
        r2 = (y - f.mean) ** 2
        upper, curvature, _ = _mixed(parts, 0.0 * r2, np.asarray(var_min, float), sigma2)
        misfit = np.zeros_like(r2)
        for i in range(8):  # r²/2V_y of a Gaussian; a mixture's is largest where a wider component takes over
            part = r2 * 0.25**i
            misfit = np.maximum(misfit, 0.5 * part * _mixed(parts, part, f.var, sigma2)[1])
        misfit = misfit + upper - _mixed(parts, 0.0 * r2, f.var, sigma2)[0]
        return Bounds(upper + 0.5 * (1.0 - fraction) * np.log(sigma2), curvature, misfit)

    def predictive_cdf(self, y: Floats, f: Gaussian, log_scale: Floats, row_var: Floats) -> Floats:
        sigma2 = np.exp(log_scale) + row_var
        resid, var, sigma2 = np.broadcast_arrays(y - f.mean, f.var, sigma2)
        out = np.empty(resid.shape)
        with announced(mixture_cdf):
            mixture_cdf(resid.ravel(), var.ravel(), sigma2.ravel(), *self._whole(), out.reshape(-1))
        return out

    def outlier_probability(self, y: Floats, f: Gaussian, log_scale: Floats, row_var: Floats) -> Floats:
        """P(the noise of y comes from an outlying component | y) for f ~ N."""
        weights, ratio = self._whole()
        sigma2 = np.exp(log_scale) + row_var
        r2 = (y - f.mean) ** 2
        far = self.outlying(ratio)
        every = _mixed((weights, ratio), r2, np.asarray(f.var, float), sigma2)[0]
        return np.exp(_mixed((weights[far], ratio[far]), r2, np.asarray(f.var, float), sigma2)[0] - every)

    def _whole(self) -> Components:
        parts = self.components(1.0)
        assert parts is not None
        return parts


def _mixed(parts: Components, r2: Floats, var: Floats, sigma2: Floats) -> tuple[Floats, Floats, Floats]:
    """log Σ_j w_j N(r | 0, V + c_j σ²), with mean and variance of 1/(V + c_j σ²) over the components."""
    weights, ratio = parts
    exponent = [
        np.log(w) - 0.5 * (_LOG_2PI + np.log(t) + r2 / t)
        for w, t in ((w, var + c * sigma2) for w, c in zip(weights, ratio, strict=True))
    ]
    top = exponent[0]
    for e in exponent[1:]:
        top = np.maximum(top, e)
    total = first = second = np.zeros_like(top)
    for e, c in zip(exponent, ratio, strict=True):
        p, t = np.exp(e - top), var + c * sigma2
        total, first, second = total + p, first + p / t, second + p / (t * t)
    inverse = first / total
    return top + np.log(total), inverse, np.maximum(second / total - inverse**2, 0.0)
