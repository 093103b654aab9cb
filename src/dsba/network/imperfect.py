"""Imperfect networks: links that lose, delay or change what they carry, nodes that rest, graphs that change over time.

Each is a wrapper of a network and may wrap another wrapper. What happens in a round depends on the wrapper's own
seed, the number of the round and the link, so a run can be stopped and resumed, and every process knows the same.
A network says by ``flaws`` what is wrong with its links. A method declares what it stands: the flaws on which it is
known to converge (``Algorithm.proven_on``), and whether it needs every message as it was sent (``exact_links``). The
two meet in ``Algorithm.why_not``, which refuses, and in ``doubts``, which a result tells. The engine asks every network
to ``rehearse`` an iteration, to hand out draws in ``portions``, for the ``memory`` that a checkpoint keeps, and for its
``identity``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.errors import InputError, as_integer, as_number
from dsba.graph.topology import Topology
from dsba.kernels.mixing import difference_rows
from dsba.network.contract import ROWS_OF_DATA, Boxes
from dsba.network.exact_sum import SparseRows
from dsba.network.transport import Draws, Meeting, Network
from dsba.types import Array, Flags, Integers

LOSS, ONE_WAY_LOSS = "loss", "one-way loss"
DELAY, VARYING_DELAY = "delay", "varying delay"
CHANGE = "changing graph"
COMPRESSION, ROUNDED_ROWS = "compressed changes", "compressed rows"
BURSTS, RESTING = "bursty loss", "resting nodes"
FLAWS = (LOSS, ONE_WAY_LOSS, CHANGE, DELAY, VARYING_DELAY, COMPRESSION, ROUNDED_ROWS, BURSTS, RESTING)
REMEMBERING = frozenset({DELAY, VARYING_DELAY, COMPRESSION})  # such links keep rows of earlier iterations
STREAMS = "streams"  # among what is remembered: how often rows meet in an iteration


class Links(NamedTuple):
    """The links to the owned nodes, in the order of the mixing's CSR rows. The diagonal is no link and has edge -1."""

    indptr: Integers
    receiver: Integers  # among the owned nodes
    sender: Integers  # among all nodes
    edge: Integers  # its place in ``topology.edges``
    upwards: Flags  # whether the sender has the smaller number

    @classmethod
    def of(cls, net: Network) -> Links:
        topology, indptr = net.topology, net.placement.mixing[0]
        N, first = topology.n_nodes, net.nodes.start
        starts, columns, _ = topology.mixing.rows
        sender = columns[starts[first] : starts[net.nodes.stop]]
        receiver = np.repeat(np.arange(len(net.nodes)), np.diff(indptr))
        pairs = np.array(topology.edges, np.int64).reshape(-1, 2)
        key = np.minimum(sender, receiver + first) * N + np.maximum(sender, receiver + first)
        edge = np.searchsorted(pairs[:, 0] * N + pairs[:, 1], key)
        return cls(indptr, receiver, sender, np.where(sender == receiver + first, -1, edge), sender < receiver + first)

    def per_node(self, values: npt.NDArray[np.generic]) -> Array:
        """For each owned node, the sum over the links to it."""
        return np.bincount(self.receiver, values, len(self.indptr) - 1).astype(np.float64)


