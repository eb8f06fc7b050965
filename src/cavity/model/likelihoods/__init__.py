"""Likelihoods: one file each; `LIKELIHOODS` lists them by name."""

from cavity.model.likelihoods.base import Bounds, KernelForm, Likelihood, LogZ, Peak
from cavity.model.likelihoods.gaussian import GaussianLikelihood
from cavity.model.likelihoods.outliers import OutlierLikelihood
from cavity.model.likelihoods.poisson import PoissonLikelihood
from cavity.model.likelihoods.probit import ProbitLikelihood
from cavity.model.likelihoods.scale_mixture import ScaleMixtureLikelihood
from cavity.model.likelihoods.student_t import StudentTLikelihood

LIKELIHOODS: dict[str, type[Likelihood]] = {
    "gaussian": GaussianLikelihood,
    "student-t": StudentTLikelihood,
    "outliers": OutlierLikelihood,
    "poisson": PoissonLikelihood,
    "probit": ProbitLikelihood,
}

__all__ = [
    "LIKELIHOODS",
    "Bounds",
    "GaussianLikelihood",
    "KernelForm",
    "Likelihood",
    "LogZ",
    "OutlierLikelihood",
    "Peak",
    "PoissonLikelihood",
    "ProbitLikelihood",
    "ScaleMixtureLikelihood",
    "StudentTLikelihood",
]
