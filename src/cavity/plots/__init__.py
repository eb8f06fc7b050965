"""One function per figure: each takes a fitted model and an axis, draws, and returns the axis.

The model is an estimator (anything with ``posterior_``), a `MixturePosterior` or a `FittedPosterior`.
With ``ax=None`` a figure of a fitting size is made. Where a fit is a stacked mixture, figures of weights,
scales and units show one component, the one of largest weight unless asked otherwise, and say so in the
title; effects, predictions and leave-one-out figures show the whole mixture.

Matplotlib is needed only when something is drawn: ``pip install "cavity[plot]"``.
"""

from cavity.plots.classes import class_calibration, confusion
from cavity.plots.effects import effect, effects
from cavity.plots.fit import calibration, history, observed
from cavity.plots.predictions import prediction_1d, prediction_2d
from cavity.plots.ranking import relevance
from cavity.plots.weights import input_weights, output_weights, scales

__all__ = [
    "calibration",
    "class_calibration",
    "confusion",
    "effect",
    "effects",
    "history",
    "input_weights",
    "observed",
    "output_weights",
    "prediction_1d",
    "prediction_2d",
    "relevance",
    "scales",
]
