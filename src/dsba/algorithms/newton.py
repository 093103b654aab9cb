"""Newton's method by exact sums: what a server does for generalised linear models, without the server."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices, Problem, State, Topology
from dsba.errors import FitError, InputError
from dsba.kernels.elimination import eliminate
from dsba.network import Network
from dsba.network.contract import TOTALS
from dsba.operators import Operator
from dsba.solvers.exact import dot
from dsba.solvers.linear import conjugate_gradients
from dsba.solvers.newton import falls, unsolvable

MOST_COLUMNS = 1000  # coefficients up to which a Hessian is summed
LARGEST_REACH = 1e300  # of values that are compared: a sum over all nodes stays finite
WITHHELD_TRIALS = 2  # lengths 1 and 1/2 may be too long for a watch; if 1/8 also is, it ends the run
TRIALS = 10  # step lengths 1, 1/2, 1/8, 1/64, ...: the last one is 2^-45
LAST_STEP = 1e-14  # a step this short, relative to z, is the last one
LAST_ERRORS = 1e-10  # so is one this short in standard errors (of a likelihood, lambda = 0): Newton's decrement
LAST_CHANGE = 4.0 * np.finfo(np.float64).eps  # and one that changes the scores by so little, relative to them
NEAR_ERRORS = 1e-8  # and one this short that is hardly shorter than the step before: what is left is rounding
DEPENDENT = 1e-12  # the share of a column that the columns before it do not explain, below which it depends on them
CLIPPED = 1e-14  # the least pivot of a system with ones on its diagonal
CG_ROUGH = 0.1  # the relative residual of conjugate gradients far from the solution
CG_AFFINE = 1e-10  # and where one system is the whole problem
LIGHT = 0.01  # of the mean weight: samples below are not looked for when labels may be separated
NEWTON_ROUNDING = 1e-12  # a residual this small, relative to the one at the start, may be all rounding

GO, LAST, DEFICIENT, SEPARATED = range(4)  # verdicts on a step
INFORMATION = "information"  # how a sum of the losses, F and H at a point is called in the history of a run

DEPENDENT_SENTENCE = (
    "the data does not determine the coefficients of {columns}: one of these columns is a weighted sum of the others, "
    "or zero; leave one out, or set lam > 0."
)
SEPARATED_SENTENCE = (
    "the labels are separated perfectly by {columns}, and the coefficients there grow without end; leave out what "
    "separates, or set lam > 0."
)
SENTENCES = {DEFICIENT: DEPENDENT_SENTENCE, SEPARATED: SEPARATED_SENTENCE}
INFINITE_SENTENCE = "the sums over the samples are not finite because of too large values in {columns}; rescale them."


@dataclass
class NewtonState(State):
    """Z, the same row for every node, and what is known there."""

    total: Array  # ``problem.derivatives`` at z, summed over all nodes
    scale: Array  # of each coordinate: the root of the Hessian's diagonal at the start
    first: float  # the largest entry of the scaled gradient at the start
    size: float = math.inf  # of the last Newton step, scaled
    errors: float = math.inf  # the length of the last Newton step in standard errors
    straight: int = 0  # steps in a row that were each at least half as long as the step before
    done: bool = False  # no step leads further
    stuck: bool = False  # and not because the solution is reached
    evaluations: int = 1
    zero_at: int = 0  # the iteration at which the method began at 0; -1 if it began elsewhere


class Direction(NamedTuple):
    """A verdict, the step's length in standard errors and scaled, the step, and products with the data it took."""

    verdict: int
    errors: float
    size: float
    d: Array
    products: int = 0


def newton_system(problem: Problem, net: Network) -> str | None:
    """What a step is made of, and shortened by."""
    component, name = problem.component, type(problem.component).__name__
    if reason := unsolvable(component):
        return f"{reason}, and Newton's system is made of it."
    if not (problem.has_objective or component.affine):
        return f"it shortens steps by the objective, and {name} has none."
    if component.has_saddle and not _small(problem):
        return f"{name} with more than {MOST_COLUMNS} coefficients has no symmetric system."
    return None


