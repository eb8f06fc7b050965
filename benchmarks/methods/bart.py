"""pymc-bart: a sum of 50 trees (its default), sampled by particle Gibbs; predictions mix over the draws.

What it compiles in every process, some seconds, is part of the time of its fit.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from benchmarks.methods.classes import ClassPredictions
from scipy.special import expit, logsumexp
from scipy.stats import norm

TREES, CHAINS, TUNE, DRAWS = 50, 2, 400, 200
USED = 200  # draws, evenly spaced over the chains, that predictions mix
NOISES = 8  # per draw and row, of which intervals are quantiles


def warm_up() -> None:
    """Import the package before the clock starts."""
    import pymc_bart  # noqa: F401


class Draws:
    """Trees and noise levels of the draws that are used."""

    def __init__(self, X: np.ndarray, y: np.ndarray, classes: bool) -> None:
        import pymc as pm
        import pymc_bart

        logging.getLogger("pymc").setLevel(logging.ERROR)
        self.centre, self.scale = (0.0, 1.0) if classes else (float(np.mean(y)), float(np.std(y)))
        target = (y - self.centre) / self.scale
        with pm.Model():
            f = pymc_bart.BART("f", X, target, m=TREES)
            if classes:
                pm.Bernoulli("y", logit_p=f, observed=target)
            else:
                pm.Normal("y", f, pm.HalfNormal("noise", 1.0), observed=target)
            found = pm.sample(
                DRAWS,
                tune=TUNE,
                chains=CHAINS,
                cores=1,
                random_seed=0,
                progressbar=False,
                compute_convergence_checks=False,
            )
        kept = np.linspace(0, CHAINS * DRAWS - 1, min(USED, CHAINS * DRAWS)).astype(int)
        trees = list(f.owner.op.all_trees)  # one entry per draw, chain after chain
        self.trees = [trees[i][0] for i in kept]
        self.noise = None if classes else found.posterior["noise"].to_numpy().ravel()[kept]

    def latent(self, X: np.ndarray) -> np.ndarray:
        """One row per draw, in units of the scaled target."""
        return np.stack([sum(np.ravel(tree.predict(X)) for tree in trees) for trees in self.trees])

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        p = expit(self.latent(X)).mean(axis=0)
        return np.stack([1.0 - p, p], axis=1)


class Mixture:
    """Numbers predicted by a mixture of normal densities, one per draw."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws

    def _parts(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mine = self.draws
        assert mine.noise is not None
        return mine.centre + mine.scale * mine.latent(X), mine.scale * mine.noise[:, None]

    def mean(self, X: np.ndarray) -> np.ndarray:
        return self._parts(X)[0].mean(axis=0)

    def log_density(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        each = norm.logpdf(y, *self._parts(X))
        return logsumexp(each, axis=0) - np.log(len(each))

    def interval(self, X: np.ndarray, level: float) -> np.ndarray:
        mean, sd = self._parts(X)
        noise = np.random.default_rng(0).normal(size=(NOISES, *mean.shape))
        values = (mean + sd * noise).reshape(-1, len(X))
        return np.quantile(values, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0).T

    def facts(self) -> dict[str, Any]:
        assert self.draws.noise is not None
        return {"noise_sd": float(self.draws.scale * np.mean(self.draws.noise))}


def fit(X: np.ndarray, y: np.ndarray, classes: bool = False) -> Mixture | ClassPredictions:
    """Two chains of 200 draws after 400 that tune, fewer than the default for time; the target is scaled."""
    draws = Draws(X, y, classes)
    return ClassPredictions(draws, {}) if classes else Mixture(draws)
