"""SOLAM: stochastic online AUC maximisation (Ying, Wen and Lyu, 2016), for one node."""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.needs import auc, no_intercept, one_node
from dsba.errors import as_number


@dataclass
class SolamState(State):
    """The weighted average Z, the iterate X (1 x p each), sum of weights, positives seen, bounds on ||w|| and rest."""

    X: Array
    total: float
    positives: float
    radius: float = field(metadata={"static": True})
    bounds: Array = field(metadata={"static": True})


@dataclass(frozen=True)
class SOLAM(Algorithm):
    """Descent in (w, a, b) and ascent in theta on one sample i, averaged.

        x+ = P( x - gamma_t (B_i(x) + Lambda x) ),    gamma_t = alpha / sqrt(t + 1)
        z+ = mean of x over the iterations so far, weighted with gamma_t

    P projects onto ||w|| <= R, |a|, |b| <= R kappa, |theta| <= 2 R kappa, kappa the longest row. By default lambda
    regularises, and R is so large that the solution is inside: at it lam/2 ||w||^2 is at most p(1-p), or lam/2 more
    with lambda on everything; the share p of positives is the data's, by weight. With a ``radius`` the method is as
    published: R regularises, lambda is not used, and p is estimated from the samples that have come in. Take
    ``operators.AUC(centered=False)`` with it for the published components.

    Parameters
    ----------
    radius : float or None
        The bound R, to run the method as published.
    """

    radius: float | None = None

    name = "solam"
    needs = (one_node, auc, no_intercept)
    linear = False

    def init(self, problem: Problem, net: Network, z0: Array) -> SolamState:
        p: float = problem.component.p  # type: ignore[attr-defined]
        radius = math.sqrt(1 + 2 * p * (1 - p) / problem.lam) if problem.lam > 0 else math.inf
        if self.radius is not None:
            radius = as_number("radius", self.radius, above=0.0)
        kappa = math.sqrt(problem.squared_norms()[:, 0].max())
        X = z0[None, :].copy()
        return SolamState(X, X, 0.0, 0.0, radius, radius * kappa * np.array([1.0, 1.0, 2.0]))

    def step(self, s: SolamState, problem: Problem, net: Network, samples: Indices) -> SolamState:
        gamma = self.alpha / math.sqrt(s.t + 1)
        total = s.total + gamma
        Z = s.Z + gamma / total * (s.X - s.Z)
        positives = s.positives + float(problem.y[samples[0]] > 0)
        if self.radius is None:
            g = problem.components.forward(samples, s.X)
            slope = problem.components.spread(samples, g) + problem.lam_diag * s.X
        else:
            slope = self._published_slope(problem, samples, s.X, positives / (s.t + 1))
        X = s.X - gamma * slope
        w, rest = X[:, : problem.n_features], X[:, problem.n_features :]
        if (norm := float(np.linalg.norm(w))) > s.radius:
            w *= s.radius / norm
        np.clip(rest, -s.bounds, s.bounds, out=rest)
        return SolamState(Z, X, total, positives, s.radius, s.bounds, t=s.t + 1)

    def _published_slope(self, problem: Problem, samples: Indices, X: Array, p: float) -> Array:
        """B_i at X with p, the share of positives so far."""
        i, k = int(samples[0]), problem.k
        u = problem.A[i * k : (i + 1) * k] @ X[0]
        g = np.empty((1, k))
        replace(problem.component, p=p).forward(u, problem.y[i], g[0])  # type: ignore[call-arg]
        return problem.components.spread(samples, g)

    def samples_per_step(self, problem: Problem) -> int:
        return 1

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """3/L, L the largest constant of a component; on the data tried 10/L was as good, 30/L too long."""
        return 3 / (problem.constants.L_plan + problem.lam)