class Wrapper(Network):
    """A network whose rows are mixed in another way.

    A subclass names its ``flaw``. It defines ``delivered`` if links lose messages, else ``changed`` or ``sent``.
    """

    flaw = ""
    _kept: dict[str, Array]  # by stream: what is remembered for later rounds; and how many streams there are

    def __init__(self, net: Network, seed: int = 0) -> None:
        if not (net.mixes_by_matrix or net.flaws):
            raise InputError(f"{type(self).__name__} wraps only networks whose rows are mixed by the mixing matrix.")
        if net.topology.directed:
            raise InputError(f"{type(self).__name__} wraps networks of undirected graphs, and this graph is directed.")
        if self.flaw in net.flaws:
            raise InputError(f"the links have {self.flaw} already: one wrapper of a kind is enough.")
        self.net, self.seed = net, as_integer("seed", seed, at_least=0)
        self.session = net.session
        super().__init__(net.topology, net.rank, net.size)
        self._directions = 2, max(1, len(self.topology.edges))  # of every edge; a single node has none, and draws one
        self.links = Links.of(net)
        self.flaws = net.flaws | {self.flaw}
        if COMPRESSION in self.flaws and (bad := sorted(self.flaws - {COMPRESSION, DELAY})):
            raise InputError(
                f"compressed changes need links that deliver every message, and these have {bad[0]}: use memory=False."
            )

    # What is the wrapped network's own ------------------------------------------------------------

    def send(self, peer: int, message: bytes, purpose: int) -> None:
        self.net.send(peer, message, purpose)

    def receive(self, peer: int, purpose: int) -> bytes:
        return self.net.receive(peer, purpose)

    @property
    def streams(self) -> int:
        """How often rows meet in an iteration; 1 before the rehearsal."""
        return int(self._kept.get(STREAMS, 1))

    @property
    def memory(self) -> dict[str, Array]:
        return self.net.memory | {f"{self.flaw}.{name}": rows.copy() for name, rows in self._kept.items()}

    @memory.setter
    def memory(self, arrays: Mapping[str, Array]) -> None:
        prefix = f"{self.flaw}."
        self._kept = {n.removeprefix(prefix): np.array(a) for n, a in arrays.items() if n.startswith(prefix)}
        self.net.memory = arrays

    def reset(self) -> None:
        """Counters to zero, and nothing remembered."""
        super().reset()
        self._kept = {}
        self.net.reset()

    def rehearse(self, iteration: Callable[[], None]) -> int:
        """The rehearsal finds out how often rows meet, unless a checkpoint has it."""
        remembered = self.memory
        made = max(super().rehearse(iteration), self.topology.mixing.rounds)
        self.memory = {f"{flaw}.{STREAMS}": np.array(made) for flaw in self.flaws} | remembered
        return made

    def portions(self, draws: Draws) -> Iterator[Draws]:
        """Links that remember rows see one iteration at a time. Each must mix rows as often as the rehearsed one, or
        not at all, or rows of two kinds would be taken for one."""
        if not self.flaws & REMEMBERING:
            yield draws
            return
        for k in range(len(draws[0])):
            before = self.rounds
            yield tuple(drawn[k : k + 1] for drawn in draws)
            if (made := self.rounds - before) not in (0, self.streams):
                raise InputError(
                    f"the method mixed rows {made} times in an iteration, and {self.streams} was expected on links "
                    "that delay or compress: give it a warm_up that mixes as often as it does."
                )

    def exchange(self, outboxes: Boxes, *, discloses: str = ROWS_OF_DATA) -> Boxes:
        """Frames would avoid the flaws of the links, so a method that sends frames needs links without flaws."""
        raise self._unfit("frames")

    def sum(self, rows: Array | SparseRows) -> Array:
        """The same holds for a method that asks for exact sums."""
        raise self._unfit("exact sums")

    def _unfit(self, what: str) -> InputError:
        flaws = ", ".join(sorted(self.flaws))
        return InputError(f"{what} need links that deliver everything, and these have {flaws}.")

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({settings})" + (f" over {self.net!r}" if self.net.flaws else "")

    @property
    def identity(self) -> dict[str, str]:
        return {"links": repr(self)}

    def settings(self) -> dict[str, object]:
        """The settings by which two wrappers of this class are the same."""
        return {"seed": self.seed}

    # Rows -----------------------------------------------------------------------------------------

    def mix(self, Z: Array) -> Array:
        return Z - self.differences(Z)

    def differences(self, Z: Array) -> Array:
        return self.topology.mixing.differences(self._round, Z)

    def laplacian(self, Z: Array) -> Array:
        return self._round(Z, unit=True)

    def _round(self, Z: Array, unit: bool = False) -> Array:
        """One round: the sum over links of weight times (own row - row heard)."""
        met = self.meeting(Z, self.rounds, unit)
        out = np.empty_like(Z)
        difference_rows((self.links.indptr, met.places, np.where(met.up, met.weights, 0.0)), met.rows, out)
        arrived = self.links.per_node(met.arrived)
        self.count(1, *(arrived * cost for cost in met.message))
        return out

    def meeting(self, Z: Array, round: int, unit: bool) -> Meeting:
        return self.changed(self.net.meeting(self.sent(Z, round), round, unit), round, unit)

    def sent(self, Z: Array, round: int) -> Array:
        """The rows that the nodes send."""
        return Z

    def changed(self, met: Meeting, round: int, unit: bool) -> Meeting:
        """What the flaw makes of a round of the wrapped network."""
        kept = self.delivered(round)
        return met._replace(up=met.up & kept, arrived=met.arrived * kept)

    def delivered(self, round: int) -> Flags:
        """Which links deliver their message in the round."""
        raise NotImplementedError

    def _draw(self, round: int) -> np.random.Generator:
        """Random numbers that depend on the seed, the kind of flaw and the round alone."""
        return np.random.default_rng([self.seed, FLAWS.index(self.flaw), round])

    def _stream(self, round: int) -> str:
        """The rows of a method that meet several times in an iteration are told apart by their turn."""
        return str(round % self.streams)


