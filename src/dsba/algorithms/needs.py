"""What methods need of a problem and of its network.

A need is a function of both. It gives the reason why it is not met, which completes the sentence "the method does not
apply: ...", or None. A method lists its needs; ``Algorithm.why_not`` asks them in order.
"""

import math
from collections.abc import Callable

from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.solvers.newton import unsolvable

Need = Callable[[Problem, Network], str | None]


def objective(problem: Problem, net: Network) -> str | None:
    """For methods that minimise."""
    if problem.has_objective:
        return None
    return f"it minimises an objective, and {type(problem.component).__name__} has none."


def strong_convexity(problem: Problem, net: Network) -> str | None:
    """For methods whose local objectives must have one minimum each."""
    if problem.lam_diag.min() > 0:
        return None
    name, where = type(problem.component).__name__, "" if problem.lam == 0 else " on some coordinates"
    return f"{name}'s local objectives must be strongly convex, and lam is 0{where}."


def lipschitz_gradients(problem: Problem, net: Network) -> str | None:
    """For methods whose steps a loss without a Lipschitz constant would lead astray."""
    if math.isfinite(problem.constants.L):
        return None
    return f"its steps are for gradients with a Lipschitz constant, and {type(problem.component).__name__} has none."


def local_solutions(problem: Problem, net: Network) -> str | None:
    """For methods that solve a problem at every node."""
    reason = unsolvable(problem.component)
    return f"it solves local problems, and {reason}." if reason else None


def one_node(problem: Problem, net: Network) -> str | None:
    """For methods of pooled data."""
    if problem.n_nodes == 1:
        return None
    return f"it is for one node, and this {type(problem.component).__name__} problem has {problem.n_nodes}."


def auc(problem: Problem, net: Network) -> str | None:
    """For methods that maximise the AUC by the extra coordinates a, b and theta."""
    if problem.component.ranks and problem.component.extra == 3:
        return None
    return f"it maximises the AUC over (w, a, b, theta), and the problem is {type(problem.component).__name__}."


def no_intercept(problem: Problem, net: Network) -> str | None:
    """For methods of the AUC alone."""
    return "an AUC does not change with an intercept, and it has no place for one." if problem.intercept else None


def edges(problem: Problem, net: Network) -> str | None:
    """For methods that go along edges."""
    return "it goes along the edges of a graph, and the problem has N = 1." if problem.n_nodes == 1 else None


def single_rounds(problem: Problem, net: Network) -> str | None:
    """For methods that send messages of their own beside the mixing."""
    rounds = net.topology.mixing.rounds
    return f"it sends its messages to neighbours only, and this mixing takes {rounds} rounds." if rounds > 1 else None
