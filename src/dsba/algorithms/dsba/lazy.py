"""The lazy form of DSBA and DSA: iterates in mode space, each column brought up to date when a sample touches it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from dsba._system.threads import CORES, WORTH, even_cuts, run_pieces, run_thread_pair
from dsba.algorithms.dsba.form import Counted, Start
from dsba.algorithms.iterates import Iterates, MeanAndScatter
from dsba.errors import CheckpointError
from dsba.kernels import modes as kernel
from dsba.kernels.columns import PIECES, add_columns, change_samples, read_columns, turn
from dsba.kernels.dense import KernelComponents, Recursion
from dsba.kernels.thread_pair import Share, shares
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Array, Indices

if TYPE_CHECKING:
    from dsba.algorithms.dsba.one_sample import OneSample


MANY = 600  # nodes from which on the lazy form goes column after column
FOR_TWO = 8_000  # numbers of a sample that two threads share; with fewer, meeting costs more than it gains
REST = 20_000_000  # numbers that one thread goes through alone before two try again; some hundredths of a second


@dataclass
class LazyForm(Counted):
    """The same in mode space: ``modes`` (column, z or v, mode), each column as of ``stamp``."""

    modes: Array
    stamp: Indices
    phi: Array
    plan: kernel.ModePlan = field(metadata={"static": True})
    components: KernelComponents = field(metadata={"static": True})
    t: int = 0

    @classmethod
    def start(cls, method: OneSample, problem: Problem, net: Network, begin: Start) -> Self:
        rule = method.recursion(problem)
        plan = plan_of(rule, problem, net)
        ages = np.zeros(problem.n_nodes, np.int64)
        effects = kernel.plan_effects(rule, problem.lam, spectrum_of(net), begin.components.all_sizes, ages)
        plan = plan._replace(effects=effects)
        modes = kernel.start_modes(plan, begin.z0, begin.carry, method.alpha)
        state = (modes, np.zeros(problem.dim, np.int64), begin.phi, plan, begin.components.kernel(rule))
        return cls(*state, **cls.ledger(method, problem, net, begin))  # type: ignore[arg-type]

    def advance(self, method: OneSample, problem: Problem, net: Network, samples: Indices) -> Self:
        self._advance(problem, samples)
        self.count(net, self.t, samples, problem.dim)
        return replace(self, t=self.t + len(samples))

    @property
    def state(self) -> kernel.ModeState:
        """What kernels change."""
        return kernel.ModeState(self.modes, self.stamp, self.phi)

    @property
    def _by_columns(self) -> bool:
        return self.components.single and len(self.plan.basis) >= MANY

    def _advance(self, problem: Problem, samples: Indices) -> None:
        if self._by_columns:
            place = np.full(problem.dim, -1)
            for t, drawn in enumerate(samples, self.t):
                self._advance_columns(problem, problem.start[:-1] + drawn, t, place)
        elif self.components.single and self.components.rule.backward:
            self._advance_together(problem, samples)
        else:
            data = (problem.component, self.components, samples, self.plan, self.state, self.t)
            kernel.advance_modes_apart(*data, self.share(problem))

    def _advance_together(self, problem: Problem, samples: Indices) -> None:
        """With two threads where that is worth it. When others need the machine, the two end early and one goes on
        alone, each time for twice as long, before two try again."""
        alone, numbers = [self.share(problem)], int(problem.mean_nnz * self.modes[0].size)  # of one sample
        if not self.plan.middle or CORES < 2 or numbers < FOR_TWO or numbers * samples.size < WORTH:
            self._advance_by(alone, problem, samples, self.t)
            return
        made, rest = 0, 1 + REST // (numbers * problem.n_nodes)
        while made < len(samples):
            pair = shares(problem.k, (0, self.plan.middle, problem.dim))
            made += self._advance_by(pair, problem, samples[made:], self.t + made)
            made += self._advance_by(alone, problem, samples[made : made + rest], self.t + made)
            rest *= 2

    def _advance_by(self, pair: Sequence[Share | None], problem: Problem, samples: Indices, t: int) -> int:
        """The iterations from t on with these samples; how many of them the pair made."""
        data = (problem.component, self.components.rule, problem.samples, samples, self.plan, self.state, t)
        return run_thread_pair(lambda share: kernel.advance_modes(*data, share), pair)

    def share(self, problem: Problem) -> Share | None:
        """Of one thread that does everything."""
        return shares(problem.k, (0, problem.dim))[0] if self.plan.middle else None

    def _advance_columns(self, problem: Problem, drawn: Indices, t: int, place: Indices) -> None:
        """Iteration t with these samples: turn them into columns, read, resolve, add."""
        rule, samples, *_ = self.components
        k = samples.k
        touched = turn((samples.A[0], self.plan.indices, samples.A[2]), drawn * k, k, place)
        cuts = even_cuts(PIECES, touched.values.size * self.modes.shape[2])
        sums, delta = np.zeros((PIECES, drawn.size * k)), np.empty((drawn.size, k))
        read_at = t + 1 if rule.backward else t
        run_pieces(read_columns, cuts, self.plan, self.state, read_at, touched, k, sums)
        change_samples(problem.component, rule, samples, drawn * k, sums, self.phi, delta)
        run_pieces(add_columns, cuts, self.plan, self.state, t + 1, touched, delta)

    @property
    def Z(self) -> Array:
        return self.rows()

    def rows(self) -> Array:
        """Reading the iterates leaves the columns where they are."""
        out = np.empty((self.plan.basis.shape[0], self.modes.shape[0]))
        kernel.rows_from_modes(self.plan, self.state, self.t, out)
        return out

    def iterates(self, problem: Problem) -> Iterates:
        """In mode space: no row is made."""
        mean = np.empty(self.modes.shape[0])
        scatter = np.empty(-(-mean.size // kernel.PLACES))
        cuts = even_cuts(scatter.size, self.modes.size)
        run_pieces(kernel.mean_from_modes, cuts, self.plan, self.state, self.t, mean, scatter)
        return MeanAndScatter(problem.n_nodes, mean[self.plan.position], float(scatter.sum()))

    def require_sound(self) -> None:
        """No column may be ahead of the run: a kernel would never end on a negative gap."""
        if not (self.stamp.min() >= 0 and self.stamp.max() <= self.t):
            raise CheckpointError(f"the checkpoint's stamps are not between 0 and its iteration {self.t}.")

    def warm_up(self, method: OneSample, problem: Problem, net: Network) -> None:
        """With no iteration, or one of no samples: a copy of the state may not fit into memory."""
        self._advance(problem, np.zeros((0, problem.n_nodes), np.int64))
        if self._by_columns:
            self._advance_columns(problem, np.zeros(0, np.int64), self.t, np.zeros(0, np.int64))


def spectrum_of(net: Network) -> kernel.Spectrum:
    """The spectrum of the network's W~."""
    return kernel.Spectrum(net.topology.eigenvalues, net.topology.eigenvectors)


def plan_of(rule: Recursion, problem: Problem, net: Network) -> kernel.ModePlan:
    """The tables of the lazy form for this step size and topology; the effects of deltas are still to be filled in."""
    return kernel.plan_modes(problem.csr, problem.k, problem.dim, rule, problem.lam, spectrum_of(net))
