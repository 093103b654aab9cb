"""The columns of a formula's terms: numbers, factors coded by contrasts, splines and polynomials.

A term of factors is coded as in R and patsy, without columns that follow from earlier ones. ``spanned`` has the sets of
factors whose combinations earlier terms already have. What is left of a term becomes one or several products in which
a factor has all levels, or one column less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dsba.errors import InputError
from dsba.network import Group
from dsba.tables.formula import Arithmetic, Contrast, Formula, Term, TermFactor, inner_parts
from dsba.tables.quantiles import quantile_search
from dsba.tables.together import answered
from dsba.types import Array, Level

if TYPE_CHECKING:
    import pandas as pd

INTERCEPT = "Intercept"
POLYNOMIALS = (".Linear", ".Quadratic", ".Cubic")
SPLINES = ("bs", "ns", "cr")
OUTER = (0.01, 0.99)  # quantiles that are the boundary of a natural spline between sites
States = Mapping[str, tuple[float, ...]]
StateSearch = Generator[Array, Array, tuple[float, ...]]

OPERATIONS: dict[str, Callable[..., Any]] = {
    "negative": np.negative, "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.power,
    "<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
    "I": np.positive, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "exp": np.exp,
    "sqrt": np.sqrt, "abs": np.abs, "pmin": np.minimum, "pmax": np.maximum,
}  # fmt: skip
CAPPED_AT = 4.0  # of cap(): pooled standard deviations about the mean
MOST_CAPS, SAME_CAP = 8, 0.95  # how often the ends are made at most, and their part that is nearly the same


def numbers(what: Arithmetic, frame: pd.DataFrame) -> Array:
    """A number for each row."""
    with np.errstate(all="ignore"):
        return np.broadcast_to(_computed(what, frame), len(frame)).astype(np.float64)


def _computed(what: Arithmetic, frame: pd.DataFrame) -> Any:
    if what.operation == "column":
        return frame[what.parts[0].text].to_numpy(np.float64)
    if what.operation == "number":
        return float(what.text)
    parts = [np.asarray(_computed(part, frame), np.float64) for part in what.parts]
    return np.asarray(OPERATIONS[what.operation](*parts), np.float64)


class ModelColumns(NamedTuple):
    """The columns of a right side, their names, and of each the text of its term ("" for the intercept)."""

    names: tuple[str, ...]
    X: Array
    terms: tuple[str, ...]


def model_columns(terms: Sequence[Term], frame: pd.DataFrame, states: States) -> ModelColumns:
    """The columns of all terms; ``frame`` has factors as categories and numbers without gaps."""
    spanned: dict[frozenset[TermFactor], set[frozenset[TermFactor]]] = {}
    made: list[tuple[list[str], Array, str]] = []
    for term in terms:
        factors = [one for one in term if one.column is not None and frame[one.column].dtype == "category"]
        for piece in _pieces(factors, spanned.setdefault(frozenset(term) - frozenset(factors), set())):
            parts = [_part(one, frame, states, piece) for one in term if one not in factors or one in piece]
            made.append((*_product(parts, len(frame)), text_of(term)))
    names = tuple(name for own, _, _ in made for name in own)
    X = np.column_stack([np.zeros((len(frame), 0)), *(columns for _, columns, _ in made)])
    return ModelColumns(names, X, tuple(text for own, _, text in made for _ in own))


def text_of(term: Term) -> str:
    return ":".join(one.text for one in term)


def _pieces(factors: Sequence[TermFactor], spanned: set[frozenset[TermFactor]]) -> list[dict[TermFactor, bool]]:
    """What a term adds to ``spanned``: products of some of its factors, and of each whether it has all levels."""
    sets = [frozenset(some) for size in range(len(factors) + 1) for some in combinations(factors, size)]
    pieces = [dict.fromkeys(one, False) for one in sets if one not in spanned]
    spanned.update(sets)
    while merged := _merged(pieces):
        pieces = merged
    return pieces


def _merged(pieces: list[dict[TermFactor, bool]]) -> list[dict[TermFactor, bool]] | None:
    """A product without a factor and one with it, less a column, are one with all levels of the factor."""
    for at, short in enumerate(pieces):
        for other, long in enumerate(pieces[at + 1 :], at + 1):
            more = [one for one in long if one not in short]
            if len(more) == 1 and not long[more[0]] and all(long.get(one) == full for one, full in short.items()):
                rest = [*pieces[:other], {**long, more[0]: True}, *pieces[other + 1 :]]
                return rest[:at] + rest[at + 1 :]
    return None


def _part(
    one: TermFactor, frame: pd.DataFrame, states: States, piece: Mapping[TermFactor, bool]
) -> tuple[list[str], Array]:
    """The names and columns of one part of a term."""
    if one in piece:
        values = frame[str(one.column)]
        endings, matrix = coding(one, list(values.cat.categories), piece[one])
        base = str(one.column) if one.text[:2] != "C(" else one.text
        coded = matrix[values.cat.codes.to_numpy()] if len(matrix) else np.zeros((len(frame), 0))
        return [base + ending for ending in endings], np.where(values.isna().to_numpy()[:, None], np.nan, coded)
    if one.number is None:
        return [str(one.column)], frame[str(one.column)].to_numpy(np.float64)[:, None]
    x = numbers(one.number, frame)
    if one.state is None:
        return [one.text], x[:, None]
    X = BASES[one.state](x, states[one.text])
    several = [f"{one.text}[{n}]" for n in range(1, X.shape[1] + 1)]
    return [one.text] if one.state in ("cap", "center", "scale") else several, X


def _product(parts: Sequence[tuple[list[str], Array]], rows: int) -> tuple[list[str], Array]:
    """All products of a column from each part, the first part's changing fastest; without parts the intercept."""
    if not parts:
        return [INTERCEPT], np.ones((rows, 1))
    names, X = parts[0]
    for more, Y in parts[1:]:
        names = [f"{name}:{other}" for other in more for name in names]
        X = np.column_stack([X * Y[:, [j]] for j in range(Y.shape[1])])
    return names, X


