"""What DSBA and DSA share: the table of components, their three forms, and the choice between these.

    "step"   the definition, NumPy on stacked rows
    "dense"  a fused kernel on stacked rows, O(p (edges + N)) work per iteration
    "lazy"   a fused kernel in mode space, O(N^2 nnz) work per iteration

All three give the same iterates up to rounding. "auto" takes the cheaper fused one.

Communication is "dense" (iterates go to the neighbours), "sparse" (DSBA-s: deltas go to everybody, along
the graph) or "cached" (the same, a sample's block sent only once). The iterates are the same: on a
``Simulator`` only the counting differs, on a network that carries messages every node is an object of its
own (``sparse_node.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices
from dsba.algorithms.sparse_node import REPLICAS, Common, NodesState, SparseNode, advance_nodes, hold_round, shards
from dsba.errors import InputError, as_integer, unknown_name
from dsba.kernels.dense import advance_dense, finish_dense
from dsba.kernels.lanes import padded
from dsba.kernels.modes import ModePlan, advance_modes, plan_effects, plan_modes, rows_from_modes, start_modes
from dsba.network import MessageNetwork, Network, Simulator, carries_messages
from dsba.network.routing import Routing
from dsba.network.traffic import Traffic
from dsba.network.wire import Bounds
from dsba.problem import Problem

FORMS = ("auto", "step", "dense", "lazy")
TABLES = ("zero", "full")
COMMUNICATIONS = ("dense", "sparse", "cached")


def _no_memory() -> Indices:
    return np.zeros(0, np.int64)


@dataclass
class RowState:
    """Stacked rows: Z, Z_prev (N x p), the table phi (Q x k), carry (N x p).

    ``sent`` is the memory of the counter ``traffic``, where deltas are sent instead of rows.
    """

    Z: Array
    Z_prev: Array
    phi: Array
    carry: Array
    t: int = 0
    norms: Array | None = field(default=None, metadata={"static": True})
    sent: Indices = field(default_factory=_no_memory)
    traffic: Traffic | None = field(default=None, metadata={"static": True})


@dataclass
class ModeState:
    """The same in mode space: ``modes`` (column, z or v, mode), each column as of ``stamp``."""

    modes: Array
    stamp: Indices
    phi: Array
    plan: ModePlan = field(metadata={"static": True})
    effects: Array = field(metadata={"static": True})
    norms: Array = field(metadata={"static": True})
    t: int = 0
    sent: Indices = field(default_factory=_no_memory)
    traffic: Traffic | None = field(default=None, metadata={"static": True})

    @property
    def Z(self) -> Array:
        """The nodes' iterates now; the state itself stays as it is."""
        out = np.empty((self.plan.basis.shape[0], self.modes.shape[0]))
        rows_from_modes(self.plan, self.modes, self.stamp, self.t, out)
        return out


