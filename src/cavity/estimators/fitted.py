"""What all fitted estimators offer: attributes worked out when asked for, saving, ArviZ."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from cavity.ep.inclusion import has_inclusion, inclusion_probabilities
from cavity.ep.solve import Record
from cavity.estimators.inputs import new_table
from cavity.model.spec import ModelSpec
from cavity.result import arviz
from cavity.result.mixture import MixturePosterior
from cavity.result.relevance import THRESHOLD, Relevance, input_blocks, relevance
from cavity.result.store import ModelFileError, StoredModel, write_model
from cavity.types import FloatArray


class WeightSummary(NamedTuple):
    """Posterior means and standard deviations of weights."""

    mean: FloatArray
    sd: FloatArray


class FittedModel(BaseEstimator):
    """What works from ``posterior_`` alone; `EPEstimator` adds how it comes about."""

    groups: Any
    posterior_: MixturePosterior
    n_features_in_: int
    _spec: ModelSpec

    def _install(self, posterior: MixturePosterior, spec: ModelSpec) -> None:
        """Set the fitted attributes that do not depend on rows of weight zero."""
        self.posterior_, self._spec = posterior, spec
        self.likelihood_ = posterior.main.spec.likelihood
        self._relevance: Relevance | None = None
        main = posterior.main.solution
        unfinished = [c for c in posterior.components if not c.solution.converged]
        self.converged_ = not unfinished
        self.status_ = main.status.value
        if main.converged and unfinished:
            count = len(posterior.components)
            self.status_ = f"{len(unfinished)} of {count} stacked fits did not converge; the heaviest did."
        self.n_iter_ = max(len(main.history), 1)
        self.loo_ = posterior.mean_loo

    # ── fitted attributes that are worked out when asked for ───────────────────────────────────────

    @property
    def log_evidence_(self) -> float:
        """log Z_EP of the training target, averaged over stacked fits."""
        check_is_fitted(self)
        return self.posterior_.log_evidence

    @property
    def history_(self) -> tuple[Record, ...]:
        """One record per sweep of the (heaviest) fit."""
        check_is_fitted(self)
        return self.posterior_.main.solution.history

    @property
    def notes_(self) -> tuple[str, ...]:
        """Sentences on what was found in the data: constant inputs, repeated columns."""
        check_is_fitted(self)
        return self.posterior_.main.prepared.notes

    @property
    def input_weights_(self) -> WeightSummary:
        """Mean and sd of the input weights, (K, d), for standardised inputs; of the heaviest fit."""
        check_is_fitted(self)
        main = self.posterior_.main
        w, free = main.state.posterior.w, ~main.spec.held[:, : self.n_features_in_]
        d = self.n_features_in_
        return WeightSummary(w.mean[:, :d] * free, np.sqrt(w.var[:, :d]) * free)

    @property
    def output_weights_(self) -> WeightSummary:
        """Mean and sd of the output weights: units, products, bias last, for a standardised target."""
        check_is_fitted(self)
        v = self.posterior_.main.state.posterior.v
        return WeightSummary(v.mean, np.sqrt(np.diag(v.cov)))

    @property
    def inclusion_(self) -> FloatArray:
        """Probability that each input weight is not in its prior's spike, (K, d); of the heaviest fit.

        Only with a prior that has a spike ("spike-and-slab"). Weights of a unit that is not in use have the
        prior probability; `relevance_` joins the units that are into one probability per input.
        """
        check_is_fitted(self)
        main = self.posterior_.main
        if not has_inclusion(main.spec):
            raise AttributeError('inclusion_ needs a prior with a spike at zero: prior="spike-and-slab".')
        return inclusion_probabilities(main.spec, main.solution.state)[:, : self.n_features_in_]

    @property
    def relevance_(self) -> Relevance:
        """Table of what each input (or block of inputs, where ``groups`` labels the inputs) does."""
        check_is_fitted(self)
        if self._relevance is None:
            self._relevance = self.relevance_table()
        return self._relevance

    def relevance_table(self, threshold: float = THRESHOLD) -> Relevance:
        """The table of ``relevance_`` with another threshold, in sds of y, for "relevant"."""
        check_is_fitted(self)
        return relevance(self.posterior_, input_blocks(self._names(), self.groups), threshold)

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if names is None else [str(n) for n in names]

    def _table(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        return new_table(self, X)

    # ── elsewhere: files and ArviZ ─────────────────────────────────────────────────────────────────

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> None:
        """Write the fitted estimator to one file; `cavity.load` reads it.

        The file is an npz archive with JSON, holds no code, and includes the standardised training rows, so
        that the fit can be resumed. ``extra`` is a dict of JSON values that comes back as ``extra_``.
        """
        check_is_fitted(self)
        params = self.get_params(deep=False)
        if callable(params.get("verbose")):
            params["verbose"] = 0
        names = getattr(self, "feature_names_in_", None)
        fitted = {
            "n_features": int(self.n_features_in_),
            "feature_names": None if names is None else [str(n) for n in names],
            **self._fitted_state(),
        }
        extra = extra if extra is not None else getattr(self, "extra_", {})
        write_model(path, StoredModel(type(self).__name__, params, fitted, extra))

    def _fitted_state(self) -> dict[str, Any]:
        """What a model file keeps of the fit."""
        components = self.posterior_.components
        return {
            "model": self._spec,
            "prepared": components[0].prepared,
            "solutions": [c.solution for c in components],
            "weights": self.posterior_.weights,
            "noise_shift": self.posterior_.noise_shift,
            "on_folds": self.posterior_.on_folds,
            "loo_i": self.loo_i_,
        }

    def _restore_state(self, fitted: dict[str, Any]) -> None:
        """Take up what `_fitted_state` kept."""
        parts = (fitted["prepared"], fitted["solutions"], fitted["weights"])
        more = (fitted.get("noise_shift", 0.0), fitted.get("on_folds", False))
        self._install(MixturePosterior.of(*parts, *more), fitted["model"])
        self.loo_i_ = fitted["loo_i"]

    @classmethod
    def _restored(cls, stored: StoredModel, shown: str) -> Self:
        """The estimator that a model file describes."""
        try:
            model = cls(**stored.params)
            fitted = stored.fitted
            model.n_features_in_ = fitted["n_features"]
            if fitted["feature_names"] is not None:
                model.feature_names_in_ = np.asarray(fitted["feature_names"], dtype=object)
            model._restore_state(fitted)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"{shown} does not describe a {cls.__name__} of this version ({type(error).__name__}: "
                f"{error}): use the version that wrote it, or fit again."
            ) from None
        model.extra_ = stored.extra
        return model

    def to_arviz(self, n_draws: int = 1000, n_chains: int = 4, random_state: Any = 0) -> Any:
        """Draws from q, pointwise log likelihood and data as ArviZ keeps them.

        An ``InferenceData`` with ArviZ 0.x, a ``DataTree`` with 1.x. ``n_draws`` is per chain; the draws are
        independent, chains are only a habit of the format.
        """
        check_is_fitted(self)
        seed = check_random_state(random_state).randint(2**31 - 1)
        return arviz.to_arviz(self.posterior_, self._names(), n_draws, n_chains, seed)

    def to_arviz_loo(self) -> Any:
        """The leave-one-out densities as ``az.loo`` returns them: ``az.compare`` takes a dict of these.

        Prefer them to ``az.loo(model.to_arviz())``: q factorises over units, so its draws spread more than
        the posterior's would, and importance sampling punishes that at influential rows.
        """
        check_is_fitted(self)
        return arviz.elpd_loo(self.posterior_)
