"""Priors of the weights, one file each."""

from cavity.model.priors.base import WeightPrior
from cavity.model.priors.gaussian import GaussianPrior
from cavity.model.priors.laplace import LaplacePrior
from cavity.model.priors.truncated_t import TruncatedStudentTPrior

#: Input-weight priors by the name a user types.
PRIORS: dict[str, type[WeightPrior]] = {"gaussian": GaussianPrior, "laplace": LaplacePrior}

__all__ = ["PRIORS", "GaussianPrior", "LaplacePrior", "TruncatedStudentTPrior", "WeightPrior"]
