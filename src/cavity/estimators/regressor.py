"""Networks for regression: Gaussian, robust or count noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cavity.ep.doubt import doubt
from cavity.ep.members import Member
from cavity.ep.options import FitOptions
from cavity.estimators.regression import EPRegression, sloping_noise
from cavity.model.data import Prepared, TrainingData
from cavity.model.draw_in import DrawIn, long_tails
from cavity.model.likelihoods import Likelihood, OutlierLikelihood, StudentTLikelihood
from cavity.model.spec import ModelSpec
from cavity.result.mixture import MixturePosterior

DEFAULTS = ("auto", "auto", "laplace", None)  # n_hidden, activation, prior, groups
# Of the Student-t densities that stand beside Gaussian ones: 14 components, held-out densities as at 1e-6.
TAIL_ACCURACY = 1e-2
# Where inputs with long tails are drawn in: rows up to which that is done unasked, as it takes half to all of
# the time again; starts that "auto" has then beyond the others, and fewest starts that are worth halving.
MOST_DRAWN_ROWS, MORE_STARTS, FEWEST_STARTS = 2000, 4, 4


class EPRegressor(EPRegression):
    """Bayesian two-layer network with a sparsity-promoting prior, fitted by expectation propagation.

    X and y are standardised inside and predictions come back in the units of y; nothing has to be scaled
    or tuned first. Rows may be given in any order, and a row of weight w is the same as w copies of it.

    Parameters
    ----------
    n_hidden : "auto" or int
        Number of hidden units K. "auto" is at most √n of the distinct rows, between 25 and 80, with a mask at
        least two for each set of inputs; starts with a weak prior use fewer where that would make more than
        0.6 input weights a row. Where inputs outnumber rows, and activation, prior and groups are left at
        their defaults, linear models are stacked instead: ridges and horseshoes of several sizes, a spike
        and slab, these kinds weighed on three folds that are fitted again.
    activation : {"auto", "erf", "linear", "tanh", "relu", "softplus", "sine", "cosine"}, function or more
        What a hidden unit does with its input. "auto" is erf, with one linear unit in some of the starts,
        the first among them; the better ones by leave-one-out are repeated. "linear+erf" makes one linear
        unit, the others erf; a mapping as {"linear": 2, "erf": None} any numbers of each, None for all
        others; a list names each unit. A vectorised function of one's own runs too, more slowly.
    prior : str or WeightPrior
        Family of the input weights. "laplace": one scale per input, and many weights shrink to almost
        nothing;
        "ard": Gaussian with one scale per input, so an input is switched off as a whole; "gaussian": one
        scale for all, none singled out; "student-t": between the last and the next; "horseshoe": most weights
        almost exactly zero, the others hardly shrunk; "regularized-horseshoe": the same, none of them huge;
        "spike-and-slab": each weight in or out, with probabilities; "mixture": two widths.
    groups : None, {"common", "input", "unit"} or array
        Which weights share a scale, instead of what ``prior`` says: d labels (blocks of inputs, say the
        columns of a one-hot code) or an array of K × d labels.
    parents : None, "common" or array
        Groups of groups: coarser labels of the inputs (or weights), or one for all. The log prior variances
        of groups under one parent are correlated (0.5) a priori, so that each learns from the others.
    prior_scale : None, (mean, variance) or float
        Hyperprior of the log prior variance of the weights, for standardised inputs; a number holds the
        prior standard deviation there instead of inferring it.
    mask : None, "additive", list of sets of inputs, or array
        Which inputs a unit sees. "additive": one each, so that f is a sum of functions of one input; sets of
        column numbers or names: units are dealt to the sets in turn, and f is a sum of functions of each
        set; an array of K × d booleans. Weights outside are zero. Such models start from the paper's zero
        start, whatever ``n_starts``.
    output_prior : None, str or WeightPrior
        Family of the output weights, for a standardised target: "truncated-t" (None), the paper's; another
        kept non-negative, as "half-laplace" or "half-spike-and-slab", which switches units off; or any of the
        families above, under which idle units may keep changing their sign. Their scale is held at 1.
    interactions : None or list of pairs
        Numbers of hidden units, from 0, whose products the output layer sees too: [(0, 1)]. With ``mask``
        they are interactions of chosen inputs. Their weights have either sign. Such fits take longer.
    likelihood : {"auto", "gaussian", "student-t", "outliers", "poisson"}, Likelihood, or a list of these
        How y varies about the function. "auto" is Gaussian first; where Student-t noise then predicts better
        by leave-one-out, the fits go on with it, stacked with the Gaussian ones (not with one start, a held
        noise level or a given fraction); where few rows are so far off that they make most of the spread of
        y, "outliers" is fitted too, and kept where it predicts better. "student-t" (4 degrees of freedom;
        `StudentTLikelihood` takes others) and "outliers" (some rows have much wider noise; how many and how
        much is learnt unless `OutlierLikelihood` says it) bear rows that are far off; "poisson" is for
        counts, with the function on the log scale. Of a list, the one with the best leave-one-out density is
        kept: ``likelihood_``.
    noise : {"auto", "linear", "varying"}, None, (mean, variance) or float
        None is one level for all rows, inferred. "linear" lets it depend on the inputs: the log noise
        variance of a row is linear in its standardised inputs (farther than four sds from the mean they count
        as four), with slopes inferred (``noise_slopes_``). It needs more rows than inputs. "varying" lets it
        depend on the function too: how large f is, and how steep (not with interactions or a mask). "auto"
        begins with one level and goes on as "varying", both stacked, where that predicts better by
        leave-one-out (not with one start or more than 50 relevant inputs). A pair is the prior of the log
        noise variance for a standardised target; a number holds the noise standard deviation there, in the
        units of y. 0 leaves only the variances given to ``fit`` as ``noise_var``. With robust noise it is the
        (squared) scale of the narrow part. Counts have none.
    form : {"auto", "full", "dual", "diagonal"}
        How the posterior of each unit's weights is kept; "diagonal" saves memory with very many inputs.
    n_starts : "auto" or int
        Starts from different points, stacked by their leave-one-out densities; "auto" makes 8 up to 2000
        rows and 50 inputs, 4 up to 20,000 rows and 2 beyond, or where a piece of the model is not compiled
        (counts, interactions, functions of your own), and 4 more where inputs are drawn in. One start is
        faster and gives a single network.
    draw_in : {"auto", True, False}
        Whether half of the starts see inputs with a long tail drawn in, by a power of their distance from the
        median (Yeo and Johnson's) that makes them as normal as it can; both halves are stacked. "auto" does
        so up to 2000 rows. Where no input has a long tail nothing changes; nor with fewer than four starts,
        a ``mask``, or more inputs than rows.
    fraction : "auto" or float
        Power of the likelihood sites, in (0, 1]. "auto" is what suits the likelihood; 0.95 if Gaussian.
    damping : "auto" or float
        Share of a proposed site that is taken, in (0, 1].
    block_size : "auto", int or None
        Rows between two updates of the weights: 1 is sequential, None all rows at once.
    max_iter, tol : int, float
        Most sweeps of the last stage, and the moment mismatch (in marginal sds) that ends it.
    warm_start : bool
        Go on from the last fit where the model is the same; rows that are new start afresh.
    time_limit : float, optional
        Seconds for the whole of ``fit``; the state reached by then is kept. Several likelihoods share them,
        and those for which none are left are named in ``notes_`` and a warning.
    n_jobs : int, optional
        Processes over starts, or threads over rows with one start; -1 for all cores.
    random_state : int, RandomState or None
        Of the starts. With the default, the same data always give the same fit.
    verbose : "auto", int or callable
        "auto" shows progress for fits of more than three seconds on a terminal and is silent elsewhere;
        0 is silent; 1 shows progress, a bar with rich and a moving line without, or a line per stage where
        there is no terminal; 2 a line per sweep; a function is called as verbose(record, state) after
        each sweep and stops the fit by returning True.

    Attributes
    ----------
    loo_, loo_i_ : float, (n,) array
        Leave-one-out log predictive density: mean over the rows (weighted), and of each row of X. Of a row
        of weight w one copy is left out. Rows of weight zero took no part in the fit, so theirs is the
        predictive density.
    log_evidence_ : float
    relevance_ : Relevance
        One row per input: prior scale, size of the effect, probability of being relevant, and, with a
        spike-and-slab prior, of being included.
    inclusion_ : (K, d) array
        Probability of each input weight to be in the slab; only with a spike-and-slab prior.
    noise_sd_ : float
        Posterior mean of the noise standard deviation (of its scale, if robust), in the units of y; where it
        depends on the inputs, the average over the rows. ``predict_components`` has it for any row.
    noise_slopes_ : WeightSummary
        Mean and sd of the change of the log noise variance for one standard deviation of each input, (d,);
        only where it depends on the inputs.
    noise_function_slopes_ : WeightSummary
        The same with the function, (3,): for one sd of f, of the square of that less one, and of the log of
        its squared slope; only where it depends on them.
    likelihood_ : Likelihood
        The one used; of several that are stacked, that of the heaviest fit.
    outlier_probability_, outliers_ : (n,) array, array of int
        Probability that each row is an outlier, judged without it, and the rows where it exceeds one half;
        for robust likelihoods, zero for others.
    input_weights_, output_weights_ : WeightSummary
        Means and standard deviations, for standardised data.
    n_iter_, converged_, status_, history_
        Sweeps, whether the tolerance was reached, a sentence on how it ended, one record per sweep. A
        `ConvergenceWarning` is given only where a moment is off by more than half a standard deviation.
    posterior_ : MixturePosterior
        Everything else one may ask.
    notes_ : tuple of str
        What was found in the data.
    n_features_in_, feature_names_in_ : int, array

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import EPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3))
    >>> y = np.tanh(2.0 * X[:, 0]) + 0.1 * rng.normal(size=60)
    >>> model = EPRegressor(n_hidden=3).fit(X, y)
    >>> mean, sd = model.predict(X[:2], return_std=True)
    """

    _noise_names = ("auto", "linear", "varying")

    def __init__(
        self,
        n_hidden: Any = "auto",
        *,
        activation: Any = "auto",
        prior: Any = "laplace",
        groups: Any = None,
        parents: Any = None,
        prior_scale: Any = None,
        mask: Any = None,
        output_prior: Any = None,
        interactions: Any = None,
        likelihood: Any = "auto",
        noise: Any = "auto",
        form: str = "auto",
        n_starts: Any = "auto",
        draw_in: Any = "auto",
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
        self.likelihood = likelihood
        self.noise = noise
        self.form = form
        self.n_starts = n_starts
        self.draw_in = draw_in
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

    def _options(self, spec: ModelSpec, data: TrainingData) -> FitOptions:
        options = super()._options(spec, data)
        if not (options.n_starts > 1 and spec.noise.inferred):
            return options
        if self._auto_likelihood and self.fraction == "auto":
            options = replace(options, alternative=StudentTLikelihood(accuracy=TAIL_ACCURACY))
        open_noise = isinstance(self.noise, str) and self.noise == "auto"
        diagonal = spec.resolved_form(data.n_rows) == "diagonal"
        if open_noise and self.n_features_in_ < data.n_rows and not diagonal:
            options = replace(options, varying=sloping_noise(self.n_features_in_, guided=True))
        return options

    def _also(self, posterior: MixturePosterior, spec: ModelSpec) -> list[Likelihood]:
        data = posterior.main.prepared.data
        if not (self._auto_likelihood and spec.noise.inferred and self.mask is None):
            return []
        if spec.n_inputs > data.n_rows:  # rough fits would go through every row, outliers too
            return []
        robust = OutlierLikelihood()
        found = doubt(replace(spec, likelihood=robust), data, 0)
        return [robust] if found.row_var.any() else []

    def _members(self, spec: ModelSpec, prepared: Prepared, options: FitOptions) -> list[Member]:
        if not (isinstance(self.draw_in, bool) or self.draw_in == "auto"):
            raise ValueError(f'draw_in must be "auto", True or False, got {self.draw_in!r}.')
        wide = spec.n_inputs > prepared.data.n_rows and self.mask is None and self.output_prior is None
        chosen = (self.n_hidden, self.activation, self.prior, self.groups)
        if wide and all(
            c is d or (isinstance(c, str) and c == d) for c, d in zip(chosen, DEFAULTS, strict=True)
        ):
            return self._wide(spec, prepared, replace(options, alternative=None, varying=None))
        drawn = self._drawn(prepared, options)
        if drawn is not None and self.n_starts == "auto":
            options = replace(options, n_starts=options.n_starts + MORE_STARTS)
        return [Member(spec, options, drawn=drawn)]

    def _drawn(self, prepared: Prepared, options: FitOptions) -> DrawIn | None:
        """How inputs with long tails are drawn in for half of the starts, if any are."""
        n = prepared.data.n_rows
        if self.draw_in is False or options.start != "map" or options.n_starts < FEWEST_STARTS:
            return None
        if self.n_features_in_ > n or (self.draw_in == "auto" and n > MOST_DRAWN_ROWS):
            return None
        return long_tails(prepared.data, self.n_features_in_)
