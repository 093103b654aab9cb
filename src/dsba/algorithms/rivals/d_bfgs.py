"""D-BFGS: BFGS matrices over the neighbourhoods of a graph (Eisen, Mokhtari and Ribeiro, 2017)."""

from dataclasses import dataclass, field

import numpy as np

from dsba._system.threads import one_blas_thread
from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.needs import lipschitz_gradients, objective, single_rounds
from dsba.algorithms.open_constants import OpenConstant
from dsba.algorithms.rivals.network_newton import NetworkNewton, solved
from dsba.errors import as_number
from dsba.network.contract import ITERATES

MOST_BFGS_COLUMNS = 100
LARGEST_MATRIX = 3000  # the side of a BFGS matrix: coefficients times nodes of a neighbourhood
REGULAR = 1e-3  # the paper's Gamma, and its gamma
LEAST_CURVATURE = 1e-10  # a pair of changes with less says nothing of the curvature


@dataclass
class DBFGSState(State):
    """Z (N x p), what the nodes know of the points X and gradients G around them (N x M x p), matrices H (N x Mp x Mp).

    M is the largest number of nodes in a neighbourhood; a node is the first of its own. ``share`` (N x M) has 1/m_j
    for its members j, m_j the nodes in the neighbourhood of j, and zeros where a neighbourhood is smaller.
    """

    X: Array
    G: Array
    H: Array
    share: Array = field(metadata={"static": True})


def small_matrices(problem: Problem, net: Network) -> str | None:
    """One of all coefficients in a neighbourhood at every node."""
    rows = problem.dim * (1 + int(net.topology.degrees.max(initial=0)))
    if rows > LARGEST_MATRIX:
        return f"it would need matrices of {rows:,} rows at a node, and {LARGEST_MATRIX:,} are the limit."
    if problem.dim > MOST_BFGS_COLUMNS:
        return f"it keeps dense matrices, and {problem.dim:,} coefficients are more than {MOST_BFGS_COLUMNS}."
    return None


