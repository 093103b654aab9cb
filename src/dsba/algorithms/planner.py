"""The planner behind ``algorithm="auto"``: it takes the candidate that is expected to be the fastest.

Estimates are no better than ``ALIKE``. So if other batch sizes are expected to take as long within that, the one with
the fewest passes over the data is taken.

Candidates are newton, dsba (batches of 1, 2, 4, ... samples; dense or compressed rows; mixings of 1, 2, 4, ... rounds)
and p-extra (dense or compressed rows). ``costs.py`` has the model of their rounds, bytes and seconds. All of them send
totals or iterates: no plan shows rows of the data to others.

Some problems need no estimate. Newton is taken where it applies and

- there is no penalty (lambda = 0) or a solution to the last digits is wanted: others may need very many rounds;
- there are at most ``SMALL`` coefficients: it is exact after a few rounds, whatever the conditioning is.

There it goes on to the last digits. A newton that was taken for its time to a tolerance ends at the tolerance.

Where neither newton nor dsba applies (an l1 penalty on many classes), nids is taken. All processes agree on everything
that a plan depends on, so all have the same plan. A run keeps its plan in its checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dsba.algorithms.costs import COMPRESSED, DENSE, USUAL_ACCURACY, Configuration, CostModel, Estimate
from dsba.algorithms.dsba.method import DSBA
from dsba.algorithms.newton import MOST_COLUMNS, Newton
from dsba.algorithms.rivals.p_extra import PExtra
from dsba.graph.link import Link
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem

CANDIDATES = ("newton", "dsba", "p-extra", "nids")
SMALL = 100  # coefficients: a Hessian is one short message
FINE_TOLERANCE = 1e-10  # a relative residual that asks for the last digits
ALIKE = 1.05  # times the least seconds: estimates that cannot be told apart
LINES_SHOWN = 5  # lines of the table


@dataclass(frozen=True)
class MethodPlan:
    """What "auto" took, why, and what it expected of all candidates, the fastest first."""

    chosen: Configuration
    reason: str
    estimates: tuple[Estimate, ...] = ()
    warm: bool = False
    """Whether the start is near the solution."""

    def warm_started(self) -> MethodPlan:
        """As of an ``Algorithm``: the plan for a start near the solution."""
        return replace(self, warm=True)

    @property
    def options(self) -> dict[str, Any]:
        """What the method is given: a newton that was taken for its time to a tolerance ends there."""
        rough = {"rough": True} if self.chosen.name == "newton" and self.estimates else {}
        return self.chosen.options | rough

    @property
    def record_every(self) -> float:
        """Passes between two records, if nobody asks for another number."""
        return next((e.record_every for e in self.estimates if e.configuration == self.chosen), 1.0)

    @property
    def lines(self) -> list[str]:
        """The first lines of the table, of every method and its options the best one."""
        shown = [
            (str(e.configuration), f"{e.rounds:,.0f}", f"{e.megabytes:,.3g}", f"{e.seconds:,.3g}") for e in self.best
        ]
        cells = [("candidate", "rounds", "MB", "seconds"), *shown]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return [
            f"{name:<{widths[0]}}" + "".join(f"  {x:>{w}}" for x, w in zip(numbers, widths[1:], strict=True))
            for name, *numbers in cells
        ]

    @property
    def best(self) -> list[Estimate]:
        """Of every method, and of its ways to communicate, the fastest; at most ``LINES_SHOWN``."""
        found: dict[Any, Estimate] = {}
        for estimate in self.estimates:
            found.setdefault((estimate.configuration.name, estimate.configuration.communication), estimate)
        return list(found.values())[:LINES_SHOWN]

    def __str__(self) -> str:
        return "\n".join([self.reason, *(self.lines if self.estimates else [])])

    def to_dict(self) -> dict[str, Any]:
        """JSON's types, for a checkpoint."""
        return {"chosen": self.chosen, "reason": self.reason, "estimates": self.estimates}

    @classmethod
    def from_dict(cls, kept: Any, topology: Topology) -> MethodPlan:
        """What ``to_dict`` gave; a ValueError if it is something else, or no plan that is made for this graph."""
        try:
            chosen, reason = Configuration(*kept["chosen"]), str(kept["reason"])
            estimates = tuple(Estimate(Configuration(*kind), *map(float, costs)) for kind, *costs in kept["estimates"])
        except (KeyError, TypeError) as error:
            raise ValueError("it has another form than a plan") from error
        most = max(1.0, math.sqrt(topology.kappa_g))
        for one in (chosen, *(estimate.configuration for estimate in estimates)):
            known = one.name in CANDIDATES and one.communication in (None, DENSE, COMPRESSED)
            counts = all(type(count) is int and count >= 1 for count in (one.batch_size or 1, one.gossip))
            if not known or not counts or one.gossip > most:
                raise ValueError(f"a plan is for {', '.join(CANDIDATES)} with dense or compressed rows, got {[*one]}")
        return cls(chosen, reason, estimates)


