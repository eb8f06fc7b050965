r"""The paper's network with hierarchical ARD priors, sampled by NUTS (the paper's NN-MC); needs numpyro.

.. math:: f(x) = v_0 + K^{-1/2} \sum_k v_k \operatorname{erf}(w_k^T \tilde x / \sqrt 2), \qquad
          w_{kl} = z_{kl} e^{\phi_l / 2}

with the priors of the network that EP fits: Gaussian :math:`\phi_l` (the bias has one too) and
:math:`\theta`, Student-t output weights. Their sign is free here, as v_k and w_k may both flip without a
change of f. Inputs and target are standardised by the training rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np
from scipy.special import erf, logsumexp

MISSING = "numpyro is not installed: pip install -c benchmarks/constraints.txt numpyro"
WATCHED = 200  # training rows whose f is watched for convergence: units may change places, f may not
BLOCK = 2_000  # rows of a prediction at a time
# The weights start small and of random sign, the noise well above the level that its prior expects.
START = {"phi": -2.0, "theta": 2.0 * float(np.log(0.3)), "bias": 0.0}
DEGREES = 4.0


class SampledNetwork:
    """Draws of a network, by chain; predictions are mixtures over the draws, in the units of y."""

    def __init__(self, draws: dict[str, np.ndarray], scaling: Any, facts: dict[str, Any]) -> None:
        self.chains = draws["theta"].shape[0]
        self.draws = {name: value.reshape(-1, *value.shape[2:]) for name, value in draws.items()}
        self._x_mean, self._x_scale, self._y_mean, self._y_scale = scaling
        self._facts = facts
        self._last: tuple[np.ndarray, np.ndarray] | None = None

    def functions(self, X: np.ndarray) -> np.ndarray:
        """f of every draw, draws × rows, single precision; the last answer is remembered."""
        if self._last is None or self._last[0] is not X:
            Z = (X - self._x_mean) / self._x_scale
            parts = [functions(self.draws, Z[i : i + BLOCK]) for i in range(0, len(Z), BLOCK)]
            f = self._y_mean + self._y_scale * np.concatenate(parts, axis=1)
            self._last = X, f.astype(np.float32)
        return self._last[1]

    @property
    def noise_sd(self) -> np.ndarray:
        return self._y_scale * np.exp(0.5 * self.draws["theta"])

    def mean(self, X: np.ndarray) -> np.ndarray:
        return self.functions(X).mean(axis=0, dtype=float)

    def log_density(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of the mixture; how far it moves from the first half of every chain to the second is kept."""
        f, sd = self.functions(X), self.noise_sd
        out = np.empty((3, len(y)))
        first = np.tile(np.arange(len(sd) // self.chains) < len(sd) // self.chains // 2, self.chains)
        for at in range(0, len(y), BLOCK):
            rows = slice(at, at + BLOCK)
            r = (y[rows] - f[:, rows]) / sd[:, None]
            each = -0.5 * r**2 - np.log(sd)[:, None] - 0.5 * np.log(2.0 * np.pi)
            for i, chosen in enumerate((np.ones(len(sd), dtype=bool), first, ~first)):
                out[i, rows] = logsumexp(each[chosen], axis=0) - np.log(chosen.sum())
        self._facts["lpd_of_halves"] = out[1:].mean(axis=1).tolist()
        return out[0]

    def interval(self, X: np.ndarray, level: float) -> np.ndarray:
        """Quantiles of one draw of y from every draw of the network."""
        f, rng = self.functions(X), np.random.default_rng(0)
        ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        parts = []
        for at in range(0, f.shape[1], BLOCK):
            block = f[:, at : at + BLOCK]
            y = block + self.noise_sd[:, None] * rng.standard_normal(block.shape)
            parts.append(np.quantile(y, ends, axis=0).T)
        return np.concatenate(parts)

    def facts(self) -> dict[str, Any]:
        return {"noise_sd": float(np.mean(self.noise_sd)), **self._facts}


def functions(draws: dict[str, np.ndarray], Z: np.ndarray) -> np.ndarray:
    """f of every draw at standardised inputs, draws × rows."""
    X = np.column_stack([Z, np.ones(len(Z))])
    out = np.empty((len(draws["theta"]), len(Z)))
    for i, (z, phi, v, bias) in enumerate(
        zip(draws["z"], draws["phi"], draws["v"], draws["bias"], strict=True)
    ):
        out[i] = bias + erf(X @ (z * np.exp(0.5 * phi)).T / np.sqrt(2.0)) @ v / np.sqrt(len(v))
    return out


def network(
    X: Any, y: Any, n_hidden: int, scale_prior: tuple[float, float], noise: tuple[float, float]
) -> None:
    """The model as NumPyro has it; X ends with the bias column, priors are (mean, variance) of logs."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from jax.scipy import special

    d = X.shape[1]
    phi = numpyro.sample("phi", dist.Normal(scale_prior[0], scale_prior[1] ** 0.5).expand([d]).to_event(1))
    z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([n_hidden, d]).to_event(2))
    v = numpyro.sample("v", dist.StudentT(DEGREES, 0.0, 1.0).expand([n_hidden]).to_event(1))
    bias = numpyro.sample("bias", dist.Normal(0.0, 1.0))
    theta = numpyro.sample("theta", dist.Normal(noise[0], noise[1] ** 0.5))
    f = bias + special.erf(X @ (z * jnp.exp(0.5 * phi)).T / jnp.sqrt(2.0)) @ v / jnp.sqrt(n_hidden)
    numpyro.sample("y", dist.Normal(f, jnp.exp(0.5 * theta)), obs=y)


def fit(
    X: np.ndarray,
    y: np.ndarray,
    *,
    scale_prior: Sequence[float],
    noise: Sequence[float],
    n_hidden: int = 10,
    chains: int = 4,
    warmup: int = 500,
    draws: int = 500,
    max_depth: int = 8,
    thin: int = 1,
) -> SampledNetwork:
    """Chains one after the other on one thread, from random weights; every ``thin``-th draw is kept."""
    jax, infer = _import()
    x_sd = np.where(np.ptp(X, axis=0) > 0.0, X.std(axis=0), 1.0)
    scaling = (X.mean(axis=0), x_sd, y.mean(), y.std())
    design = np.column_stack([(X - scaling[0]) / scaling[1], np.ones(len(X))])
    target = (y - scaling[2]) / scaling[3]
    model = partial(
        network,
        jax.numpy.asarray(design),
        jax.numpy.asarray(target),
        n_hidden,
        (float(scale_prior[0]), float(scale_prior[1])),
        (float(noise[0]), float(noise[1])),
    )
    run = infer.MCMC(
        infer.NUTS(model, max_tree_depth=max_depth),
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method="sequential",
        thinning=thin,
        progress_bar=False,
    )
    start = jax.tree.map(jax.numpy.asarray, starts(design.shape[1], n_hidden, chains))
    run.run(
        jax.random.PRNGKey(0),
        init_params=start if chains > 1 else jax.tree.map(lambda value: value[0], start),
        extra_fields=("num_steps", "diverging"),
    )
    found = {name: np.asarray(value, float) for name, value in run.get_samples(group_by_chain=True).items()}
    extra = run.get_extra_fields()
    facts = {
        **convergence(found, design),
        "sampler": ", ".join(f"{name} {metadata.version(name)}" for name in ("numpyro", "jax")),
        "chains": chains,
        "draws": int(found["theta"].size),
        "warm_up_draws": warmup,
        "steps_per_draw": float(np.mean(np.asarray(extra["num_steps"]))),
        "divergences": int(np.sum(np.asarray(extra["diverging"]))),
    }
    return SampledNetwork(found, scaling, facts)


def starts(d: int, n_hidden: int, chains: int) -> dict[str, np.ndarray]:
    """A start of every chain: random weights, the rest as `START` says."""
    rng = np.random.default_rng(0)
    return {
        "phi": np.full((chains, d), START["phi"]),
        "z": rng.standard_normal((chains, n_hidden, d)),
        "v": rng.standard_normal((chains, n_hidden)),
        "bias": np.full(chains, START["bias"]),
        "theta": np.full(chains, START["theta"]),
    }


def convergence(draws: dict[str, np.ndarray], design: np.ndarray) -> dict[str, float]:
    """Split R-hat and effective sample size of what does not depend on the order of units: f, θ and the φ."""
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    chains, count = draws["theta"].shape
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in draws.items()}
    f = functions(flat, design[:: max(1, len(design) // WATCHED), :-1]).reshape(chains, count, -1)
    rhat, size = split_gelman_rubin(f), effective_sample_size(f)
    return {
        "rhat_noise": float(split_gelman_rubin(draws["theta"])),
        "rhat_f_median": float(np.median(rhat)),
        "rhat_f_max": float(np.max(rhat)),
        "rhat_scale_max": float(np.max(split_gelman_rubin(draws["phi"]))),
        "ess_noise": float(effective_sample_size(draws["theta"])),
        "ess_f_median": float(np.median(size)),
        "ess_f_min": float(np.min(size)),
    }


def _import() -> tuple[Any, Any]:
    """JAX on one thread, and NumPyro's samplers; imported late, as JAX does not survive a fork.

    Single precision is NumPyro's default and four times as fast here.
    """
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    try:
        import jax
        from numpyro import infer
    except ImportError as error:
        raise ImportError(MISSING) from error
    jax.config.update("jax_platforms", "cpu")
    return jax, infer