# Factors -----------------------------------------------------------------------------------------


def coding(one: TermFactor, levels: Sequence[Level], full: bool) -> tuple[list[str], Array]:
    """The endings of names, and a row for each level."""
    n = len(levels)
    if full:
        return [f"[{level}]" for level in levels], np.eye(n)
    kind = one.contrast.kind
    if kind == "Treatment":
        reference = reference_of(one.contrast, str(one.column), levels)
        kept = [at for at in range(n) if levels[at] != reference]
        return [f"[T.{levels[at]}]" for at in kept], np.eye(n)[:, kept]
    if kind == "Sum":
        return [f"[S.{level}]" for level in levels[:-1]], np.vstack([np.eye(n - 1), -np.ones(n - 1)])
    if kind == "Helmert":
        matrix = np.diag(np.arange(float(n))) - np.triu(np.ones((n, n)), 1)
        return [f"[H.{level}]" for level in levels[1:]], matrix[:, 1:]
    centred = np.arange(n) - (n - 1) / 2.0
    Q, R = np.linalg.qr(centred[:, None] ** np.arange(n))
    endings = [*POLYNOMIALS, *(f"^{power}" for power in range(4, n))][: n - 1]
    return endings, (Q * np.sign(np.diag(R)))[:, 1:]


def reference_of(contrast: Contrast, column: str, levels: Sequence[Level]) -> Level:
    """The reference level: the one that was asked for, or the first."""
    if contrast.reference is None:
        return levels[0]
    found = [level for level in levels if str(level) == str(contrast.reference)]
    if not found:
        known = ", ".join(map(str, levels))
        raise InputError(f"the reference {contrast.reference!r} is not a level of {column!r}; its levels are {known}.")
    return found[0]


def references_of(
    terms: Sequence[Term], levels: Mapping[str, Sequence[Level]], names: Sequence[str]
) -> dict[str, Level]:
    """The reference level of every factor that has one; ``names`` are the columns, as some factors have all levels."""
    factors = {one.column: one for term in terms for one in term if one.column in levels}
    return {
        str(column): reference_of(one.contrast, str(column), levels[str(column)])
        for column, one in factors.items()
        if any(f":{start}[T." in f":{name}" for name in names for start in (column, one.text))
    }


# Splines and polynomials -------------------------------------------------------------------------