@dataclass(frozen=True)
class Newton(Algorithm):
    """Newton's method: z+ = z - t H^-1 F(z), with F(z) = (1/Q) sum_i B_i(z) + Lambda z and H its Jacobian.

    All nodes have the same z. Losses, F and H at a trial point are one exact sum over the nodes; a shortened step sums
    its losses first, and F and H only where the objective does not rise. Every process solves the system by itself, by
    an elimination with the same bits on every processor, and no step is sent. t is the first of alpha (1, 1/2, 1/8,
    1/64, ...) at which the objective (AUC: the residual) does not rise by more than rounding. Every node checks this
    itself.

    An iteration of its own, because every trial is a sum over the network, and a checkpoint may lie between two steps.
    Beyond ``MOST_COLUMNS`` coefficients no Hessian is summed: conjugate gradients take one sum of p numbers a step.

    The method goes on until a step is nothing but rounding: its last steps are few, and ``tol`` does not end it
    before (with conjugate gradients it does, unless the steps stay as long as they were; and with
    ``rough``). The last step is made without a sum at its end, so that no matrix is told at a point that differs by
    rounding.

    Nodes send totals only. With lambda = 0 the method finds out whether the data determines the
    coefficients: columns that depend on each other, and labels that are separated, are a ``FitError``. Far from the
    solution a Hessian may vanish whatever the data is. So if the method began elsewhere than at 0, it begins
    again at 0 before it says so, and also where no length of a step leads further.

    Parameters
    ----------
    rough : bool
        Whether a tolerance ends the method, as it does others, unless the steps stay as long as they were.
    """

    rough: bool = False

    name = "newton"
    exact_links = "it sums over all nodes exactly, along a tree of links"
    needs = (newton_system,)
    factors = ()

    @property
    def discloses(self) -> str:
        return TOTALS

    def init(self, problem: Problem, net: Network, z0: Array) -> NewtonState:
        total = _summed(problem, net, z0, chords=True)
        component = problem.component
        # An affine operator leads to the solution from everywhere, and extra coordinates have a start of their own.
        elsewhere = bool(z0.any()) and not component.affine and not component.extra
        if not np.isfinite(total).all():
            if elsewhere:
                return replace(self.init(problem, net, 0.0 * z0), evaluations=2)
            raise _not_finite(problem, net, z0)
        scale = _roots(_curvatures(problem, total))
        first = _largest(_residual(problem, total, z0) / scale)
        return NewtonState(np.tile(z0, (len(problem.nodes), 1)), total, scale, first, zero_at=-1 if elsewhere else 0)

    def _anew(self, problem: Problem, net: Network, t: int, evaluations: int) -> NewtonState:
        """The state at 0, after ``t`` iterations and so many evaluations."""
        start = self.init(problem, net, np.zeros(problem.dim))
        return replace(start, t=t, zero_at=t, evaluations=evaluations + start.evaluations)

    def step(self, s: NewtonState, problem: Problem, net: Network, samples: Indices) -> NewtonState:
        if s.done:  # further steps would be rounding
            return replace(s, t=s.t + 1, evaluations=s.evaluations + 1)
        step = _direction(s, problem) if _small(problem) else _by_gradients(s, problem, net)
        if step.verdict in SENTENCES:
            if s.zero_at < 0:
                return self._anew(problem, net, s.t + 1, s.evaluations + step.products)
            raise _fit_error(problem, SENTENCES[step.verdict], np.flatnonzero(step.d))
        straight, evaluations = s.straight + 1 if step.size > 0.5 * s.size else 0, s.evaluations + step.products
        s = replace(s, t=s.t + 1, size=step.size, errors=step.errors, straight=straight, evaluations=evaluations)
        if step.verdict == LAST and _small(problem):
            return self._last(s, step.d, problem)
        length, before = self.alpha, _merit(problem, s.total, s.Z[0], s)
        for trial in range(1 if step.verdict == LAST else TRIALS):
            z = s.Z[0] + length * step.d
            total = _tried(problem, net, z, trial, s, before)
            if trial >= WITHHELD_TRIALS and problem.watch is not None and not np.isfinite(total).all():
                problem.watch.end()
            s = replace(s, evaluations=s.evaluations + 1)
            if falls(_merit(problem, total, z, s), before) and not _flattened(problem, s.total, total):
                return replace(s, Z=np.tile(z, (len(s.Z), 1)), total=total, done=step.verdict == LAST)
            length *= 0.5 ** (trial + 1)
        stuck = step.errors > NEAR_ERRORS
        if stuck and s.zero_at < 0:
            return self._anew(problem, net, s.t, s.evaluations)
        return replace(s, done=True, stuck=stuck)

    def _last(self, s: NewtonState, d: Array, problem: Problem) -> NewtonState:
        """The state after a step that is nothing but rounding. It is made without a sum, which would tell a matrix."""
        z = s.Z[0] + self.alpha * d
        if problem.watch is not None and problem.watch(z, s.Z[0], _information(problem, s.total)):
            raise InputError("the last step leads where few rows of a site would be shown: nothing was sent there.")
        return replace(s, Z=np.tile(z, (len(s.Z), 1)), done=True)

    def warm_up(self, s: NewtonState, problem: Problem, net: Network, *draws: Indices) -> None:
        """Without a sum where ``init`` has summed a Hessian: between sites each sum tells something and takes time."""
        if _small(problem):
            _direction(s, problem)
        else:
            super().warm_up(s, problem, net, *draws)

    def finished(self, s: NewtonState) -> str | None:
        if not s.done or s.stuck:
            return None
        return f"{s.t} Newton steps, the last one no larger than rounding"

    def settled(self, s: NewtonState, problem: Problem) -> bool:
        """With separated labels the residual also vanishes, but the steps stay as long as they were."""
        if s.t == 0 or s.stuck:
            return not _separated(problem, s.total)
        return (self.rough or not _small(problem)) and s.straight == 0

    def passes(self, s: NewtonState, problem: Problem) -> float:
        """Evaluations and products with the Hessian so far, the evaluation at the start included."""
        return float(s.evaluations)

    def work(self, s: NewtonState, problem: Problem, net: Network) -> float:
        """With the Hessian of every evaluation and one factorisation a step, up to the size where they are made."""
        if not _small(problem):
            return self.passes(s, problem)
        made = s.evaluations * problem.gram_work + s.t * problem.dim**3 / 6
        return self.passes(s, problem) + made / problem.sweep

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """1, Newton's own length, which is halved where it is too long."""
        return 1.0


