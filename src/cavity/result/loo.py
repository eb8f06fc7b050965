r"""Leave-one-out predictive densities from the cavities, for free.

The cavity with the **whole** site of row i removed stands for the fit without row i, and
p(y_i | y_-i) is the predictive density under it, whatever fraction η the sweeps used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cavity.ep.evidence import look_at_rows
from cavity.ep.latent import left_out_moments
from cavity.ep.noise import features
from cavity.ep.schedule import Step
from cavity.ep.state import EPState
from cavity.ep.sweep import held
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.types import FloatArray, Gaussian


class LeaveOneOut(NamedTuple):
    """Per-row leave-one-out results in the units of the fitted target.

    log_density : log p(y_i | y_-i); f : moments of f(x_i) without row i; noise : q(θ) without row i;
    improper : rows where some whole-site cavity was improper. There half of the precision is removed
    instead of the site, so their density is a little optimistic; they are named, not hidden.
    """

    log_density: FloatArray
    f: Gaussian
    noise: Gaussian
    improper: FloatArray

    @property
    def mean(self) -> float:
        """Mean log density over the rows (each distinct row once; weigh it yourself for copies)."""
        return float(np.mean(self.log_density))


def leave_one_out(spec: ModelSpec, data: TrainingData, state: EPState) -> LeaveOneOut:
    """Leave-one-out densities of all rows at the current state; one copy of a weighted row is left out."""
    step = replace(Step(), fraction=1.0)
    visit = look_at_rows(spec, data, state, step)
    q = held(state.posterior, features(spec, data.X))
    f, proper = left_out_moments(spec, state, q)
    n = data.n_rows
    noise = Gaussian(q.noise.mean + np.zeros(n), np.zeros(n))
    improper = ~proper
    if np.all(q.noise.var > 0.0):
        tau = 1.0 / q.noise.var - state.rows.noise[0]
        ok = tau * q.noise.var > 1e-9
        improper = improper | ~ok
        tau = np.where(ok, tau, 0.5 / q.noise.var)
        share = np.where(ok, 1.0, 0.5 / (q.noise.var * np.where(ok, 1.0, state.rows.noise[0])))
        noise = Gaussian((q.noise.mean / q.noise.var - share * state.rows.noise[1]) / tau, 1.0 / tau)
    return LeaveOneOut(visit.log_z, f, noise, improper)
