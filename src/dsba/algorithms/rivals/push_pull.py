"""Push-Pull: gradient tracking on directed graphs (Pu, Shi, Xu and Nedic, IEEE TAC 2021)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dsba.algorithms.base import Array, Indices, Network, Problem, Topology
from dsba.algorithms.rivals.diging import DIGing, DIGingState
from dsba.algorithms.rivals.extra import smoothness
from dsba.graph.directed import column_stochastic, row_stochastic


@dataclass(frozen=True)
class PushPull(DIGing):
    """DIGing with two matrices: points are pulled by a row-stochastic one, trackers pushed by a column-stochastic one.

        Z+ = R (Z - alpha Y)
        Y+ = C Y + B(Z+) - B(Z)

    This is the method Push-Pull of the paper (Push-Pull Gradient Methods for Distributed Optimization in Networks, IEEE
    Transactions on Automatic Control 66(1), 1-16, 2021, arXiv:1810.06653), with the same step at every agent i:

        x_i+ = sum over j of R_ij (x_j - alpha y_j)
        y_i+ = sum over j of C_ij y_j + grad f_i(x_i+) - grad f_i(x_i),       y_i = grad f_i(x_i) at first.

    Here x_i is row i of Z, y_i of Y, and grad f_i(x_i) of B(Z). AB (Xin and Khan, 2018) takes the step after
    the mixing instead: Z+ = R Z - alpha Y.

    Start: Y = B(Z), which is one pass over the data. Where n hears in_n nodes and out_n nodes hear n, R has the weights
    1/(1 + in_n) in row n, and C has 1/(1 + out_n) in column n. Both rows travel in one message.
    """

    name = "push-pull"
    one_way_links = True
    proven_on: ClassVar[tuple[str, ...]] = ()
    step_bounds = (0.01, 1e4)  # the automatic step is cautious for complex eigenvalues

    def step(self, s: DIGingState, problem: Problem, net: Network, samples: Indices) -> DIGingState:
        X = s.Z - self.alpha * s.Y
        apart, CY = pushed(X, s.Y, net)
        Z = X - apart / (1 + net.degrees[:, None])
        B = problem.local_operator(Z)
        return DIGingState(Z, CY + (B - s.B), B, t=s.t + 1)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """The smaller ``tracked_step`` of R and C, over L."""
        R, C = row_stochastic(topology.graph), column_stochastic(topology.graph)
        return min(tracked_step(R), tracked_step(C)) / smoothness(problem)


def tracked_step(matrix: Array) -> float:
    """min sqrt(g)/2 and 3 g^2/|1 - r| over all eigenvalues r of the matrix but 1, g = 1 - |r|.

    Tracking splits an eigenvalue r by about sqrt(alpha L |1 - r|). If r is real, that turns it aside. If it is not, as
    on a directed ring, it may lead beyond the unit circle, and the second bound counts.
    """
    if len(matrix) == 1:
        return 0.5
    r = np.linalg.eigvals(matrix)
    r = np.delete(r, np.argmin(np.abs(1 - r)))
    return float(min(np.sqrt(1 - np.abs(r)).min() / 2, (3 * (1 - np.abs(r)) ** 2 / np.abs(1 - r)).min()))


def pushed(X: Array, Y: Array, net: Network) -> tuple[Array, Array]:
    """The sums of x_n - x_m over the nodes m that n hears, and C Y, the sums of y_m/(1 + out_m) over these and n."""
    out = np.array([len(net.topology.graph.listeners[n]) for n in net.nodes])
    shares = Y / (1 + out[:, None])
    apart = net.laplacian(np.hstack([X, shares]))
    return apart[:, : X.shape[1]], (1 + net.degrees[:, None]) * shares - apart[:, X.shape[1] :]