# The system at a point ----------------------------------------------------------------------------


def _small(problem: Problem) -> bool:
    """Whether Hessians are summed."""
    return problem.dim <= MOST_COLUMNS


def _summed(problem: Problem, net: Network, z: Array, chords: bool, before: NewtonState | None = None) -> Array:
    """``problem.derivatives`` of all nodes; ``chords`` at the start and where Newton's own step went too far.

    A process whose watch does not let its part go sends NaN, which makes the whole sum NaN: the step is shortened.
    """
    own = _held_back(problem, problem.local.derivatives(z, _small(problem), chords), z, before)
    net.about(INFORMATION, z)
    return net.sum(own)


def _held_back(problem: Problem, own: Array, z: Array, before: NewtonState | None) -> Array:
    """The part of this process, or NaN if its watch does not let it go."""
    watch = problem.watch if _small(problem) else None
    held = watch and before and watch(z, before.Z[0], _information(problem, before.total))
    return np.full_like(own, math.nan) if held else own


def _tried(problem: Problem, net: Network, z: Array, trial: int, s: NewtonState, before: float) -> Array:
    """The sums at the end of a step. Where a shortened step raises the objective, only that was summed: no matrix."""
    if trial and problem.has_objective and _small(problem):
        losses = problem.local.losses(problem.local.images_of(z))[:, None]
        total = net.sum(_held_back(problem, losses, z, s))
        if not falls(_merit(problem, total, z, s), before):
            return np.pad(total, (0, s.total.size - 1))
    return _summed(problem, net, z, chords=trial > 0, before=s)


def symmetric(upper: Array, p: int) -> Array:
    """The matrix with this upper triangle, given row by row."""
    matrix = np.zeros((p, p))
    matrix[np.triu_indices(p)] = upper
    return matrix + np.triu(matrix, 1).T


