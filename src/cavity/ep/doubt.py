"""Rows that a robust likelihood would hardly believe, before the first sweep.

Gross outliers harm a fit that begins with them: they set the scale of the target, MAP networks bend towards
them, and where most of the noise seems to be theirs EP stays there. A small MAP network under the robust
likelihood itself tells which rows they are likely to be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.ep.map_start import fitted_values, map_network
from cavity.ep.warm_up import map_prior, relevant_inputs, with_units
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray

UNITS, ITERATIONS = 10, 200
NOISE_VAR, PRIOR_VAR = 0.1, 0.3  # of the MAP network: enough noise that it need not bend to a few rows
FAR = 3.0  # scales from the network that make a row doubtful
MOST = 0.3  # where more than this share of the rows is doubtful, they are no outliers
# And where they make the sd of the target less than so many times what it is without them, they do no harm:
# fits that begin with all rows are then better. It is 3 where a tenth is grossly wrong, at most 1.16 on the
# sets of the benchmarks.
GROSS = 1.5


class Doubt(NamedTuple):
    """What a first network leaves, (n,), and what of it is hardly believed.

    ``row_var`` are noise variances that let Gaussian noise pull as little as the robust likelihood, zero for
    most rows, and for all of them where none could do harm. A row pulls f by ∂ log p/∂f, which for Gaussian
    noise is its residual by its variance.
    """

    residual: FloatArray
    row_var: FloatArray


def doubt(spec: ModelSpec, data: TrainingData, seed: int, trusted: FloatArray | None = None) -> Doubt:
    """Residuals of a small MAP network under ``spec.likelihood``, and the rows it doubts.

    It is fitted to the rows in ``trusted``, (n,) booleans, or to all of them; all are judged by it.
    """
    rows = data if trusted is None else TrainingData(*(a[trusted] for a in data))
    few = with_units(spec, UNITS)
    weight_var = map_prior(few, relevant_inputs(few, rows, seed), PRIOR_VAR, rows.n_rows)
    rng = np.random.default_rng(seed)
    network = map_network(few, rows, NOISE_VAR, weight_var, rng, max_iter=ITERATIONS)
    f = fitted_values(few, data, network)
    log_scale = spec.noise.mean
    if spec.noise.inferred:
        near = f if trusted is None else f[trusted]
        log_scale = spec.likelihood.fitted_log_scale(rows.y, near, rows.row_var, rows.weight)
    residual = data.y - f
    pull = np.abs(spec.likelihood.derivatives(data.y, f, float(log_scale), data.row_var).d1)
    far = residual**2 > FAR**2 * (np.exp(log_scale) + data.row_var)
    if np.average(far, weights=data.weight) > MOST or _spread(data, far) < GROSS:
        return Doubt(residual, np.zeros(data.n_rows))
    return Doubt(residual, np.where(far, np.abs(residual) / np.maximum(pull, np.finfo(float).tiny), 0.0))


def _spread(data: TrainingData, far: FloatArray) -> float:
    """The sd of the target by that of the rows which are not far."""
    every, near = (
        np.sqrt(np.cov(data.y, aweights=weight, ddof=0)) for weight in (data.weight, data.weight * ~far)
    )
    return float(every / max(near, np.finfo(float).tiny))
