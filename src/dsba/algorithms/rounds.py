"""The choice of a batch size b and of a number K of gossip rounds a mixing, by a cost model.

An iteration of DSBA or DSA takes b samples a node and costs K rounds. The model, with p coefficients, nnz nonzeros a
row, k numbers a sample, G neighbours, latency l in seconds and bandwidth w in bits a second:

    seconds an iteration   K (l + 64 p G / w) + b (4 nnz / speed + bookkeeping) + 5 (b k)^3 / (3 speed)
    iterations             q' + 1/(alpha mu) + 1/gamma_K,    q' = q/b the components of the largest node

alpha is the automatic step size of DSBA (``step_rules.py``). A constant factor of the iterations is the same for all b
and K, and left out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dsba.algorithms.planner import BOOKKEEPING, SPEED
from dsba.algorithms.step_rules import planned_convexity, practical_step
from dsba.graph.link import Link
from dsba.graph.topology import Topology
from dsba.problem.components import counts
from dsba.problem.problem import Problem

LARGEST_BATCH = 512  # samples in a batch: its equation is solved by elimination
NEWTON = 5  # steps for one batch


class Rounds(NamedTuple):
    """A batch size, rounds of gossip a mixing, and what the model estimates, up to a factor."""

    batch_size: int
    gossip: int
    seconds: float


def plan_rounds(problem: Problem, topology: Topology, link: Link | None = None) -> Rounds:
    """The fastest b and K; give the method ``batch_size=b`` and ``topology.chebyshev(K)`` where K > 1.

    A topology that is a Chebyshev mixing already keeps its rounds.
    """
    given = topology.mixing.rounds
    most = math.ceil(math.sqrt(topology.kappa_g)) if given == 1 and topology.n_nodes > 1 else 1
    mixings = {given: topology} | {K: topology.chebyshev(K) for K in range(2, most + 1)}
    return min(
        (
            Rounds(b, K, _seconds(problem, mixing, b, K, link or Link()))
            for K, mixing in mixings.items()
            for b in _sizes(problem)
        ),
        key=lambda choice: choice.seconds,
    )


def automatic_batch_size(problem: Problem, topology: Topology) -> int:
    """The fastest b on a given topology, for a network of usual latency and bandwidth."""
    K = topology.mixing.rounds
    return min(_sizes(problem), key=lambda b: _seconds(problem, topology, b, K, Link()))


def _sizes(problem: Problem) -> list[int]:
    """Powers of two, up to the largest batch that can be solved; only 1 if the operator has no Jacobian."""
    if not problem.component.has_jacobian:
        return [1]
    most = min(int(problem.all_sizes.max()), LARGEST_BATCH // problem.k)
    return [2**i for i in range(max(1, most).bit_length())]


def _seconds(problem: Problem, topology: Topology, b: int, gossip: int, link: Link) -> float:
    neighbours = int(topology.degrees.max(initial=0))
    transfer = link.seconds(neighbours > 0, 8 * problem.dim * neighbours)
    samples = b * (4 * problem.mean_nnz / SPEED + BOOKKEEPING)
    system = NEWTON * (b * problem.k) ** 3 / (3 * SPEED) if b > 1 else 0.0
    return _iterations(problem, topology, b) * (gossip * transfer + samples + system)


def _iterations(problem: Problem, topology: Topology, b: int) -> float:
    alpha = practical_step(problem, topology, b)
    return int(counts(problem.all_sizes, b).max()) + 1 / (alpha * planned_convexity(problem)) + topology.kappa_g
