"""Relevance by LassoNet: its penalty chosen by cross-validation along the path, its own importances."""

from __future__ import annotations

import numpy as np
from benchmarks.methods.selection import Selection
from sklearn.preprocessing import StandardScaler

FOLDS = 5
FASTER = {"path_multiplier": 1.05}  # of the penalty from step to step; the default, 1.02, takes 2.5 as many


def warm_up() -> None:
    """Import the package before the clock starts."""
    import lassonet  # noqa: F401
    import torch

    torch.set_num_threads(1)


def select(X: np.ndarray, y: np.ndarray) -> Selection:
    """Defaults with coarser steps; importances are the penalties at which inputs leave the path."""
    from lassonet import LassoNetRegressorCV

    Z = StandardScaler().fit_transform(X).astype(np.float32)
    t = ((y - np.mean(y)) / np.std(y)).astype(np.float32)
    model = LassoNetRegressorCV(cv=FOLDS, verbose=0, random_state=0, torch_seed=0, **FASTER)
    model.fit(Z, t)
    size = model.feature_importances_.double().numpy()
    finite = size[np.isfinite(size)]
    size = np.where(np.isfinite(size), size, 2.0 * np.max(finite, initial=1.0))
    return Selection(size, model.best_selected_.numpy().astype(bool))
