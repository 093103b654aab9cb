"""The choice behind ``algorithm="auto"``: Newton by exact sums for tables, DSBA for wide sparse data.

The cost model. p coefficients, N nodes, q rows at the largest node, nnz nonzeros a row, a tree of the graph of depth D
whose nodes have at most C children, at most G neighbours a node, latency l in seconds, bandwidth w in bits a second.

    newton   I iterations (2 where the operator is affine, 8 elsewhere), and a sum at the start.
             An iteration: one sum of 1 + p + p (p + 1)/2 numbers, and p + 3 numbers from the root to all.
             A sum of m numbers: 4 D rounds of l, and 2 D transfers of 16 m bytes, from C children one after the other.
             What the root broadcasts: D rounds of l, and D transfers of 8 m bytes, to C children one after the other.
             Arithmetic: q nnz^2 + p^3/3 multiplications an iteration.
    dsba     30 passes, so 30 q rounds of l, each with 8 p bytes from G neighbours.
             Arithmetic: 4 nnz multiplications and a microsecond of bookkeeping for each of 30 q samples.

Arithmetic runs at a billion multiplications a second. 30 passes are what DSBA needs where rows have norm 1 and lambda
is 1/(10 Q); unscaled tables need many more, which makes the choice of newton for them safer still. Beyond
``newton.MOST_COLUMNS`` coefficients newton is no candidate: it would solve by conjugate gradients there, and nobody
knows beforehand how many sums these need. Without a penalty (lambda = 0) newton is chosen wherever it applies, and for
a solution to the last digits, as tables want it, wherever it is a candidate: other methods may need very many rounds
there. Newton is no candidate on links with flaws. Where neither applies (an l1 penalty on many classes), nids is taken.
All of these send totals or iterates: no choice shows rows to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dsba.algorithms.newton import MOST_COLUMNS, Newton
from dsba.graph.link import Link
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem

CANDIDATES = ("newton", "dsba", "nids")
PASSES = 30  # of DSBA
SPEED = 1e9  # multiplications a second
BOOKKEEPING = 1e-6  # seconds for one sample of DSBA
FINE_TOLERANCE = 1e-10  # a relative residual for which 30 passes are not enough


@dataclass(frozen=True)
class Choice:
    """An algorithm's name, and why it was chosen: one sentence."""

    name: str
    reason: str
    seconds: Mapping[str, float] = field(default_factory=dict)
    """What the cost model estimates for each candidate, where it was asked."""
    warm: bool = False
    """Whether the start is near the solution."""

    def warm_started(self) -> Choice:
        """As of an ``Algorithm``: the choice for a start near the solution."""
        return replace(self, warm=True)


def choose(
    problem: Problem,
    net: Network,
    *,
    tol: float = 1.0,
    link: Link | None = None,
    most_rows: int | None = None,
) -> Choice:
    """The algorithm that the cost model of this module estimates to be the fastest to a relative residual of ``tol``.

    ``link`` is how fast the lines are, ``Link()`` by default. ``most_rows`` is the user's number of rows at the
    largest node, if the problem holds long rows as several samples. All processes of a problem come to the same choice.
    """
    from dsba.algorithms.dsba.method import DSBA  # which plans with the constants above

    link = link or Link()
    topology, refusal = net.topology, Newton().why_not(problem, net)
    if problem.lam == 0.0 and refusal is None:
        return Choice("newton", "newton was chosen: without a penalty other methods may need very many rounds.")
    if tol < FINE_TOLERANCE and problem.dim <= MOST_COLUMNS and refusal is None:
        return Choice("newton", "newton was chosen: to the last digits other methods may need very many rounds.")
    unfit = DSBA().why_not(problem, net)
    if unfit and (refusal or problem.dim > MOST_COLUMNS):
        return Choice("nids", f"nids was chosen: dsba does not apply: {unfit}")
    seconds = {} if unfit else {"dsba": _dsba(problem, topology, link)}
    if problem.dim > MOST_COLUMNS:
        why = f"; newton is for at most {MOST_COLUMNS:,} coefficients."
    elif refusal:
        why = f"; newton does not apply: {refusal}"
    else:
        why = "."
        seconds = {"newton": _newton(problem, topology, link)} | seconds
    name = min(seconds, key=lambda candidate: seconds[candidate])
    estimates = " and ".join(f"{_about(value)} for {candidate}" for candidate, value in seconds.items())
    most = int(problem.all_sizes.max()) if most_rows is None else most_rows
    facts = f"{problem.dim:,} coefficients, {most:,} rows at the largest of {problem.n_nodes} nodes"
    return Choice(name, f"{name} was chosen for {facts}: about {estimates} at {link}{why}", seconds)


def _newton(problem: Problem, topology: Topology, link: Link) -> float:
    p, q = problem.dim, int(problem.all_sizes.max())
    tree = topology.graph.tree
    iterations = 2 if problem.component.affine else 8
    children = int(tree.children.max(initial=0))

    def question(rounds: int, size: float) -> float:
        return tree.depth * link.seconds(rounds, size * children)

    derivatives = question(4, 2 * 16 * (1 + p + p * (p + 1) / 2))
    arithmetic = (q * problem.mean_nnz**2 + p**3 / 3) / SPEED
    return derivatives + iterations * (derivatives + question(1, 8 * (p + 3)) + arithmetic)


def _dsba(problem: Problem, topology: Topology, link: Link) -> float:
    neighbours = int(topology.degrees.max(initial=0))
    transfer = link.seconds(neighbours > 0, 8 * problem.dim * neighbours)
    return PASSES * int(problem.all_sizes.max()) * (transfer + 4 * problem.mean_nnz / SPEED + BOOKKEEPING)


def _about(seconds: float) -> str:
    """A duration that a person reads at a glance."""
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 100 * size else f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.2g} seconds"
