"""cavity: Bayesian neural networks with sparsity-promoting priors by expectation propagation."""

from cavity.ep.schedule import Schedule, Stage, Step
from cavity.ep.solve import Solution, Status, solve
from cavity.ep.starts import incremental_start, zero_start
from cavity.estimators import EPRegressor, ModelFileError
from cavity.estimators import load_model as load
from cavity.model.data import prepare
from cavity.model.memory import estimate_memory
from cavity.model.spec import ModelSpec, Noise, Output, network
from cavity.result.posterior import FittedPosterior

__version__ = "0.1.0"

__all__ = [
    "EPRegressor",
    "FittedPosterior",
    "ModelFileError",
    "ModelSpec",
    "Noise",
    "Output",
    "Schedule",
    "Solution",
    "Stage",
    "Status",
    "Step",
    "__version__",
    "estimate_memory",
    "incremental_start",
    "load",
    "network",
    "prepare",
    "solve",
    "zero_start",
]
