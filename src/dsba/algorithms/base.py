"""What every algorithm is: a frozen dataclass of hyper-parameters with ``init`` and ``step``.

The module also exports the types that a method is written with.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np

from dsba.algorithms.iterates import Iterates, StackedRows
from dsba.algorithms.needs import Need
from dsba.algorithms.open_constants import OpenConstant, SearchRange
from dsba.algorithms.sampling import INDEPENDENT
from dsba.errors import InputError, as_number, require_known
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.network.contract import ITERATES
from dsba.problem.problem import Problem
from dsba.types import Array, Indices

__all__ = ["Algorithm", "Array", "CountedState", "Indices", "Network", "Problem", "State", "Topology", "WithCoins"]
NO_COINS: Array = np.empty(0)


@dataclass
class State:
    """What an algorithm remembers: a dataclass of arrays and numbers, at least the iterates and their count.

    Fields with metadata {"static": True} are rebuilt by ``init`` and not checkpointed.

    Parameters
    ----------
    Z : numpy.ndarray
        The iterates of the nodes, one row each.
    t : int
        Iterations so far.

    Examples
    --------
    >>> import numpy as np
    >>> from dsba.algorithms import State
    >>> State(np.zeros((4, 30))).t
    0
    """

    Z: Array
    t: int = field(default=0, kw_only=True)


@dataclass
class CountedState(State):
    """Of a method that counts the samples it touches."""

    touched: float = field(default=0.0, kw_only=True)


@dataclass(frozen=True)
class Algorithm:
    """Base of the algorithms. A subclass gives ``name``, ``init``, ``step`` and step-size rules.

    ``step`` is the definition. It is pure: it leaves the state it is given alone and returns a new one, which the
    engine checks once, before the run. ``advance`` makes many steps at once and may be a fused kernel that
    reuses the arrays of the state it is given, as long as it returns what ``step`` would.

    Parameters
    ----------
    step_size : float or str
        A number, or the name of a rule such as "auto".

    Examples
    --------
    >>> import dsba
    >>> isinstance(dsba.algorithms.get("extra"), dsba.algorithms.Algorithm)
    True
    """

    step_size: float | str = "auto"

    name: ClassVar[str] = ""
    linear: ClassVar[bool] = True
    """Whether it converges linearly; sublinear methods are tested for their rate instead."""
    needs: ClassVar[tuple[Need, ...]] = ()
    """What it needs of a problem and a network (``dsba.algorithms.needs``)."""
    composite: ClassVar[bool] = False
    """Whether it has a proximal step, so that it takes problems with a penalty (``dsba.penalties``)."""
    coins: ClassVar[int] = 0
    """How many random numbers in [0, 1) all nodes share in an iteration (``WithCoins``)."""
    one_way_links: ClassVar[bool] = False
    """Whether it runs on directed graphs."""
    proven_on: ClassVar[tuple[str, ...]] = ()
    """The flaws of links (``dsba.network.FLAWS``) on which the method is known to converge."""
    factors: ClassVar[tuple[float, ...]] = (0.1, 0.3, 1.0, 3.0)
    """Multiples of the automatic step size that a search begins with; empty for a method without one to choose."""
    step_bounds: ClassVar[tuple[float, float]] = (0.01, 100.0)
    """Multiples of the automatic step size between which a search stays."""
    opens: ClassVar[tuple[OpenConstant, ...]] = ()
    """The constants besides the step size that a search may choose. One named "step_size" replaces the usual one."""

    rows_mixed: ClassVar[int] = 1
    """Rows of p numbers that a node sends in a round."""
    rows_updated: ClassVar[int] = 3
    """Rows of p numbers that a node goes over in an iteration, besides those it mixes."""

    @property
    def exact_links(self) -> str:
        """Why it needs every message as it was sent, the beginning of a sentence; empty if it does not."""
        return ""

    @property
    def order(self) -> str:
        """In which order a node takes its components (``sampling.draw``)."""
        return INDEPENDENT

    @property
    def discloses(self) -> str:
        """What other nodes learn from a run: "totals", "iterates" or "rows" (of the data)."""
        return ITERATES

    def init(self, problem: Problem, net: Network, z0: Array) -> Any:
        """The state before the first iteration, all nodes at ``z0``."""
        raise NotImplementedError

    def step(self, s: Any, problem: Problem, net: Network, samples: Indices) -> Any:
        """One iteration; ``samples[n]`` is a sample of node n, counted within the node.

        ``problem.components.ids(samples)`` are their places in a table of all samples.
        """
        raise NotImplementedError

    def advance(self, s: Any, problem: Problem, net: Network, samples: Indices) -> Any:
        """One iteration for each row of ``samples``."""
        for row in samples:
            s = self.step(s, problem, net, row)
        return s

    def rows(self, s: Any) -> Array:
        """The iterates, one row for each node held here, in an array that later iterations leave alone."""
        return np.array(s.Z)

    def iterates(self, s: Any, problem: Problem) -> Iterates:
        """The same for measuring, which needs no rows where a method knows their mean and scatter."""
        return StackedRows(problem, self.rows(s))

    def warm_up(self, s: Any, problem: Problem, net: Network, *draws: Any) -> None:
        """Compile what an iteration needs by making one from a copy of the state; ``step`` must leave that alone."""
        twin = _twin(s)
        self.advance(twin, problem, net, *draws)
        if type(self).advance in (Algorithm.advance, WithCoins.advance) and (changed := next(_changes(s, twin), None)):
            raise InputError(
                f"the step of {self.name or type(self).__name__} changed the state it was given ({changed!r}): "
                "it must leave that alone and return a new state."
            )

    def finished(self, s: Any) -> str | None:
        """Why the method has come to its own end, as a sentence; None for a method that goes on until it is stopped."""
        return None

    def settled(self, s: Any, problem: Problem) -> bool:
        """Whether a small residual means that the solution is near."""
        return True

    def choices(self, problem: Problem) -> Indices:
        """Of each node held here, the number of components that ``samples`` are drawn from: its samples."""
        return problem.sizes

    def samples_per_step(self, problem: Problem) -> float:
        """Samples touched in one iteration: all of them, for a full-gradient method."""
        return problem.n_samples

    @property
    def first_passes(self) -> float:
        """The passes over the data that ``init`` takes."""
        return 0.0

    def passes(self, s: Any, problem: Problem) -> float:
        """Samples touched so far over samples held."""
        return s.t * self.samples_per_step(problem) / problem.n_samples + self.first_passes

    def work(self, s: Any, problem: Problem, net: Network) -> float:
        """Multiply-adds so far over those of one sweep of the data: for samples touched, rows mixed, rows updated.

        A sweep is 2 nnz of them: every sample's image, and its way back. A method that does other work overrides this.
        """
        return self.passes(s, problem) + self.row_work(s, problem, net)

    def row_work(self, s: Any, problem: Problem, net: Network) -> float:
        """The part of ``work`` that grows with the dimension: one multiply-add for a number of a row."""
        mixed = self.rows_mixed * net.rounds * (2 * len(net.topology.edges) + problem.n_nodes)
        updated = self.rows_updated * s.t * problem.n_nodes
        return (mixed + updated) * problem.dim / problem.sweep

    def most(self, s: Any, problem: Problem, net: Network) -> dict[str, float]:
        """What an iteration takes at most, by column of the history, for columns where that is known.

        A budget of another column is looked at after every iteration.
        """
        known = type(self).passes is Algorithm.passes
        return {"passes": self.samples_per_step(problem) / problem.n_samples} if known else {}

    def nominal_passes(self, s: Any, problem: Problem) -> float:
        """The paper's convention: one pass per iteration, whatever an inner solver really needs."""
        return self.passes(s, problem)

    def search_ranges(self, problem: Problem, topology: Topology) -> list[SearchRange]:
        """What a search may choose, and in which bounds: around the automatic step size and the method's own values."""
        known = replace(self, step_size="auto").resolved(problem, topology)
        step = (OpenConstant("step_size", start=self.factors, bounds=self.step_bounds),) if self.factors else ()
        declared = {constant.name: constant for constant in (*step, *self.opens)}
        return [constant.searched(getattr(known, name)) for name, constant in declared.items()]

    def grid(self, problem: Problem, topology: Topology) -> list[Self]:
        """Variants of the algorithm that a search begins with: all combinations of what its ranges begin with."""
        ranges = self.search_ranges(problem, topology)
        combinations = product(*(one.start for one in ranges))
        return [replace(self, **{r.name: v for r, v in zip(ranges, chosen, strict=True)}) for chosen in combinations]

    @property
    def alpha(self) -> float:
        """The step size as a number; the engine resolves a rule's name before anything runs."""
        assert not isinstance(self.step_size, str)
        return self.step_size

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """The automatic step size."""
        raise NotImplementedError

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """Named step-size rules; "auto" among them, which is ``auto_step`` unless a method gives several rules."""
        return {"auto": lambda: self.auto_step(problem, topology)}

    def warm_started(self) -> Self:
        """The algorithm for a start near the solution; a method whose usual start forgets z0 changes that here."""
        return self

    def why_not(self, problem: Problem, net: Network) -> str | None:
        """Why the method does not apply to the problem on this network; None if it does.

        A method lists what it needs in ``needs``. One that needs more overrides this and asks its base at the end.
        """
        if problem.penalty is not None and not self.composite:
            return f"it has no proximal step, and the problem has the penalty {problem.penalty!r}."
        if net.topology.directed and not self.one_way_links:
            return "it needs links in both directions, and the graph is directed."
        if self.exact_links and net.flaws:
            return f"{self.exact_links}, and the links have {_listed(net.flaws)}."
        return next(filter(None, (need(problem, net) for need in self.needs)), None)

    def doubts(self, net: Network) -> str:
        """What a result must say where the method is not known to converge on the network; empty elsewhere."""
        if len(net.flaws) <= 1 and net.flaws <= set(self.proven_on):
            return ""
        return f" ({self.name or type(self).__name__} is not known to converge on links with {_listed(net.flaws)})"

    def resolved(self, problem: Problem, topology: Topology) -> Self:
        """The same algorithm with its step size as a number, checked."""
        alpha = self.step_size
        if isinstance(alpha, str):
            rules = self.step_sizes(problem, topology)
            require_known("step size", alpha, rules)
            alpha = rules[alpha]()
        alpha = as_number("step_size", alpha, above=0.0)
        if not math.isfinite(alpha):
            raise InputError(f"step_size must be positive and finite, got {alpha}.")
        return replace(self, step_size=alpha)


