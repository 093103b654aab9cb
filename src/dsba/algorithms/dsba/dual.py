"""The dual form of DSBA and DSA: an iterate, a dual row and the mean of the table at every node.

With d = (I - W) Z, q components a node, S the one that is drawn, and phibar the mean of the table,

    DSBA   Z+ = J_{alpha (B_S + lam)} (Z - d - alpha Y + alpha (phi_S - phibar))
    DSA    Z+ = Z - d - alpha (Y + B_S(Z) - phi_S + phibar + lam Z)
           Y+ = Y + d/(2 alpha),    phibar+ = phibar + (B_S - phi_S)/q,    phi_S <- B_S   (at Z+, or at Z for DSA)

Start: Y = 0. The difference of two iterations is the recursion of the other forms, so the iterates are the same. But
Z enters the network once and by itself, so it may be compressed (``network/messages/levels.py``). And Y has the units
of the operator, so alpha may change between iterations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from dsba.algorithms.dsba.form import HeldRows, Start
from dsba.algorithms.step_rules import practical_step
from dsba.kernels.dense import KernelComponents
from dsba.kernels.dual import DualRows, finish_dual
from dsba.network import Network
from dsba.network.messages.levels import CompressedRows, Compression
from dsba.problem.components import Components
from dsba.problem.problem import Problem
from dsba.types import Array, Indices

if TYPE_CHECKING:
    from dsba.algorithms.dsba.one_sample import OneSample

FEW_LEVELS = Compression()
REPLANS = 4  # the step size is planned again after the first pass, and whenever there were so many times as many


def _is_due(t: int, steps_a_pass: int) -> bool:
    """Whether the step size is planned again before iteration t: after 1, 4, 16, ... passes of the largest node."""
    passes, rest = divmod(t, steps_a_pass)
    while passes > 1 and passes % REPLANS == 0:
        passes //= REPLANS
    return rest == 0 and passes == 1


@dataclass
class DualForm(HeldRows):
    """Z, Y, the mean of the table (N x p each), the table phi, and what neighbours know of Z where it is compressed."""

    Z: Array
    Y: Array
    mean: Array
    phi: Array
    scores: Array
    H: Array
    alpha: float
    parts: Components = field(metadata={"static": True})
    planned: KernelComponents = field(metadata={"static": True})
    components: KernelComponents = field(metadata={"static": True})
    known: CompressedRows | None = field(metadata={"static": True})
    t: int = 0

    @classmethod
    def start(cls, method: OneSample, problem: Problem, net: Network, begin: Start) -> Self:
        Z = np.tile(begin.z0, (len(problem.nodes), 1))
        mean = problem.local.average(begin.phi) if method.table == "full" else np.zeros_like(Z)
        known = CompressedRows(net, problem.dim, FEW_LEVELS) if method.communication == "compressed" else None
        H = np.zeros((0, problem.dim)) if known is None else known.start(begin.z0)
        components = begin.components.kernel(method.recursion(problem))
        unseen, parts = np.full_like(begin.phi, np.nan), begin.components
        arrays = (Z, np.zeros_like(Z), mean, begin.phi, unseen, H)
        return cls(*arrays, method.alpha, parts, components, components, known)

    def advance(self, method: OneSample, problem: Problem, net: Network, samples: Indices) -> Self:
        s = self
        for row in samples:
            if method.replan and _is_due(s.t, int(s.parts.all_sizes.max())):
                s = s._replanned(method, problem, net)
            s = s._with_kernels(method, problem)._advanced(problem, net, row)
        return s

    def _replanned(self, method: OneSample, problem: Problem, net: Network) -> Self:
        """With the automatic step size for slopes that are R/R0 times the bounds on them, R a mean curvature of the
        components at the scores of their last visits, R0 the same at the bounds, which also count where there was no
        visit."""
        bounds = problem.component.planning_slopes(problem.y)
        slopes = problem.component.curvature(self.scores, np.ones_like(self.scores), problem.y)[:, 0]
        slopes = np.where(np.isnan(self.scores[:, 0]), bounds, slopes)
        squares = [self.parts.curvatures(self.planned, kind).max() for kind in (bounds, slopes)]
        bound, now = net.largest(np.array(squares)).tolist()
        relief = math.sqrt(bound / now) if now > 0.0 else 1.0
        return replace(self, alpha=practical_step(problem, net.topology, method.samples_at_once, relief))

    def _with_kernels(self, method: OneSample, problem: Problem) -> Self:
        """With what kernels need for the present step size."""
        if self.components.rule.alpha == self.alpha:
            return self
        coef = replace(method, step_size=self.alpha).coefficients(problem.lam)
        shrink = np.where(np.arange(problem.dim) < problem.n_regular, coef[0], 0.0)
        rule = self.planned.rule._replace(alpha=self.alpha, coef=coef, shrink=shrink)
        return replace(self, components=self.parts.rescaled(self.planned, rule))

    def _advanced(self, problem: Problem, net: Network, samples: Indices) -> Self:
        """One iteration: the rows meet, and the rest is one kernel call; arrays change in place."""
        if self.known is None:
            apart, H = net.differences(self.Z), self.H
        else:
            apart, H = self.known.differences(self.Z, self.H)
        rows = DualRows(self.Z, self.Y, self.mean, self.scores)
        finish_dual(problem.component, self.components, problem.lam, samples, rows, self.phi, apart)
        return replace(self, H=H, t=self.t + 1)

    def warm_up(self, method: OneSample, problem: Problem, net: Network) -> None:
        arrays = {name: getattr(self, name).copy() for name in ("Z", "Y", "mean", "phi", "scores")}
        if method.replan:
            self._replanned(method, problem, net)
        replace(self, **arrays)._advanced(problem, net, np.zeros(len(problem.nodes), np.int64))
