"""How far and how fine the grids of the tilted densities reach: shared by kernels and their twins."""

from __future__ import annotations

import numpy as np

# Trapezoid rule for the tilted densities. Nodes lie on a uniform grid that covers every point whose
# log density is within TAIL of the density at the cavity mean; e^-28 = 7e-13. Spacing in units of the
# narrowest feature: 0.5 keeps mean and variance to 1e-9 on the draws of tests/ep/test_kernels.py, 0.7
# gives 1e-6, 0.4 changes nothing but the time.
TAIL = 28.0
SPACING = 0.5
ERF_SPACING = 0.5  # erf(h/√2) bends on the scale 1
SATURATED = 6.5  # 1 - erf(6.5/√2) = 8e-11: beyond it the likelihood of a row no longer changes
LOG_SCALE_TAIL = 36.0  # rows, not activations: a wider grid costs little
LOG_SCALE_SPACING = 0.3  # log-variance: e^θ bends on the scale 1
DIRECT = 256  # grids up to this many nodes are integrated at once, larger ones are trimmed first
MAX_NODES = 4096
MAX_GAIN = 300.0  # above this log-likelihood gain the shifted weights could underflow: trim first

# Gauss–Hermite rules, whose weight is a cavity N(0, 1), for cavities over which a density hardly bends:
# nodes, as many as fill vector registers, and weights that add up to one.
HERMITE_SIZES = np.array([8, 16])
HERMITE_NODES, HERMITE_WEIGHTS = np.zeros((2, len(HERMITE_SIZES), HERMITE_SIZES[-1]))
for _rule, _size in enumerate(HERMITE_SIZES):
    _nodes, _weights = np.polynomial.hermite_e.hermegauss(_size)
    HERMITE_NODES[_rule, :_size], HERMITE_WEIGHTS[_rule, :_size] = _nodes, _weights / _weights.sum()
