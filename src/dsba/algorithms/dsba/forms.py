"""The forms of DSBA and DSA: the same iterates, held and advanced in four ways.

    StepForm    the definition, NumPy on stacked rows
    DenseForm   a fused kernel on stacked rows, O(p (edges + N)) work per iteration
    LazyForm    a fused kernel in mode space, O(N^2 nnz) work per iteration
    NodesForm   every node an object of its own that sees nothing but its messages

A form is a state that can advance itself. All have one protocol: ``start`` makes it, ``advance`` makes iterations,
``rows`` gives the iterates, ``warm_up`` compiles without changing anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from dsba._system.threads import CORES, WORTH, even_cuts, run_pieces, run_team
from dsba.algorithms.dsba.batches import Blocks, Components, layout
from dsba.algorithms.dsba.node import Common, Lazy, Replay, Shard, SparseNode, hold_round, shards
from dsba.algorithms.iterates import Iterates, MeanAndScatter, StackedRows
from dsba.errors import CheckpointError
from dsba.graph.mixing import Mixing
from dsba.kernels.columns import PIECES, add_columns, change_samples, read_columns, turn
from dsba.kernels.dense import DenseRows, Recursion, advance_dense, finish_dense
from dsba.kernels.modes import (
    PLACES,
    ModePlan,
    ModeState,
    Spectrum,
    advance_modes,
    advance_modes_forward,
    mean_from_modes,
    plan_effects,
    plan_modes,
    rows_from_modes,
    start_modes,
)
from dsba.kernels.thread_pair import Share, shares
from dsba.network import Network
from dsba.network.messages.routing import Routing
from dsba.network.messages.traffic import Traffic
from dsba.network.messages.wire import Bounds
from dsba.problem.problem import Problem
from dsba.types import Array, Arrays, Indices

if TYPE_CHECKING:
    from dsba.algorithms.dsba.one_sample import OneSample

MANY = 600  # nodes from which on the lazy form goes column after column
FOR_TWO = 8_000  # numbers of a sample that two threads share; with fewer, meeting costs more than it gains
REST = 20_000_000  # numbers that one thread goes through alone before two try again; some hundredths of a second


class Start(NamedTuple):
    """Where a run begins: the common z0, the table phi (Q x k), the carries (N x p), and the blocks, if any."""

    z0: Array
    phi: Array
    carry: Array
    blocks: Blocks | None


class Form(Protocol):
    """What every form can do."""

    t: int

    @property
    def Z(self) -> Array:
        """The iterates, as of any state."""
        ...

    @classmethod
    def start(cls, method: OneSample, problem: Problem, net: Network, begin: Start) -> Self:
        """The form before the first iteration."""
        ...

    def advance(self, method: OneSample, problem: Problem, net: Network, samples: Indices) -> Self:
        """One iteration for each row of ``samples``; the arrays of the form may be reused."""
        ...

    def rows(self) -> Array:
        """The iterates of the nodes here, in an array of their own."""
        ...

    def iterates(self, problem: Problem) -> Iterates:
        """The iterates of all nodes, for measuring."""
        ...

    def warm_up(self, method: OneSample, problem: Problem, net: Network) -> None:
        """Compile, or load compiled kernels; nothing changes."""
        ...


def rehearse_meeting(net: Network, Z: Array) -> None:
    """Compile the mixing of rows where they are all here. Elsewhere it would send messages that nobody counts."""
    if net.local_mixing() is not None:
        net.differences(Z)


class HeldRows:
    """Forms that hold rows, or whose nodes do. The rows are measured."""

    def rows(self) -> Array:
        raise NotImplementedError

    def iterates(self, problem: Problem) -> Iterates:
        return StackedRows(problem, self.rows())


def _no_memory() -> Indices:
    return np.zeros(0, np.int64)


@dataclass
class Counted:
    """Counts deltas instead of rows if the simulated method sends deltas. ``sent`` is the memory of ``traffic``."""

    sent: Indices = field(default_factory=_no_memory, kw_only=True)
    traffic: Traffic | None = field(default=None, metadata={"static": True}, kw_only=True)

    @staticmethod
    def ledger(method: OneSample, problem: Problem, net: Network, begin: Start) -> dict[str, Traffic | Indices]:
        """The two fields for a run that begins."""
        if method.communication == "dense":
            return {}
        traffic = Traffic(net.topology, *layout(problem, begin.blocks), method.cache_limit)
        if method.table == "full":
            net.count(*traffic.flood(problem.dim))
        sent = traffic.memory()
        traffic.advance(sent, 0, np.zeros((0, problem.n_nodes), np.int64))  # compiled before the clock runs
        return {"traffic": traffic, "sent": sent}

    def count(self, net: Network, t: int, samples: Indices, width: int) -> None:
        """What iterations t, t + 1, ... moved: rows, or the deltas that stand for them."""
        if self.traffic is None:
            net.tally(len(samples), width)
        else:
            net.count(*self.traffic.advance(self.sent, t, samples))

    def recount(self, net: Network, t: int, samples: Indices, width: int) -> None:
        """The network has counted the rows that it mixed. If the method sends deltas, count those instead."""
        if self.traffic is not None:
            net.tally(-len(samples), width)
            self.count(net, t, samples, width)


@dataclass
class RowState(Counted, HeldRows):
    """Stacked rows: Z, Z_prev (N x p), the table phi (Q x k), carry (N x p)."""

    Z: Array
    Z_prev: Array
    phi: Array
    carry: Array
    t: int = 0

    def rows(self) -> Array:
        return np.array(self.Z)


@dataclass
class StepForm(RowState):
    """Advanced by the method's ``step``."""

    parts: Components = field(metadata={"static": True}, kw_only=True)

    @classmethod
    def start(cls, method: OneSample, problem: Problem, net: Network, begin: Start) -> Self:
        Z = np.tile(begin.z0, (len(problem.nodes), 1))
        ledger = cls.ledger(method, problem, net, begin)
        parts = problem if begin.blocks is None else begin.blocks
        return cls(Z, Z.copy(), begin.phi, begin.carry.copy(), parts=parts, **ledger)  # type: ignore[arg-type]

    def advance(self, method: OneSample, problem: Problem, net: Network, samples: Indices) -> Self:
        s = self
        for row in samples:
            s = method.step(s, problem, net, row)
        self.recount(net, self.t, samples, problem.dim)
        return s

    def warm_up(self, method: OneSample, problem: Problem, net: Network) -> None:
        method.step(self, problem, net, np.zeros(len(problem.nodes), np.int64))


