"""More inputs than rows: which linear models are stacked, and the priors they share with `EPLinear`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cavity.ep.options import FitOptions
from cavity.ep.schedule import Step
from cavity.model.priors import SpikeAndSlabPrior
from cavity.model.spec import Noise, Output

# log noise variance for a standardised target: an sd of 0.37, give or take a factor of 2.7. The networks'
# own, 0.01 give or take 2.7, is moved by rows; with more inputs than rows it wins, and the fit interpolates.
NOISE = Noise(-2.0, 4.0)
# Begin with ten inputs expected in the slab (half of them, if fewer than twenty) that together explain the
# variance of y; that scale is known to a factor of 2.7. Begun with more, fits of many inputs to few rows end
# where they interpolate.
EXPECTED, SLAB_VAR = 10.0, 4.0
# All weights in the spike together explain so much of the variance. What a fraction below one leaves of a
# site in its own cavity must not hold a weight in the spike against the data: with 1e-3 and 0.9 some stayed
# there whose probability of inclusion was 0.8; with 1e-2 and 0.95 none did. At a fraction of one, fits of
# correlated inputs oscillate.
SPIKE_SHARE, SPIKE_FRACTION = 1e-2, 0.95
DAMPING = 0.8
# Prior variances of f of the ridge models. With so few rows a weight, an inferred common scale stays where
# its hyperprior is: on the training rows of leukemia at a variance of f of 1000, where 9 of the 38
# leave-one-out predictions are wrong, against 2 at 10.
RIDGE_VARS = (0.1, 1.0, 10.0, 100.0)
# The same of horseshoes, were their weights Gaussian. In between: some inputs say much, many a little.
HORSESHOE_VARS = (0.03, 0.3, 3.0)
# Of classes too: ridges of so many inputs, those that go with the class most by themselves, chosen anew on
# every fold, and their prior variances of f. Each count is a kind: leave-one-out cannot see what the choice
# did. On folds of colon and of leukemia's training rows the mixture gains some hundredths of a nat by them;
# on those of riboflavin, a number, it lost as much.
SCREENED, SCREENED_VARS = (20, 200, 1000), (1.0, 10.0, 100.0)
LARGE_HORSESHOE = 30.0  # of classes too, whose fits learn how sure they may be (`cavity.ep.temper`)
TOL = 1e-3  # a network's is larger, whose sweeps cost far more

STRAIGHT = Output(fixed=np.array([1.0, 0.0]))  # one linear unit that is the whole function


def spike_and_slab(n_inputs: int, slab: float | None = None) -> tuple[SpikeAndSlabPrior, tuple[float, float]]:
    """Prior that an adaptive fit starts from, for a slab of this sd if given, and the hyperprior of φ."""
    expected = min(EXPECTED, 0.5 * n_inputs)
    slab = float(np.sqrt(1.0 / expected)) if slab is None else slab
    spike = min(float(np.sqrt(SPIKE_SHARE / n_inputs)) / slab, 0.1)
    return SpikeAndSlabPrior(expected / n_inputs, spike), (2.0 * float(np.log(slab)), SLAB_VAR)


class Wide(NamedTuple):
    """A linear model as arguments of a network, its kind, whether its prior adapts, the inputs it keeps."""

    how: dict[str, Any]
    kind: str
    adapts: bool = False
    inputs: int | None = None


def wide_models(n_inputs: int, classes: bool = False) -> list[Wide]:
    """Linear models for many inputs and few rows.

    Where many inputs say a little a ridge of the right size does best, where few say it all a spike and slab,
    and on most real tables of this shape a horseshoe.
    """
    line = {"activation": "linear", "output": STRAIGHT, "groups": "common", "parents": None}
    line = {**line, "interactions": None}
    sparse, hyperprior = spike_and_slab(n_inputs)
    slab = {"prior": sparse, "scale_prior": hyperprior, "prior_var": None}
    horseshoes = (*HORSESHOE_VARS, LARGE_HORSESHOE) if classes else HORSESHOE_VARS
    scales = [("gaussian", var) for var in RIDGE_VARS] + [("horseshoe", var) for var in horseshoes]
    held = [Wide({**line, "prior": prior, "prior_var": var / n_inputs}, prior) for prior, var in scales]
    few = [
        Wide({**line, "prior": "gaussian", "prior_var": var / count}, f"{count} inputs", inputs=count)
        for count in SCREENED
        for var in SCREENED_VARS
        if classes and 2 * count <= n_inputs
    ]
    return [Wide({**line, **slab}, "spike-and-slab", adapts=True), *held, *few]


def linear_options(options: FitOptions, adapts: bool, diagonal: bool) -> FitOptions:
    """One start from the prior means, until it has converged or predicts the same."""
    step = options.step if options.step is not None else Step()
    step = step if diagonal else replace(step, damping=DAMPING)
    step = replace(step, fraction_weight=SPIKE_FRACTION) if adapts else step
    tol = min(options.tol, TOL)
    return replace(options, start="linear", n_starts=1, adapt_prior=adapts, step=step, tol=tol)