class Lossy(Wrapper):
    """Messages are lost at random, independently of each other.

    A node that receives nothing from a neighbour leaves that neighbour out of its average for the round.

    Parameters
    ----------
    net : Network
        The network to wrap.
    drop : float
        The probability that a message is lost.
    symmetric : bool
        A link works in both directions or in none, so the mean of the rows is kept. If False, each direction is lost by
        itself.
    seed : int
        The seed of the draws.

    Raises
    ------
    InputError
        If the network is not one that can be wrapped, or a number is out of range.

    Examples
    --------
    >>> import dsba
    >>> problem = dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), n_nodes=4, lam=0.1)
    >>> ring = dsba.Topology.ring(4)
    >>> net = dsba.network.Lossy(dsba.Simulator(ring), 0.1)
    >>> print(dsba.solve(problem, ring, "dgd", max_passes=3, network=net).status)
    budget
    """

    def __init__(self, net: Network, drop: float, *, symmetric: bool = True, seed: int = 0) -> None:
        self.drop, self.symmetric = as_number("drop", drop, at_least=0.0), bool(symmetric)
        if not self.drop < 1:
            raise InputError(f"drop must be a probability below 1, got {drop!r}.")
        self.flaw = LOSS if symmetric else ONE_WAY_LOSS
        super().__init__(net, seed)

    def settings(self) -> dict[str, object]:
        return {"drop": self.drop, "symmetric": self.symmetric, "seed": self.seed}

    def delivered(self, round: int) -> Flags:
        lost = self._draw(round).random(self._directions) < self.drop
        direction = 0 if self.symmetric else self.links.upwards.astype(int)
        return ~lost[direction, self.links.edge] & (self.links.edge >= 0)


class Chained(Wrapper):
    """Base of wrappers in which edges or nodes go to and fro between a good and a bad state, each a Markov chain."""

    def _bad(self, draws: Array, to_bad: float, to_good: float) -> Flags:
        """The states of the next round, from one number in [0, 1) each; the first ones have the chain's own shares."""
        before = self._kept.get("bad")
        chance = to_bad / (to_bad + to_good) if before is None else np.where(before > 0, 1.0 - to_good, to_bad)
        bad = draws < chance
        self._kept["bad"] = bad.astype(np.float64)
        return bad


