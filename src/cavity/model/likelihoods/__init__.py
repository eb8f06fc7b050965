"""Likelihoods: one file each; `LIKELIHOODS` lists them by name."""

from cavity.model.likelihoods.base import Bounds, KernelForm, Likelihood, LogZ, Peak, Predicted
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


def likelihood_of(value: str | Likelihood, leave_out: tuple[str, ...] = ()) -> Likelihood:
    """A likelihood by its name, or as it was given; ``leave_out`` are names that make no sense here."""
    if isinstance(value, Likelihood):
        return value
    names = [name for name in LIKELIHOODS if name not in leave_out]
    if value not in names:
        raise ValueError(f"likelihood={value!r} is unknown: use one of {names} or a Likelihood.")
    return LIKELIHOODS[value]()


__all__ = [
    "LIKELIHOODS",
    "Bounds",
    "GaussianLikelihood",
    "KernelForm",
    "Likelihood",
    "LogZ",
    "OutlierLikelihood",
    "Peak",
    "Predicted",
    "PoissonLikelihood",
    "ProbitLikelihood",
    "ScaleMixtureLikelihood",
    "StudentTLikelihood",
    "likelihood_of",
]
