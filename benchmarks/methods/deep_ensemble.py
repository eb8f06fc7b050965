"""A deep ensemble of five networks (Lakshminarayanan, Pritzel and Blundell 2017).

Each network has 50 rectified units and gives a mean and a variance (or the log odds of the second class). It
is trained on the log likelihood of the rows and of rows moved by the fast gradient sign, by Adam with batches
of 100. The paper's 40 epochs at a rate of 0.1 do not converge on small sets: rate and epochs are chosen
among a few on rows held back from the fit. Predictions are mixed with equal weights; for numbers the mixture
counts as a Gaussian, as in the paper. The five are trained side by side, each with its own start and batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.methods.classes import ClassPredictions
from benchmarks.methods.gaussian import GaussianPredictions
from benchmarks.methods.residuals import hold_back
from sklearn.preprocessing import StandardScaler

MEMBERS, UNITS, BATCH = 5, 50, 100
TRAININGS = ((0.1, 40), (0.03, 40), (0.01, 40), (0.01, 200))  # rate and epochs; the paper's first
LARGE = 5000  # rows from which 40 epochs are steps enough
SMALLEST_VAR = 1e-6
MOVE = 0.01  # of the range of each input, the size of the adversarial step


def warm_up() -> None:
    """Import the package before the clock starts."""
    import torch

    torch.set_num_threads(1)


class Ensemble:
    """The networks as arrays with a leading axis of members."""

    def __init__(self, X: np.ndarray, y: np.ndarray, classes: bool, rate: float, epochs: int) -> None:
        import torch

        self.classes = classes
        self.scaler = StandardScaler().fit(X)
        self.y_mean, self.y_sd = (0.0, 1.0) if classes else (float(np.mean(y)), float(np.std(y)))
        random = torch.Generator().manual_seed(0)
        self.weights = [
            (fan_in**-0.5 * torch.randn(MEMBERS, fan_in, fan_out, generator=random)).requires_grad_()
            for fan_in, fan_out in ((X.shape[1] + 1, UNITS), (UNITS + 1, 1 if classes else 2))
        ]
        Z = torch.from_numpy(self.scaler.transform(X)).float()
        target = torch.from_numpy((y - self.y_mean) / self.y_sd).float()[:, None]
        optimiser = torch.optim.Adam(self.weights, lr=rate)
        move = MOVE * (Z.max(0).values - Z.min(0).values)
        for _ in range(epochs):
            self._pass(Z, target, move, random, optimiser)

    def _pass(self, Z: Any, target: Any, move: Any, random: Any, optimiser: Any) -> None:
        """One epoch; every member has its own order of the rows."""
        import torch

        orders = torch.stack([torch.randperm(len(Z), generator=random) for _ in range(MEMBERS)])
        for rows in orders.split(BATCH, dim=1):
            x, t = Z[rows].requires_grad_(), target[rows]
            loss = self._loss(x, t)
            (slope,) = torch.autograd.grad(loss, x, retain_graph=True)
            optimiser.zero_grad()
            (loss + self._loss((x + move * slope.sign()).detach(), t)).backward()
            optimiser.step()

    def _forward(self, x: Any) -> Any:
        import torch

        for layer, weight in enumerate(self.weights):
            x = torch.relu(x) if layer else x
            x = torch.cat([x, torch.ones_like(x[..., :1])], dim=-1) @ weight
        return x

    def _loss(self, x: Any, t: Any) -> Any:
        """Mean negative log likelihood of each member, summed over members, so that each has its own."""
        import torch
        from torch.nn import functional

        out = self._forward(x)
        if self.classes:
            each = functional.binary_cross_entropy_with_logits(out, t, reduction="none")
        else:
            var = functional.softplus(out[..., 1:]) + SMALLEST_VAR
            each = 0.5 * torch.log(var) + 0.5 * (t - out[..., :1]) ** 2 / var
        return each.mean(dim=(1, 2)).sum()

    def _outputs(self, X: np.ndarray) -> Any:
        import torch

        with torch.no_grad():
            Z = torch.from_numpy(self.scaler.transform(X)).float()
            return self._forward(Z.expand(MEMBERS, *Z.shape)).double()

    def predict(self, X: np.ndarray, return_std: bool = False) -> Any:
        from torch.nn import functional

        out = self._outputs(X)
        means, variances = out[..., 0].numpy(), (functional.softplus(out[..., 1]) + SMALLEST_VAR).numpy()
        mean = means.mean(axis=0)
        sd = np.sqrt((variances + means**2).mean(axis=0) - mean**2)
        mean = self.y_mean + self.y_sd * mean
        return (mean, self.y_sd * sd) if return_std else mean

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        p = self._outputs(X)[..., 0].sigmoid().mean(dim=0).numpy()
        return np.stack([1.0 - p, p], axis=1)


def fit(X: np.ndarray, y: np.ndarray, classes: bool = False) -> GaussianPredictions | ClassPredictions:
    """Choose rate and epochs, then train on all rows; inputs and target are standardised."""
    X_fit, X_held, y_fit, y_held = hold_back(X, y, classes)

    def score(training: tuple[float, int]) -> float:
        model = Ensemble(X_fit, y_fit, classes, *training)
        if classes:
            log_p = ClassPredictions(model, {}).log_proba(X_held)
            return float(np.mean(log_p[np.arange(len(y_held)), y_held.astype(int)]))
        return float(np.mean(GaussianPredictions(model, {}).log_density(X_held, y_held)))

    rate, epochs = max([one for one in TRAININGS if len(X) < LARGE or one[1] == 40], key=score)
    model, facts = Ensemble(X, y, classes, rate, epochs), {"rate": rate, "epochs": epochs}
    return ClassPredictions(model, facts) if classes else GaussianPredictions(model, facts)
