"""What predictions rest on: the compiled moments of units beside their NumPy twin."""

import numpy as np
import pytest

from cavity.ep.latent import output_moments
from cavity.ep.network_numpy import unit_moments
from cavity.model.spec import network
from cavity.types import Gaussian

KINDS = {
    "erf": {},
    "mixed": {"activation": {"linear": 1, "erf": 1, "tanh": 1, "relu": 1, "softplus": 1}},
    "waves": {"activation": {"sine": 2, "cosine": 3}},
    "products": {"interactions": [(0, 1), (2, 4)]},
    "own function": {"activation": np.arctan},
}


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_moments_are_those_of_numpy(kind):
    spec = network(3, 5, **KINDS[kind])
    rng = np.random.default_rng(0)
    h = Gaussian(3.0 * rng.normal(size=(40, 5)), np.exp(rng.uniform(-9.0, 3.0, size=(40, 5))))
    fast, plain = output_moments(spec, h), unit_moments(spec, h)
    # Both are good to 1e-12 of the largest output; ReLU loses digits of tiny variances in either form.
    for one, other in zip(fast, plain, strict=True):
        assert one.shape == (40, 6 + len(spec.pairs))
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
