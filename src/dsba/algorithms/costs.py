"""What a method is expected to cost: rounds, bytes into the busiest node, seconds.

    seconds    rounds x latency + bytes into the busiest node x 8 / bandwidth + arithmetic of the largest node, times
               the nodes that share a core

With p coefficients, q samples at the largest node, a tree of the graph of depth D and mixings of K rounds:

    newton     I iterations (2 where the operator is affine, 10 elsewhere), each a sum of 1 + p + p (p + 1)/2 numbers. A
               sum of m numbers: 4 D rounds, and 16 m bytes from each child and from the parent.
               Beyond ``MOST_COLUMNS`` coefficients: conjugate gradients, with a sum of p numbers for each step.
    dsba       batches of b samples, q' = q/b of them; (q' + 1/(alpha mu) + 1/gamma_K) times a function of the accuracy
               iterations of K rounds. alpha is the automatic step size, mu the regularisation; where the step size is
               planned again during the run, slopes are taken as ``RELIEF`` times below their bounds. First digits are
               quick, since data curves most directions much more than mu: RATE d^3 for d decimal digits, and from
               ``STEADY`` digits on a straight line.
    p-extra    the same with one batch of all samples and its own step size.
    a record   of the history takes ``MEASURING`` D rounds more where nodes are in several processes, and ``WIDE_SUMS``
               of p numbers, which reach all N nodes over 2 D hops one after the other. The start takes the time of
               ``STARTING`` records, and every process loads its kernels in ``LOADING`` seconds of its core. Of P
               passes in S seconds, with records of R seconds, the best distance between two records is P sqrt(2 R/S):
               half of a distance is lost at the end. At least two records are made.
    a row      of p numbers brings 8 p bytes from each neighbour. Compressed it brings ``ROW_HEADER``, and for each
               coordinate ``EMPTY``, and ``TOUCHED`` more where the node has nonzeros.

``benchmarks/plans.py`` measures what the constants below stand for; docs/which-method.md says on what they were fitted,
and shows how well they do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from dsba._system.once import computed_once
from dsba.algorithms.newton import MOST_COLUMNS
from dsba.algorithms.step_rules import planned_convexity, practical_step, slopes_change
from dsba.graph.link import Link
from dsba.graph.topology import Topology
from dsba.problem.components import counts
from dsba.problem.problem import Problem

LARGEST_BATCH = 512  # numbers in a batch, whose Gram matrix is kept
DENSE, COMPRESSED = "dense", "compressed"

SPEED = 1e9  # multiplications a second
BOOKKEEPING, IN_BATCH = 1e-6, 3e-7  # seconds for one sample of DSBA, by itself and in a batch
PAIRS = 1.6  # multiplications for two samples of a batch, where its equation is solved by conjugate gradients
ROW, PACKING = 1e-9, 3.5e-9  # seconds for a coordinate of a row and a neighbour, dense and compressed
RATE, STEADY = 0.046, 4.0  # iterations to so many digits, in units of q' + 1/(alpha mu) + 1/gamma
RELIEF = 9.0  # how far slopes are below their bounds when step sizes are planned again
USUAL_ACCURACY = 1e-4  # a relative residual: a gap of about 1e-6
ROW_HEADER, EMPTY, TOUCHED = 40.0, 0.02, 0.12  # bytes of a compressed row, of a coordinate, and of one with nonzeros
NEWTON_STEPS, AFFINE_STEPS = 10, 2
MEASURING = 26  # rounds of a record, for each level of the tree
WIDE_SUMS = 2  # of a record: the mean of the iterates, and the operator there
STARTING = 5  # records that take as long as the questions before the first iteration
LOADING = 0.15  # seconds in which a process loads its kernels
CG_RATE = 0.5  # sums for a digit, in units of sqrt(L/mu)


class Configuration(NamedTuple):
    """A method with its options, and the rounds of gossip that one mixing takes."""

    name: str
    batch_size: int | None = None
    communication: str | None = None
    gossip: int = 1

    @property
    def options(self) -> dict[str, Any]:
        """What the method is given beside its name."""
        given = {"batch_size": self.batch_size, "communication": self.communication}
        return {name: value for name, value in given.items() if value is not None}

    def __str__(self) -> str:
        parts = []
        if self.batch_size is not None:
            parts.append(f"batches of {self.batch_size}" if self.batch_size > 1 else "single samples")
        if self.communication is not None:
            parts.append(f"{self.communication} rows")
        if self.gossip > 1:
            parts.append(f"{self.gossip} rounds a mixing")
        return f"{self.name} ({', '.join(parts)})" if parts else self.name


class Estimate(NamedTuple):
    """What is expected of a candidate; bytes are those into the busiest node."""

    configuration: Configuration
    rounds: float
    megabytes: float
    seconds: float
    passes: float
    record_every: float = 1.0  # passes between two records


@dataclass(frozen=True)
class CostModel:
    """The costs of methods on one problem, graph and link, for a relative residual of ``accuracy``.

    ``record_every`` is the passes between two records that are measured over the network; infinite in one process. With
    None it is what is best for each method; newton's iterations are all measured. ``crowding`` processes share a core,
    and each works for so many ``nodes``, one after the other. ``convexity`` takes the place of mu in rates, which
    are too slow with mu where data adds much to lambda.
    """

    problem: Problem
    topology: Topology
    link: Link
    accuracy: float
    record_every: float | None = math.inf
    crowding: float = 1.0
    nodes: int = 1
    convexity: float | None = None

    def newton(self) -> Estimate:
        """By sums over the tree; beyond ``MOST_COLUMNS`` columns with conjugate gradients."""
        p, tree, small = self.problem.dim, self.topology.graph.tree, self.problem.dim <= MOST_COLUMNS
        steps = AFFINE_STEPS if self.problem.component.affine else NEWTON_STEPS
        sums, width = (steps, 1 + p + p * (p + 1) / 2) if small else (1 + 2 * steps + self._products, p)
        rounds = 4 * tree.depth * sums
        links = float((tree.children + (tree.parents >= 0)).max())
        arithmetic = sums * self._q * self.problem.mean_nnz ** (1 + small) + small * steps * p**3 / 3
        return self._estimate(
            Configuration("newton"), rounds, links * 16 * width * sums, arithmetic / SPEED, sums, steps
        )

    def dsba(self, batch_size: int, communication: str, gossip: int = 1) -> Estimate:
        """On batches, with mixings of ``gossip`` rounds."""
        topology = self.mixings[gossip]
        again = batch_size > 1 and slopes_change(self.problem)
        alpha = practical_step(self.problem, topology, batch_size, RELIEF if again else 1.0)
        n_batches, size = int(counts(self.problem.all_sizes, batch_size).max()), batch_size * self.problem.k
        samples = batch_size * (4 * self.problem.mean_nnz / SPEED + (IN_BATCH if batch_size > 1 else BOOKKEEPING))
        eliminated = self.problem.k > 1 or not (again or communication == COMPRESSED)
        system = (PAIRS * size**2 + eliminated * size**3 / 2) / SPEED if batch_size > 1 else 0.0
        configuration = Configuration("dsba", batch_size, communication, gossip)
        iterations = self._iterations(n_batches, alpha, topology)
        return self._by_rows(configuration, iterations, samples + system, iterations / n_batches)

    def p_extra(self, communication: str) -> Estimate:
        """With all samples of a node at once: systems of the samples or of the columns, whichever are fewer."""
        alpha = 2 * math.sqrt(self.topology.gamma / (self._mu * float(self.problem.local_smoothness.max())))
        size = min(self._q * self.problem.k, self.problem.dim)
        work = (8 * self._q * self.problem.mean_nnz + 8 * size**2 + size**3 / 30) / SPEED
        iterations = self._iterations(1, alpha, self.topology)
        return self._by_rows(Configuration("p-extra", None, communication), iterations, work, iterations)

    @property
    def batch_sizes(self) -> list[int]:
        """Powers of two, up to the largest batch that can be solved; only 1 if the operator has no Jacobian."""
        if not self.problem.component.has_jacobian or self.problem.penalty is not None:
            return [1]
        most = min(self._q, LARGEST_BATCH // self.problem.k)
        return [2**i for i in range(max(1, most).bit_length())]

    @computed_once
    def mixings(self) -> dict[int, Topology]:
        """The graph with 1, 2, 4, ... rounds of gossip a mixing, up to the root of its condition number.

        A Chebyshev mixing keeps its rounds.
        """
        plain = self.topology.mixing.rounds == 1 and self.topology.n_nodes > 1
        most = math.sqrt(self.topology.kappa_g) if plain else 1.0
        several = {2**i: self.topology.chebyshev(2**i) for i in range(1, int(most).bit_length())}
        return {1: self.topology} | several

    def _iterations(self, n_batches: int, alpha: float, topology: Topology) -> float:
        unit = n_batches + 1 / (alpha * self._mu) + topology.kappa_g
        quick = min(self._digits, STEADY)
        return max(1.0, RATE * unit * (quick**3 + 3 * STEADY**2 * (self._digits - quick)))

    def _by_rows(self, configuration: Configuration, iterations: float, work: float, passes: float) -> Estimate:
        """The cost of iterations that each send a row to the neighbours and have so many seconds of ``work``."""
        p, neighbours = self.problem.dim, int(self.topology.degrees.max(initial=0))
        rounds = iterations * configuration.gossip * self.topology.mixing.rounds * (neighbours > 0)
        packed = configuration.communication == COMPRESSED
        touched = -math.expm1(-self._q * self.problem.mean_nnz / p)
        row = ROW_HEADER + p * (EMPTY + TOUCHED * touched) if packed else 8.0 * p
        rows = rounds * (neighbours + 4) * p * (PACKING if packed else ROW)
        return self._estimate(
            configuration, rounds, rounds * neighbours * row, iterations * work + rows, passes, iterations
        )

    def _estimate(
        self, configuration: Configuration, rounds: float, received: float, work: float, passes: float, steps: float
    ) -> Estimate:
        """An iteration is measured once at most."""
        running, every = self.link.seconds(rounds, received) + self.crowding * self.nodes * work, self.record_every
        if every is None:
            best = passes * min(0.5, math.sqrt(2 * self._record / running))
            every = 1.0 if configuration.name == "newton" else max(1.0, math.floor(best))
        if every == math.inf:
            return Estimate(configuration, rounds, received / 1e6, running, passes)
        seconds = running + (min(passes / every, steps) + STARTING) * self._record + LOADING * self.crowding
        return Estimate(configuration, rounds, received / 1e6, seconds, passes, every)

    @property
    def _record(self) -> float:
        """Seconds of one record."""
        depth = self.topology.graph.tree.depth
        wide = WIDE_SUMS * 16.0 * self.problem.dim * self.problem.n_nodes * 2 * depth
        return self.link.seconds(MEASURING * depth, wide)

    @property
    def _products(self) -> float:
        """Steps of conjugate gradients in all systems together."""
        return CG_RATE * math.sqrt(float(self.problem.local_smoothness.max()) / self._mu) * self._digits

    @property
    def _digits(self) -> float:
        """Decimal digits that are asked for."""
        return max(1.0, -math.log10(max(self.accuracy, 1e-15)))

    @property
    def _mu(self) -> float:
        return self.convexity or self.problem.constants.mu

    @property
    def _q(self) -> int:
        return int(self.problem.all_sizes.max())


def automatic_batch_size(problem: Problem, topology: Topology, communication: str) -> int:
    """The fastest batch size of DSBA on a line of usual latency and bandwidth.

    At the rates that steps are planned with: bounds by lambda alone hide that larger batches need fewer rounds where
    samples are many and columns few.
    """
    model = CostModel(problem, topology, Link(), USUAL_ACCURACY, convexity=planned_convexity(problem))
    return min(model.batch_sizes, key=lambda b: model.dsba(b, communication).seconds)
