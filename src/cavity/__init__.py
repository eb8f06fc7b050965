"""cavity: Bayesian neural networks with sparsity-promoting priors by expectation propagation."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cavity.ep.schedule import Schedule, Stage, Step
    from cavity.ep.solve import Solution, Status, solve
    from cavity.ep.starts import incremental_start, zero_start
    from cavity.estimators import (
        EPClassifier,
        EPLinearClassifier,
        EPLinearRegressor,
        EPRegressor,
        ModelFileError,
    )
    from cavity.estimators import load_model as load
    from cavity.model.data import prepare
    from cavity.model.memory import estimate_memory
    from cavity.model.spec import ModelSpec, Noise, Output, network
    from cavity.result.posterior import FittedPosterior

__version__ = "0.1.0"

__all__ = [
    "EPClassifier",
    "EPLinearClassifier",
    "EPLinearRegressor",
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

# Where each public name lives; imported on first use, so that `cavity --help` need not load Numba.
_HOMES = {
    "cavity.ep.schedule": ("Schedule", "Stage", "Step"),
    "cavity.ep.solve": ("Solution", "Status", "solve"),
    "cavity.ep.starts": ("incremental_start", "zero_start"),
    "cavity.estimators": (
        "EPClassifier",
        "EPLinearClassifier",
        "EPLinearRegressor",
        "EPRegressor",
        "ModelFileError",
    ),
    "cavity.model.data": ("prepare",),
    "cavity.model.memory": ("estimate_memory",),
    "cavity.model.spec": ("ModelSpec", "Noise", "Output", "network"),
    "cavity.result.posterior": ("FittedPosterior",),
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name == "load":
        return import_module("cavity.estimators").load_model
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'cavity' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Public names and submodules."""
    return sorted({*globals(), *__all__})
