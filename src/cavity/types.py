"""The small tuples of arrays that every room of the house speaks.

All fields are float64 arrays (or scalars) of any broadcastable shape.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

FloatArray = NDArray[Any]
IntArray = NDArray[Any]
Floats = Any  # an array or a number; functions of it broadcast


class Gaussian(NamedTuple):
    """A Gaussian in moment form; ``var`` is positive."""

    mean: Any
    var: Any


class Natural(NamedTuple):
    """A Gaussian factor exp(-tau x²/2 + nu x); a site's ``tau`` may be negative, a posterior's not."""

    tau: Any
    nu: Any


class Moments(NamedTuple):
    """What every factor answers about its tilted density: log normaliser, mean, variance."""

    log_z: Any
    mean: Any
    var: Any


class TiltedMoments(NamedTuple):
    """Moments of a factor of a value and its log-scale: both marginals and the normaliser."""

    log_z: Any
    value: Gaussian
    scale: Gaussian