def plan(
    problem: Problem,
    net: Network,
    *,
    accuracy: float | None = None,
    link: Link | None = None,
    record_every: float | None = None,
    max_passes: float | None = None,
) -> MethodPlan:
    """The plan for a relative residual of ``accuracy``, ``USUAL_ACCURACY`` where nothing is asked for.

    ``link`` is how fast the lines are. With None the network measures it, and knows how many nodes share a core; a
    simulation takes ``Link()``, and a core for each node. Records that
    processes measure together, every ``record_every`` passes, take time as well. With None they are made in every pass,
    and where the link is measured as seldom as is best. A candidate that is expected to need more than ``max_passes``
    comes after all others.
    """
    accuracy = USUAL_ACCURACY if accuracy is None else accuracy
    refusal, unfit = Newton().why_not(problem, net), DSBA().why_not(problem, net)
    if refusal is None and (reason := _always_newton(problem, accuracy)):
        return MethodPlan(Configuration("newton"), f"newton was chosen: {reason}.")
    if unfit and (refusal or problem.dim > MOST_COLUMNS):
        return MethodPlan(Configuration("nids"), f"nids was chosen: dsba does not apply: {unfit}")
    measured = net.measured_link() if link is None else None
    every = (record_every or (None if measured else 1.0)) if net.size > 1 else math.inf
    sharing = (max(1.0, net.crowding), math.ceil(net.topology.n_nodes / net.size)) if measured else ()
    model = CostModel(problem, net.topology, link or measured or Link(), accuracy, every, *sharing)
    most = math.inf if max_passes is None else max_passes
    first, *others = estimates = _ordered(_estimates(model, net), most)
    at = f"{model.link}{' (measured)' if measured else ''}"
    reason = f"{first.configuration} was chosen for {problem.dim:,} coefficients at {at}: about {_about(first.seconds)}"
    second = next((e for e in others if e.configuration.name != first.configuration.name), None)
    reason += f", {second.configuration} about {_about(second.seconds)}." if second else "."
    return MethodPlan(first.configuration, reason, estimates)


def _ordered(estimates: Iterable[Estimate], max_passes: float) -> tuple[Estimate, ...]:
    """The one to take, then the others, the fastest first."""
    found = sorted(estimates, key=lambda e: (e.passes > max_passes, e.seconds))
    kinds = [e.configuration._replace(batch_size=None) for e in found]
    limit = ALIKE * found[0].seconds
    alike = [e for e, kind in zip(found, kinds, strict=True) if kind == kinds[0] and e.seconds <= limit]
    first = min(alike, key=lambda e: e.passes)
    return first, *(e for e in found if e is not first)


def _always_newton(problem: Problem, accuracy: float) -> str | None:
    """Why newton is taken without an estimate."""
    if problem.lam == 0.0:
        return "without a penalty other methods may need very many rounds"
    if accuracy < FINE_TOLERANCE and problem.dim <= MOST_COLUMNS:
        return "to the last digits other methods may need very many rounds"
    if problem.dim <= SMALL:
        return f"for at most {SMALL} coefficients it is exact after a few rounds"
    return None


def _estimates(model: CostModel, net: Network) -> Iterator[Estimate]:
    """Of all candidates that apply."""
    problem = model.problem
    if Newton().why_not(problem, net) is None:
        yield model.newton()
    for communication in (DENSE, COMPRESSED):
        if PExtra(communication=communication).why_not(problem, net) is None:
            yield model.p_extra(communication)
        for b in model.batch_sizes:
            if DSBA(batch_size=b, communication=communication).why_not(problem, net) is None:
                for gossip in model.mixings if communication == DENSE and net.mixes_by_matrix else (1,):
                    yield model.dsba(b, communication, gossip)


def _about(seconds: float) -> str:
    """A duration that a person reads at a glance."""
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 100 * size else f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.2g} seconds"
