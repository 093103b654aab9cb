"""SOLAM: stochastic online AUC maximisation (Ying, Wen and Lyu, 2016), for one node."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices
from dsba.algorithms.point_saga import several_nodes
from dsba.network import Network
from dsba.problem import Problem
from dsba.topology import Topology


@dataclass
class SolamState:
    """The weighted average Z, the iterate X (1 x p each), the sum of weights, bounds on ||w|| and the rest of z."""

    Z: Array
    X: Array
    total: float
    radius: float = field(metadata={"static": True})
    bounds: Array = field(metadata={"static": True})
    t: int = 0


@dataclass(frozen=True)
class SOLAM(Algorithm):
    """Descent in (w, a, b) and ascent in theta on one sample i, averaged.

        x+ = P( x - gamma_t (B_i(x) + Lambda x) ),    gamma_t = alpha / sqrt(t + 1)
        z+ = mean of x over the iterations so far, weighted with gamma_t

    P projects onto ||w|| <= R, |a|, |b| <= R kappa, |theta| <= 2 R kappa, kappa the longest row.
    The paper has no lambda and lets R regularise; here lambda does, and R is so large that the
    solution is inside: at it lam/2 ||w||^2 is at most p(1-p), or lam/2 more with lambda on everything.
    The paper estimates the share p of positives as samples come in; here it is the data's.
    """

    name: ClassVar[str] = "solam"
    linear: ClassVar[bool] = False

    def init(self, problem: Problem, net: Network, z0: Array) -> SolamState:
        p = float(np.mean(problem.y > 0))
        radius = math.sqrt(1 + 2 * p * (1 - p) / problem.lam) if problem.lam > 0 else math.inf
        kappa = math.sqrt(problem.squared_norms()[:, 0].max())
        X = z0[None, :].copy()
        return SolamState(X, X, 0.0, radius, radius * kappa * np.array([1.0, 1.0, 2.0]))

    def step(self, s: SolamState, problem: Problem, net: Network, samples: Indices) -> SolamState:
        gamma = self.alpha / math.sqrt(s.t + 1)
        total = s.total + gamma
        Z = s.Z + gamma / total * (s.X - s.Z)
        B = problem.spread(samples, problem.forward(samples, s.X))
        X = s.X - gamma * (B + problem.lam_diag * s.X)
        w, rest = X[:, : problem.n_features], X[:, problem.n_features :]
        if (norm := float(np.linalg.norm(w))) > s.radius:
            w *= s.radius / norm
        np.clip(rest, -s.bounds, s.bounds, out=rest)
        return SolamState(Z, X, total, s.radius, s.bounds, s.t + 1)

    def samples_per_step(self, problem: Problem) -> int:
        return 1

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": 3/L, L the largest constant of a component; on the data tried 10/L was as good, 30/L too long."""
        return {"auto": lambda: 3 / (problem.constants.L_plan + problem.lam)}

    def refusal(self, problem: Problem) -> str | None:
        if not (problem.component.ranks and problem.component.extra == 3):  # a, b, theta
            return f"it maximises the AUC over (w, a, b, theta), and the problem is {type(problem.component).__name__}."
        return several_nodes(problem)
