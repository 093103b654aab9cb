"""Component operators: monotone maps g on R^k, without data, regulariser, averaging or graph.

A sample's component is B_i(z) = A_i' g(A_i z) with a small sparse block A_i of k rows. Everything a
kernel needs of it happens in R^k: u = A_i z forward, and backward the u that solves

    u + t diag(s) g(u) = b,        b = A_i v,   s = squared norms of the rows of A_i.

For k = 1 a loss is a ``ScalarOperator``: a frozen dataclass (its fields are floats) with
``map`` (g, the loss's derivative) and ``slope`` (g'), and usually ``value``. Methods are written in
plain Python with ``math``; they are compiled when a kernel first calls them.

An operator also declares what others must know of it: what labels it takes, how scores become
predictions, and which linear systems its Jacobian gives. No code asks for its class or its name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dsba.errors import InputError
from dsba.kernels import samples as kernel
from dsba.kernels.resolvents import MAX_NEWTON
from dsba.operators import response
from dsba.types import Array

LARGEST_FLOAT = 1.7e308

DECISION_OF_LABELS = {"binary": "sign", "multiclass": "largest"}  # all other labels are numbers
LINK_OF_LABELS = {"real": "identity", "count": "log"}


def with_unit_rows(X: sp.csr_array, columns: npt.NDArray[np.int64], extra: int) -> sp.csr_array:
    """For each row x of X a block of x and of unit rows, which have their ones in the ``columns`` of the sample.

    ``extra`` is the number of columns beyond those of X.
    """
    (n, more), width = columns.shape, X.shape[1] + extra
    ends = X.indptr[1:] + more * np.arange(1, n + 1)
    indptr = np.concatenate([[0], (ends[:, None] + np.arange(-more, 1)).ravel()])
    body = np.ones(indptr[-1], bool)
    indices = np.empty(indptr[-1], X.indices.dtype if width < 2**31 else np.int64)
    data = np.ones(indptr[-1])
    for row in range(more):
        body[ends - more + row], indices[ends - more + row] = False, columns[:, row]
    indices[body], data[body] = X.indices, X.data
    return sp.csr_array((data, indices, indptr), shape=((1 + more) * n, width))


class Saddle(NamedTuple):
    """The summed Jacobian of an affine operator on (v, theta), theta being the last coordinate.

        ( B' diag(weights) B   c )
        (        -c'           T )       B and c have a zero at theta.

    Parameters
    ----------
    B : sp.csr_array
        The rows of the components.
    weights : numpy.ndarray
        A weight for each row.
    c : numpy.ndarray
        The coupling of v and theta.
    T : float
        The curvature in theta.

    Examples
    --------
    >>> import dsba
    >>> dsba.operators.Saddle._fields
    ('B', 'weights', 'c', 'T')
    """

    B: sp.csr_array
    weights: Array
    c: Array
    T: float


def _given(method: str) -> Any:
    """Whether a subclass gives the method, and not one of the two classes here."""
    return property(lambda self: getattr(type(self), method).__module__ != __name__)


@dataclass(frozen=True)
class Operator:
    """A monotone map on R^k, the derivative of a sample's loss in its k scores.

    Subclasses define ``forward``, ``backward`` and, for objectives, ``loss``.

    Examples
    --------
    >>> import dsba
    >>> isinstance(dsba.operators.get("softmax"), dsba.Operator)
    True
    """

    k: ClassVar[int] = 1
    """Coefficients per sample: the size of a table entry."""
    copies: ClassVar[int] = 1
    """Coordinates of z for each column of the data; the copies of a column are neighbours in z."""
    extra: ClassVar[int] = 0
    """Coordinates of z beyond those of the columns, at the end."""
    cocoercive: ClassVar[bool] = True
    """Whether <g(u) - g(v), u - v> >= ||g(u) - g(v)||^2 / L, as for every gradient of a smooth convex loss."""
    longest_step: ClassVar[float] = math.inf
    """The longest backward step that is worth taking: infinite where any one is."""
    labels: ClassVar[str] = "real"
    """What a label may be: "real", "binary" (mapped to -1, +1), "multiclass" (to 0, 1, 2, ...) or "count"."""
    wrong_side: ClassVar[float] = 0.0
    """The least loss of a sample whose own class is not the likeliest one; 0 where there is no such bound."""
    family: ClassVar[str | None] = None
    """The distribution of which the loss is the negative log-likelihood: "gaussian", "binomial", "poisson" or None."""

    # What becomes of scores ----------------------------------------------------------------------

    @property
    def decision(self) -> str:
        """How scores become predictions, one of ``response.DECISIONS``; by default what the labels suggest."""
        return DECISION_OF_LABELS.get(self.labels, "number")

    @property
    def link(self) -> str | None:
        """The name of the link between scores and the mean response; None where scores have no such meaning."""
        return LINK_OF_LABELS.get(self.labels)

    @property
    def ranks(self) -> bool:
        """Whether scores only order the samples, so that the area under the ROC curve measures them."""
        return self.decision == "rank"

    def mean(self, scores: Array) -> Array:
        """The mean response for scores (Q x outputs): a number, a probability, or one per class."""
        if self.link is None:
            raise InputError(f"{type(self).__name__} has no mean response: its scores only decide.")
        return response.link_of(self.link).mean(scores)

    def decide(self, scores: Array, classes: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """The predictions for scores (Q x outputs); ``classes`` are the labels that the problem remembers."""
        return response.decide(self.decision, self.link, scores, classes)

    # The map -------------------------------------------------------------------------------------

    def forward(self, u: Any, y: float, out: Any) -> None:
        """out <- g(u)."""
        raise NotImplementedError

    def forward_rows(self, U: Array, y: Array) -> Array:
        """g of every row of U (Q x k), compiled."""
        G = np.empty_like(U)
        kernel.forward_all(self, U, y, G)
        return G

    def map(self, u: float, y: float) -> float:
        """g(u) where k = 1."""
        point, out = np.empty(1), np.empty(1)
        point[0] = u
        self.forward(point, y, out)
        return out[0]

    def backward(self, b: Any, t: float, s: Any, y: float, out: Any) -> None:
        """out <- u with u + t diag(s) g(u) = b."""
        raise NotImplementedError

    def jacobian(self, u: Any, y: float, out: Any) -> None:
        """out <- the Jacobian of g at u (k x k). With it DSBA takes blocks of samples (``batch_size``)."""
        raise NotImplementedError

    has_jacobian = _given("jacobian")

    def loss(self, u: Any, y: float) -> float:
        """The function whose gradient is g, where there is one."""
        raise NotImplementedError

    has_loss = _given("loss")

    # Newton's iteration --------------------------------------------------------------------------

    def curvature(self, U: Array, V: Array, y: Array) -> Array:
        """Sample by sample the Jacobian of g at u times v (Q x k).

        The Jacobian is symmetric, as that of every gradient. With it the certified reference and the methods that
        solve local problems (SSDA, MSDA, P-EXTRA, D-ADMM) take the operator.
        """
        raise NotImplementedError

    has_curvature = _given("curvature")

    @property
    def affine(self) -> bool:
        """Whether the Jacobian of g is the same everywhere, so that one linear system solves a problem."""
        return self.has_saddle

    def saddle(self, A: sp.csr_array, y: Array, scale: Array) -> Saddle:
        """Of an affine g whose Jacobian is not symmetric: the Jacobian of sum_i scale_i A_i' g(A_i z)."""
        raise NotImplementedError

    def jacobians(self, y: Array) -> Array:
        """Of an affine g whose Jacobian is not symmetric: that of every sample (Q x k x k)."""
        raise NotImplementedError

    has_saddle = _given("saddle")

    def envelope(self, u: Array, t: float, y: Array) -> tuple[Array, Array]:
        """Where k = 1, g_t(u) and its slope, g_t(u) = g(the v with v + t g(v) = u): the loss smoothed over a width t.

        The reference approaches a loss with kinks through smoother ones.
        """
        raise NotImplementedError

    has_envelope = _given("envelope")

    # Data ----------------------------------------------------------------------------------------

    def fitted(self, y: Array, weight: Array) -> Operator:
        """The operator with whatever it must know of all labels and sample weights (AUC: the share of positives)."""
        return self

    def blocks(self, X: sp.csr_array, y: Array) -> sp.csr_array:
        """The stacked blocks A_i, k rows a sample; rows of one block have disjoint supports."""
        return X

    def lipschitz_constants(self, s: Array, y: Array) -> Array:
        """Per sample, a Lipschitz constant of z -> A' g(A z), given s = squared row norms (Q x k)."""
        raise NotImplementedError

    def planning_slopes(self, y: Array) -> Array:
        """Per sample, a bound on g's Jacobian to plan step sizes with; finite, typical where there is no bound."""
        raise NotImplementedError

    def planning_constants(self, s: Array, y: Array) -> Array:
        """The Lipschitz constants to plan step sizes with."""
        return self.lipschitz_constants(s, y)


@dataclass(frozen=True)
class ScalarOperator(Operator):
    """A loss of one score u = a'z per sample (k = 1).

    Subclasses define ``map`` and ``slope``, and ``value`` where there is an objective. Without its own ``resolvent``
    a loss gets a safeguarded Newton iteration.

    Examples
    --------
    >>> import dsba
    >>> dsba.operators.Ridge().map(3.0, 1.0)
    2.0
    """

    lipschitz: ClassVar[float] = math.inf
    """sup g'."""
    monotonicity: ClassVar[float] = 0.0
    """inf g'."""
    has_loss, has_jacobian, has_curvature, has_envelope = _given("value"), _given("slope"), _given("slope"), True

    def value(self, u: float, y: float) -> float:
        """The loss at u."""
        raise NotImplementedError

    def map(self, u: float, y: float) -> float:
        """g(u), the derivative of the loss."""
        raise NotImplementedError

    def slope(self, u: float, y: float) -> float:
        """g'(u) >= 0."""
        raise NotImplementedError

    def resolvent(self, b: float, t: float, y: float) -> float:
        """u with u + t g(u) = b, for any t >= 0: Newton, kept inside a shrinking bracket.

        As g is increasing, for every c the root lies between c and b - t g(c): take c = 0, y and b.
        A step that leaves the bracket, or does not halve the step before last, is replaced by
        bisection.
        """
        if t == 0.0:
            return b
        lo, hi = -LARGEST_FLOAT, LARGEST_FLOAT
        for c in (0.0, y, b):
            other = b - t * self.map(c, y)
            if not math.isnan(other):
                lo, hi = max(lo, min(c, other)), min(hi, max(c, other))
        u = min(max(0.0, lo), hi)
        last = before_last = hi - lo
        for _ in range(MAX_NEWTON):
            excess = u - b + t * self.map(u, y)
            if excess > 0.0:
                hi = u
            else:
                lo = u
            step = excess / (1.0 + t * self.slope(u, y))
            if not (lo <= u - step <= hi and abs(step) <= 0.5 * abs(before_last)):
                step = u - 0.5 * (lo + hi)
            before_last, last = last, step
            u -= step
            if abs(step) <= 1e-16 * abs(u):
                break
        return u

    def forward(self, u: Any, y: float, out: Any) -> None:
        out[0] = self.map(u[0], y)

    def backward(self, b: Any, t: float, s: Any, y: float, out: Any) -> None:
        out[0] = self.resolvent(b[0], t * s[0], y)

    def jacobian(self, u: Any, y: float, out: Any) -> None:
        out[0, 0] = self.slope(u[0], y)

    def loss(self, u: Any, y: float) -> float:
        return self.value(u[0], y)

    def curvature(self, U: Array, V: Array, y: Array) -> Array:
        slopes = np.empty(y.size)
        kernel.slope_all(self, U[:, 0], y, slopes)
        return slopes[:, None] * V

    @property
    def affine(self) -> bool:
        return self.lipschitz == self.monotonicity

    def envelope(self, u: Array, t: float, y: Array) -> tuple[Array, Array]:
        g, slope = np.empty_like(u), np.empty_like(u)
        kernel.envelope_all(self, u, t, y, g, slope)
        return g, slope

    def planning_slopes(self, y: Array) -> Array:
        return np.full(y.shape, self.lipschitz)

    def planning_constants(self, s: Array, y: Array) -> Array:
        return np.where(s[:, 0] > 0, self.planning_slopes(y), 0.0) * s[:, 0]

    def lipschitz_constants(self, s: Array, y: Array) -> Array:
        return np.where(s[:, 0] > 0, self.lipschitz, 0.0) * s[:, 0]  # an empty row is constant, whatever g
