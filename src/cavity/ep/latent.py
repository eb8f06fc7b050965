r"""What q says of h = Xw and of f at given rows *(paper, eq. qf_fact with q in place of the cavity)*."""

from __future__ import annotations

import numpy as np

from cavity.ep.dual import rotation
from cavity.ep.network_numpy import cavities, cavity_entries, function_moments, seen_by_output, unit_moments
from cavity.ep.row_visit import HeldPosterior
from cavity.ep.state import EPState, OutputPosterior, Posterior, WeightPosterior
from cavity.model.spec import ModelSpec
from cavity.numerics.compilation import announced
from cavity.numerics.kernel_units import all_unit_moments
from cavity.numerics.linalg import squared_lengths
from cavity.types import FloatArray, Gaussian


def activation_marginals(spec: ModelSpec, w: WeightPosterior, X: FloatArray) -> Gaussian:
    """Means and variances of h_k = xᵀw_k at new rows, (n, K), for any form of q(w_k)."""
    mean = X @ w.mean.T
    var = np.empty_like(mean)
    basis = w.basis
    for k in range(spec.n_hidden):
        if w.factor.shape[1] == 1 and w.factor.shape[2] == X.shape[1] and X.shape[1] > 1:  # diagonal
            var[:, k] = (X * X) @ w.var[k]
        elif basis.inputs is None:
            var[:, k] = squared_lengths(X, w.factor[k])
        else:
            assert basis.root is not None
            white = X * basis.root[k]
            inside = white @ rotation(basis, k)
            outside = np.sum(white**2, axis=1) - np.sum(inside**2, axis=1)
            var[:, k] = outside + squared_lengths(inside, w.factor[k])
    return Gaussian(mean, np.maximum(var, np.finfo(float).tiny))


def output_moments(spec: ModelSpec, h: Gaussian) -> Gaussian:
    """What the output layer sees, (n, J): `unit_moments`, compiled where all units are."""
    if not (spec.kinds >= 0).all():
        return unit_moments(spec, h)
    g = Gaussian(np.empty(h.mean.shape), np.empty(h.mean.shape))
    with announced(all_unit_moments):
        all_unit_moments(h.mean, h.var, spec.kinds, spec.activation_scale, g.mean, g.var)
    return seen_by_output(spec, g)


def latent_moments(spec: ModelSpec, q: Posterior, X: FloatArray) -> Gaussian:
    """Mean and variance of f(x) *(paper, eq. qf_fact with q in place of the cavity)*."""
    return latent_moments_of(spec, q.v, activation_marginals(spec, q.w, X))


def latent_moments_of(spec: ModelSpec, v: OutputPosterior, h: Gaussian) -> Gaussian:
    """The same from the marginals of the activations."""
    g = output_moments(spec, h)
    quad = np.einsum("ni,ij,nj->n", g.mean, v.cov, g.mean, optimize=True)
    mean = np.broadcast_to(v.mean, g.mean.shape)
    return function_moments(spec, g, mean, lambda j, i: v.cov[j, i], quad)


def left_out_moments(spec: ModelSpec, state: EPState, q: HeldPosterior) -> tuple[Gaussian, FloatArray]:
    """Moments of f at each training row under the cavity without its whole site, and where that is proper."""
    w = state.posterior.w
    cav = cavities(Gaussian(w.h_mean, w.h_var), state.rows, q, 1.0)
    g = output_moments(spec, cav.h)
    a_g = np.einsum("nj,nj->n", cav.v_image, g.mean)
    quad = np.einsum("nj,nj->n", g.mean, g.mean @ q.v_cov) + cav.v_gain * a_g**2
    f = function_moments(spec, g, cav.v_mean, cavity_entries(q.v_cov, cav), quad)
    return f, cav.v_proper & cav.h_proper.all(axis=1)
