"""The frozen, validated description of a model: what is inferred, never how."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cavity.model.activations import Activation, kernel_codes, unit_activations, unit_signs
from cavity.model.groups import group_parents, weight_groups
from cavity.model.guide import Guide
from cavity.model.interactions import kept_pairs, unit_pairs
from cavity.model.likelihoods import GaussianLikelihood, KernelForm, Likelihood
from cavity.model.masks import weight_mask
from cavity.model.priors import OUTPUT_PRIORS, PRIORS, GaussianPrior, WeightPrior
from cavity.types import FloatArray, Gaussian, IntArray

FORMS = ("auto", "full", "dual", "diagonal")
# Prior variance of a weight that a mask holds at zero: it ends below 1e-15, the rounding of its neighbours,
# and its precision, 1e30, is still far from overflow.
HELD_VAR = 1e-30


class WeightBlock(NamedTuple):
    """Input weights (flat indices into K × d) that share a prior family."""

    prior: WeightPrior
    entries: IntArray


@dataclass(frozen=True)
class Output:
    """Output weights: p(v_k) = 2 t_ν(v_k | 0, σ_v0²), v_k >= 0, and N(v_0 | 0, σ_v00²) *(paper, eq. prv)*.

    ``prior`` may be any other; log σ_v0² takes the place of φ and is held.
    Weights of products of units may have either sign: N(0, σ_v0²), exactly.
    ``fixed`` holds all values instead (a sparse linear model: one linear unit, v = (1, 0)).
    """

    prior: WeightPrior = OUTPUT_PRIORS["truncated-t"]
    scale_var: float = 1.0
    bias_var: float = 1.0
    fixed: FloatArray | None = None


@dataclass(frozen=True)
class Noise:
    """θ = log σ² with prior N(mean, var) *(paper, eq. prth)*; var = 0 holds it at ``mean``.

    ``mean = -inf`` with ``var = 0`` leaves only the rows' known variances. ``slope_var > 0`` lets the noise
    depend on the inputs: the log variance of a row is θ + Σ_j b_j x_j with b_j ~ N(0, slope_var).
    ``guide_var > 0`` lets it depend on the function too, how large and how steep it is (`cavity.ep.guide`),
    with weights ~ N(0, guide_var); ``guide`` is that function, once there is one.
    """

    mean: float = 2.0 * float(np.log(0.01))
    var: float = 4.0
    slope_var: float = 0.0
    guide_var: float = 0.0
    guide: Guide | None = None

    @property
    def inferred(self) -> bool:
        """True where θ has a posterior of its own."""
        return self.var > 0.0

    @property
    def varies(self) -> bool:
        """True where the log noise variance depends on the inputs."""
        return self.slope_var > 0.0

    @property
    def level_only(self) -> Noise:
        """The same for all rows."""
        return replace(self, slope_var=0.0, guide_var=0.0, guide=None)

    def among(self, columns: IntArray) -> Noise:
        """The same for a design in which the columns have these numbers."""
        return self if self.guide is None else replace(self, guide=self.guide.among(columns))


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """A two-layer network f(x) = Σ v_k s_k g_k(w_kᵀx) + v_0 and its priors *(paper, eqs. fx_mlp, gx)*.

    Attributes
    ----------
    activations, activation_scale : per unit; the paper's scale is 1/√K of the unpruned network, its sign
        that of `cavity.model.activations.unit_signs`.
    blocks : prior family of each input weight; one that is in no block is held at zero (see ``held``).
    group_of : (K, d) index of the scale φ_l of each weight.
    scale_prior : Gaussian of shape (L,), hyperprior of φ_l *(eq. pruw)*; var 0 holds φ_l at its mean.
    form : how q(w_k) is kept: "full" (d × d), "dual" (n × n), "diagonal", or "auto".
    parents, scale_correlation : (L,) index of each group's parent, -1 for none, and the prior correlation ρ
        of scales under one parent: φ_l = φ_parent + ε_l with Var φ_parent = ρ Var φ_l.
    interactions : (P, 2) units whose products the output layer sees too, between the units and the bias.
    """

    n_inputs: int
    activations: tuple[Activation, ...]
    activation_scale: FloatArray
    blocks: tuple[WeightBlock, ...]
    group_of: IntArray
    scale_prior: Gaussian
    output: Output
    noise: Noise
    likelihood: Likelihood
    form: str = "auto"
    bias: bool = True
    parents: IntArray | None = None
    scale_correlation: float = 0.0
    interactions: IntArray | None = None

    @cached_property
    def pairs(self) -> IntArray:
        """(P, 2) units whose products the output layer sees; P is 0 without interactions."""
        return np.empty((0, 2), dtype=np.int64) if self.interactions is None else self.interactions

    @cached_property
    def pair_scale(self) -> FloatArray:
        """(P,) factors ρ_p of products of scaled unit outputs: |s_a s_b|^(-1/2), the size of one of them."""
        a, b = self.pairs.T
        return 1.0 / np.sqrt(np.abs(self.activation_scale[a] * self.activation_scale[b]))

    @property
    def n_outputs(self) -> int:
        """Number of output weights J: units, products, and the bias last."""
        return self.n_hidden + len(self.pairs) + 1

    @property
    def n_hidden(self) -> int:
        """Number of hidden units K."""
        return len(self.activations)

    @property
    def n_groups(self) -> int:
        """Number of scales L."""
        return len(self.scale_prior.mean)

    @property
    def parent_of(self) -> IntArray:
        """(L,) parent of each scale, -1 for none; none at all where the groups were replaced since."""
        if self.parents is None or len(self.parents) != self.n_groups:
            return np.full(self.n_groups, -1)
        return self.parents

    @property
    def scale_inferred(self) -> FloatArray:
        """(L,) booleans: which scales are inferred."""
        return np.asarray(self.scale_prior.var) > 0.0

    def kernel_form(self, fraction: float) -> KernelForm | None:
        """The likelihood as the compiled kernels know it; None where some piece has no compiled form."""
        if len(self.pairs) or any(a.kernel_code is None for a in self.activations):
            return None
        return self.likelihood.kernel_form(fraction)

    def compiled(self, fraction: float) -> bool:
        """True where every piece has a compiled form at this fraction."""
        return self.kernel_form(fraction) is not None

    @cached_property
    def held(self) -> FloatArray:
        """(K, d) booleans: weights that a mask holds at zero."""
        held = np.ones(self.group_of.size, dtype=bool)
        for block in self.blocks:
            held[block.entries] = False
        return held.reshape(self.group_of.shape)

    @cached_property
    def kinds(self) -> IntArray:
        """Kernel codes of the activations."""
        return kernel_codes(self.activations)

    def resolved_form(self, n_rows: int) -> str:
        """The form of q(w_k) for n rows: the smaller of d × d and n × n unless one was chosen."""
        if self.form != "auto":
            return self.form
        return "dual" if self.n_inputs > n_rows else "full"

    def keep_units(self, keep: IntArray) -> ModelSpec:
        """The same model with only the units ``keep``; scales and groups keep their meaning."""
        keep = np.asarray(keep)
        K, d = self.group_of.shape
        new_flat = np.full(K * d, -1)
        old_flat = (keep[:, None] * d + np.arange(d)).ravel()
        new_flat[old_flat] = np.arange(len(old_flat))
        blocks = tuple(
            WeightBlock(b.prior, new_flat[b.entries][new_flat[b.entries] >= 0]) for b in self.blocks
        )
        output = self.output
        interactions, stay = kept_pairs(self.interactions, keep)
        if output.fixed is not None:
            output = replace(output, fixed=output.fixed[np.concatenate([keep, K + stay, [-1]])])
        return replace(
            self,
            activations=tuple(self.activations[k] for k in keep),
            activation_scale=self.activation_scale[keep],
            blocks=blocks,
            group_of=self.group_of[keep],
            output=output,
            interactions=interactions,
        )

    def keep_inputs(self, keep: IntArray) -> ModelSpec:
        """The same model with only the inputs ``keep``, in order; scales keep their numbers."""
        K, d = self.group_of.shape
        place = np.full(d, -1)
        place[keep] = np.arange(len(keep))
        blocks = []
        for block in self.blocks:
            unit, column = np.divmod(block.entries, d)
            stays = place[column] >= 0
            blocks.append(WeightBlock(block.prior, (unit * len(keep) + place[column])[stays]))
        return replace(self, n_inputs=len(keep), blocks=tuple(blocks), group_of=self.group_of[:, keep])


def _output(output: Output | str | WeightPrior | None) -> Output:
    if isinstance(output, str):
        if output not in OUTPUT_PRIORS:
            raise ValueError(
                f"output prior {output!r} is unknown: use one of {list(OUTPUT_PRIORS)} or a WeightPrior."
            )
        return Output(OUTPUT_PRIORS[output])
    if isinstance(output, WeightPrior):
        return Output(output)
    return output if output is not None else Output()


def network(
    n_inputs: int,
    n_hidden: int = 10,
    *,
    activation: Any = "erf",
    prior: str | WeightPrior = "laplace",
    groups: Any = None,
    scale_prior: tuple[float, float] | None = None,
    parents: Any = None,
    scale_correlation: float = 0.5,
    mask: Any = None,
    prior_var: float | None = None,
    bias: bool = True,
    bias_prior: str | float = 4.0,
    output: Output | str | WeightPrior | None = None,
    interactions: Any = None,
    noise: Noise | None = None,
    likelihood: Likelihood | None = None,
    form: str = "auto",
) -> ModelSpec:
    """Describe a network with the paper's priors *(paper, Sec. 2)*.

    Parameters
    ----------
    n_inputs, n_hidden : int
        d without the bias, and K.
    activation : name, names joined by +, Activation, function, mapping, or one per unit
        See `cavity.model.activations.unit_activations`.
    prior : a name in `cavity.model.priors.PRIORS` or WeightPrior
        Family p(w | φ) of the input weights *(eq. prw)*.
    groups : None, {"common", "input", "unit"} or array
        Which weights share a scale: by default "input" for the name "ard", else "common".
    scale_prior : (mean, var), optional
        Hyperprior of every φ_l = log variance *(eq. pruw)*; the prior family's own by default.
    parents : None, "common" or array
        Groups of groups: labels like those of ``groups``, coarser; scales with the same label have the prior
        correlation ``scale_correlation``, as if each were its parent's plus something of its own.
    mask : None, "additive", sets of inputs, or array
        Which inputs each unit sees; see `cavity.model.masks.weight_mask`.
    prior_var : float, optional
        Hold every scale at this variance instead of inferring it.
    bias : bool
        Add an input bias as last weight of each unit; the data must have its column of ones.
    bias_prior : float or {"group", "shared"}
        A fixed Gaussian variance of the bias weights; or their own inferred group of the same
        family; or the common group of the other weights (only with ``groups="common"``).
    output : Output, a name in `cavity.model.priors.OUTPUT_PRIORS` or WeightPrior, optional
        Prior of the output weights; the paper's truncated Student-t by default.
    interactions : None or pairs of unit numbers
        Products of two units that the output layer sees as well *(paper, Section 5)*.
    form : {"auto", "full", "dual", "diagonal"}
        How q(w_k) is kept.
    """
    if n_inputs < 1 or n_hidden < 1:
        raise ValueError(f"a network needs at least one input and one unit, got {n_inputs} and {n_hidden}.")
    if form not in FORMS:
        raise ValueError(f"form={form!r} is unknown: use one of {FORMS}.")
    if isinstance(prior, str):
        if prior not in PRIORS:
            raise ValueError(f"prior={prior!r} is unknown: use one of {list(PRIORS)} or a WeightPrior.")
        groups = "input" if groups is None and prior == "ard" else groups
        prior = PRIORS[prior].family()
    groups = "common" if groups is None else groups
    scale_prior = prior.scale_prior if scale_prior is None else scale_prior
    if prior_var is not None and not prior_var > 0.0:
        raise ValueError(f"prior_var must be positive, got {prior_var}.")
    mean0, var0 = (float(np.log(prior_var)), 0.0) if prior_var is not None else map(float, scale_prior)
    if not (np.isfinite(mean0) and np.isfinite(var0) and var0 >= 0.0):
        raise ValueError(f"scale_prior must be (mean, variance >= 0) and finite, got {scale_prior}.")
    group_of = weight_groups(groups, n_hidden, n_inputs)
    free = weight_mask(mask, n_hidden, n_inputs)
    if form == "diagonal" and mask is not None:
        raise ValueError('form="diagonal" is for units of very many inputs: it takes no mask.')
    n_groups = int(group_of.max()) + 1
    parent_of = group_parents(parents, group_of)
    if not 0.0 <= scale_correlation < 1.0:
        raise ValueError(f"scale_correlation must lie in [0, 1), got {scale_correlation}.")
    means, variances = [mean0] * n_groups, [var0] * n_groups
    index = np.arange(n_hidden * n_inputs)
    blocks = [WeightBlock(prior, index)]
    if bias:
        flat = np.arange(n_hidden * (n_inputs + 1)).reshape(n_hidden, n_inputs + 1)
        blocks = [WeightBlock(prior, flat[:, :-1].ravel())]
        if bias_prior == "shared":
            if n_groups != 1:
                raise ValueError('bias_prior="shared" needs groups="common"; use "group" or a variance.')
            column = np.zeros((n_hidden, 1), dtype=np.int64)
            blocks = [WeightBlock(prior, flat.ravel())]
        elif bias_prior == "group":
            column = np.full((n_hidden, 1), n_groups, dtype=np.int64)
            means.append(mean0)
            variances.append(var0)
            blocks = [WeightBlock(prior, flat.ravel())]
        elif isinstance(bias_prior, str) or not bias_prior > 0.0:
            raise ValueError(
                f'bias_prior must be a positive variance, "group" or "shared", got {bias_prior!r}.'
            )
        else:
            column = np.full((n_hidden, 1), n_groups, dtype=np.int64)
            means.append(float(np.log(bias_prior)))
            variances.append(0.0)
            blocks.append(WeightBlock(GaussianPrior(), flat[:, -1].copy()))
        group_of = np.hstack([group_of, column])
        free = np.hstack([free, np.ones_like(column, dtype=bool)])
        n_inputs += 1
    blocks = [WeightBlock(b.prior, b.entries[free.ravel()[b.entries]]) for b in blocks]
    output = _output(output)
    pairs = unit_pairs(interactions, n_hidden)
    if output.fixed is not None:
        fixed = np.asarray(output.fixed, float)
        count = n_hidden + 1 + (0 if pairs is None else len(pairs))
        if fixed.shape != (count,):
            raise ValueError(
                f"output.fixed needs {count} values (units, products, bias), got shape {fixed.shape}."
            )
        if not np.isfinite(fixed).all():
            raise ValueError("output.fixed must hold finite values only.")
        output = replace(output, fixed=fixed)
    likelihood = likelihood if likelihood is not None else GaussianLikelihood()
    if not likelihood.has_scale:
        if noise is not None:
            raise ValueError(f"{type(likelihood).__name__} has no noise level: leave noise out.")
        noise = Noise(0.0, 0.0)
    noise = noise if noise is not None else Noise()
    held = noise.mean == -np.inf and noise.var == 0.0
    if not (np.isfinite(noise.var) and noise.var >= 0.0 and (np.isfinite(noise.mean) or held)):
        raise ValueError(
            f"noise must have a finite mean and a variance >= 0 (mean -inf only if held), got {noise}."
        )
    for name in ("slope_var", "guide_var"):
        if not (np.isfinite(getattr(noise, name)) and getattr(noise, name) >= 0.0):
            raise ValueError(f"{name} of the noise must be finite and not negative, got {noise}.")
    if noise.guide_var > 0.0 and not noise.varies:
        raise ValueError("noise that depends on the function depends on the inputs too: give slope_var.")
    if noise.varies and not noise.inferred:
        raise ValueError("noise that depends on the inputs is inferred: it cannot be held.")
    if noise.varies and form == "diagonal":
        raise ValueError('form="diagonal" is for very many inputs: its noise cannot depend on them.')
    if not (output.scale_var > 0.0 and output.bias_var > 0.0):
        raise ValueError("the prior variances of the output weights must be positive.")
    activations = unit_activations(activation, n_hidden)
    return ModelSpec(
        n_inputs=n_inputs,
        activations=activations,
        activation_scale=n_hidden**-0.5 * unit_signs(activations),
        blocks=tuple(blocks),
        group_of=group_of,
        scale_prior=Gaussian(np.array(means), np.array(variances)),
        output=output,
        noise=noise,
        likelihood=likelihood,
        form=form,
        bias=bias,
        parents=None if parents is None else np.append(parent_of, np.full(len(means) - n_groups, -1)),
        scale_correlation=0.0 if parents is None else float(scale_correlation),
        interactions=pairs,
    )
