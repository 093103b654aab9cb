"""The step sizes of DSBA and DSA, and what they are made of; the reasons are in docs/guide.md and docs/rounds.md."""

import math

import numpy as np

from dsba.errors import InputError
from dsba.graph.topology import Topology
from dsba.problem.components import counts
from dsba.problem.problem import Problem

LEAST_SHARE = 0.4  # of the steepest slope, that DSA's steps are planned with: logistic loss has 0.42
BEYOND_POINT_SAGA = 1.5  # times Point-SAGA's step for the batches themselves
BEYOND_CAP = 1.5  # times the graph's cap, at most, for batches of squared losses on wide data


def practical_step(problem: Problem, topology: Topology, batch_size: int = 1, relief: float = 1.0) -> float:
    """min(1/sqrt(q L mu), 2 sqrt(gamma / (mu L_node)), the operator's longest step), q components at the largest node;
    for batches of losses whose slopes change, at most 1.5/sqrt(q mu (L_node + L)) as well.

    The first balances two rates, which docs/mathematics.md derives: a pass contracts z by about q alpha mu, and the
    table by 1/(1 + alpha L), L the constant of the hardest component. It is Point-SAGA's step where L/mu is far above
    q, and longer elsewhere. The second is P-EXTRA's, L_node the smoothness of the local operators: what limits a node
    that takes all its samples at once limits one that takes some. A batch of b samples counts with L/b, the constant of
    rows that do not overlap: what rows have in common moves all batches alike, and a backward step is stable however
    large it is. The first rule is for cocoercive components. For AUC, half of it came nearest to the saddle point on
    five real sets together: 0.3 is better on the most unbalanced, 1 on the sparsest.
    What rows have in common makes a batch's own constant about L_node + L/b. On dense data 1.5 times Point-SAGA's step
    with that one is the limit, and longer steps cost up to twice the passes; on text it is above the other two. With
    squared losses it was too short on some sets.
    ``relief`` is how many times the slopes at the iterates are below the bounds that L_node is made of. It lengthens
    these two steps only: the first one is the limit of noise, and was too long with it. For batches of squared
    losses on data with more columns than samples, where lambda is the smallest curvature for certain, the geometric
    mean of both steps came out better than the second, up to one and a half times the second.
    """
    mu, q = planned_convexity(problem), int(counts(problem.all_sizes, batch_size).max())
    L = problem.constants.L_plan * q / problem.constants.q
    alpha = 1 / math.sqrt(q * mu * L)
    gamma = relief * topology.gamma
    if alpha > 2 * math.sqrt(gamma / (mu * problem.constants.L_mean)):  # else L_node <= L_mean will do
        cap = 2 * math.sqrt(gamma / (mu * float(problem.local_smoothness.max())))
        squares = problem.component.affine and problem.component.cocoercive and problem.dim > problem.n_samples
        beyond = BEYOND_CAP if squares and batch_size > 1 else 1.0
        alpha = min(alpha, max(cap, min(beyond * cap, math.sqrt(alpha * cap))))
    if batch_size > 1 and slopes_change(problem):
        overlapping = float(problem.local_smoothness.max()) + L
        alpha = min(alpha, BEYOND_POINT_SAGA * math.sqrt(relief / (q * mu * overlapping)))
    alpha = min(alpha, problem.component.longest_step)
    return alpha if problem.component.cocoercive else 0.5 * alpha


def planned_convexity(problem: Problem) -> float:
    """The strong monotonicity mu to plan with: lambda, 1/(10 Q), or a tenth of s m sqrt(m/M), whichever is largest.

    Where samples are many and columns few, data adds much to lambda: in all but a few directions. m is the mean
    eigenvalue of the data's curvature and M the largest one; s is the share of the steepest slope that a loss still has
    at scores of 2. The more uneven eigenvalues are, the further below m are the small ones that count. Exponent and
    tenth came out best over 13 dense problems; wide sparse data has so many columns that it never counts. With 1/(10 Q)
    the step does not grow without bound as lambda goes to 0.
    """
    mu, mean = max(problem.lam, 1.0 / (10 * problem.n_samples)), problem.mean_curvature / 10
    if mean <= mu or not problem.component.cocoercive:
        return mu
    unevenness = float(problem.local_smoothness.mean()) / problem.mean_curvature
    return max(mu, slope_share(problem) * mean / math.sqrt(unevenness))