class Bursty(Chained):
    """Losses in bursts, after Gilbert and Elliott: a link is good or bad, in both directions, and changes at random.

    A burst takes 1/``to_good`` rounds in the mean.

    Parameters
    ----------
    net : Network
        The network to wrap.
    to_bad : float
        The probability that a good link becomes bad in a round.
    to_good : float
        The probability that a bad link becomes good in a round.
    drop_good : float
        The probability that a good link loses a round.
    drop_bad : float
        The probability that a bad link loses a round.
    seed : int
        The seed of the draws.

    Raises
    ------
    InputError
        If the network is not one that can be wrapped, or a number is out of range.

    Examples
    --------
    >>> import dsba
    >>> problem = dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), n_nodes=4, lam=0.1)
    >>> ring = dsba.Topology.ring(4)
    >>> net = dsba.network.Bursty(dsba.Simulator(ring), 0.1, 0.5)
    >>> print(dsba.solve(problem, ring, "dgd", max_passes=3, network=net).status)
    budget
    """

    flaw = BURSTS

    def __init__(
        self,
        net: Network,
        to_bad: float,
        to_good: float,
        *,
        drop_good: float = 0.0,
        drop_bad: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.to_bad = _probability("to_bad", to_bad, above=0.0)
        self.to_good = _probability("to_good", to_good, above=0.0)
        self.drop_good, self.drop_bad = _probability("drop_good", drop_good), _probability("drop_bad", drop_bad)
        super().__init__(net, seed)

    def settings(self) -> dict[str, object]:
        names = ("to_bad", "to_good", "drop_good", "drop_bad", "seed")
        return {name: getattr(self, name) for name in names}

    def delivered(self, round: int) -> Flags:
        states, losses = self._draw(round).random(self._directions)
        lost = losses < np.where(self._bad(states, self.to_bad, self.to_good), self.drop_bad, self.drop_good)
        return ~lost[self.links.edge] & (self.links.edge >= 0)


class Activation(Chained):
    """Nodes that rest: a resting node sends nothing and receives nothing in that round. It computes as always.

    Parameters
    ----------
    net : Network
        The network to wrap.
    probability : float or None
        Every node is active with this probability, independently.
    cycle : tuple[int, int] or None
        (active, resting): so many rounds each, in turn; node n begins n rounds later in the cycle.
    chain : tuple[float, float] or None
        (to_rest, to_active): the probabilities of a change in a round.
    seed : int
        The seed of the draws.

    Raises
    ------
    InputError
        If the network is not one that can be wrapped, or a number is out of range.

    Examples
    --------
    >>> import dsba
    >>> problem = dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), n_nodes=4, lam=0.1)
    >>> ring = dsba.Topology.ring(4)
    >>> net = dsba.network.Activation(dsba.Simulator(ring), 0.8)
    >>> print(dsba.solve(problem, ring, "dgd", max_passes=3, network=net).status)
    budget
    """

    flaw = RESTING

    def __init__(
        self,
        net: Network,
        probability: float | None = None,
        *,
        cycle: tuple[int, int] | None = None,
        chain: tuple[float, float] | None = None,
        seed: int = 0,
    ) -> None:
        if (probability, cycle, chain).count(None) != 2:
            raise InputError("who is active needs a probability, a cycle or a chain: give one.")
        self.probability = 1.0 if probability is None else _probability("probability", probability, above=0.0)
        self.cycle = cycle and (as_integer("active", cycle[0], at_least=1), as_integer("resting", cycle[1], at_least=0))
        self.chain = chain and (_probability("to_rest", chain[0]), _probability("to_active", chain[1], above=0.0))
        super().__init__(net, seed)

    def settings(self) -> dict[str, object]:
        return {"probability": self.probability, "cycle": self.cycle, "chain": self.chain, "seed": self.seed}

    def delivered(self, round: int) -> Flags:
        active = self._active(round)
        return active[self.links.sender] & active[self.nodes.start + self.links.receiver]

    def _active(self, round: int) -> Flags:
        """Which of all nodes take part in the round."""
        nodes = np.arange(self.topology.n_nodes)
        if self.cycle:
            return (round + nodes) % sum(self.cycle) < self.cycle[0]
        draws = self._draw(round).random(nodes.size)
        return ~self._bad(draws, *self.chain) if self.chain else draws < self.probability


def _probability(name: str, value: float, **bounds: float) -> float:
    """A number between 0 and 1."""
    found = as_number(name, value, **(bounds or {"at_least": 0.0}))
    if found > 1.0:
        raise InputError(f"{name} must be a probability, got {value!r}.")
    return found


class Delayed(Wrapper):
    """Rows arrive late; a node uses the newest row that has arrived.

    If a method has several rounds in an iteration, a row is used by the next iteration that it reaches in time.

    Parameters
    ----------
    net : Network
        The network to wrap.
    rounds : int or tuple[int, int]
        The delay of all messages, or a pair (least, most) from which each message draws its own.
    seed : int
        The seed of the draws.

    Raises
    ------
    InputError
        If the network is not one that can be wrapped, or a number is out of range.

    Examples
    --------
    >>> import dsba
    >>> problem = dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), n_nodes=4, lam=0.1)
    >>> ring = dsba.Topology.ring(4)
    >>> net = dsba.network.Delayed(dsba.Simulator(ring), 2)
    >>> print(dsba.solve(problem, ring, "dgd", max_passes=3, network=net).status)
    budget
    """

    def __init__(self, net: Network, rounds: int | tuple[int, int], *, seed: int = 0) -> None:
        pair = rounds if isinstance(rounds, (tuple, list)) else (rounds, rounds)
        if len(pair) != 2:
            raise InputError(f"rounds must be a number or a pair (least, most), got {rounds!r}.")
        self.least = as_integer("rounds", pair[0], at_least=0)
        self.most = as_integer("rounds", pair[1], at_least=self.least)
        self.flaw = DELAY if self.least == self.most else VARYING_DELAY
        super().__init__(net, seed)

    def settings(self) -> dict[str, object]:
        return {"rounds": (self.least, self.most), "seed": self.seed}

    def changed(self, met: Meeting, round: int, unit: bool) -> Meeting:
        age, arrived = self._ages(round)
        rows = self._remember(met.rows, round)
        known = (age >= 0) & met.up
        places = met.places + np.maximum(age, 0) * len(met.rows)
        return met._replace(rows=rows, places=places, up=known, arrived=met.arrived * arrived)

    def _ages(self, round: int) -> tuple[Integers, Integers]:
        """For each link: how many iterations ago the newest arrived row was sent (-1: none), and arrivals now."""
        age = np.full(self.links.edge.size, -1)
        arrived = np.zeros(self.links.edge.size, np.int64)
        for past in range(min(self._oldest, round // self.streams), -1, -1):
            delay = self._delays(round - past * self.streams)
            age[delay <= past] = past
            arrived += delay == past
        return age, arrived

    @property
    def _oldest(self) -> int:
        return -(-self.most // self.streams)

    def _delays(self, round: int) -> Integers:
        """The delays, in iterations, of the messages that were sent in the round."""
        draws = self._draw(round).integers(self.least, self.most + 1, size=self._directions)
        return -(-draws[self.links.upwards.astype(int), self.links.edge] // self.streams)

    def _remember(self, rows: Array, round: int) -> Array:
        """The present rows and those of earlier iterations, newest first; the present ones are kept for later."""
        stream = self._stream(round)
        past = self._kept.setdefault(stream, np.zeros((self._oldest, *rows.shape)))
        every = np.concatenate([rows[None], past])
        self._kept[stream] = every[:-1].copy()
        return every.reshape(-1, rows.shape[1])


class Changing(Wrapper):
    """Another graph in every round, with edges among those of the wrapped network's graph.

    A drawn graph has Metropolis-Hastings weights, and it need not be connected.

    Parameters
    ----------
    net : Network
        The network to wrap.
    graphs : Sequence[Topology]
        Topologies that are taken in turn; each has its own mixing matrix.
    p : float or None
        Draw a graph in every round instead: each edge is there with this probability.
    seed : int
        The seed of the draws.

    Raises
    ------
    InputError
        If the network is not one that can be wrapped, or a number is out of range.

    Examples
    --------
    >>> import dsba
    >>> problem = dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), n_nodes=4, lam=0.1)
    >>> ring = dsba.Topology.ring(4)
    >>> net = dsba.network.Changing(dsba.Simulator(ring), p=0.8)
    >>> print(dsba.solve(problem, ring, "dgd", max_passes=3, network=net).status)
    budget
    """

    flaw = CHANGE

    def __init__(self, net: Network, graphs: Sequence[Topology] = (), *, p: float | None = None, seed: int = 0) -> None:
        if (p is None) == (not graphs):
            raise InputError("a changing graph needs a sequence of graphs, or the probability p of an edge: give one.")
        if (rounds := net.topology.mixing.rounds) > 1:
            raise InputError(f"a changing graph mixes in one round, and this mixing takes {rounds}.")
        self.graphs, self.p = tuple(graphs), None if p is None else _probability("p", p, above=0.0)
        super().__init__(net, seed)
        self._weights = [self._weights_on(i, graph) for i, graph in enumerate(self.graphs)]

    def settings(self) -> dict[str, object]:
        return {"graphs": [graph.digest()[:16] for graph in self.graphs], "p": self.p, "seed": self.seed}

    def changed(self, met: Meeting, round: int, unit: bool) -> Meeting:
        up, weights = self._weights[round % len(self.graphs)] if self.graphs else self._drawn(round)
        return met._replace(up=met.up & up, weights=met.weights if unit else weights, arrived=met.arrived * up)

    def _drawn(self, round: int) -> tuple[Flags, Array]:
        """Which links are up, and the weights (I + W)/2 of Metropolis and Hastings on them."""
        assert self.p is not None
        pairs = np.array(self.topology.edges, np.int64).reshape(-1, 2)
        there = self._draw(round).random(len(pairs)) < self.p
        degrees = np.bincount(pairs[there].ravel(), minlength=self.topology.n_nodes)
        own = degrees[self.nodes.start + self.links.receiver]
        up = np.append(there, False)[self.links.edge]
        return up, np.where(up, 0.5 / (1 + np.maximum(own, degrees[self.links.sender])), 0.0)

    def _weights_on(self, number: int, graph: Topology) -> tuple[Flags, Array]:
        """Which links a graph of the sequence has, and its weights (I + W)/2 on them."""
        which, N = f"graph {number} of the sequence has", self.topology.n_nodes
        if graph.n_nodes != N:
            raise InputError(f"{which} {graph.n_nodes} nodes, the network {N}.")
        if extra := set(graph.edges) - set(self.topology.edges):
            raise InputError(f"{which} the edge {min(extra)}, which the network does not have.")
        pairs = self.links.receiver + self.nodes.start, self.links.sender
        return graph.graph.adjacency[pairs], np.where(graph.graph.adjacency[pairs], graph.W_tilde[pairs], 0.0)
