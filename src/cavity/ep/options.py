"""How a model is fitted."""

from __future__ import annotations

from dataclasses import dataclass

from cavity.ep.schedule import Step
from cavity.model.likelihoods import Likelihood
from cavity.model.spec import Noise


@dataclass(frozen=True)
class FitOptions:
    """How a model is fitted; every field has a default that needs no tuning.

    Attributes
    ----------
    start : "map", "linear" (`cavity.ep.linear`), or "zero", "incremental" (`cavity.ep.starts.STARTS`).
    n_starts : number of starts; several are stacked on their leave-one-out densities.
    step : fractions, dampings and block size; None chooses by the size of the data.
    adapt_step : let block size and damping follow the inputs in use, as they do where ``step`` is None.
    max_iter, tol : sweeps of the last stage and the moment mismatch that ends it.
    flat : where the leave-one-out density moves less in five sweeps, the last stage ends too; 0 for never.
    time_limit : wall seconds for the whole fit, None for no limit.
    seed : of everything random.
    mixed : make the first unit linear in some of the starts.
    adapt_width : use fewer of the model's units where few rows must feed many relevant inputs.
    n_threads : threads over row blocks.
    n_jobs : processes over starts.
    alternative : likelihood under which several fits go on where it predicts better; "map" only.
    varying : noise that depends on the inputs, under which they go on where it predicts better; "map" only.
    adapt_prior : fit the hyperparameters of a spike-and-slab prior; "linear" only.
    """

    start: str = "map"
    n_starts: int = 1
    step: Step | None = None
    adapt_step: bool = False
    max_iter: int = 200
    tol: float = 1e-2
    flat: float = 0.0
    time_limit: float | None = None
    seed: int = 0
    mixed: bool = False
    adapt_width: bool = False
    n_threads: int = 1
    n_jobs: int = 1
    alternative: Likelihood | None = None
    varying: Noise | None = None
    adapt_prior: bool = False
