"""Classification: a probit network for two classes, one such network per class for more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cavity.ep.members import Member
from cavity.ep.options import FitOptions
from cavity.estimators.base import hidden_units
from cavity.estimators.classification import EPClassification
from cavity.model.data import Prepared
from cavity.model.likelihoods import Likelihood
from cavity.model.spec import ModelSpec, Output

FEWEST_UNITS = 3
# Rows for each input below which leave-one-out flatters networks that choose among inputs, so that kinds are
# weighed on folds that are fitted again.
FEW_ROWS = 20
# Beyond so many inputs each of these fits takes minutes, and leave-one-out has to do.
MOST_INPUTS = 100
# Waves are cosine units with Gaussian weights of one scale: many of them would be a Gaussian process with a
# squared exponential kernel. On inner folds they are the best kind where inputs have few rows (sonar,
# ionosphere) and the worst where they have many (pima), so that they join the others only there.
WAVE_STARTS = 2
# Where classes are far apart f must be large: by leave-one-out and inner folds, output weights of about three
# are better than of one on four sets of five and worse on none. Models that begin at the zero start keep one.
OUTPUT = Output(scale_var=10.0, bias_var=4.0)


class EPClassifier(EPClassification):
    """Bayesian two-layer network that gives class probabilities, fitted by expectation propagation.

    Two classes: P(second class | x) = Φ(f(x)) with f a network as in `EPRegressor`, averaged over its
    posterior, so that probabilities move towards one half where the data say little. More classes: one such
    network for each class against the others, and P(class | x) proportional to what its network says. Each
    network is fitted to the indicator of its class, so its probability already estimates P(class | x) and
    the sum over classes is near one; dividing by it is exact for two classes, where weighing by odds would
    count the data twice. Averaged over several fits, probabilities lie too near to one half; where
    leave-one-out says so, all fits take a larger f or, with more inputs than rows, a narrower posterior.

    Parameters
    ----------
    n_hidden : "auto" or int
        Number of hidden units K of each network. "auto" is a fifth of what `EPRegressor` would take, at least
        3.
    prior : "auto", str or WeightPrior
        Family of the input weights, as for `EPRegressor`. "auto" stacks networks of several kinds on their
        leave-one-out probabilities: smooth ones (Gaussian weights of one scale), sparse ones (Laplace, one
        scale per input) and linear ones; with less than twenty rows for each input, and at most a hundred
        inputs, also waves (smooth, of cosine units, unless ``activation`` names others), and the kinds are
        weighed on three folds that are fitted again. Where inputs outnumber rows, the linear ones of
        `EPRegressor`, and ridges of the few inputs that go with the class most.
    activation, groups, parents, prior_scale, mask, output_prior, interactions, form, n_starts, \
damping, block_size, max_iter, tol, warm_start, time_limit, n_jobs, random_state, verbose
        As for `EPRegressor`.
    class_weight : None, "balanced" or dict
        Weights that multiply those of the rows, by class.
    fraction : "auto" or float
        Power of the likelihood sites, in (0, 1]. "auto" is 1, where the integrals have a closed form; other
        values are slower.

    Attributes
    ----------
    classes_ : array
        Class labels, sorted.
    loo_, loo_i_ : float, (n,) array
        Leave-one-out log probability of the observed classes: mean (weighted), and of each row.
    loo_proba_ : (n, C) array
        Leave-one-out probabilities of all classes.
    log_evidence_ : float
        Summed over the networks, if several.
    relevance_ : Relevance
        Effects are on the scale of f, where 1 moves a probability from 0.5 to 0.84. With several networks,
        the largest effect and probability over the classes.
    posterior_ : MixturePosterior
        For two classes. For more, ``estimators_`` holds one fitted binary classifier per class.
    n_iter_, converged_, status_, history_, notes_, input_weights_, output_weights_, n_features_in_, \
feature_names_in_
        As for `EPRegressor`; of several networks, the worst.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import EPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> proba = EPClassifier(n_hidden=4).fit(X, y).predict_proba(X[:2])
    """

    def __init__(
        self,
        n_hidden: Any = "auto",
        *,
        activation: Any = "erf",
        prior: Any = "auto",
        groups: Any = None,
        parents: Any = None,
        prior_scale: Any = None,
        mask: Any = None,
        output_prior: Any = None,
        interactions: Any = None,
        class_weight: Any = None,
        form: str = "auto",
        n_starts: Any = "auto",
        fraction: Any = "auto",
        damping: Any = "auto",
        block_size: Any = "auto",
        max_iter: int = 50,
        tol: float = 0.05,
        warm_start: bool = False,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: Any = "auto",
    ) -> None:
        self.n_hidden = n_hidden
        self.activation = activation
        self.prior = prior
        self.groups = groups
        self.parents = parents
        self.prior_scale = prior_scale
        self.mask = mask
        self.output_prior = output_prior
        self.interactions = interactions
        self.class_weight = class_weight
        self.form = form
        self.n_starts = n_starts
        self.fraction = fraction
        self.damping = damping
        self.block_size = block_size
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _auto_units(self, n_rows: int) -> int:
        # A class says less than a number: by leave-one-out two to four units are best on tables of some
        # hundred rows, where regression uses a dozen; idle ones cost a little.
        return max(FEWEST_UNITS, hidden_units(n_rows) // 5)

    def _model(self, prepared: Prepared, n_hidden: int, likelihood: Likelihood, **instead: Any) -> ModelSpec:
        if isinstance(self.prior, str) and self.prior == "auto":
            instead = {"prior": "gaussian", **instead}
        if self.output_prior is None and self.mask is None and self.interactions is None:
            instead = {"output": OUTPUT, **instead}
        return super()._model(prepared, n_hidden, likelihood, **instead)

    def _members(self, spec: ModelSpec, prepared: Prepared, options: FitOptions) -> list[Member]:
        if not (isinstance(self.prior, str) and self.prior == "auto"):
            return [Member(spec, options)]
        straight: list[Member] = []
        if self.mask is None:
            if spec.n_inputs > prepared.data.n_rows:
                return self._wide(spec, prepared, options)
            straight = self._straight(spec, prepared, ("laplace", "gaussian"), replace(options, n_starts=1))
        sparse = self._model(prepared, spec.n_hidden, spec.likelihood, prior="laplace")
        half = options.n_starts // 2
        smooth = Member(spec, replace(options, n_starts=options.n_starts - half))
        if not half:
            return [smooth, *straight]
        networks = [smooth, Member(sparse, replace(options, n_starts=half))]
        if prepared.data.n_rows >= FEW_ROWS * spec.n_inputs or self.n_features_in_ > MOST_INPUTS:
            return [*networks, *straight]
        kinds = ["smooth", "sparse"]
        if isinstance(self.activation, str) and self.activation in ("auto", "erf"):
            waves = self._model(prepared, spec.n_hidden, spec.likelihood, activation="cosine")
            networks.append(Member(waves, replace(options, n_starts=min(half, WAVE_STARTS), mixed=False)))
            kinds.append("waves")
        members, kinds = [*networks, *straight], kinds + ["straight"] * len(straight)
        return [m._replace(kind=kind) for m, kind in zip(members, kinds, strict=True)]