def _poly(x: Array, state: tuple[float, ...]) -> Array:
    """Orthogonal polynomials by their recurrence; the state is a centre and squared norm for each degree."""
    degree = len(state) // 2
    P = _polynomials(x, state[:degree], state[degree:])
    return np.column_stack(P[1:]) / np.sqrt(state[degree + 1 :])


def _polynomials(x: Array, centres: Sequence[float], norms: Sequence[float]) -> list[Array]:
    """P_0 = 1 and P_(k+1) = (x - c_k) P_k - (n_k/n_(k-1)) P_(k-1), one for each centre."""
    P = [np.ones_like(x)]
    for k, centre in enumerate(centres):
        P.append((x - centre) * P[k] - (norms[k] / norms[k - 1] * P[k - 1] if k else 0.0))
    return P


def _b_spline(x: Array, state: tuple[float, ...]) -> Array:
    """B-splines without the first; NaN outside of the boundary. The state is the degree, and then all knots."""
    from scipy.interpolate import BSpline

    degree, low, high = int(state[0]), state[1], state[-1]
    knots = np.concatenate([[low] * degree, state[1:], [high] * degree])
    inside = (x >= low) & (x <= high)
    X = BSpline(knots, np.eye(len(knots) - degree - 1)[:, 1:], degree)(np.clip(x, low, high))
    return np.where(inside[:, None], X, np.nan)


def _natural_spline(x: Array, state: tuple[float, ...]) -> Array:
    """Cubic splines that are linear outside of the boundary, in R's basis. The state is all knots."""
    from scipy.interpolate import BSpline

    low, high = state[0], state[-1]
    knots = np.concatenate([[low] * 3, state, [high] * 3])
    spline = BSpline(knots, np.eye(len(knots) - 4)[:, 1:], 3)
    at = np.clip(x, low, high)
    X = spline(at) + spline.derivative()(at) * (x - at)[:, None]
    bends = spline.derivative(2)(np.array([low, high]))
    Q = np.linalg.qr(bends.T, mode="complete")[0]
    return X @ Q[:, 2:]


BASES: dict[str, Callable[[Array, tuple[float, ...]], Array]] = {
    "cap": lambda x, state: np.clip(x, state[0], state[1])[:, None],
    "center": lambda x, state: (x - state[0])[:, None],
    "scale": lambda x, state: ((x - state[0]) / state[1])[:, None],
    "poly": _poly, "bs": _b_spline, "ns": _natural_spline, "cr": _natural_spline,
}  # fmt: skip


def inner_functions(formula: Formula, frames: Sequence[pd.DataFrame]) -> tuple[list[str], list[Array]]:
    """What functions are functions of, where it may single out rows: names, and a matrix for each site here."""
    own = [(one.number, one.state) for term in formula.terms for one in term if one.number is not None]
    found = {one.text: one for one, state in own if state is not None and one.operation != "column"}
    found |= {one.text: one for what in (*(one for one, _ in own), *formula.outcomes) for one in inner_parts(what)}
    values = [np.reshape([numbers(one, frame) for one in found.values()], (len(found), len(frame))) for frame in frames]
    return list(found), [np.nan_to_num(X.T, nan=0.0, posinf=0.0, neginf=0.0) for X in values]


def agreed_states(terms: Sequence[Term], frames: Sequence[pd.DataFrame], group: Group, few: int, alone: bool) -> States:
    """The states of all functions that have one, from sums and counts over all sites; ``frames`` has one a site here.

    ``alone`` says that there is one site only. Its quantiles are those of R.
    """
    found = {one: one.number for term in terms for one in term if one.state is not None and one.number is not None}
    searches = [
        _state(one, [x[np.isfinite(x)] for x in (numbers(number, frame) for frame in frames)], few, alone)
        for one, number in found.items()
    ]
    return dict(zip((one.text for one in found), answered(searches, group), strict=True))