SomeForm = TypeVar("SomeForm", bound=StepForm)


@dataclass
class DenseForm(Counted, HeldRows):
    """Advanced by a fused kernel if all rows are in this process, otherwise by one kernel call after each mixing.

    Stacked rows: Z, V = Z - Z_prev + alpha carry, what rounding left of Z (low), carry (N x p each); the table phi.
    """

    Z: Array
    V: Array
    low: Array
    phi: Array
    carry: Array
    rule: Recursion = field(metadata={"static": True})
    t: int = 0

    @classmethod
    def start(cls, method: OneSample, problem: Problem, net: Network, begin: Start) -> Self:
        Z = np.tile(begin.z0, (len(problem.nodes), 1))
        ledger = cls.ledger(method, problem, net, begin)
        rule = method.recursion(problem)
        state = (Z, method.alpha * begin.carry, np.zeros_like(Z), begin.phi, begin.carry.copy(), rule)
        return cls(*state, **ledger)  # type: ignore[arg-type]

    def rows(self) -> Array:
        return np.array(self.Z)

    def advance(self, method: OneSample, problem: Problem, net: Network, samples: Indices) -> Self:
        mixing = net.local_mixing()
        if mixing is None or mixing.rounds > 1:
            return self._advance_meeting(problem, net, samples)
        self._advance_fused(problem, mixing, samples)
        self.count(net, self.t, samples, problem.dim)
        return replace(self, t=self.t + len(samples))

    @property
    def _rows(self) -> DenseRows:
        return DenseRows(self.Z, self.V, self.carry, self.low)

    def _advance_fused(self, problem: Problem, mixing: Mixing, samples: Indices) -> None:
        """All iterations in one call, in place."""
        data = (problem.component, self.rule, problem.samples, samples)
        advance_dense(*data, mixing.kernel_rows, self._rows, self.phi)

    def _advance_meeting(self, problem: Problem, net: Network, samples: Indices) -> Self:
        """The same arithmetic for rows that are mixed through the network: one kernel call per iteration."""
        for row in samples:
            ahead = self.Z + (self.V - self.rule.alpha * self.carry)
            self._land(problem, row, net.differences(ahead))
        return replace(self, t=self.t + len(samples))

    def _land(self, problem: Problem, samples: Indices, apart: Array) -> None:
        """The part of an iteration after the mixing, in place. ``apart`` is (I - W~)(Z + U)."""
        finish_dense(problem.component, self.rule, problem.samples, samples, self._rows, self.phi, apart)

    def warm_up(self, method: OneSample, problem: Problem, net: Network) -> None:
        mixing = net.local_mixing()
        if mixing is None or mixing.rounds > 1:
            rehearse_meeting(net, self.Z)
            self._land(problem, np.zeros(0, np.int64), np.zeros((0, problem.dim)))
        else:
            self._advance_fused(problem, mixing, np.zeros((0, len(problem.nodes)), np.int64))


