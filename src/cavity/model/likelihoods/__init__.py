"""Likelihoods: one file each; `LIKELIHOODS` lists them by name."""

from cavity.model.likelihoods.base import Likelihood, LogZ
from cavity.model.likelihoods.gaussian import GaussianLikelihood

LIKELIHOODS: dict[str, type[Likelihood]] = {"gaussian": GaussianLikelihood}

__all__ = ["LIKELIHOODS", "GaussianLikelihood", "Likelihood", "LogZ"]
