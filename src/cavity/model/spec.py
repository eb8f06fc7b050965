"""The frozen, validated description of a model: what is inferred, never how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from cavity.model.activations import ACTIVATIONS, Activation
from cavity.model.groups import weight_groups
from cavity.model.likelihoods import GaussianLikelihood, KernelForm, Likelihood
from cavity.model.priors import PRIORS, GaussianPrior, TruncatedStudentTPrior, WeightPrior
from cavity.types import FloatArray, Gaussian, IntArray

FORMS = ("auto", "full", "dual", "diagonal")


class WeightBlock(NamedTuple):
    """Input weights (flat indices into K × d) that share a prior family."""

    prior: WeightPrior
    entries: IntArray


@dataclass(frozen=True)
class Output:
    """Output weights: p(v_k) = 2 t_ν(v_k | 0, σ_v0²), v_k >= 0, and N(v_0 | 0, σ_v00²) *(paper, eq. prv)*.

    ``fixed`` holds all K + 1 values instead (a sparse linear model: one linear unit, v = (1, 0)).
    """

    prior: WeightPrior = field(default_factory=TruncatedStudentTPrior)
    scale_var: float = 1.0
    bias_var: float = 1.0
    fixed: FloatArray | None = None


@dataclass(frozen=True)
class Noise:
    """θ = log σ² with prior N(mean, var) *(paper, eq. prth)*; var = 0 holds it at ``mean``.

    ``mean = -inf`` with ``var = 0`` leaves only the rows' known variances.
    """

    mean: float = 2.0 * float(np.log(0.01))
    var: float = 4.0

    @property
    def inferred(self) -> bool:
        """True where θ has a posterior of its own."""
        return self.var > 0.0


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """A two-layer network f(x) = Σ v_k s_k g_k(w_kᵀx) + v_0 and its priors *(paper, eqs. fx_mlp, gx)*.

    Attributes
    ----------
    activations, activation_scale : per unit; the paper's scale is 1/√K of the unpruned network.
    blocks : prior family of each input weight.
    group_of : (K, d) index of the scale φ_l of each weight.
    scale_prior : Gaussian of shape (L,), hyperprior of φ_l *(eq. pruw)*; var 0 holds φ_l at its mean.
    form : how q(w_k) is kept: "full" (d × d), "dual" (n × n), "diagonal", or "auto".
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

    @property
    def n_hidden(self) -> int:
        """Number of hidden units K."""
        return len(self.activations)

    @property
    def n_groups(self) -> int:
        """Number of scales L."""
        return len(self.scale_prior.mean)

    @property
    def scale_inferred(self) -> FloatArray:
        """(L,) booleans: which scales are inferred."""
        return np.asarray(self.scale_prior.var) > 0.0

    def kernel_form(self, fraction: float) -> KernelForm | None:
        """The likelihood as the compiled kernels know it; None where some piece has no compiled form."""
        if any(a.kernel_code is None for a in self.activations):
            return None
        return self.likelihood.kernel_form(fraction)

    def compiled(self, fraction: float) -> bool:
        """True where every piece has a compiled form at this fraction."""
        return self.kernel_form(fraction) is not None

    @property
    def kinds(self) -> IntArray:
        """Kernel codes of the activations."""
        return np.array(
            [a.kernel_code if a.kernel_code is not None else -1 for a in self.activations], dtype=np.int64
        )

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
        if output.fixed is not None:
            output = replace(output, fixed=np.append(output.fixed[keep], output.fixed[-1]))
        return replace(
            self,
            activations=tuple(self.activations[k] for k in keep),
            activation_scale=self.activation_scale[keep],
            blocks=blocks,
            group_of=self.group_of[keep],
            output=output,
        )


