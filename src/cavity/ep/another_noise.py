"""A fitted network under another likelihood: its sites are the start, the noise is found anew.

Noise with wider tails predicts better wherever rows differ in how well the network can know them, which is
the rule in real tables. Fits from MAP starts find the function under Gaussian noise, more surely than under
noise that can call any row an outlier; a few sweeps take it up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cavity.ep.guide import guided
from cavity.ep.map_start import NOISE_RANGE, apparent_var
from cavity.ep.schedule import Schedule, Stage, map_schedule
from cavity.ep.solve import Record, Solution, solve
from cavity.ep.starts import with_noise, with_noise_of_sites
from cavity.ep.state import EPState
from cavity.model.data import TrainingData
from cavity.model.likelihoods import Likelihood
from cavity.model.spec import Noise


def under(
    likelihood: Likelihood,
    data: TrainingData,
    solution: Solution,
    max_sweeps: int,
    tol: float,
    flat: float = 0.0,
    *,
    fraction: float | None = None,
    noise: Noise | None = None,
    n_threads: int = 1,
    time_limit: float | None = None,
    callback: Callable[[Record, EPState], Any] | None = None,
) -> Solution:
    """What EP makes of a solution under ``likelihood``, at its own fraction unless one is given.

    ``noise`` is that of the likelihood where it is another too.
    """
    noise = solution.spec.noise if noise is None else guided(noise, solution.spec, data, solution.state)
    spec = replace(solution.spec, likelihood=likelihood, noise=noise)
    noise_var = np.clip(apparent_var(spec, data, solution.state), *NOISE_RANGE)
    state = with_noise(spec, data, solution.state, float(np.log(noise_var)))
    fraction = likelihood.default_fraction if fraction is None else fraction
    schedule = map_schedule(replace(solution.step, fraction=fraction), max_sweeps, tol, flat)
    more = solve(spec, data, state, schedule, n_threads=n_threads, time_limit=time_limit, callback=callback)
    return more._replace(history=solution.history + more.history)


def varying(
    noise: Noise,
    data: TrainingData,
    solution: Solution,
    max_sweeps: int,
    tol: float,
    flat: float = 0.0,
    *,
    n_threads: int = 1,
    time_limit: float | None = None,
    callback: Callable[[Record, EPState], Any] | None = None,
) -> Solution:
    """What EP makes of a solution where the noise depends on the inputs, or on the function found so far too.

    The sites say what each row knows of its own noise, so they make the slopes at once, before any sweep.
    """
    spec = replace(solution.spec, noise=guided(noise, solution.spec, data, solution.state))
    state = with_noise_of_sites(spec, data, solution.state)
    stage = Stage("noise by inputs", solution.step, max_sweeps, tol, flat=flat, retreat=True)
    more = solve(
        spec, data, state, Schedule((stage,)), n_threads=n_threads, time_limit=time_limit, callback=callback
    )
    mismatch = more.mismatch if more.history else solution.mismatch
    return more._replace(history=solution.history + more.history, mismatch=mismatch)
