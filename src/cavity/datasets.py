r"""Data to try a model on: the simulated cases of the paper, and a reader for local data sets.

The cases follow Section 4 of the paper, which describes them in words and pictures; where it leaves a
choice open, the docstring says what was chosen. Each returns a :class:`Simulated` with the truth beside
the data. Nothing here needs a network.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cavity.types import FloatArray, IntArray

DATA_VARIABLE = "CAVITY_DATA"

RandomState = int | np.random.Generator | None
Effect = Callable[[FloatArray], FloatArray]


class Simulated(NamedTuple):
    r"""Observations :math:`y_i = f(x_i) + \epsilon_i` together with what made them.

    Attributes
    ----------
    X : ndarray, shape (n, d)
        Inputs.
    y : ndarray, shape (n,)
        Noisy targets.
    f : callable
        The latent function: takes inputs of shape (m, d), returns shape (m,).
    noise_sd : float
        Standard deviation of :math:`\epsilon_i`.
    effects : tuple of callables
        For an additive :math:`f(x) = \sum_j f_j(x_j)`, the d functions :math:`f_j`, each elementwise;
        empty where f is not additive.
    """

    X: FloatArray
    y: FloatArray
    f: Callable[[FloatArray], FloatArray]
    noise_sd: float
    effects: tuple[Effect, ...] = ()


class Table(NamedTuple):
    """A real data set.

    Attributes
    ----------
    X : ndarray, shape (n, d)
        Inputs, as stored: nothing is standardised.
    y : ndarray, shape (n,)
        Targets; 0 and 1 for two classes.
    feature_names : tuple of str
        The d column names.
    splits : dict of str to ndarray
        Published splits under the names they are stored with, such as ``train_0`` and ``test_0``: row
        numbers from 0, or one fold label per row. Empty where none are stored.
    """

    X: FloatArray
    y: FloatArray
    feature_names: tuple[str, ...]
    splits: dict[str, IntArray]


def case1(random_state: RandomState = None, *, n: int = 60) -> Simulated:
    r"""Case 1 of the paper: three clusters that either of two inputs could explain alone.

    .. math:: f(x) = 1 \;(x_1, x_2 > 0.5), \quad 0 \;(|x_1|, |x_2| < 0.5), \quad 0.8 \;(x_1, x_2 < -0.5),

    with noise of standard deviation 0.1. A step in one input separates the clusters, but a smoother
    function of both does so with a wider margin; a point estimate of relevance throws one of them away.

    Parameters
    ----------
    random_state : int, Generator or None
        Seed or source of randomness.
    n : int
        Number of observations, dealt out evenly to the clusters. The paper states neither n nor how the
        points lie within a cluster: here they are uniform on squares of side 1 about (1, 1), (0, 0) and
        (-1, -1).

    Returns
    -------
    Simulated
        Its ``f`` is NaN outside the three quadrants and squares above, where the case defines no value.
    """
    rng = np.random.default_rng(random_state)
    centre = np.array([1.0, 0.0, -1.0])[np.arange(n) % 3]
    return _observe(centre[:, None] + rng.uniform(-0.5, 0.5, size=(n, 2)), _three_clusters, 0.1, rng)


def case2(n: int = 200, random_state: RandomState = None, noise_sd: float = 0.2) -> Simulated:
    r"""Case 2 of the paper: ten additive effects, from none to strongly nonlinear.

    .. math:: f(x) = \sum_{j=1}^{10} f_j(x_j), \qquad x_j \sim U(-\pi, \pi),

    ======  ======================================  =========================================
    input   effect                                  what it asks of a network
    ======  ======================================  =========================================
    1       0                                       irrelevant
    2 to 5  0.1 x, 0.2 x, 0.3 x, 0.4 x              one nearly linear unit serves them all
    6       0.9 tanh(0.75 x)                        one unit that saturates
    7       0.75 tanh(3 x)                          one unit with a large weight: a step
    8       sin(x)                                  up and down
    9       sin(1.25 x)                             up and down, faster
    10      sin(1.5 x)                              up and down, fastest
    ======  ======================================  =========================================

    Inputs 5 to 10 have nearly the same standard deviation, about 0.7, so that they differ in how nonlinear
    they are and not in how much they matter.

    Parameters
    ----------
    n : int
        Number of observations.
    random_state : int, Generator or None
        Seed or source of randomness.
    noise_sd : float
        Standard deviation of the noise.

    Returns
    -------
    Simulated
        With the ten ``effects``; all are odd functions, so each has mean zero.

    Notes
    -----
    The paper shows its effects only in a figure; the functions here are ours. What it says in words
    holds. The last three need at least three hidden units: the gradient of a network with K units stays
    in the span of K weight vectors, and the gradients of three effects span three dimensions (by the same
    count the whole of f needs six). Moreover a unit is monotone along each input, so each of the last
    three, which turn twice, must be met by two units or more, of which one may be shared.
    """
    rng = np.random.default_rng(random_state)
    X = rng.uniform(-np.pi, np.pi, size=(n, len(_CASE2_EFFECTS)))
    return _observe(X, partial(_additive, effects=_CASE2_EFFECTS), noise_sd, rng)._replace(
        effects=_CASE2_EFFECTS
    )


def case3(n: int = 100, random_state: RandomState = None, noise_sd: float = 0.2) -> Simulated:
    r"""Case 3 of the paper: one input, a smooth function with a jump at zero.

    .. math:: f(x) = \tfrac12 \sin(x) + \operatorname{sign}(x), \qquad x \sim U(-\pi, \pi),

    with :math:`\operatorname{sign}(0) = 1`. The paper gives a figure and no formula; the function, the
    number of points and the noise are ours.

    Parameters
    ----------
    n : int
        Number of observations.
    random_state : int, Generator or None
        Seed or source of randomness.
    noise_sd : float
        Standard deviation of the noise.

    Returns
    -------
    Simulated
        With one input and one effect.
    """
    rng = np.random.default_rng(random_state)
    X = rng.uniform(-np.pi, np.pi, size=(n, 1))
    effects = (_jump,)
    return _observe(X, partial(_additive, effects=effects), noise_sd, rng)._replace(effects=effects)


def load(name: str) -> Table:
    """Data set ``NAME.csv.gz`` of the folder named by the environment variable ``CAVITY_DATA``.

    The file has one header row, the inputs first and the target last, called ``y``. Numbers are read by
    :func:`float`, so a value written in shortest round-trip form comes back bit for bit. Beside it may lie
    ``NAME.splits.npz``.

    Parameters
    ----------
    name : str
        Name of the data set, without folder or ending.

    Returns
    -------
    Table
        Inputs, target, names and splits.

    Raises
    ------
    FileNotFoundError
        If the variable is not set or the folder has no such data set.
    ValueError
        If the table is not a rectangle of numbers with ``y`` last.
    """
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        raise FileNotFoundError(
            f"The data set {name!r} is read from a local folder: set the environment variable "
            f"{DATA_VARIABLE} to the folder that holds {name}.csv.gz."
        )
    path = Path(folder) / f"{name}.csv.gz"
    if not path.is_file():
        present = sorted(p.name.removesuffix(".csv.gz") for p in Path(folder).glob("*.csv.gz"))
        raise FileNotFoundError(
            f"There is no {name}.csv.gz in {folder}, the folder named by the environment variable "
            f"{DATA_VARIABLE}; data sets there: {', '.join(present) or 'none'}."
        )
    feature_names, values = _read_table(path)
    splits_path = path.with_name(f"{name}.splits.npz")
    splits = {}
    if splits_path.is_file():
        with np.load(splits_path, allow_pickle=False) as stored:
            splits = {key: stored[key].astype(np.int64) for key in stored.files}
    return Table(values[:, :-1].copy(), values[:, -1].copy(), feature_names, splits)


def load_diabetes() -> Table:
    """The diabetes data that come with scikit-learn: 442 patients, 10 measurements in their own units.

    Returns
    -------
    Table
        The target is a measure of disease progression one year after the measurements.
    """
    from sklearn import datasets

    bunch = datasets.load_diabetes(scaled=False)
    return Table(np.asarray(bunch.data), np.asarray(bunch.target), tuple(bunch.feature_names), {})


def _observe(
    X: FloatArray, f: Callable[[FloatArray], FloatArray], noise_sd: float, rng: np.random.Generator
) -> Simulated:
    """Targets drawn about f(X), packed with f."""
    return Simulated(X, f(X) + noise_sd * rng.standard_normal(len(X)), f, noise_sd)


def _additive(X: FloatArray, effects: tuple[Effect, ...]) -> FloatArray:
    X = np.asarray(X, dtype=np.float64)
    return np.sum([effect(X[:, j]) for j, effect in enumerate(effects)], axis=0)


def _three_clusters(X: FloatArray) -> FloatArray:
    X = np.asarray(X, dtype=np.float64)
    inside = [(X > 0.5).all(axis=1), (np.abs(X) <= 0.5).all(axis=1), (X < -0.5).all(axis=1)]
    return np.select(inside, [1.0, 0.0, 0.8], default=np.nan)


# Functions of the module, not lambdas, so that a Simulated pickles.
def _linear(x: FloatArray, slope: float) -> FloatArray:
    return slope * np.asarray(x, dtype=np.float64)


def _tanh(x: FloatArray, height: float, steepness: float) -> FloatArray:
    return height * np.tanh(steepness * np.asarray(x, dtype=np.float64))


def _sine(x: FloatArray, frequency: float) -> FloatArray:
    return np.sin(frequency * np.asarray(x, dtype=np.float64))


def _jump(x: FloatArray) -> FloatArray:
    x = np.asarray(x, dtype=np.float64)
    return 0.5 * np.sin(x) + np.where(x < 0, -1.0, 1.0)


_CASE2_EFFECTS: tuple[Effect, ...] = (
    *(partial(_linear, slope=slope) for slope in (0.0, 0.1, 0.2, 0.3, 0.4)),
    partial(_tanh, height=0.9, steepness=0.75),
    partial(_tanh, height=0.75, steepness=3.0),
    *(partial(_sine, frequency=frequency) for frequency in (1.0, 1.25, 1.5)),
)


def _read_table(path: Path) -> tuple[tuple[str, ...], FloatArray]:
    """Column names without the target's, and all values, of a gzipped CSV file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        header = next(rows, [])
        if header[-1:] != ["y"]:
            raise ValueError(f"{path.name}: the last column should be the target, called 'y'.")
        values = []
        for number, row in enumerate(rows, start=2):
            if len(row) != len(header):
                raise ValueError(f"{path.name}, line {number}: {len(row)} values, {len(header)} columns.")
            try:
                values.append([float(value) for value in row])
            except ValueError as error:
                raise ValueError(f"{path.name}, line {number}: {error}.") from error
    if not values:
        raise ValueError(f"{path.name}: no rows.")
    return tuple(header[:-1]), np.array(values, dtype=np.float64)
