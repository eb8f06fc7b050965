"""laplace-torch: a network of 50 tanh units with a Laplace approximation, its marginal likelihood maximised.

As in the package's own example of regression, training and the choice of prior precision and noise take
turns: epochs of Adam at a rate of 0.01, all weights, a full Hessian (generalised Gauss-Newton), one prior
precision per layer, predictions from the linearised network. Classes are predicted by the package's probit
approximation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.methods.classes import ClassPredictions
from benchmarks.methods.gaussian import GaussianPredictions
from sklearn.preprocessing import StandardScaler

UNITS, EPOCHS, RATE, BATCH = 50, 1000, 0.01, 1000
EVERY = 10  # epochs from one choice of the hyperparameters to the next


def warm_up() -> None:
    """Import the package before the clock starts."""
    import laplace  # noqa: F401
    import torch

    torch.set_num_threads(1)


class Network:
    """The fitted approximation, asked in the units of the data."""

    def __init__(self, X: np.ndarray, y: np.ndarray, classes: bool) -> None:
        import torch
        from laplace import marglik_training
        from laplace.curvature import BackPackGGN
        from torch.utils.data import DataLoader, TensorDataset

        torch.manual_seed(0)
        self.scaler = StandardScaler().fit(X)
        self.y_mean, self.y_sd = (0.0, 1.0) if classes else (float(np.mean(y)), float(np.std(y)))
        target = torch.from_numpy(y).long() if classes else torch.from_numpy((y - self.y_mean) / self.y_sd)
        rows = TensorDataset(self._tensor(X), target if classes else target.float()[:, None])
        net = torch.nn.Sequential(
            torch.nn.Linear(X.shape[1], UNITS), torch.nn.Tanh(), torch.nn.Linear(UNITS, 2 if classes else 1)
        )
        self.laplace, *_ = marglik_training(
            model=net,
            train_loader=DataLoader(rows, batch_size=min(BATCH, len(X)), shuffle=True),
            likelihood="classification" if classes else "regression",
            hessian_structure="full",
            backend=BackPackGGN,
            n_epochs=EPOCHS,
            optimizer_kwargs={"lr": RATE},
            marglik_frequency=EVERY,
        )

    def _tensor(self, X: np.ndarray) -> Any:
        import torch

        return torch.from_numpy(self.scaler.transform(X)).float()

    def predict(self, X: np.ndarray, return_std: bool = False) -> Any:
        mean, var = (out.detach().double().numpy() for out in self.laplace(self._tensor(X)))
        mean = self.y_mean + self.y_sd * mean[:, 0]
        sd = self.y_sd * np.sqrt(var[:, 0, 0] + float(self.laplace.sigma_noise) ** 2)
        return (mean, sd) if return_std else mean

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.laplace(self._tensor(X), link_approx="probit").detach().double().numpy()

    def facts(self) -> dict[str, Any]:
        return {"log_evidence": float(self.laplace.log_marginal_likelihood())}


def fit(X: np.ndarray, y: np.ndarray, classes: bool = False) -> GaussianPredictions | ClassPredictions:
    """Train on standardised inputs and target."""
    model = Network(X, y, classes)
    return (ClassPredictions if classes else GaussianPredictions)(model, model.facts())