def slopes_change(problem: Problem) -> bool:
    """Whether slopes at the iterates may be below their bounds, so that a step size of batches is planned again."""
    component = problem.component
    return component.k == 1 and component.has_curvature and component.cocoercive and not component.affine


def forward_step(problem: Problem, topology: Topology, batch_size: int, compressed: bool = False) -> float:
    """DSA's: 1/(s L/3 + 3 s L_node + lambda), at most 4/(mu q), down to half where W~ has small eigenvalues; AUC:
    1/(L + lambda).

    SAGA's 1/(3L) is for the worst case, components that all pull the same way. Where rows hardly overlap, the
    smoothness L_node of a node's mean is far below L, and steps of 3/L are stable; where they do overlap, 1/L is the
    limit. s is ``slope_share``, in s L/3 at least ``LEAST_SHARE``, and 1 where rows are compressed: longer steps cost
    more rounds there. One node is SAGA, and has its step; so has a loss whose slopes have no bound, as Poisson's. A
    table of q components is renewed in q iterations, and a step of 4/(mu q) contracts enough in that time: longer ones
    add noise and nothing else. What small eigenvalues cost is EXTRA's (5 + 3 lambda_min(W)) / 4.
    """
    factor, L = min(1.0, 0.5 + 1.5 * float(topology.eigenvalues[-1])), problem.batches(batch_size).smoothness
    if topology.n_nodes == 1 or not np.isfinite(problem.constants.L):
        return factor / (3 * (L + problem.lam))
    limit = L
    if problem.component.cocoercive:
        share = slope_share(problem)
        single = 1.0 if compressed else max(share, LEAST_SHARE)
        limit = single * L / 3 + 3 * share * float(problem.local_smoothness.max())
    q = int(counts(problem.all_sizes, batch_size).max())
    return min(factor / (limit + problem.lam), 4 / (planned_convexity(problem) * q))


def slope_share(problem: Problem) -> float:
    """The largest slope at scores of 2 and -2, over the bound that steps are planned with; at most 1."""
    component, y = problem.component, problem.y
    if not component.has_curvature:
        return 1.0
    first = np.eye(problem.k)[0]
    slopes = [
        np.abs(component.curvature(np.tile(score * first, (y.size, 1)), np.tile(first, (y.size, 1)), y)).max(axis=1)
        for score in (2.0, -2.0)
    ]
    share = np.max(np.stack(slopes) / component.planning_slopes(y))
    return min(1.0, float(problem.group.largest(np.array([share]))[0]))


def finite_lipschitz(problem: Problem, batch_size: int = 1) -> float:
    """The largest Lipschitz constant of a component, or an error where there is none."""
    L = problem.constants.L
    if not math.isfinite(L):
        name = type(problem.component).__name__
        raise InputError(f"{name} has no finite Lipschitz constant: give a step size, or 'auto'.")
    return L if batch_size == 1 else problem.batches(batch_size).smoothness


def proved_lipschitz(problem: Problem, batch_size: int = 1) -> float:
    """As ``finite_lipschitz``, where the theorem of docs/mathematics.md covers the problem; an error elsewhere."""
    L = finite_lipschitz(problem, batch_size)
    if not problem.component.cocoercive:
        reason = f"the components of {type(problem.component).__name__} are not cocoercive"
    elif not problem.lam > 0:
        reason = "lambda is 0"
    elif problem.n_regular < problem.dim:
        reason = "lambda does not act on every coordinate (an intercept, or extra coordinates)"
    else:
        return L
    raise InputError(f"no step size is proved for this problem: {reason}; use 'auto', or 'paper' for its 1/(24 L).")
