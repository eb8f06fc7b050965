"""A long NUTS run of the linear model of `EPLinearRegressor`, for standardised data; needs numpyro."""

from __future__ import annotations

import numpy as np

from cavity.model.data import TrainingData

try:
    import jax
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS
except ImportError:
    numpyro = None

MISSING = "numpyro is not installed: pip install -c benchmarks/constraints.txt numpyro"


def posterior(
    data: TrainingData,
    prior: str,
    scale: tuple[float, float],
    noise: tuple[float, float],
    draws: int,
    chains: int = 4,
) -> dict[str, np.ndarray | float]:
    """Means and sds of the weights, the bias last, and the worst split R-hat.

    ``prior``: "laplace", "horseshoe", "ard", "student-t" or "gaussian", as `cavity.model.priors` define them;
    ``scale`` and ``noise`` are the mean and variance of the log-variances.
    """
    if numpyro is None:
        raise ImportError(MISSING)
    jax.config.update("jax_enable_x64", True)
    X, y = jax.numpy.asarray(data.X), jax.numpy.asarray(data.y)
    d = X.shape[1] - 1

    def model() -> None:
        groups = d if prior == "ard" else 1
        phi = numpyro.sample("phi", dist.Normal(scale[0], np.sqrt(scale[1])).expand([groups]))
        theta = numpyro.sample("theta", dist.Normal(noise[0], np.sqrt(noise[1])))
        z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([d]))
        if prior == "laplace":  # a Gaussian whose variance is exponential; e^phi is the variance
            spread = jax.numpy.sqrt(numpyro.sample("spread", dist.Exponential(1.0).expand([d])))
        elif prior == "horseshoe":
            spread = numpyro.sample("spread", dist.HalfCauchy(1.0).expand([d]))
        elif prior == "student-t":
            spread = 1.0 / jax.numpy.sqrt(numpyro.sample("spread", dist.Gamma(2.0, 2.0).expand([d])))
        else:
            spread = 1.0
        w = numpyro.deterministic("w", z * spread * jax.numpy.exp(0.5 * phi))
        bias = numpyro.sample("bias", dist.Normal(0.0, 2.0))
        numpyro.sample("y", dist.Normal(X[:, :-1] @ w + bias, jax.numpy.exp(0.5 * theta)), obs=y)

    kernel = NUTS(model, target_accept_prob=0.95)
    run = MCMC(
        kernel,
        num_warmup=1500,
        num_samples=draws,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    run.run(jax.random.PRNGKey(0))
    found = run.get_samples(group_by_chain=True)
    w = np.concatenate([np.asarray(found["w"]), np.asarray(found["bias"])[..., None]], axis=-1)
    rhat = float(np.max(np.asarray(numpyro.diagnostics.split_gelman_rubin(w))))
    flat = w.reshape(-1, d + 1)
    return {"mean": flat.mean(axis=0), "sd": flat.std(axis=0), "worst R-hat": rhat}
