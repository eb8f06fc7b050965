"""What a figure needs to know of a model, whatever kind of model it was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError

from cavity.model.data import Prepared
from cavity.result.loo_rows import LooRows, loo_rows
from cavity.result.mixture import MixturePosterior
from cavity.result.posterior import FittedPosterior
from cavity.types import FloatArray, IntArray


class Reading(NamedTuple):
    """A mixture and the names of its inputs and target.

    ``table_rows``: which rows of the user's table, counted from 0, were given to the fit; None for all.
    """

    posterior: MixturePosterior
    names: tuple[str, ...]
    target: str
    table_rows: IntArray | None = None

    @property
    def n_inputs(self) -> int:
        """Number of inputs, the bias not counted."""
        return len(self.names)

    def component(self, which: int | None = None) -> tuple[FittedPosterior, str]:
        """A component, the heaviest by default, and a phrase for the title (empty for a single fit)."""
        mixture = self.posterior
        m = int(np.argmax(mixture.weights)) if which is None else which
        count = len(mixture.components)
        if not 0 <= m < count:
            raise ValueError(f"component={which} does not exist: this model has {count} component(s).")
        phrase = "" if count == 1 else f" (fit {m + 1} of {count}, weight {mixture.weights[m]:.2f})"
        return mixture.components[m], phrase

    def column(self, feature: int | str) -> int:
        """Column number of an input given by number or name."""
        if isinstance(feature, str):
            if feature not in self.names:
                raise ValueError(f"There is no input {feature!r}; inputs: {', '.join(self.names[:20])}.")
            return self.names.index(feature)
        if not -self.n_inputs <= feature < self.n_inputs:
            raise ValueError(f"There is no input number {feature}: the model has {self.n_inputs} inputs.")
        return int(feature) % self.n_inputs

    @property
    def prepared(self) -> Prepared:
        """The training rows as the engine saw them, and the way back; all components share them."""
        return self.posterior.components[0].prepared

    @property
    def rows(self) -> IntArray:
        """Numbers, counted from 0, of the rows of the user's table that were fitted, with positive weight."""
        fitted = np.flatnonzero(self.prepared.row_of >= 0)
        return fitted if self.table_rows is None else self.table_rows[fitted]

    @property
    def engine_rows(self) -> IntArray:
        """The engine's row behind each of ``rows``; copies of a row share one."""
        row_of = self.prepared.row_of
        return row_of[row_of >= 0]

    @property
    def weights(self) -> FloatArray:
        """Weight of each of ``rows``: that of its engine row, shared equally by its copies."""
        return (self.prepared.data.weight / np.bincount(self.engine_rows))[self.engine_rows]

    @property
    def inputs(self) -> FloatArray:
        """Training inputs of ``rows`` in the user's units, (n, d)."""
        s = self.prepared.scaling
        Z = self.prepared.data.X[self.engine_rows, : len(s.x_mean)]
        return Z * s.x_scale + s.x_mean

    @property
    def observed(self) -> FloatArray:
        """Training target of ``rows`` in the user's units, (n,)."""
        s = self.prepared.scaling
        return self.prepared.data.y[self.engine_rows] * s.y_scale + s.y_mean

    def leave_one_out(self) -> LooRows:
        """Leave-one-out predictions of ``rows``."""
        return loo_rows(self.posterior).take(self.engine_rows)

    def resting(self, n: int) -> FloatArray:
        """n rows with every input at its mean."""
        return np.tile(self.prepared.scaling.x_mean, (n, 1))


def read(model: Any, names: Sequence[str] | None = None) -> Reading:
    """Read an estimator, a mixture or a single fitted posterior; a reading is read already.

    Names come from the argument, else from ``feature_names_in_``, else they are x0, x1, …
    """
    if isinstance(model, Reading) and names is None:
        return model
    posterior = getattr(model, "posterior_", model)
    if isinstance(posterior, FittedPosterior):
        posterior = MixturePosterior([posterior], np.ones(1))
    if not isinstance(posterior, MixturePosterior):
        if hasattr(model, "fit"):
            raise NotFittedError(f"This {type(model).__name__} is not fitted yet: call fit first.")
        raise TypeError(
            f"A {type(model).__name__} cannot be drawn: give a fitted estimator, a MixturePosterior or a "
            "FittedPosterior."
        )
    d = len(posterior.components[0].prepared.scaling.x_mean)
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"x{j}" for j in range(d)]
    if len(names) != d:
        raise ValueError(f"{len(names)} names for {d} inputs: they must match.")
    return Reading(
        posterior,
        tuple(str(name) for name in names),
        str(getattr(model, "target_name_", "y")),
        getattr(model, "table_rows_", None),
    )
