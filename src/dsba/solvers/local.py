"""The local problems that P-EXTRA, SSDA, MSDA, D-ADMM and dual block descent solve at the nodes.

At node n, with A its stacked samples, s(u) = (c_n/q_n) g(u) times the sample's weight, and
D = Lambda + tau_n, find the z with

    F(z) = A' s(A z) + D z - rhs = 0.

tau = 1/alpha gives the resolvent of the local operator, tau = 0 the gradient of the convex conjugate.
All solvers here are Newton's iteration on F from the last solution. For an affine operator one step is enough, with a
factorisation that lasts the whole run; the others need a few. Where the samples are the short side, the whole
iteration takes place in the space of the samples.

F is made ``accuracy`` times as small as it was at the last solution. In an outer method that is the change
of rhs, so the inner error shrinks with the outer steps.
"""

import math
from collections.abc import Callable, Container
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba._system.threads import CORES, WORTH, one_blas_thread
from dsba.problem.problem import Problem
from dsba.solvers import linear
from dsba.solvers.linear import CountedRows, Tally, dot
from dsba.solvers.newton import STEP_ROUNDING, Equation, Point, iterate, line_search, step
from dsba.types import Array

ACCURACY = 1e-2  # the outer iterates are then those of exact solutions to three digits; 1e-1 costs iterations
RENEW = 0.1  # a Newton step that shrinks F less than this was made with slopes too old
MAX_LOCAL_STEPS = 100


class Solution(NamedTuple):
    """The solutions of all nodes, with what the next solve needs to begin there."""

    Z: Array
    values: Array
    """Row n: the right-hand side for which z_n is the solution."""
    inner: Array
    """For each node, numbers in the space of its samples; what they are is the node's matter."""


class Node(NamedTuple):
    """How a node solves: a Point's ``u`` is whatever both functions agree on."""

    begin: Callable[[Array], Point]
    solve: Callable[[Array, Point, float], Point]  # (rhs, last solution, relative accuracy) -> solution
    width: int
    """The length of ``u``."""


class LocalSolver:
    """Solves B_n(z_n) + (Lambda + tau_n) z_n = rhs_n for every node n.

    ``touched`` is what the factorisations cost: sample visits, and multiply-adds. A solver remembers nothing of its
    solutions: the caller keeps the last one.
    """

    def __init__(self, problem: Problem, tau: npt.ArrayLike, accuracy: float = ACCURACY) -> None:
        taus = np.broadcast_to(np.asarray(tau, dtype=np.float64), len(problem.nodes))
        self.accuracy = accuracy
        self.parallel = problem.A.nnz >= WORTH
        self.equations = [_equation(problem, n, problem.lam_diag + tau_n) for n, tau_n in enumerate(taus)]
        self.nodes: list[Node] = self._for_every_node(lambda n: _node(self.equations[n]))
        self.cuts = np.concatenate([[0], np.cumsum([node.width for node in self.nodes])])
        self.touched = self._spent()

    def begin(self, Z: Array) -> tuple[Solution, Array]:
        """Z as a solution to begin with, and what it cost to make it one (as ``touched``)."""
        return self._solution(lambda n: self.nodes[n].begin(Z[n]))

    def solve(self, rhs: Array, last: Solution, at: Container[int] | None = None) -> tuple[Solution, Array]:
        """The solution for ``rhs``, and what it cost to find it from the ``last`` one (as ``touched``).

        With ``at`` only these nodes solve; the others keep what they have.
        """

        def solve(n: int) -> Point:
            before = Point(last.Z[n], last.inner[self.cuts[n] : self.cuts[n + 1]], last.values[n])
            return before if at is not None and n not in at else self.nodes[n].solve(rhs[n], before, self.accuracy)

        return self._solution(solve)

    def _solution(self, work: Callable[[int], Point]) -> tuple[Solution, Array]:
        before = self._spent()
        Z, inner, values = zip(*self._for_every_node(work), strict=True)
        return Solution(np.stack(Z), np.stack(values), np.concatenate(inner)), self._spent() - before

    def _for_every_node(self, work: Callable[[int], Any]) -> list[Any]:
        """One node per core: a BLAS that splits one node's small matrices is many times slower on busy cores."""
        nodes = range(len(self.equations))
        with one_blas_thread():
            if not self.parallel:
                return [work(n) for n in nodes]
            with ThreadPoolExecutor(CORES) as pool:
                return list(pool.map(work, nodes))

    def _spent(self) -> Array:
        """Visits to samples, and multiply-adds. A product with A or A' is half a visit to each sample of the node."""
        visits = sum(equation.A.tally.products * equation.y.size for equation in self.equations) / 2
        return np.array([visits, sum(equation.A.tally.multiply_adds for equation in self.equations)])


