"""Gossip dual averaging for functions of pairs (Colin, Bellet, Salmon and Clemencon, ICML 2016), for AUC."""

import math
from dataclasses import dataclass, field

import numpy as np

from dsba.algorithms.base import NO_COINS, Array, Indices, Network, Problem, Topology, WithCoins
from dsba.algorithms.needs import auc, edges
from dsba.algorithms.rivals.one_edge import edge_of, swapped
from dsba.network.contract import ROWS_OF_DATA

LARGEST_SLOTS = 20_000_000  # numbers in the slots of all nodes


@dataclass
class PairState:
    """The running averages of the points ``mean`` and the points w, the dual sums y (N x d each).

    ``slots`` (Q x (d + 2)) holds samples with label and weight, ``rows`` (Q x d) the samples of the nodes here.
    Sums (N x 2 x d) and counts (N x 2) are those of the negative and the positive samples met in slots so far.
    """

    mean: Array
    w: Array
    y: Array
    slots: Array
    sums: Array
    counts: Array
    rows: Array = field(metadata={"static": True})
    t: int = 0

    @property
    def Z(self) -> Array:
        """(w, a, b, theta): a and b are the mean scores of the positive and negative samples met, theta = b - a."""
        centers = self.sums / np.maximum(self.counts, 1.0)[:, :, None]
        b, a = np.einsum("ncd,nd->cn", centers, self.mean)
        return np.column_stack([self.mean, a, b, b - a])


def pairs(problem: Problem, net: Network) -> str | None:
    """Lambda on the weights alone, and slots that fit into memory."""
    name, numbers = type(problem.component).__name__, problem.n_samples * problem.dim
    if problem.n_regular == problem.dim and problem.lam > 0:
        return f"with lambda on all coordinates {name} is no problem of pairs: use regularize='weights'."
    if numbers > LARGEST_SLOTS:
        return f"its slots for {name} would hold {numbers:,} numbers, and {LARGEST_SLOTS:,} are the limit."
    return None


@dataclass(frozen=True)
class GossipPairwise(WithCoins):
    """Minimises the pairwise loss itself: samples walk over the graph, and nodes pair their own with those that come.

        a random edge (m, n):  both ends swap the samples in one random slot of theirs,  y_m, y_n <- (y_m + y_n)/2
        every node:            y_n <- y_n + c_n grad f(w_n; a random own sample, a random slot)
                               w_n  = -y_n / (lam t + sqrt(t)/c)
        Z                      the mean of w over the iterations so far

    Start: the slots of a node hold its own samples, y = w = 0. f(w; i, j) = (1 - w'(x+ - x-))^2/2 for labels that
    differ, else 0. ``step_size`` is c. The slots carry raw samples from node to node.
    """

    name = "gossip-pairwise"
    exact_links = "its nodes swap samples, and none may be lost"
    needs = (edges, auc, pairs)
    linear = False
    coins = 4

    @property
    def discloses(self) -> str:
        return ROWS_OF_DATA

    def init(self, problem: Problem, net: Network, z0: Array) -> PairState:
        d, k = problem.dim - problem.component.extra, problem.k
        X = problem.A[::k, :d].toarray()
        slots = np.column_stack([X, problem.y, problem.sample_weight])
        w = np.zeros((len(problem.nodes), d))
        return PairState(w, w, w, slots, np.zeros((len(w), 2, d)), np.zeros((len(w), 2)), X)

    def step(
        self, s: PairState, problem: Problem, net: Network, samples: Indices, coins: Array = NO_COINS
    ) -> PairState:
        slots, y, t, d = s.slots.copy(), s.y.copy(), s.t + 1, s.w.shape[1]
        swap(slots, y, problem, net, coins)
        own = problem.components.ids(samples)
        met = slots[problem.components.ids((coins[3] * problem.sizes).astype(np.int64))]
        x, label, weight = met[:, :d], met[:, d], met[:, d + 1]
        sign = np.where(problem.y[own] != label, problem.y[own], 0.0)[:, None]
        far = sign * (s.rows[own] - x)  # x+ - x-, where the labels differ
        y -= (problem.weight[own] * weight * (1 - np.einsum("nj,nj->n", far, s.w)))[:, None] * far
        w = -y / (problem.lam_diag[:d] * t + math.sqrt(t) / self.alpha)
        sums, counts, kind = s.sums.copy(), s.counts.copy(), (label > 0).astype(int)
        node = np.arange(len(w))
        sums[node, kind] += weight[:, None] * x
        counts[node, kind] += weight
        return PairState(s.mean + (w - s.mean) / t, w, y, slots, sums, counts, s.rows, t)

    def row_work(self, s: PairState, problem: Problem, net: Network) -> float:
        """The rows of the two ends of an edge, and what every node updates."""
        return s.t * (2 + self.rows_updated * problem.n_nodes) * problem.dim / problem.sweep

    def samples_per_step(self, problem: Problem) -> int:
        return 2 * problem.n_nodes

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """3/s, s the largest squared norm of a row."""
        return 3 / float(problem.group.largest(problem.squared_norms()[:, 0].max(keepdims=True))[0])


def swap(slots: Array, y: Array, problem: Problem, net: Network, coins: Array) -> None:
    """The ends of the edge swap a slot each and average their y, in place."""
    edge, first = edge_of(net.topology, coins[0]), net.nodes.start
    here = {n: n - first for n in edge if n in net.nodes}
    at = {n: problem.start[r] + int(coins[1 + edge.index(n)] * problem.sizes[r]) for n, r in here.items()}
    heard = swapped(net, edge, {n: encoded(y[r], slots[at[n]]) for n, r in here.items()})
    doubles, others = np.zeros(len(net.nodes)), np.zeros(len(net.nodes))
    for n, frame in heard.items():
        their_y, row, numbers = decoded(frame, y.shape[1])
        y[here[n]] = 0.5 * (y[here[n]] + their_y)
        slots[at[n]] = row
        doubles[here[n]], others[here[n]] = numbers, len(frame) - 8 * numbers
    net.count(0, doubles, others, 0)


def encoded(y: Array, row: Array) -> bytes:
    """y, and the nonzeros of a slot as numbers of columns and values."""
    columns = np.flatnonzero(row)
    return columns.astype("<u4").tobytes() + row[columns].tobytes() + y.tobytes()


def decoded(frame: bytes, d: int) -> tuple[Array, Array, int]:
    """y, the slot, and how many numbers came."""
    nonzeros = (len(frame) - 8 * d) // 12
    row = np.zeros(d + 2)
    values = np.frombuffer(frame, "<f8", offset=4 * nonzeros)
    row[np.frombuffer(frame, "<u4", nonzeros)] = values[:nonzeros]
    return values[nonzeros:], row, values.size
