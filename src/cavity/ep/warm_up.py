"""What the starts begin with: the size of a step, the inputs that matter, the units the rows can feed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cavity.ep.map_start import map_network, prior_vars, residual_var
from cavity.ep.schedule import Step
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray

SEQUENTIAL_ROWS, SEQUENTIAL_WORK = 20_000, 30 * 40**2  # see `default_step`
WARM_UP_INPUTS = 20  # with fewer inputs the MAP fit takes them all
WARM_UP_UNITS, WARM_UP_ROWS = 15, 5000
WARM_UP_NOISE, WARM_UP_VAR = 0.5, 0.3  # much noise, or the units interpolate before the prior sees them
WARM_UP_ROUNDS, WARM_UP_ITERATIONS = 8, 100
UNUSED_VAR = 1e-4  # inputs whose weights are smaller in the end are held at zero in the MAP fits
BIAS_VAR = 4.0
# of the function at prior variance one, for numbers, and for classes and counts; see `_map_prior`
WIDE_VAR = (10.0, 300.0)
WEIGHTS_PER_ROW, FEWEST_UNITS = 0.6, 5
ENOUGH_UNITS, LOW_NOISE = 50, 0.03  # see `narrowed`
TRIAL = (1e-4, 1.0)  # noise and prior variance of the MAP fit that tells whether more units are needed


def default_step(data: TrainingData, spec: ModelSpec, fraction: float | None = None) -> Step:
    """Sequential where that costs little, blocks of rows for more rows or inputs: what refreshing q(w) costs.

    With little noise, blocks make fits swing that settle one row at a time (Naval, 3000 rows and 55 units).
    The diagonal form refreshes as a whole, so it sweeps in parallel, with the paper's stronger damping.
    Pieces without a compiled form sweep in blocks. The fraction is the likelihood's own unless given.
    """
    eta = spec.likelihood.default_fraction if fraction is None else fraction
    if spec.resolved_form(data.n_rows) == "diagonal":
        return Step(fraction=eta, block_size=None, damping=0.3)
    work = spec.n_hidden * spec.n_inputs**2
    if data.n_rows <= SEQUENTIAL_ROWS and work <= SEQUENTIAL_WORK and spec.compiled(eta):
        return Step(fraction=eta, block_size=1, damping=0.7)
    return Step(fraction=eta, block_size=max(data.n_rows // 16, 64), damping=0.5)


def relevant_inputs(spec: ModelSpec, data: TrainingData, seed: int) -> FloatArray:
    """(d,) booleans: inputs that survive MAP fits whose prior variances follow the weights of each input.

    The noise is held far above what such fits leave: inputs without meaning then shrink with each round, and
    those that act only together have time to find each other. Runs on at most 5000 rows, chosen by seed; the
    bias always survives.
    """
    K, d = spec.group_of.shape
    # Inputs of one scale cannot be switched off apart from each other: where the likelihood says less than a
    # Gaussian one, or inputs outnumber rows, those held at zero would drag the scale of all weights down, and
    # the network with it.
    alike = (not spec.likelihood.location or d > data.n_rows) and bool(
        np.all(spec.group_of[:, : d - spec.bias] == spec.group_of[:, :1])
    )
    if d <= WARM_UP_INPUTS or alike:
        return np.ones(d, bool)
    if data.n_rows > WARM_UP_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(data.n_rows, WARM_UP_ROWS, replace=False))
        data = TrainingData(data.X[rows], data.y[rows], data.weight[rows], data.row_var[rows])
    small = spec.keep_units(np.arange(min(K, WARM_UP_UNITS)))
    rng = np.random.default_rng(seed)
    network, weight_var = None, map_prior(small, np.ones(d, bool), WARM_UP_VAR, data.n_rows)
    for _ in range(WARM_UP_ROUNDS):
        network = map_network(
            small, data, WARM_UP_NOISE, weight_var, rng, init=network, max_iter=WARM_UP_ITERATIONS
        )
        weight_var = prior_vars(small, data, network, WARM_UP_NOISE, weight_var)
        if spec.bias:
            weight_var[-1] = BIAS_VAR
    keep = weight_var > UNUSED_VAR
    if keep[: d - spec.bias].sum() == 0:
        keep[:] = True
    if spec.bias:
        keep[-1] = True
    return keep


def narrowed(spec: ModelSpec, data: TrainingData, inputs: FloatArray, seed: int) -> ModelSpec:
    """The model with as many units as the data can feed.

    The free input weights are at most 0.6 of the rows: beyond, a MAP network interpolates them, its
    residuals say nothing of the noise, and EP ends in a much worse place. And more than 50 units are used
    only where that many leave little noise, so that the fit is limited by its units and not by the data.
    """
    fed = WEIGHTS_PER_ROW * data.n_rows / inputs.sum()
    units = int(np.clip(fed, min(FEWEST_UNITS, spec.n_hidden), spec.n_hidden))
    if units > ENOUGH_UNITS and spec.noise.inferred:
        fewer = with_units(spec, ENOUGH_UNITS)
        rng = np.random.default_rng(seed)
        noise_var, prior_var = TRIAL
        network = map_network(fewer, data, noise_var, map_prior(fewer, inputs, prior_var, data.n_rows), rng)
        units = units if residual_var(fewer, data, network) < LOW_NOISE else ENOUGH_UNITS
    return with_units(spec, units)


def map_prior(spec: ModelSpec, inputs: FloatArray, prior_var: float, n_rows: int) -> FloatArray:
    """Prior variances of the MAP fit: zero holds an input at zero.

    Where inputs outnumber rows this is a share of the variance of the function as a whole, however many
    inputs there are: a common scale then has almost all of its evidence from its own prior, and EP moves it
    only slowly. Classes that so many inputs separate want a large function, numbers one of their own size.
    """
    if inputs.sum() > n_rows:
        prior_var *= WIDE_VAR[not spec.likelihood.location] / inputs.sum()
    weight_var = np.where(inputs, prior_var, 0.0)
    if spec.bias:
        weight_var[-1] = BIAS_VAR
    return weight_var


def with_units(spec: ModelSpec, units: int) -> ModelSpec:
    """The first so many units of a model; the scale of a unit follows 1/√K."""
    if units >= spec.n_hidden or spec.output.fixed is not None:
        return spec
    fewer = spec.keep_units(np.arange(units))
    return replace(fewer, activation_scale=fewer.activation_scale * np.sqrt(spec.n_hidden / units))