def _information(problem: Problem, total: Array) -> Array:
    """H without Lambda."""
    p = problem.dim
    return symmetric(total[1 + p : 1 + p + p * (p + 1) // 2] / problem.n_samples, p)


def _system(problem: Problem, total: Array) -> Array:
    """H (of a saddle: its symmetric part), of the mean over all samples, with Lambda."""
    H = _information(problem, total)
    H[np.diag_indices(problem.dim)] += problem.lam_diag
    return H


def _curvatures(problem: Problem, total: Array) -> Array:
    """The diagonal of H, whatever was summed: all of H, or that alone."""
    if _small(problem):
        return _system(problem, total).diagonal()
    return total[1 + problem.dim :] / problem.n_samples + problem.lam_diag


def _residual(problem: Problem, total: Array, z: Array) -> Array:
    """F."""
    return total[1 : 1 + problem.dim] / problem.n_samples + problem.lam_diag * z


def _merit(problem: Problem, total: Array, z: Array, s: NewtonState) -> float:
    """What a step must not raise: the objective, or the residual where there is none; NaN if a sum is not finite.

    Every node decides for itself. The sums are exact, so all nodes decide alike.
    """
    if problem.has_objective:
        return float(total[0] / problem.n_samples + 0.5 * dot(problem.lam_diag * z, z))
    residual = _residual(problem, total, z) / s.scale
    return max(_largest(residual), NEWTON_ROUNDING * s.first) if np.isfinite(residual).all() else math.nan


# The step -----------------------------------------------------------------------------------------


def _by_gradients(s: NewtonState, problem: Problem, net: Network) -> Direction:
    """Conjugate gradients at every node, with one exact sum of p numbers a step.

    Inner products are exact sums as well, so that all nodes come to the same bits without a message.
    As in ``solvers.linear``, the diagonal preconditions tall data only, and no softmax: without it the step has no
    part along the shifts that softmax does not feel.
    """
    z, products = s.Z[0], 0
    F, local = _residual(problem, s.total, z), problem.local.products(z)
    diagonal = _curvatures(problem, s.total)
    hold = _held_shifts(problem, diagonal)

    def product(v: Array) -> Array:
        nonlocal products
        products += 1
        return net.sum(local(v)) / problem.n_samples + problem.lam_diag * v + hold(v)

    tall = problem.n_samples >= problem.dim and not _ignores_shifts(problem.component)
    inverse = 1.0 / _roots(diagonal) ** 2 if tall else np.ones(problem.dim)
    accuracy = CG_AFFINE if problem.component.affine else min(CG_ROUGH, _largest(F / s.scale) / s.first)
    d = -conjugate_gradients(product, inverse, F, accuracy, dot)
    return _judged(s, problem, F, d)._replace(products=products)


def _direction(s: NewtonState, problem: Problem) -> Direction:
    """The step from a factorised system, or the columns in question (1 where a coordinate is one of them)."""
    H, F = _system(problem, s.total), _residual(problem, s.total, s.Z[0])
    if problem.component.has_saddle:
        d, flat = _saddle_step(H, F, s.total[-problem.dim :] / problem.n_samples)
    else:
        d, flat = solved(H + _held_shifts(problem, H.diagonal())(np.eye(problem.dim)), -F)
    if flat is not None and s.t in (0, s.zero_at) and problem.lam == 0.0:
        return Direction(DEFICIENT, 0.0, 0.0, flat)
    return _judged(s, problem, F, d)


def _judged(s: NewtonState, problem: Problem, F: Array, d: Array) -> Direction:
    """The step d with a verdict."""
    if (moving := _moving(s, problem, F, d)).any():
        return Direction(SEPARATED, 0.0, 0.0, moving)
    size, reach, change = _largest(s.scale * d), _largest(s.scale * s.Z[0]), math.sqrt(abs(dot(F, d)))
    errors = math.sqrt(problem.n_samples) * change / _deviation(s, problem)
    if change <= LAST_CHANGE * reach:
        errors = 0.0  # an exact fit leaves no residuals to make standard errors of: their unit would also be rounding
    short = size <= LAST_STEP * reach or errors <= LAST_ERRORS
    stalled = errors <= NEAR_ERRORS and errors > 0.5 * s.errors
    return Direction(LAST if short or stalled else GO, errors, size, d)


def _deviation(s: NewtonState, problem: Problem) -> float:
    """The unit of standard errors: the residuals' standard deviation if labels have a unit, otherwise 1."""
    if problem.component.labels != "real" or not problem.has_objective:
        return 1.0
    return max(math.sqrt(2.0 * abs(_merit(problem, s.total, s.Z[0], s))), NEWTON_ROUNDING * s.first) or 1.0


def solved(H: Array, r: Array) -> tuple[Array, Array | None]:
    """x (a vector or a matrix) with H x = r, and the coordinates that depend on each other as ones, or None.

    x has the same bits on every processor. Where H is singular or not positive, pivots are raised to ``CLIPPED``.
    """
    if not len(H):
        return r, None
    p, roots = len(H), _roots(H.diagonal())
    scaled = H / roots[:, None] / roots
    A = np.hstack([scaled, (r.T / roots).T.reshape(p, -1)])
    smallest = eliminate(A, CLIPPED)
    x = (A[:, p:] / roots[:, None]).reshape(r.shape)
    return x, None if smallest > DEPENDENT else _dependent(scaled)


def _dependent(scaled: Array) -> Array:
    """1 for each coordinate with a part in the null space, which only a sentence names."""
    values, vectors = np.linalg.eigh(scaled)
    null = vectors[:, values <= max(DEPENDENT, float(values[0])) * values[-1]]
    return (np.linalg.norm(null, axis=1) > 1e-3).astype(np.float64)


def _saddle_step(H: Array, F: Array, c: Array) -> tuple[Array, Array | None]:
    """Theta is eliminated, as in ``solvers.linear.saddle_system``."""
    T, r = H[-1, -1], -F
    reduced, rhs = H + np.outer(c, c / T), r - c * (r[-1] / T)
    rhs[-1] = 0.0
    d, flat = solved(reduced, rhs)
    d[-1] = (r[-1] + dot(c, d)) / T
    return d, flat


def _held_shifts(problem: Problem, diagonal: Array) -> Callable[[Array], Array]:
    """A matrix, as a function of vectors, that holds a common shift of a column's copies where nothing else does.

    Softmax does not feel such a shift: its Hessian is singular along it, and F has no part there but rounding. The
    matrix is zero across such shifts, so that it changes nothing else.
    """
    copies = problem.component.copies
    if not _ignores_shifts(problem.component):
        return lambda v: 0.0 * v
    free = problem.lam_diag.reshape(-1, copies) == 0.0
    held = free * diagonal.reshape(-1, copies)
    weights = sum(held[:, c] for c in range(copies)) / copies

    def hold(v: Array) -> Array:
        columns = v.reshape(*v.shape[:-1], -1, copies)
        shifts = weights / copies * sum(columns[..., c] for c in range(copies))
        return np.repeat(shifts, copies, axis=-1)

    return hold


def _ignores_shifts(component: Operator) -> bool:
    """Whether g stays the same where all scores of a sample grow by the same number."""
    if component.extra or not component.k == component.copies > 1:
        return False
    shift = np.ones((1, component.k))
    return not component.curvature(0 * shift, shift, np.zeros(1)).any()


def _moving(s: NewtonState, problem: Problem, F: Array, d: Array) -> Array:
    """1 for each coefficient that grows without end because the labels are separated.

    Where labels are separated in part, other losses stay, and coefficients go on and on while the gradient vanishes.
    """
    moves = s.scale * np.abs(d)
    if _separated(problem, s.total):
        return (moves > 0.1 * moves.max()).astype(np.float64)
    near = _largest(F / s.scale) <= 1e-8 * s.first and s.straight >= 3
    if problem.component.affine or not near or moves.max() < 1e-4:
        return np.zeros_like(d)
    return ((moves > 0.1 * moves.max()) & (np.abs(d) > 0.02 * np.abs(s.Z[0]))).astype(np.float64)


def _separated(problem: Problem, total: Array) -> bool:
    """Whether labels are separated as a whole, with lambda = 0: no sample is on the wrong side.

    The sum of all losses is then less than the loss of such a sample with a hundredth of the mean weight.
    """
    return problem.lam == 0.0 and bool(0.0 <= total[0] < LIGHT * problem.component.wrong_side)


def _flattened(problem: Problem, before: Array, after: Array) -> bool:
    """Whether a coefficient lost all of its curvature, as Huber's scale does below 0: no step would lead back."""
    return bool(np.any((_curvatures(problem, before) > 0.0) & (_curvatures(problem, after) == 0.0)))


# Small parts --------------------------------------------------------------------------------------


def _roots(diagonal: Array) -> Array:
    """Square roots, with 1 for what is not positive."""
    return np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))