@dataclass
class LazyForm(Counted):
    """The same in mode space: ``modes`` (column, z or v, mode), each column as of ``stamp``."""

    modes: Array
    stamp: Indices
    phi: Array
    plan: ModePlan = field(metadata={"static": True})
    rule: Recursion = field(metadata={"static": True})
    t: int = 0

    @classmethod
    def start(cls, method: OneSample, problem: Problem, net: Network, begin: Start) -> Self:
        rule = method.recursion(problem)
        plan = plan_of(rule, problem, net)
        ages = np.zeros(problem.n_nodes, np.int64)
        sizes = problem.all_sizes if begin.blocks is None else begin.blocks.all_sizes
        effects = plan_effects(rule, problem.lam, spectrum_of(net), sizes, ages)
        plan = plan._replace(effects=effects)
        modes = start_modes(plan, begin.z0, begin.carry, method.alpha)
        state = (modes, np.zeros(problem.dim, np.int64), begin.phi, plan, rule)
        return cls(*state, **cls.ledger(method, problem, net, begin))  # type: ignore[arg-type]

    def advance(self, method: OneSample, problem: Problem, net: Network, samples: Indices) -> Self:
        self._advance(problem, samples)
        self.count(net, self.t, samples, problem.dim)
        return replace(self, t=self.t + len(samples))

    @property
    def state(self) -> ModeState:
        """What kernels change."""
        return ModeState(self.modes, self.stamp, self.phi)

    def _advance(self, problem: Problem, samples: Indices) -> None:
        if problem.n_nodes >= MANY:
            place = np.full(problem.dim, -1)
            for t, drawn in enumerate(samples, self.t):
                self._advance_columns(problem, problem.start[:-1] + drawn, t, place)
            return
        if self.rule.backward:
            self._advance_together(problem, samples)
            return
        data = (problem.component, self.rule, problem.samples, samples, self.plan, self.state, self.t)
        advance_modes_forward(*data, self.share(problem))

    def _advance_together(self, problem: Problem, samples: Indices) -> None:
        """With two threads where that is worth it. When others need the machine, the two end early and one goes on
        alone, each time for twice as long, before two try again."""
        alone, numbers = [self.share(problem)], int(problem.mean_nnz * self.modes[0].size)  # of one sample
        if not self.plan.middle or CORES < 2 or numbers < FOR_TWO or numbers * samples.size < WORTH:
            self._advance_by(alone, problem, samples, self.t)
            return
        made, rest = 0, 1 + REST // (numbers * problem.n_nodes)
        while made < len(samples):
            team = shares(problem.k, (0, self.plan.middle, problem.dim))
            made += self._advance_by(team, problem, samples[made:], self.t + made)
            made += self._advance_by(alone, problem, samples[made : made + rest], self.t + made)
            rest *= 2

    def _advance_by(self, team: Sequence[Share | None], problem: Problem, samples: Indices, t: int) -> int:
        """The iterations from t on with these samples; how many of them the team made."""
        data = (problem.component, self.rule, problem.samples, samples, self.plan, self.state, t)
        return run_team(lambda share: advance_modes(*data, share), team)

    def share(self, problem: Problem) -> Share | None:
        """Of one thread that does everything."""
        return shares(problem.k, (0, problem.dim))[0] if self.plan.middle else None

    def _advance_columns(self, problem: Problem, drawn: Indices, t: int, place: Indices) -> None:
        """Iteration t with these samples: turn them into columns, read, resolve, add."""
        k, samples = problem.k, problem.samples
        touched = turn((samples.A[0], self.plan.indices, samples.A[2]), drawn * k, k, place)
        cuts = even_cuts(PIECES, touched.values.size * self.modes.shape[2])
        sums, delta = np.zeros((PIECES, drawn.size * k)), np.empty((drawn.size, k))
        read_at = t + 1 if self.rule.backward else t
        run_pieces(read_columns, cuts, self.plan, self.state, read_at, touched, k, sums)
        change_samples(problem.component, self.rule, samples, drawn * k, sums, self.phi, delta)
        run_pieces(add_columns, cuts, self.plan, self.state, t + 1, touched, delta)

    @property
    def Z(self) -> Array:
        return self.rows()

    def rows(self) -> Array:
        """Reading the iterates leaves the columns where they are."""
        out = np.empty((self.plan.basis.shape[0], self.modes.shape[0]))
        rows_from_modes(self.plan, self.state, self.t, out)
        return out

    def iterates(self, problem: Problem) -> Iterates:
        """In mode space: no row is made."""
        mean = np.empty(self.modes.shape[0])
        scatter = np.empty(-(-mean.size // PLACES))
        cuts = even_cuts(scatter.size, self.modes.size)
        run_pieces(mean_from_modes, cuts, self.plan, self.state, self.t, mean, scatter)
        return MeanAndScatter(problem.n_nodes, mean[self.plan.position], float(scatter.sum()))

    def require_sound(self) -> None:
        """No column may be ahead of the run: a kernel would never end on a negative gap."""
        if not (self.stamp.min() >= 0 and self.stamp.max() <= self.t):
            raise CheckpointError(f"the checkpoint's stamps are not between 0 and its iteration {self.t}.")

    def warm_up(self, method: OneSample, problem: Problem, net: Network) -> None:
        """With no iteration, or one of no samples: a copy of the state may not fit into memory."""
        self._advance(problem, np.zeros((0, problem.n_nodes), np.int64))
        if problem.n_nodes >= MANY:
            self._advance_columns(problem, np.zeros(0, np.int64), self.t, np.zeros(0, np.int64))


@dataclass
class NodesForm(HeldRows):
    """The nodes that this process owns, each an object of its own."""

    nodes: list[SparseNode]
    t: int = 0

    @classmethod
    def start(cls, method: OneSample, problem: Problem, net: Network, begin: Start) -> Self:
        """A full table's carries are flooded before the first iteration."""
        lazy = method.chosen_form(problem, net) == "lazy"
        common = _common(method, problem, net, begin, lazy)
        flooded = bool(common.routing.setup)
        nodes = []
        held = _held(problem, common.rule, begin)
        for n, own, shard in zip(net.nodes, begin.carry, held, strict=True):
            known = np.broadcast_to(own, (problem.n_nodes, problem.dim))  # -lam z0, the same at all nodes
            if flooded:  # its own row only
                known = np.zeros(known.shape)
                known[n] = own
            replica = (Lazy if lazy else Replay)(common, n, shard, begin.z0)
            nodes.append(SparseNode(n, common, shard, replica, known))
        for _ in range(common.routing.setup):
            hold_round(net, nodes)
            for node in nodes:
                node.settle()
        return cls(nodes)

    def advance(self, method: OneSample, problem: Problem, net: Network, samples: Indices) -> Self:
        for row in samples.tolist():
            hold_round(net, self.nodes)
            for node, sample in zip(self.nodes, row, strict=True):
                node.step(sample)
        return replace(self, t=self.t + len(samples))

    @property
    def Z(self) -> Array:
        return self.rows()

    def rows(self) -> Array:
        return np.stack([node.z for node in self.nodes])

    def warm_up(self, method: OneSample, problem: Problem, net: Network) -> None:
        self.nodes[0].rehearse()

    def to_arrays(self) -> Arrays:
        arrays = {f"{node.n}.{name}": array for node in self.nodes for name, array in node.to_arrays().items()}
        return arrays | {"t": np.asarray(self.t)}

    def from_arrays(self, arrays: Arrays) -> Self:
        if "t" not in arrays or arrays["t"].shape != () or arrays["t"].dtype.kind != "i":
            raise CheckpointError("the checkpoint's state does not fit this run: field 't' differs.")
        t = int(arrays["t"])
        for node in self.nodes:
            prefix = f"{node.n}."
            own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            node.restore(own, t)
        return replace(self, t=t)

    def require_sound(self) -> None:
        """As in the lazy form, for what every node rebuilds."""
        for node in self.nodes:
            stamp = node.replica.arrays.get("stamp", np.zeros(1, np.int64))
            if not (stamp.min() >= 0 and stamp.max() <= self.t):
                raise CheckpointError(f"the checkpoint's stamps of node {node.n} are not between 0 and {self.t}.")


def metric(rule: Recursion) -> Array | None:
    """The metric r of the blocks' Gram matrices; None for forward steps, which need none."""
    return 1.0 - rule.shrink if rule.backward else None


def _held(problem: Problem, rule: Recursion, begin: Start) -> list[Shard]:
    if begin.blocks is None:
        return shards(problem.samples, rule, begin.phi, None)
    return shards(begin.blocks.samples, rule, begin.phi, begin.blocks.plan(metric(rule)))


def spectrum_of(net: Network) -> Spectrum:
    """The spectrum of the network's W~."""
    return Spectrum(net.topology.eigenvalues, net.topology.eigenvectors)


def plan_of(rule: Recursion, problem: Problem, net: Network) -> ModePlan:
    """The tables of the lazy form for this step size and topology; the effects of deltas are still to be filled in."""
    return plan_modes(problem.csr, problem.k, problem.dim, rule, problem.lam, spectrum_of(net))


def _common(method: OneSample, problem: Problem, net: Network, begin: Start, lazy: bool) -> Common:
    """What all nodes know."""
    topology = net.topology
    rule = method.recursion(problem)
    rows = problem.k * (1 if begin.blocks is None else begin.blocks.largest)
    sizes = problem.all_sizes if begin.blocks is None else begin.blocks.all_sizes
    return Common(
        topology=topology,
        routing=Routing(topology, topology.diameter if method.table == "full" else 0),
        bounds=Bounds(problem.n_nodes, problem.dim, rows, tuple(sizes.tolist())),
        component=problem.component,
        rule=rule,
        lam=problem.lam,
        plan=plan_of(rule, problem, net) if lazy else None,
        cache_bytes=method.cache_limit,
        session=net.session,
    )