@dataclass(frozen=True)
class DBFGS(Algorithm):
    """Quasi-Newton steps on the penalised problem of Network Newton,  Z'(I - W)Z/2 + alpha (sum of f_n).

        e_n = -(H_n^-1 + Gamma D_n) g_n,      g_n the gradients in the neighbourhood of n, stacked
        z_n <- z_n + eps (the sum over the neighbourhood of what its members' e have for n)
        v   = D_n (the change of the points),   r = (the change of the gradients) - gamma v
        H_n <- H_n + r r'/(r'v) - H_n v v'H_n/(v'H_n v) + gamma I

    Start: H = I. D_n is diagonal with 1/m_j at the coordinates of member j, m_j the number of neighbourhoods with j. So
    H_n v is the change of the gradients, and the sum of all H_n^-1 takes the change of all gradients to that of all
    points: the secant condition of the whole network. ``step_size`` is alpha: the method ends near the solution, as
    Network Newton does. Three rounds an iteration: e, points, gradients. Where r'v is not positive a matrix stays as
    it is.

    Parameters
    ----------
    epsilon : float
        The length eps of a step.
    """

    epsilon: float = 0.2

    name = "d-bfgs"
    exact_links = "its nodes add up the directions of all their neighbours"
    needs = (
        lipschitz_gradients,  # without it pairs of changes say too little of the next step
        objective,
        single_rounds,
        small_matrices,
    )
    linear = False
    first_passes = 1.0  # the first gradient
    factors = NetworkNewton.factors
    opens = (OpenConstant("epsilon", start=(0.5, 1.0), bounds=(0.05, 5.0)),)

    def __post_init__(self) -> None:
        as_number("epsilon", self.epsilon, above=0.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> DBFGSState:
        N, p, M = len(problem.nodes), problem.dim, 1 + int(net.topology.degrees.max(initial=0))
        share = np.zeros((N, M))
        for row, n in enumerate(net.nodes):
            members = [n, *net.topology.neighbors[n]]
            share[row, : len(members)] = 1 / (1 + net.topology.degrees[members])
        Z = np.tile(z0, (N, 1))
        X = gathered(net, Z, share, Z)
        G = gathered(net, self.gradient(X, problem, net), share)
        return DBFGSState(Z, X, G, np.tile(np.eye(M * p), (N, 1, 1)), share)

    def step(self, s: DBFGSState, problem: Problem, net: Network, samples: Indices) -> DBFGSState:
        flat, D = (*s.share.shape, problem.dim), np.repeat(s.share, problem.dim, axis=1)
        g = s.G.reshape(len(s.Z), -1)
        e = -(solved(s.H, g) + REGULAR * D * g)
        Z = s.Z + self.epsilon * pieces(net, e.reshape(flat))
        X = gathered(net, Z, s.share, Z)
        G = gathered(net, self.gradient(X, problem, net), s.share)
        v = D * (X - s.X).reshape(len(Z), -1)
        r = (G - s.G).reshape(len(Z), -1) - REGULAR * v
        return DBFGSState(Z, X, G, updated(s.H, v, r), s.share, t=s.t + 1)

    def gradient(self, X: Array, problem: Problem, net: Network) -> Array:
        """The gradients of the penalised problem at each node, from the points around it."""
        Z = X[:, 0]
        pull = np.zeros_like(Z)
        for row, n in enumerate(net.nodes):
            weights = net.topology.W[n, net.topology.neighbors[n]]
            pull[row] = weights @ (Z[row] - X[row, 1 : 1 + len(weights)])
        return pull + self.alpha * problem.local_operator(Z)

    def work(self, s: DBFGSState, problem: Problem, net: Network) -> float:
        """With a system and an update of H at every node, of as many equations as its neighbourhood has numbers."""
        side = s.H.shape[1]
        return super().work(s, problem, net) + s.t * problem.n_nodes * (side**3 / 3 + 5 * side**2) / problem.sweep

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """Network Newton's."""
        return NetworkNewton().auto_step(problem, topology)


def updated(H: Array, v: Array, r: Array) -> Array:
    """The BFGS update of every matrix whose pair of changes shows curvature."""
    out, eye = H.copy(), np.eye(H.shape[1])
    with one_blas_thread():  # the bits of a product may depend on the number of threads
        for n in range(len(H)):
            rv = float(r[n] @ v[n])
            if rv > LEAST_CURVATURE * float(np.linalg.norm(r[n]) * np.linalg.norm(v[n])):
                Hv = H[n] @ v[n]
                out[n] += np.outer(r[n], r[n]) / rv - np.outer(Hv, Hv) / float(v[n] @ Hv) + REGULAR * eye
    return out


def gathered(net: Network, rows: Array, share: Array, missing: Array | None = None) -> Array:
    """Every node's row, then its neighbours' (N x M x p); ``missing`` rows stand for those that did not come."""
    out = np.zeros((*share.shape, rows.shape[1]))
    out[:, 0] = rows
    heard = sent(net, [dict.fromkeys(net.topology.neighbors[n].tolist(), rows[r]) for r, n in enumerate(net.nodes)])
    for row, n in enumerate(net.nodes):
        for slot, m in enumerate(net.topology.neighbors[n].tolist(), 1):
            out[row, slot] = heard[row].get(m, 0.0 if missing is None else missing[row])
    return out


def pieces(net: Network, e: Array) -> Array:
    """For every node the sum of the parts for it in its own e and in its neighbours' e."""
    boxes = [dict(zip(net.topology.neighbors[n].tolist(), e[row, 1:], strict=False)) for row, n in enumerate(net.nodes)]
    heard = sent(net, boxes)
    return np.array([e[row, 0] + sum(box[m] for m in sorted(box)) for row, box in enumerate(heard)])


def sent(net: Network, boxes: list[dict[int, Array]]) -> list[dict[int, Array]]:
    """One round of rows of numbers, each to its neighbour, with the numbers counted."""
    heard = net.exchange([{m: row.tobytes() for m, row in box.items()} for box in boxes], discloses=ITERATES)
    net.count(0, [sum(map(len, box.values())) // 8 for box in heard], 0, 0)
    return [{m: np.frombuffer(frame) for m, frame in box.items()} for box in heard]
