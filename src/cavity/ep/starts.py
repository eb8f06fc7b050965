"""Where EP starts from: a state and the schedule that suits it.

`zero_start` and `incremental_start` are the paper's (Section 3.3.1). Any other start (a MAP network,
an earlier fit) only has to build an `EPState`: `state_from_sites` turns sites into one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cavity.ep import noise as noises
from cavity.ep import posterior as post
from cavity.ep.schedule import Schedule, Step, paper_schedule
from cavity.ep.state import (
    EPState,
    Posterior,
    PriorSites,
    RowSites,
    hold_masked,
    initial_prior_sites,
    zero_row_sites,
)
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.types import Gaussian

FISHER = 0.5  # what a residual tells of the log of its variance
FAR_NOISE = 6.0  # change of the log noise variance of a row, e^3 of its sd, that sites are not believed
WARM_NOISE_VAR = 0.3**2  # paper, Section 3.3.1


def state_from_sites(
    spec: ModelSpec,
    data: TrainingData,
    rows: RowSites,
    priors: PriorSites,
    noise: noises.LogNoise | None = None,
) -> EPState:
    """The posterior that sites make; a `ValueError` where it is improper.

    ``noise`` is q(θ), variance 0 to hold it; by default held at the warm-up value or the fixed one. Where it
    is free and depends on the inputs, the sites make it too.
    """
    priors = hold_masked(spec, priors)
    w = post.refresh_weights(spec, data, rows, priors.w)
    v = post.assemble_output(spec, *post.gather_output(data.weight, rows), priors.v)
    scale = post.refresh_scales(spec, priors)
    if w is None or v is None or scale is None:
        raise ValueError("these sites make an improper posterior: start from sites with positive precisions.")
    if noise is None:
        held = spec.noise.mean if not spec.noise.inferred else float(np.log(WARM_NOISE_VAR))
        noise = Gaussian(held, 0.0)
    if spec.noise.varies and noises.level(noise).var > 0.0:
        noise = noises.refreshed(spec, data, rows.noise)
        if noise is None:
            raise ValueError("these sites make an improper noise level.")
    posterior = Posterior(w, v, noises.level(noise), scale)
    return EPState(rows, priors, noises.installed(posterior, noise))


def with_noise(spec: ModelSpec, data: TrainingData, state: EPState, log_noise: float) -> EPState:
    """The state with q(θ) at ``log_noise``, as wide as n residuals of that size would leave it."""
    if not spec.noise.inferred:
        return state._replace(posterior=noises.installed(state.posterior, Gaussian(log_noise, 0.0)))
    tau = np.full(data.n_rows, FISHER)
    sites = np.stack([tau, tau * log_noise])
    noise = noises.refreshed(spec, data, sites)
    assert noise is not None  # all sites have positive precision
    return state._replace(
        rows=state.rows._replace(noise=sites), posterior=noises.installed(state.posterior, noise)
    )


def with_noise_of_sites(spec: ModelSpec, data: TrainingData, state: EPState) -> EPState:
    """The state with the q of the noise that its sites make; one level for all where that makes no sense.

    Sites of negative precision can make it improper, or nearly so: then slopes make the noise of some rows
    e^50 of what it was, and no sweep comes back from there.
    """
    noise = state.posterior.noise
    q = noises.refreshed(spec, data, state.rows.noise) if spec.noise.inferred else noise
    if q is None or noises.farthest(q, noises.features(spec, data.X), float(noise.mean)) > FAR_NOISE:
        return with_noise(spec, data, state, float(noise.mean))
    return state._replace(posterior=noises.installed(state.posterior, q))


def check_fit(spec: ModelSpec, data: TrainingData) -> None:
    """Refuse what cannot be fitted, before the first sweep, in a sentence."""
    if data.X.shape[1] != spec.n_inputs:
        raise ValueError(
            f"the data has {data.X.shape[1]} columns but the network expects {spec.n_inputs}"
            f"{' (the last one the bias)' if spec.bias else ''}: prepare the data with bias={spec.bias}."
        )
    if not spec.noise.inferred and spec.noise.mean == -np.inf and not np.all(data.row_var > 0.0):
        row = int(np.flatnonzero(data.row_var <= 0.0)[0])
        raise ValueError(
            f"the noise is held at zero and row {row} has no known noise variance: give noise_var."
        )


def zero_state(spec: ModelSpec, data: TrainingData, **prior_sites: object) -> EPState:
    """All likelihood sites zero, the warm-up prior sites of Section 3.3.1, θ held at 0.3²."""
    check_fit(spec, data)
    priors = initial_prior_sites(spec, **prior_sites)  # type: ignore[arg-type]
    return state_from_sites(spec, data, zero_row_sites(data.n_rows, spec.n_hidden, len(spec.pairs)), priors)


def zero_start(
    spec: ModelSpec, data: TrainingData, step: Step | None = None, **options: object
) -> tuple[EPState, Schedule]:
    """The paper's start: units told apart by linearly spaced output weights."""
    return zero_state(spec, data), paper_schedule(step, **options)  # type: ignore[arg-type]


def incremental_start(
    spec: ModelSpec, data: TrainingData, step: Step | None = None, sweeps_per_unit: int = 5, **options: object
) -> tuple[EPState, Schedule]:
    """The paper's other start: one unit more every few sweeps."""
    schedule = paper_schedule(
        step,
        incremental=sweeps_per_unit,
        n_hidden=spec.n_hidden,
        **options,  # type: ignore[arg-type]
    )
    return zero_state(spec, data), schedule


STARTS: dict[str, Callable[..., tuple[EPState, Schedule]]] = {
    "zero": zero_start,
    "incremental": incremental_start,
}
