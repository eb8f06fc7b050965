"""Priors of the weights, one file each."""

from typing import NamedTuple

from cavity.model.priors.base import WeightPrior
from cavity.model.priors.gaussian import GaussianPrior
from cavity.model.priors.half import HalfPrior
from cavity.model.priors.horseshoe import HorseshoePrior, RegularizedHorseshoePrior
from cavity.model.priors.laplace import LaplacePrior
from cavity.model.priors.mixture import GaussianMixturePrior, SpikeAndSlabPrior
from cavity.model.priors.student_t import StudentTPrior
from cavity.model.priors.truncated_t import TruncatedStudentTPrior


class NamedPrior(NamedTuple):
    """What a user gets by typing the name of a prior: the family, and which weights share a scale.

    The groups are the estimators' choice, not the paper's: a common scale of the Laplace prior is drawn down
    by inputs that do nothing and takes the others along; on eight inputs among 92 of noise it lost the fit.
    """

    family: type[WeightPrior]
    groups: str = "common"


#: Input-weight priors by the name a user types.
PRIORS: dict[str, NamedPrior] = {
    "laplace": NamedPrior(LaplacePrior, "input"),
    "ard": NamedPrior(GaussianPrior, "input"),
    "gaussian": NamedPrior(GaussianPrior),
    "student-t": NamedPrior(StudentTPrior),
    "spike-and-slab": NamedPrior(SpikeAndSlabPrior),
    "horseshoe": NamedPrior(HorseshoePrior),
    "regularized-horseshoe": NamedPrior(RegularizedHorseshoePrior),
    "mixture": NamedPrior(GaussianMixturePrior),
}


def default_groups(prior: object) -> str:
    """The groups that go with a prior unless a user says otherwise."""
    return PRIORS[prior].groups if isinstance(prior, str) and prior in PRIORS else "common"


_EVEN: dict[str, WeightPrior] = {
    "gaussian": GaussianPrior(),
    "laplace": LaplacePrior(),
    "student-t": StudentTPrior(),
    "spike-and-slab": SpikeAndSlabPrior(inclusion=0.5),
    "horseshoe": HorseshoePrior(),
    "regularized-horseshoe": RegularizedHorseshoePrior(),
}

#: Output-weight priors by name; "half-" keeps the weights non-negative.
OUTPUT_PRIORS: dict[str, WeightPrior] = {
    "truncated-t": TruncatedStudentTPrior(),
    **_EVEN,
    **{f"half-{name}": HalfPrior(prior) for name, prior in _EVEN.items()},
}

__all__ = [
    "OUTPUT_PRIORS",
    "PRIORS",
    "GaussianMixturePrior",
    "GaussianPrior",
    "HalfPrior",
    "HorseshoePrior",
    "LaplacePrior",
    "NamedPrior",
    "RegularizedHorseshoePrior",
    "SpikeAndSlabPrior",
    "StudentTPrior",
    "TruncatedStudentTPrior",
    "WeightPrior",
]
