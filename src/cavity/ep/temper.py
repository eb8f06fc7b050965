r"""How sure a linear model of more inputs than rows may be: its temperature, by leave-one-out.

A ridge over thousands of inputs leaves f at a new row nearly as uncertain as its prior has it, also where the
border that it found is right for almost every row: its class probabilities lie too near to one half, and of
several ridges the small ones seem best, whose border leans to the larger class. With

.. math:: q_T(w) \propto q(w)^{1/T},\qquad
          T = \operatorname{argmax} \sum_i w_i \log \Phi\Bigl(\frac{y_i m_{-i}}{\sqrt{1 + T V_{-i}}}\Bigr)
          - \tfrac12 (\log T)^2

the means stay and all variances are T times as large, those without a row too: every site takes part, so the
cavities of :math:`q_T` are those of q at the same temperature. The solution stays what EP made of the data;
`predictive_state` is what its predictions rest on.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from cavity.ep.latent import left_out_moments
from cavity.ep.noise import features
from cavity.ep.posterior import refresh_weights
from cavity.ep.solve import Solution
from cavity.ep.state import EPState
from cavity.ep.sweep import held
from cavity.model.data import TrainingData
from cavity.model.spec import ModelSpec
from cavity.types import Gaussian, Natural

LOG_TEMPERATURES = (-5.0, 2.0)  # between which log T lies: slopes of Φ⁻¹(p) from a third to twelve
ACCURACY = 0.01  # of log T
# Of log T to zero: a prior sd of one. With two, folds of colon had an error more; with a half, those of
# leukemia lost most of the gain.
PULL = 1.0


def with_temperature(data: TrainingData, solution: Solution) -> Solution:
    """The solution at the temperature that makes its rows, each left out, most probable.

    Only for classes under one linear unit, whose output weight is held: there variances without a row are
    known for every T. Any other solution stays as it is.
    """
    spec = solution.spec
    if not spec.likelihood.sign or spec.output.fixed is None:
        return solution

    f, _ = left_out_moments(spec, solution.state, held(solution.state.posterior, features(spec, data.X)))

    def cost(log_temperature: float) -> float:
        at = Gaussian(f.mean, np.exp(log_temperature) * f.var)
        density = spec.likelihood.log_z(data.y, at, 0.0, data.row_var, derivatives=False).value
        return 0.5 * PULL * log_temperature**2 - float(np.dot(data.weight, density))

    found = minimize_scalar(cost, bounds=LOG_TEMPERATURES, method="bounded", options={"xatol": ACCURACY})
    if not found.fun < cost(0.0):  # no better, or no number
        return solution
    return solution._replace(temperature=float(np.exp(found.x)))


def tempered(spec: ModelSpec, data: TrainingData, state: EPState, temperature: float) -> EPState | None:
    """The state with q(w) to the power 1/T, all its sites divided by T; None where that is improper."""
    w = state.priors.w
    rows = state.rows._replace(h=state.rows.h / temperature)
    priors = state.priors._replace(w=Natural(w.tau / temperature, w.nu / temperature))
    q = refresh_weights(spec, data, rows, priors.w)
    return None if q is None else EPState(rows, priors, state.posterior._replace(w=q))


def predictive_state(data: TrainingData, solution: Solution) -> EPState:
    """The state at the temperature of the solution, for predictions and leave-one-out."""
    if solution.temperature == 1.0:
        return solution.state
    state = tempered(solution.spec, data, solution.state, solution.temperature)
    return solution.state if state is None else state  # None by rounding alone: a power of q is as proper
