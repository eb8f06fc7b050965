"""Go on from an earlier fit: the sites of rows that are still there, fresh ones for rows that are new."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cavity.ep import noise as noises
from cavity.ep.countdown import Countdown
from cavity.ep.ensemble import Ensemble, stack
from cavity.ep.options import FitOptions
from cavity.ep.schedule import Schedule, Stage
from cavity.ep.solve import Record, solve
from cavity.ep.starts import state_from_sites
from cavity.ep.state import EPState, RowSites, zero_row_sites
from cavity.ep.temper import with_temperature
from cavity.ep.warm_up import default_step
from cavity.model.data import Prepared, on_grid
from cavity.result.mixture import MixturePosterior
from cavity.result.posterior import FittedPosterior
from cavity.types import FloatArray, IntArray


def _same_rows(old: Prepared, new: Prepared) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(old.data, new.data, strict=True))


def match_rows(old: Prepared, new: Prepared, X: FloatArray, y: FloatArray, noise_var: Any) -> IntArray:
    """For each row of the new data the equal row of the old, -1 if none; X, y, noise_var as given to fit.

    Both sides are standardised the old way, by the same arithmetic, so equal rows have equal bits.
    """

    def keys(design: FloatArray, target: FloatArray, row_var: FloatArray) -> list[bytes]:
        return [row.tobytes() for row in np.column_stack([design, target, row_var]) + 0.0]

    scaling = old.scaling
    place = {key: i for i, key in enumerate(keys(*_fields(old)))}
    var = np.zeros(len(X)) if noise_var is None else np.asarray(noise_var, float)
    rows = new.rows
    design, target = on_grid(scaling.inputs(X[rows])), on_grid(scaling.target(y[rows]))
    wanted = keys(design, target, var[rows] / scaling.y_scale**2)
    return np.array([place.get(key, -1) for key in wanted], dtype=np.int64)


def _fields(prepared: Prepared) -> tuple[FloatArray, FloatArray, FloatArray]:
    return prepared.data.X, prepared.data.y, prepared.data.row_var


def carried_state(component: FittedPosterior, new: Prepared, match: IntArray) -> EPState | None:
    """A state for the new rows from the sites of the matching old ones; None where that is improper."""
    spec, old, data = component.spec, component.solution.state, component.solution.sees(new.data)
    rows = zero_row_sites(len(match), spec.n_hidden, len(spec.pairs))
    found = np.flatnonzero(match >= 0)
    source = match[found]
    rows.h[:, found], rows.noise[:, found] = old.rows.h[:, source], old.rows.noise[:, source]
    for name in ("v_dir", "v_tau", "v_nu"):
        getattr(rows, name)[found] = getattr(old.rows, name)[source]
    noise: noises.LogNoise | None = old.posterior.noise
    if spec.noise.inferred:
        noise = noises.refreshed(spec, data, rows.noise)
    if noise is None:
        return None
    try:
        return state_from_sites(spec, data, RowSites(*rows), old.priors, noise)
    except ValueError:
        return None


def resume(
    posterior: MixturePosterior,
    new: Prepared,
    X: FloatArray,
    y: FloatArray,
    noise_var: Any,
    options: FitOptions,
    callback: Callable[[Record, EPState], Any] | None = None,
) -> Ensemble | None:
    """Sweep on from every component and stack anew; None where nothing can be carried over."""
    clock = Countdown(options.time_limit)
    old = posterior.components[0].prepared
    same = _same_rows(old, new)
    match = None if same else match_rows(old, new, X, y, noise_var)
    if match is not None and not (match >= 0).any():
        return None
    solutions = []
    for component in posterior.components:
        state = component.solution.state if match is None else carried_state(component, new, match)
        if state is None:
            continue
        step = options.step if options.step is not None else default_step(new.data, component.spec)
        if component.spec.likelihood == options.alternative:
            step = replace(step, fraction=options.alternative.default_fraction)
        # damping that an earlier run had to cut stays cut
        step = replace(step, damping=min(step.damping, component.solution.step.damping))
        stage = Stage("resume", step, options.max_iter, options.tol)
        more = solve(
            component.spec, component.solution.sees(new.data), state, Schedule((stage,)),
            n_threads=options.n_threads, time_limit=clock.left, callback=callback,
        )  # fmt: skip
        more = more._replace(drawn=component.solution.drawn)
        solutions.append(more if component.solution.temperature == 1.0 else with_temperature(new.data, more))
    return stack(new.data, solutions) if solutions else None