@dataclass(frozen=True)
class OneSample(Algorithm):
    """Base of DSBA (``backward`` True) and DSA."""

    table: str = "zero"
    """Starting table: "zero" needs no first pass over the data, "full" is the paper's B(z0)."""
    form: str = "auto"
    communication: str = "dense"
    """"dense": iterates to the neighbours; "sparse": deltas to everybody (DSBA-s); "cached": a sample only once."""
    cache_bytes: int | None = None
    """With "cached", what a node remembers of each other node's samples; None is all, 0 is "sparse"."""

    backward: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for kind, name, known in (
            ("form", self.form, FORMS),
            ("table", self.table, TABLES),
            ("communication", self.communication, COMMUNICATIONS),
        ):
            if name not in known:
                raise unknown_name(kind, name, known)
        if self.cache_bytes is not None:
            as_integer("cache_bytes", self.cache_bytes, at_least=0)

    def init(self, problem: Problem, net: Network, z0: Array) -> RowState | ModeState | NodesState:
        """z = z_prev = z0, carry = -(phibar + lam z0): the general step then holds from the start."""
        form = self._form(problem, net)
        rows = np.broadcast_to(z0, (len(problem.nodes), problem.dim))
        if self.table == "full":
            phi = problem.table(np.ascontiguousarray(rows))
            carry = -(problem.average(phi) + problem.lam_diag * rows)
        else:
            phi = np.zeros((problem.y.size, problem.k))
            carry = np.broadcast_to(-problem.lam_diag * z0, rows.shape)
        if self.communication != "dense" and carries_messages(net):
            return self._start_nodes(problem, net, form, z0, phi, carry)
        state: RowState | ModeState
        if form == "step":
            state = RowState(rows.copy(), rows.copy(), phi, carry.copy())
        elif form == "dense":
            state = RowState(rows.copy(), rows.copy(), phi, carry.copy(), norms=self._norms(problem))
        else:
            plan, effects = self._plan(problem, net)
            modes, stamp = start_modes(plan, z0, carry, self.alpha), np.zeros(problem.dim, np.int64)
            state = ModeState(modes, stamp, phi, plan, effects, self._norms(problem))
        if self.communication == "dense":
            return state
        traffic = Traffic(net.topology, problem.start, *problem.csr[:2], problem.k, self._cache_limit)
        if self.table == "full":
            net.count(*traffic.flood(problem.dim))
        return replace(state, sent=traffic.memory(), traffic=traffic)

    def _start_nodes(
        self, problem: Problem, net: MessageNetwork, form: str, z0: Array, phi: Array, carry: Array
    ) -> NodesState:
        """Every owned node as an object; a full table's carries are flooded before the first iteration."""
        topology = net.topology
        setup = topology.diameter if self.table == "full" else 0
        common = Common(
            topology=topology,
            routing=Routing(topology, setup),
            bounds=Bounds(problem.n_nodes, problem.dim, problem.k, tuple(problem.all_sizes.tolist())),
            component=problem.component,
            backward=self.backward,
            alpha=self.alpha,
            lam=problem.lam,
            n_regular=problem.n_regular,
            coef=self._coefficients(problem.lam),
            coef_free=self._coefficients(0.0),
            step=-self.alpha * self._shrink(problem),
            plan=self._plan(problem, net)[0] if form == "lazy" else None,
            cache_bytes=self._cache_limit,
            session=net.session,
        )
        nodes = []
        for n, own, shard in zip(net.nodes, carry, shards(problem, self._norms(problem), phi), strict=True):
            known = np.broadcast_to(own, (problem.n_nodes, problem.dim))  # -lam z0, the same at all nodes
            if setup:  # its own row only
                known = np.zeros(known.shape)
                known[n] = own
            nodes.append(SparseNode(n, common, shard, REPLICAS[form](common, n, shard, z0), known))
        for _ in range(setup):
            hold_round(net, nodes)
            for node in nodes:
                node.settle()
        return NodesState(nodes)

    def advance(self, s: Any, problem: Problem, net: Any, samples: Indices) -> RowState | ModeState | NodesState:
        if isinstance(s, NodesState):
            return advance_nodes(s, net, samples)
        t, sent, traffic = s.t, s.sent, s.traffic
        if isinstance(s, RowState) and s.norms is None:
            s = replace(super().advance(s, problem, net, samples), sent=sent, traffic=traffic)
        elif isinstance(s, RowState) and not isinstance(net, Simulator):
            s = self._advance_meeting(s, problem, net, samples)
        else:
            self._advance_fused(s, problem, net, samples)
            s = replace(s, t=t + len(samples))
            net.tally(len(samples), problem.dim)
        if traffic is not None:  # the rows are a simulation's means: deltas are what moves
            net.tally(-len(samples), problem.dim)
            net.count(*traffic.advance(sent, t, samples))
        return s

    def _advance_fused(self, s: RowState | ModeState, problem: Problem, net: Any, samples: Indices) -> None:
        data = (problem.csr, problem.y, s.norms, problem.weight, problem.start, samples)
        if isinstance(s, ModeState):
            copies = problem.k if s.plan.copied else None
            mode_state = (s.plan, s.effects, s.modes, s.stamp, s.phi, s.t, copies)
            advance_modes(problem.component, self.backward, self.alpha, *data, *mode_state)
            return
        dense = (net.mixing_rows, *self._recursion(problem), s.Z, s.Z_prev, s.phi, s.carry)
        advance_dense(problem.component, self.backward, self.alpha, *data, *dense)

    def _advance_meeting(self, s: RowState, problem: Problem, net: Network, samples: Indices) -> RowState:
        """The dense form where rows come from elsewhere: the same arithmetic, one call per iteration."""
        recursion = self._recursion(problem)
        for row in samples:
            new = net.mix(2 * s.Z - s.Z_prev)
            data = (problem.csr, problem.y, s.norms, problem.weight, problem.start, row)
            rows = (s.Z, s.Z_prev, s.phi, s.carry, new)
            finish_dense(problem.component, self.backward, self.alpha, *data, *recursion, *rows)
            s = replace(s, Z=new, Z_prev=s.Z, t=s.t + 1)
        return s

    def _recursion(self, problem: Problem) -> tuple[Array, tuple[float, float], tuple[float, float], int]:
        """-alpha r per coordinate, (r, damp) with lambda and without, and where the latter begin."""
        coefficients = (self._coefficients(problem.lam), self._coefficients(0.0))
        return (-self.alpha * self._shrink(problem), *coefficients, problem.n_regular)

    def warm_started(self) -> Self:
        """With the full table: a table of zeros would forget where the start is."""
        return replace(self, table="full")

    def samples_per_step(self, problem: Problem) -> int:
        return problem.n_nodes

    def passes(self, s: Any, problem: Problem) -> float:
        return super().passes(s, problem) + (self.table == "full")

    def _coefficients(self, lam: float) -> tuple[float, float]:
        """(r, damp): Z+ = Z + r (W~(2Z - Z_prev) - Z - damp (Z - Z_prev) + ...), without the sample."""
        x = self.alpha * lam
        return (1.0 / (1.0 + x), 0.0) if self.backward else (1.0, x)

    def _shrink(self, problem: Problem) -> Array:
        """r for every coordinate."""
        return 1.0 / (1.0 + self.alpha * problem.lam_diag) if self.backward else np.ones(problem.dim)

    def _norms(self, problem: Problem) -> Array:
        """The samples' squared norms in the metric r."""
        return problem.squared_norms(self._shrink(problem))

    @property
    def _cache_limit(self) -> int | None:
        return self.cache_bytes if self.communication == "cached" else 0

    def _plan(self, problem: Problem, net: Network) -> tuple[ModePlan, Array]:
        spectrum = (net.topology.eigenvalues, net.topology.eigenvectors)
        blocks = (problem.csr, problem.k, problem.dim, problem.n_regular)
        plan = plan_modes(*blocks, *spectrum, self.alpha * problem.lam, self.backward)
        ages = np.zeros(problem.n_nodes, np.int64)
        return plan, plan_effects(*spectrum, self.alpha, problem.lam, self.backward, problem.all_sizes, ages)

    def _form(self, problem: Problem, net: Network) -> str:
        if self.communication != "dense" and carries_messages(net):
            if self.form == "step":
                raise InputError(
                    f"form 'step' sends whole rows, not the messages of communication={self.communication!r}; "
                    "use 'dense', 'lazy' or 'auto'."
                )
        elif not isinstance(net, Simulator):
            if self.communication != "dense":
                raise InputError(
                    f"communication={self.communication!r} needs a network that carries messages (exchange), "
                    f"and {type(net).__name__} does not."
                )
            if self.form == "lazy":
                raise InputError("form 'lazy' with dense communication needs all nodes in one process; use 'auto'.")
            return "dense" if self.form == "auto" else self.form
        if self.form != "auto":
            return self.form
        return "lazy" if lazy_cost(problem) < dense_cost(problem, net) else "dense"


def lazy_cost(problem: Problem) -> float:
    """Nanoseconds per iteration of the lazy form: every nonzero of N samples moves padded(N) modes."""
    nonzeros = problem.n_nodes * problem.mean_nnz
    return nonzeros * (38.0 + 1.4 * padded(problem.n_nodes))


def dense_cost(problem: Problem, net: Network) -> float:
    """Nanoseconds per iteration of the dense form: every coordinate meets every neighbour."""
    meetings = net.topology.mixing_rows[1].size + 4 * problem.n_nodes
    touched = problem.n_nodes * problem.mean_nnz
    return 1.05 * problem.dim * meetings + 12.0 * touched