def _activations(activation: Any, n_hidden: int) -> tuple[Activation, ...]:
    items = [activation] * n_hidden if isinstance(activation, str | Activation) else list(activation)
    if len(items) != n_hidden:
        raise ValueError(f"activation has {len(items)} entries but the network has {n_hidden} hidden units.")
    out = []
    for item in items:
        if isinstance(item, Activation):
            out.append(item)
        elif item in ACTIVATIONS:
            out.append(ACTIVATIONS[item]())
        else:
            raise ValueError(
                f"activation {item!r} is unknown: use one of {sorted(ACTIVATIONS)} or an Activation."
            )
    return tuple(out)


def network(
    n_inputs: int,
    n_hidden: int = 10,
    *,
    activation: str | Activation | Sequence[str | Activation] = "erf",
    prior: str | WeightPrior = "laplace",
    groups: Any = "common",
    scale_prior: tuple[float, float] = (2.0 * float(np.log(0.01)), 2.5**2),
    prior_var: float | None = None,
    bias: bool = True,
    bias_prior: str | float = 4.0,
    output: Output | None = None,
    noise: Noise | None = None,
    likelihood: Likelihood | None = None,
    form: str = "auto",
) -> ModelSpec:
    """Describe a network with the paper's priors *(paper, Sec. 2)*.

    Parameters
    ----------
    n_inputs, n_hidden : int
        d without the bias, and K.
    activation : name, Activation, or one per unit
    prior : {"gaussian", "laplace"} or WeightPrior
        Family p(w | φ) of the input weights *(eq. prw)*.
    groups : {"common", "input", "unit"} or array
        Which weights share a scale; "input" with a Gaussian prior is ARD.
    scale_prior : (mean, var)
        Hyperprior of every φ_l = log variance *(eq. pruw)*.
    prior_var : float, optional
        Hold every scale at this variance instead of inferring it.
    bias : bool
        Add an input bias as last weight of each unit; the data must have its column of ones.
    bias_prior : float or {"group", "shared"}
        A fixed Gaussian variance of the bias weights; or their own inferred group of the same
        family; or the common group of the other weights (only with ``groups="common"``).
    form : {"auto", "full", "dual", "diagonal"}
        How q(w_k) is kept.
    """
    if n_inputs < 1 or n_hidden < 1:
        raise ValueError(f"a network needs at least one input and one unit, got {n_inputs} and {n_hidden}.")
    if form not in FORMS:
        raise ValueError(f"form={form!r} is unknown: use one of {FORMS}.")
    if isinstance(prior, str):
        if prior not in PRIORS:
            raise ValueError(f"prior={prior!r} is unknown: use one of {sorted(PRIORS)} or a WeightPrior.")
        prior = PRIORS[prior]()
    if prior_var is not None and not prior_var > 0.0:
        raise ValueError(f"prior_var must be positive, got {prior_var}.")
    mean0, var0 = (float(np.log(prior_var)), 0.0) if prior_var is not None else map(float, scale_prior)
    if not (np.isfinite(mean0) and np.isfinite(var0) and var0 >= 0.0):
        raise ValueError(f"scale_prior must be (mean, variance >= 0) and finite, got {scale_prior}.")
    group_of = weight_groups(groups, n_hidden, n_inputs)
    n_groups = int(group_of.max()) + 1
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
        n_inputs += 1
    output = output if output is not None else Output()
    if output.fixed is not None:
        fixed = np.asarray(output.fixed, float)
        if fixed.shape != (n_hidden + 1,):
            raise ValueError(
                f"output.fixed needs {n_hidden + 1} values (units, then bias), got shape {fixed.shape}."
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
    if not (output.scale_var > 0.0 and output.bias_var > 0.0):
        raise ValueError("the prior variances of the output weights must be positive.")
    return ModelSpec(
        n_inputs=n_inputs,
        activations=_activations(activation, n_hidden),
        activation_scale=np.full(n_hidden, n_hidden**-0.5),
        blocks=tuple(blocks),
        group_of=group_of,
        scale_prior=Gaussian(np.array(means), np.array(variances)),
        output=output,
        noise=noise,
        likelihood=likelihood,
        form=form,
        bias=bias,
    )
