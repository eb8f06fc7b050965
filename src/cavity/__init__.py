"""cavity: Bayesian neural networks with sparsity-promoting priors by expectation propagation."""

from cavity.ep.schedule import Schedule, Stage, Step
from cavity.ep.solve import Solution, Status, solve
from cavity.ep.starts import incremental_start, zero_start
from cavity.model.data import prepare
from cavity.model.spec import ModelSpec, Noise, Output, network
from cavity.result.posterior import FittedPosterior

__version__ = "0.1.0"

__all__ = [
    "FittedPosterior",
    "ModelSpec",
    "Noise",
    "Output",
    "Schedule",
    "Solution",
    "Stage",
    "Status",
    "Step",
    "__version__",
    "incremental_start",
    "network",
    "prepare",
    "solve",
    "zero_start",
]
