"""Push-DIGing: gradient tracking by push-sum on directed graphs (Nedic, Olshevsky and Shi, 2017)."""

from dataclasses import dataclass

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.needs import objective
from dsba.algorithms.rivals.extra import smoothness
from dsba.algorithms.rivals.push_pull import pushed, tracked_step
from dsba.graph.directed import column_stochastic


@dataclass
class PushDIGingState(State):
    """Z, the sums U, their weights v (N x 1), the trackers Y, and B(Z) (N x p each)."""

    U: Array
    v: Array
    Y: Array
    B: Array


@dataclass(frozen=True)
class PushDIGing(Algorithm):
    """Points are sums over weights, and both are pushed by a column-stochastic matrix C.

        U+ = C (U - alpha Y),      v+ = C v,      Z+ = U+ / v+
        Y+ = C Y + B(Z+) - B(Z)

    Start: U = Z, v = 1, Y = B(Z), which is one pass over the data. C is that of Push-Pull. The three travel in one
    message. This is Push-DIGing as in the paper (Achieving Geometric Convergence for Distributed Optimization over
    Time-Varying Graphs, SIAM Journal on Optimization 27(4), 2597-2633, 2017, arXiv:1607.03218) on a fixed graph.
    """

    name = "push-diging"
    step_bounds = (0.01, 1e4)
    rows_mixed, rows_updated = 2, 4
    first_passes = 1.0  # the first operator
    needs = (objective,)
    one_way_links = True

    def init(self, problem: Problem, net: Network, z0: Array) -> PushDIGingState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        B = problem.local_operator(Z)
        return PushDIGingState(Z, Z, np.ones((len(Z), 1)), B, B)

    def step(self, s: PushDIGingState, problem: Problem, net: Network, samples: Indices) -> PushDIGingState:
        p, sent = s.Z.shape[1], np.hstack([s.U - self.alpha * s.Y, s.Y, s.v])
        U, Y, v = np.split(pushed(sent[:, :0], sent, net)[1], [p, 2 * p], axis=1)
        Z = U / v
        B = problem.local_operator(Z)
        return PushDIGingState(Z, U, v, Y + (B - s.B), B, t=s.t + 1)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """``tracked_step`` of C over L, times the root of the smallest v in the limit."""
        C = column_stochastic(topology.graph)
        values, vectors = np.linalg.eig(C)
        v = np.abs(vectors[:, np.argmax(values.real)])
        return tracked_step(C) * float(np.sqrt(v.min() / v.mean())) / smoothness(problem)