def _state(one: TermFactor, values: Sequence[Array], few: int, alone: bool) -> StateSearch:
    """The search for the state of one function; all of them share their sums."""
    if one.state not in SPLINES:
        return (yield from _moments(one, values))
    options = dict(one.options)
    inner = () if "knots" in options else _probabilities(one)
    if alone:  # those of R
        x = values[0]
        ends = () if "boundary" in options else (float(x.min()), float(x.max()))
        return _knots(one, (*np.quantile(x, inner).tolist(), *ends) if inner else ends)
    if "boundary" not in options and one.state == "bs":
        raise InputError(f"{one.text} needs a boundary between sites, such as boundary=(0, 100): "
                         "the smallest and the largest value are those of single rows.")  # fmt: skip
    asked = (*inner, *(() if "boundary" in options else OUTER))
    found = (yield from quantile_search(values, asked, few)) if asked else []
    if found is None:
        raise InputError(f"{one.text} has too few rows for quantiles: give knots and a boundary.")
    return _knots(one, tuple(quantile.value for quantile in found))


def _moments(one: TermFactor, values: Sequence[Array]) -> StateSearch:
    rows, total = yield np.array([[len(x), x.sum()] for x in values])
    rows, mean = max(float(rows), 1.0), float(total) / max(rows, 1.0)
    unit = 2.0 ** math.frexp(mean)[1]  # sums and squares lie far apart where numbers are tiny
    centred = [(x - mean) / unit for x in values]
    rest, squares = (yield np.array([[x.sum(), (x**2).sum()] for x in centred])).tolist()
    mean, squares = mean + rest / rows * unit, max(squares - rest**2 / rows, 0.0)
    if one.state == "center":
        return (mean,)
    if one.state == "cap":
        return (yield from _cap_ends(values, mean, rows))
    if one.state == "scale":
        return mean, unit * math.sqrt(squares / max(rows - 1.0, 1.0))
    return (yield from _recurrence(one, values, mean, rows))


def _recurrence(one: TermFactor, values: Sequence[Array], mean: float, rows: float) -> StateSearch:
    """The centres and squared norms of the polynomials up to a degree."""
    centres, norms = [mean], [rows]
    degree = int(dict(one.options).get("degree", (1.0,))[0])
    for _ in range(degree):
        squares = [_polynomials(x, centres, norms)[-1] ** 2 for x in values]
        norm, moment = yield np.array([[p.sum(), (x - mean) @ p] for x, p in zip(values, squares, strict=True)])
        if not norm > 0.0:
            raise InputError(f"{one.text} has fewer different values than its degree needs.")
        norms.append(float(norm))
        centres.append(mean + float(moment / norm))
    return (*centres[:degree], *norms[: degree + 1])


def _cap_ends(values: Sequence[Array], mean: float, rows: float) -> StateSearch:
    """The mean and four standard deviations, of what earlier ends left: one huge value would set its own end.

    Ends are made 2 to 8 times, a sum for each, until they are at least 95 % as far apart as before.
    """
    low, high, last = -np.inf, np.inf, np.inf
    for _ in range(MOST_CAPS):
        held = [np.clip(x, low, high) - mean for x in values]
        shift, squares = (yield np.array([[x.sum(), (x**2).sum()] for x in held])) / rows
        mean += float(shift)
        reach = CAPPED_AT * float(np.sqrt(max(squares - shift**2, 0.0)))
        low, high = mean - reach, mean + reach
        if reach >= SAME_CAP * last:
            break
        last = reach
    return low, high


def _knots(one: TermFactor, quantiles: tuple[float, ...]) -> tuple[float, ...]:
    """All knots of a spline; ``quantiles`` are those that were not given: the inner ones, and then the boundary."""
    options = dict(one.options)
    low, high = options.get("boundary", quantiles[-2:])
    inner = options.get("knots", quantiles if "boundary" in options else quantiles[:-2])
    every = (low, *inner, high)
    if any(b <= a for a, b in pairwise(every)):
        raise InputError(f"the knots of {one.text} do not rise: give other knots, a smaller df or a wider boundary.")
    return (float(_degree(one)), *every) if one.state == "bs" else every


def _degree(one: TermFactor) -> int:
    return int(dict(one.options).get("degree", (3.0,))[0])


def _probabilities(one: TermFactor) -> tuple[float, ...]:
    df = int(dict(one.options)["df"][0])
    count = df - _degree(one) if one.state == "bs" else df - 1
    return tuple((n + 1) / (count + 1) for n in range(count))
