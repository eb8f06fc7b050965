"""What all classifiers share: two classes by one probit model, more by one against the others each."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import logsumexp, ndtri_exp
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from cavity.ep.solve import Record
from cavity.estimators.base import EPEstimator, with_callbacks
from cavity.estimators.fitted import WeightSummary
from cavity.estimators.inputs import labelled_table, row_vector
from cavity.model.data import check_weights
from cavity.model.likelihoods import Likelihood, ProbitLikelihood
from cavity.result.relevance import THRESHOLD, Relevance, largest
from cavity.types import FloatArray

# Above this the log of the other class's probability is worked out as log(1 - p) without loss.
_HALF = float(np.log(0.5))


class EPClassification(ClassifierMixin, EPEstimator):
    """A classifier without its parameters: subclasses say what the function of x is."""

    class_weight: Any

    def _likelihoods(self) -> list[Likelihood]:
        return [ProbitLikelihood()]

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the network, or one per class.

        Parameters
        ----------
        X : array or data frame, (n, d)
            Numbers only, none missing.
        y : array, (n,)
            Class labels: numbers, booleans or text.
        sample_weight : array, (n,), optional
            Copies that a row stands for; 0 leaves it out.
        """
        X, y = labelled_table(self, X, y)
        check_classification_targets(y)
        weight = row_vector(sample_weight, len(y), "sample_weight")
        if weight is not None:
            check_weights(weight)
        if self.class_weight is not None:
            by_class = compute_sample_weight(self.class_weight, y)
            if (by_class < 0.0).any():
                label = np.asarray(y)[by_class < 0.0].tolist()[0]
                raise ValueError(f"class_weight is negative for the class {label!r}: weights count copies.")
            weight = by_class if weight is None else weight * by_class
        classes, code = np.unique(y, return_inverse=True)
        counted = np.unique(code if weight is None else code[weight > 0.0])
        if not len(counted):
            raise ValueError("sample_weight is zero in every row: at least one weight must be positive.")
        if len(counted) < 2:
            only = classes.tolist()[counted[0]]
            raise ValueError(f"y holds one class only, {only!r}, in rows of positive weight: give two.")
        again = self.warm_start and np.array_equal(getattr(self, "classes_", ()), classes)
        self.classes_ = classes
        if len(classes) == 2:
            self.__dict__.pop("estimators_", None)
            self._fit(X, np.where(code == 1, 1.0, -1.0), weight)
            both = np.stack([self.loo_i_, _log_other(self.loo_i_)], axis=1)
            self._loo_log_proba = np.where(code[:, None] == [0, 1], both[:, :1], both[:, 1:])
            return self
        old = getattr(self, "estimators_", None) if again else None
        self.__dict__.pop("posterior_", None)
        self.estimators_: list[EPClassification] = []
        clock = self._clock()
        for c in range(len(classes)):
            binary = self._binary() if old is None else old[c].set_params(**self._binary().get_params())
            mine = np.where(code == c, 1.0, -1.0)
            self.estimators_.append(binary._fit(X, mine, weight, clock=clock.share(len(classes) - c)))
        right = np.stack([e.loo_i_ for e in self.estimators_], axis=1)  # log P(right side | other rows)
        log_p = np.where(code[:, None] == np.arange(len(classes)), right, _log_other(right))
        self._loo_log_proba = log_p - logsumexp(log_p, axis=1, keepdims=True)
        self.loo_i_ = self._loo_log_proba[np.arange(len(code)), code]
        self.loo_ = float(np.average(self.loo_i_, weights=weight))
        self._summarise()
        return self

    def _binary(self) -> EPClassification:
        """A classifier of one class against the others, not yet fitted."""
        binary: EPClassification = clone(self).set_params(class_weight=None)
        binary.classes_, binary.n_features_in_ = np.array([False, True]), self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            binary.feature_names_in_ = self.feature_names_in_
        return binary

    def _summarise(self) -> None:
        """Attributes of several networks from those of each."""
        worst = self._worst
        self.converged_ = all(e.converged_ for e in self.estimators_)
        self.status_, self.n_iter_, self.likelihood_ = worst.status_, worst.n_iter_, worst.likelihood_
        self._spec, self._relevance = worst._spec, None

    @property
    def _networks(self) -> list[EPClassification]:
        """The binary classifiers behind this one; itself for two classes."""
        check_is_fitted(self)
        return getattr(self, "estimators_", None) or [self]

    @property
    def _worst(self) -> EPClassification:
        """The network that is furthest from converged."""
        found = [max(c.solution.mismatch for c in e.posterior_.components) for e in self._networks]
        return self._networks[int(np.argmax(found))]

    # ── predictions ────────────────────────────────────────────────────────────────────────────────

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Log probabilities of the classes, (n, C), exact in the tails."""
        X = self._table(X)
        if len(self.classes_) == 2:
            rows = self.posterior_.at(X)
            return np.stack([rows.log_density(np.full(len(X), s)) for s in (-1.0, 1.0)], axis=1)
        plus = np.ones(len(X))
        log_p = np.stack([e.posterior_.log_density(X, plus) for e in self.estimators_], axis=1)
        return log_p - logsumexp(log_p, axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes in the order of ``classes_``, (n, C)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Any:
        """The most probable class of each row."""
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[best]

    def decision_function(self, X: Any) -> FloatArray:
        """For two classes Φ⁻¹(P(second class)), (n,); for more the log probabilities, (n, C)."""
        log_p = self.predict_log_proba(X)
        if len(self.classes_) > 2:
            return log_p
        smaller = ndtri_exp(np.minimum(log_p[:, 0], log_p[:, 1]))  # of the less probable class: no loss
        return np.where(log_p[:, 1] < log_p[:, 0], smaller, -smaller)

    def log_density(self, X: Any, y: Any) -> FloatArray:
        """log P(y | x) of each row."""
        log_p = self.predict_log_proba(X)
        y = np.asarray(y)
        if y.shape != (len(log_p),):
            raise ValueError(f"y must have one entry per row of X ({len(log_p)}), got shape {y.shape}.")
        code = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = np.flatnonzero(self.classes_[code] != y)
        if len(unknown):
            raise ValueError(f"y holds the class {y[unknown[0]]!r}, which was not in the training rows.")
        return log_p[np.arange(len(y)), code]

    @property
    def loo_proba_(self) -> FloatArray:
        """Leave-one-out probabilities of the classes for each row of X, (n, C)."""
        check_is_fitted(self)
        return np.exp(self._loo_log_proba)

    # ── what several networks share ────────────────────────────────────────────────────────────────

    @property
    def log_evidence_(self) -> float:
        """log Z_EP of the training classes, summed over the networks."""
        return float(sum(e.posterior_.log_evidence for e in self._networks))

    @property
    def history_(self) -> tuple[Record, ...]:
        """One record per sweep; of the worst network, if several."""
        return self._worst.posterior_.main.solution.history

    @property
    def notes_(self) -> tuple[str, ...]:
        """Sentences on what was found in the data."""
        return self._networks[0].posterior_.main.prepared.notes

    @property
    def input_weights_(self) -> WeightSummary:
        """Mean and sd of the input weights, (K, d), for standardised inputs; of all networks in turn."""
        return self._weights("input_weights_")

    @property
    def output_weights_(self) -> WeightSummary:
        """Mean and sd of the output weights, bias last; of all networks in turn."""
        return self._weights("output_weights_")

    def _weights(self, which: str) -> WeightSummary:
        parts = [getattr(super(EPClassification, e), which) for e in self._networks]
        return WeightSummary(np.concatenate([p.mean for p in parts]), np.concatenate([p.sd for p in parts]))

    def relevance_table(self, threshold: float = THRESHOLD) -> Relevance:
        """The table of ``relevance_`` with another threshold, on the scale of f."""
        check_is_fitted(self)
        if len(self.classes_) == 2:
            return super().relevance_table(threshold)
        return largest([e.relevance_table(threshold) for e in self.estimators_])

    # ── files ──────────────────────────────────────────────────────────────────────────────────────

    def _fitted_state(self) -> dict[str, Any]:
        classes = self.classes_
        if classes.dtype == object:
            if not all(isinstance(c, str) for c in classes):
                raise TypeError("cannot save: class labels must be numbers, booleans or text.")
            classes = classes.astype(str)
        kept = {
            "classes": classes,
            "object": self.classes_.dtype == object,
            "loo_log_proba": self._loo_log_proba,
        }
        if len(classes) == 2:
            return {**kept, **super()._fitted_state()}
        parts = [EPEstimator._fitted_state(e) for e in self.estimators_]
        return {**kept, "networks": parts, "loo_i": self.loo_i_, "loo": self.loo_}

    def _restore_state(self, fitted: dict[str, Any]) -> None:
        self.classes_ = fitted["classes"].astype(object) if fitted["object"] else fitted["classes"]
        self._loo_log_proba = fitted["loo_log_proba"]
        if len(self.classes_) == 2:
            super()._restore_state(fitted)
            return
        self.estimators_ = []
        for part in fitted["networks"]:
            binary = self._binary()
            EPEstimator._restore_state(binary, part)
            self.estimators_.append(binary)
        self.loo_i_, self.loo_ = fitted["loo_i"], fitted["loo"]
        self._summarise()


def _log_other(log_p: FloatArray) -> FloatArray:
    """log(1 - p) from log p, without loss where p is near 0 or 1."""
    with np.errstate(divide="ignore"):
        return np.where(log_p > _HALF, np.log(-np.expm1(log_p)), np.log1p(-np.exp(np.minimum(log_p, _HALF))))
