"""The lists that drive the contract tests: one line here tests a new piece."""

import numpy as np

from cavity.model.likelihoods import (
    GaussianLikelihood,
    OutlierLikelihood,
    PoissonLikelihood,
    ProbitLikelihood,
    StudentTLikelihood,
)
from cavity.model.priors import (
    GaussianMixturePrior,
    GaussianPrior,
    HalfPrior,
    HorseshoePrior,
    LaplacePrior,
    RegularizedHorseshoePrior,
    SpikeAndSlabPrior,
    StudentTPrior,
    TruncatedStudentTPrior,
)
from cavity.types import Gaussian

WEIGHT_PRIORS = [
    GaussianPrior(),
    LaplacePrior(),
    TruncatedStudentTPrior(),
    TruncatedStudentTPrior(df=1.5),
    StudentTPrior(),
    StudentTPrior(df=1.0),
    StudentTPrior(df=30.0),
    HorseshoePrior(),
    RegularizedHorseshoePrior(),
    RegularizedHorseshoePrior(slab=0.3),
    SpikeAndSlabPrior(),
    SpikeAndSlabPrior(inclusion=0.01, spike=0.001),
    GaussianMixturePrior(),
    GaussianMixturePrior(weights=(0.15, 0.8, 0.05), variances=(0.1, 0.001, 10.0)),
    HalfPrior(LaplacePrior()),
    HalfPrior(GaussianPrior()),
    HalfPrior(SpikeAndSlabPrior(inclusion=0.5)),
    HalfPrior(RegularizedHorseshoePrior()),
]

FRACTIONS = (1.0, 0.9, 0.5)

_OUT = np.array([1e-8, 1e-3, 0.3, 1.0, 3.0, 10.0, 100.0, 1e3])
EXTREME_MEANS = np.concatenate([-_OUT[::-1], [0.0], _OUT])  # in cavity sds
EXTREME_VARS = np.array([1e-12, 1e-6, 1e-2, 1.0, 1e3, 1e8])
EXTREME_LOG_VARS = np.array([-25.0, -10.0, -2.0, 0.0, 3.0, 12.0])


def cavity_grid(means, variances, log_vars, fractions):
    """Every combination, flat: cavities (means in cavity sds), log variances, fractions."""
    mean, var, log_var, fraction = (
        axis.ravel() for axis in np.meshgrid(means, variances, log_vars, fractions, indexing="ij")
    )
    return Gaussian(mean * np.sqrt(var), var), log_var, fraction


def extreme_cavities():
    """From a prior 1e10 times narrower than the cavity to one 1e8 times wider, cavities up to 1e3 sds out."""
    return cavity_grid(EXTREME_MEANS, EXTREME_VARS, EXTREME_LOG_VARS, FRACTIONS)


def moderate_cavities():
    """Where finite differences of log_z still have their digits."""
    return cavity_grid([-3.0, -0.7, 0.0, 0.2, 2.0], [1e-2, 1.0, 30.0], [-2.0, 0.5], FRACTIONS)


LIKELIHOOD_PIECES = [
    GaussianLikelihood(),
    ProbitLikelihood(),
    StudentTLikelihood(),
    StudentTLikelihood(df=2.0),
    StudentTLikelihood(df=20.0),
    OutlierLikelihood(share=0.05, ratio=10.0),
    OutlierLikelihood(share=0.2, ratio=4.0),
    PoissonLikelihood(),
    PoissonLikelihood(offset=1.5),
]


def targets_of(likelihood):
    """Values that y may take."""
    if isinstance(likelihood, ProbitLikelihood):
        return [-1.0, 1.0]
    if isinstance(likelihood, PoissonLikelihood):
        return [0.0, 1.0, 7.0, 300.0]
    return [0.7]