def _listed(flaws: frozenset[str]) -> str:
    """Names of flaws in a sentence."""
    return " and ".join(sorted(flaws))


def most_of_a_mixing(net: Network, width: int) -> dict[str, float]:
    """What one mixing of rows of ``width`` numbers takes at most, if it is the mixing matrix alone that mixes them."""
    if not net.mixes_by_matrix:
        return {}
    rounds = float(net.topology.mixing.rounds)
    return {"rounds": rounds, "doubles_max": rounds * width * float(net.topology.degrees.max(initial=0))}


@dataclass(frozen=True)
class WithCoins(Algorithm):
    """Base of methods whose nodes share random numbers, drawn by the engine: ``step`` gets them as one more array.

    Parameters
    ----------
    step_size : float or str
        A number, or the name of a rule such as "auto".

    Examples
    --------
    >>> import dsba
    >>> dsba.algorithms.WithCoins.coins
    1
    """

    coins: ClassVar[int] = 1

    def step(self, s: Any, problem: Problem, net: Network, samples: Indices, coins: Array = NO_COINS) -> Any:
        """One iteration; ``coins`` are the same numbers in [0, 1) at all nodes."""
        raise NotImplementedError

    def advance(self, s: Any, problem: Problem, net: Network, samples: Indices, coins: Array = NO_COINS) -> Any:
        """One iteration for each row of ``samples`` and of ``coins``."""
        for row, common in zip(samples, coins, strict=True):
            s = self.step(s, problem, net, row, common)
        return s

    def most(self, s: Any, problem: Problem, net: Network) -> dict[str, float]:
        """A coin may decide that an iteration takes a pass more."""
        return {"passes": 1.0 + self.samples_per_step(problem) / problem.n_samples}


def kept_fields(state: Any) -> list[str]:
    """The names of what an iteration may change, and a checkpoint keeps."""
    return [f.name for f in fields(state) if not f.metadata.get("static")] if is_dataclass(state) else list(vars(state))


def _twin(state: Any) -> Any:
    """A copy that shares nothing with the state but its static parts."""
    twin = copy.copy(state)
    for name in kept_fields(state):
        object.__setattr__(twin, name, copy.deepcopy(getattr(state, name)))
    return twin


def _changes(state: Any, twin: Any) -> Iterator[str]:
    """The names of what differs between the two."""
    for name in kept_fields(state):
        before, after = getattr(state, name), getattr(twin, name)
        numbers = isinstance(before, np.ndarray) and before.dtype.kind in "fc"
        if not np.array_equal(before, after, equal_nan=numbers):
            yield name