def _largest(values: Array) -> float:
    return float(np.abs(values).max())


def _fit_error(problem: Problem, sentence: str, coordinates: Indices) -> FitError:
    """The error about these coordinates of z, by the columns they belong to."""
    component, columns = problem.component, problem.n_features + bool(problem.intercept)
    own = coordinates[coordinates < component.copies * columns] // component.copies
    extra = coordinates[coordinates >= component.copies * columns] - (component.copies - 1) * columns
    names = [f"column {c}" for c in range(problem.n_features)] + ["the intercept"] * bool(problem.intercept)
    return FitError(sentence, np.unique(np.concatenate([own, extra])), names)


def _not_finite(problem: Problem, net: Network, z: Array) -> FitError:
    """Names the columns of the largest scores or squares, by the sum of every node's largest ones."""
    reach = np.zeros((len(problem.nodes), problem.dim))
    nodes = np.repeat(np.arange(len(problem.nodes)), np.diff(problem.A.indptr[problem.k * problem.start]))
    np.maximum.at(reach, (nodes, problem.A.indices), np.abs(problem.A.data))
    with np.errstate(over="ignore"):
        reach = np.minimum(reach * np.maximum(1.0, np.abs(z)), LARGEST_REACH)
    total = net.sum(reach)
    return _fit_error(problem, INFINITE_SENTENCE, np.flatnonzero(total >= 1e-3 * total.max()))
