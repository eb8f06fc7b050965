"""Outputs and slopes of all hidden units at once, compiled: what a MAP fit spends its time on."""

from __future__ import annotations

import math

from numba import njit

from cavity.numerics.fastmath import erf, exp_nonpositive
from cavity.numerics.kernel_tilted import ERF

_ROOT_HALF = math.sqrt(0.5)
_ROOT_2_PI = math.sqrt(2.0 / math.pi)


@njit(cache=True, nogil=True, error_model="numpy")
def unit_outputs(h, kinds, scale, g, slope):
    """Write s_k g_k(h_ik) and its derivative for activations (n, K); erf and linear units."""
    for i in range(h.shape[0]):
        for k in range(h.shape[1]):
            x = h[i, k]
            if kinds[k] == ERF:
                g[i, k] = scale[k] * erf(_ROOT_HALF * x)
                slope[i, k] = scale[k] * _ROOT_2_PI * exp_nonpositive(-0.5 * x * x)
            else:
                g[i, k] = scale[k] * x
                slope[i, k] = scale[k]
