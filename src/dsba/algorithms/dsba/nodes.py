"""The form in which every node of DSBA-s or DSA-s is an object that sees nothing but its messages (``node.py``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from dsba.algorithms.dsba.form import Start
from dsba.algorithms.dsba.lazy import plan_of
from dsba.algorithms.dsba.node import Common, Lazy, Replay, SparseNode, hold_round, shards
from dsba.algorithms.iterates import Iterates, StackedRows
from dsba.errors import CheckpointError
from dsba.network import Network
from dsba.network.messages.routing import Routing
from dsba.network.messages.wire import Bounds
from dsba.problem.problem import Problem
from dsba.types import Array, Arrays, Indices

if TYPE_CHECKING:
    from dsba.algorithms.dsba.one_sample import OneSample


@dataclass
class NodesForm:
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
        held = shards(begin.components, common.rule, begin.phi)
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

    def iterates(self, problem: Problem) -> Iterates:
        return StackedRows(problem, self.rows())

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


def _common(method: OneSample, problem: Problem, net: Network, begin: Start, lazy: bool) -> Common:
    """What all nodes know."""
    topology = net.topology
    rule = method.recursion(problem)
    rows, sizes = begin.components.layout.rows, begin.components.all_sizes
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