def _equation(problem: Problem, n: int, D: Array) -> Equation:
    first, last = problem.start[n], problem.start[n + 1]
    A = CountedRows(problem.A[first * problem.k : last * problem.k], Tally())
    scale = problem.weight[first:last] / (last - first)
    return Equation(problem.component, A, problem.y[first:last], scale, D)


def _node(equation: Equation) -> Node:
    """The cheapest solver for a node's problem."""
    rows, columns = equation.A.shape
    short = columns > linear.SHORT_COLUMNS and rows <= linear.SHORT_ROWS
    if short and equation.component.k == 1 and linear.subtractable(equation.A, equation.scale, equation.D):
        space = _SampleSpace(equation)
        return Node(space.begin, space.solved, 2 * rows)
    return Node(equation.at, (_direct if equation.component.affine else _newton)(equation), rows)


def _direct(equation: Equation) -> Callable[[Array, Point, float], Point]:
    """z - J^-1 F(z): exact up to rounding, and what rounding leaves is corrected by the next call."""
    solve = equation.system(np.zeros(equation.A.shape[0]))
    return lambda rhs, last, accuracy: step(equation, last, last.value - rhs, accuracy, solve)


def _newton(equation: Equation) -> Callable[[Array, Point, float], Point]:
    """At least one step, so that a solve never costs nothing, and more until F is small enough."""
    D = equation.D

    def node(rhs: Array, last: Point, accuracy: float) -> Point:
        first = _size(last.value - rhs, D)
        enough = max(accuracy * first, STEP_ROUNDING * (_size(last.value, D) + _size(rhs, D)))

        def judge(point: Point, F: Array) -> float | None:
            size = _size(F, D)
            if point is not last and not size > enough:
                return None
            return max(0.5 * enough / size, min(0.1, size / first)) if size > 0.0 else 1.0

        return iterate(equation, last, lambda point: point.value - rhs, judge, MAX_LOCAL_STEPS)

    return node


class _SampleSpace:
    """An iteration of its own, in the space of the samples: a step there makes no product with A or A'.

    Points have the form  z = D^-1 (rhs - rest c - A'v), c the change of rhs since the last solution, where rest = 1.

    With G = A D^-1 A' and b(r) = A D^-1 r, the images are u = b(rhs) - rest b(c) - G v, and

        F(z) = A' rho - rest c,       rho = s(u) - v.

    A step d changes rest by -rest, v by dv = rho - R (I + R G R)^-1 R (G rho - rest b(c)), R = diag(s')^1/2,
    and u by rest b(c) - G dv. What a point keeps in place of its images are v and b(rhs - rest c).
    """

    def __init__(self, equation: Equation) -> None:
        self.equation, self.G = equation, equation.A.gram_of_rows(1.0 / equation.D)
        self.fixed = self.system(np.zeros(equation.A.shape[0])) if equation.component.affine else None

    def system(self, u: Array) -> tuple[Array, Callable[[Array], Array]]:
        """R, and how to solve with I + R G R."""
        R = np.sqrt(self.equation.slopes(u))
        return R, linear.short_side(self.G, R, self.equation.A.tally)

    def begin(self, z: Array) -> Point:
        point = self.equation.at(z)
        v = self.equation.s(point.u)
        return point._replace(u=np.concatenate([v, point.u + self.times_G(v)]))

    def times_G(self, v: Array) -> Array:
        self.equation.A.tally.solved(v.size)
        return self.G @ v

    def solved(self, rhs: Array, last: Point, accuracy: float) -> Point:
        """The solution for another right-hand side, from the last one."""
        equation, A, D = self.equation, self.equation.A, self.equation.D
        (v, b), change = np.split(last.u, 2), rhs - last.value
        b_rhs, rest, before = A.times(rhs / D), 1.0, 0.0
        b_change, c = b_rhs - b, dot(change, change / D)
        enough = max(accuracy * math.sqrt(c), STEP_ROUNDING * (_size(rhs, D) + _size(last.value, D)))
        for _ in range(MAX_LOCAL_STEPS):
            u = b_rhs - rest * b_change - self.times_G(v)
            rho = equation.s(u) - v
            image = self.times_G(rho) - rest * b_change
            size = math.sqrt(max(0.0, dot(rho, image) + rest * (rest * c - dot(b_change, rho))))
            if not size > enough:
                break
            if size > RENEW * before:
                R, solve = self.fixed or self.system(u)
            before, dv = size, rho - R * solve(R * image)
            w = rest * b_change - self.times_G(dv)
            tail = rest * (rest * c - dot(b_change, dv))
            t = line_search(equation.along(u, w), -dot(v, w) - tail, tail - dot(dv, w))
            v, rest = v + t * dv, (1.0 - t) * rest
        value = rhs - rest * change
        return Point((value - A.spread(v)) / D, np.concatenate([v, b_rhs - rest * b_change]), value)


def _size(F: Array, D: Array) -> float:
    """||F|| in the metric D^-1; it bounds the error ||z - z*|| in the metric D."""
    return math.sqrt(dot(F, F / D))
