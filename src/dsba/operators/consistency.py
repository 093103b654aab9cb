"""Whether the methods of a user-defined operator fit each other, by finite differences at a few points.

The points lie about labels and about 0, near and far. A monotone g that is the gradient of f has, for all a and b,

    <g(a), b - a> <= f(b) - f(a) <= <g(b), b - a>        and        0 <= <g(b) - g(a), b - a>,

at kinks as well, so that losses with kinks are not refused. Slopes are compared where they are about the same on both
sides of a point. Methods are called as plain Python: nothing is compiled. A point at which a method is not finite, or
that the operator does not have, contradicts nothing.
"""

import math
import numbers
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from dsba.errors import InputError
from dsba.kernels.cache import PACKAGE
from dsba.operators.base import Operator, ScalarOperator
from dsba.operators.compiled import operator_type, source_line
from dsba.types import Array

POINTS, ALLOWED_CONTRADICTIONS = 20, 3
CONSISTENCY_TOLERANCE = 1e-3  # relative
STEP, LEAST = 1e-2, 1e-5  # of a difference, in distances of a point from its centre; of that distance, in centres
SHIFTS = (0, 1, 4, 7, 10)  # a point, and whose distances from the centre the scores far from it have
DIFFERENCE_ROUNDING = 64 * np.finfo(np.float64).eps
UNDEFINED = (NotImplementedError, ArithmeticError, ValueError)  # compiled code gives inf or nan for the last two
SCALAR_NAMES = {"loss": "value", "forward": "map", "jacobian": "slope", "backward": "resolvent"}


class Points(NamedTuple):
    """Where an operator is tried: labels y, scores u, steps h in the directions d, and sets of scores far from u."""

    y: Array
    u: Array
    d: Array
    h: Array
    far: Array


def require_consistent(op: Operator, y: Array) -> None:
    """Refuse a user-defined operator whose methods contradict each other. Those of the package have tests instead."""
    if type(op).__module__.startswith("dsba.") or y.size == 0:
        return
    name = type(op).__name__
    for field in fields(op):
        if not isinstance(getattr(op, field.name), (numbers.Real, np.bool_)):
            got = type(getattr(op, field.name)).__name__
            raise InputError(f"the fields of an operator must be numbers, {name}.{field.name} is of type {got}.")
    try:
        for claim, count in contradictions(op, y):
            if count > ALLOWED_CONTRADICTIONS:
                raise InputError(f"the operator {name} contradicts itself: {claim} at {count} of {POINTS} points.")
    except InputError:
        raise
    except Exception as error:
        raise _failure(op, error) from error


def _failure(op: Operator, error: Exception) -> InputError:
    """A sentence about an error of one of the methods. It names no number: that may be a label."""
    lines = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(str(PACKAGE))]
    kind = operator_type(type(op))  # type: ignore[arg-type]
    if not lines and (refusal := kind.refusal()):  # the package could not use what a method returned
        return refusal
    where = f" in {source_line(lines[0].filename, lines[0].lineno)}" if lines else ""
    return InputError(f"the operator {type(op).__name__} cannot be evaluated: {type(error).__name__}{where}.")


def contradictions(op: Operator, y: Array) -> Iterator[tuple[str, int]]:
    """What does not hold of an operator, in words, and at how many points it does not."""
    names = SCALAR_NAMES if isinstance(op, ScalarOperator) else {}
    value, map, slope, resolvent = (names.get(n, n) for n in ("loss", "forward", "jacobian", "backward"))
    with np.errstate(all="ignore"):
        p = _points(op, y)
        yield f"{map} is not the derivative of {value}", _count(_of_loss(op, p))
        chords = [_ends(p), *((p.u, far) for far in p.far)]
        monotone, bounded = zip(*(_of_chords(op, p, *ends) for ends in chords), strict=True)
        least = getattr(op, "monotonicity", 0.0)
        yield f"{map} is " + ("less steep than monotonicity" if least else "not monotone"), _count(*monotone)
        yield f"{slope} is not the derivative of {map}", _count(_of_slopes(op, p, _jacobian_products))
        if not names:  # curvature of one score is made of slope
            yield f"curvature is not the derivative of {map}", _count(_of_slopes(op, p, _curvature_products))
        bound = "lipschitz" if names else "lipschitz_constants"
        yield f"{map} is steeper than {bound}", _count(*bounded)
        yield f"{resolvent} does not solve u + t {map}(u) = b", _count(_of_resolvent(op, p))


def _count(*excesses: Array) -> int:
    return int(np.any([excess > 0.0 for excess in excesses], axis=0).sum())


def _points(op: Operator, y: Array) -> Points:
    """Numbers: a third each about the labels in units of 1, in units of their spread, and about 0. Classes: about 0."""
    rng, which = np.random.default_rng(0), np.arange(POINTS) % 3
    labels = rng.choice(y, POINTS)
    size = 10.0 ** np.linspace(-2.5, 1.0, POINTS)
    centre = np.zeros(POINTS)
    if op.labels in ("real", "count"):
        centre = np.where(which == 2, 0.0, labels)
        size *= np.where(which == 1, float(np.std(labels)) or 1.0, 1.0)
    size = np.maximum(size, LEAST * np.abs(centre))
    away, d = rng.normal(size=(2, POINTS, op.k))
    away *= (size / _norm(away))[:, None]
    u, *far = (centre[:, None] + np.roll(away, shift, axis=0) for shift in SHIFTS)
    return Points(labels, u, d / _norm(d)[:, None], STEP * size, np.array(far))


def _ends(p: Points) -> tuple[Array, Array]:
    step = p.h[:, None] * p.d
    return p.u - step, p.u + step


# The methods at all points; nan where one is not defined ---------------------------------------------


def _each(shape: tuple[int, ...], call: Callable[[int, Any], None]) -> Array:
    out = np.full((POINTS, *shape), np.nan)
    for i in range(POINTS):
        with suppress(*UNDEFINED):
            call(i, out[i])
    return out


def _losses(op: Operator, U: Array, y: Array) -> Array:
    return _each((1,), lambda i, out: out.fill(op.loss(U[i], y[i])))[:, 0]


def _maps(op: Operator, U: Array, y: Array) -> Array:
    return _each((op.k,), lambda i, out: op.forward(U[i], y[i], out))


def _jacobian_products(op: Operator, U: Array, p: Points) -> Array:
    return np.einsum("icd,id->ic", _each((op.k, op.k), lambda i, out: op.jacobian(U[i], p.y[i], out)), p.d)


def _curvature_products(op: Operator, U: Array, p: Points) -> Array:
    with suppress(*UNDEFINED):
        return op.curvature(U, p.d, p.y)
    return np.full(U.shape, np.nan)


def _norm(rows: Array) -> Array:
    return np.linalg.norm(rows, axis=1)


def _rounding(before: Array, after: Array, h: Array) -> Array:
    """Of a difference over h. The points about 0 give the size of what may have cancelled before a small value."""
    size = np.abs(before) + np.abs(after)
    return DIFFERENCE_ROUNDING * (size + np.where(np.isfinite(size), size, 0.0)[2::3].max()) / h


def _dot(a: Array, b: Array) -> Array:
    return np.einsum("ic,ic->i", a, b)


# By how much a relation fails at each point, beyond tolerance and rounding ---------------------------


def _of_loss(op: Operator, p: Points) -> Array:
    a, b = _ends(p)
    before, after = _losses(op, a, p.y), _losses(op, b, p.y)
    between = (after - before) / (2.0 * p.h)
    slopes = np.stack([_dot(_maps(op, ends, p.y), p.d) for ends in (a, b)])
    outside = np.maximum(slopes.min(axis=0) - between, between - slopes.max(axis=0))
    return outside - CONSISTENCY_TOLERANCE * np.abs(slopes).max(axis=0) - _rounding(before, after, p.h)


def _of_chords(op: Operator, p: Points, a: Array, b: Array) -> tuple[Array, Array]:
    """By how much the map is less steep than its monotonicity from a to b, and steeper than its Lipschitz constant."""
    before, after, length = _maps(op, a, p.y), _maps(op, b, p.y), _norm(b - a)
    steep, rise = _norm(after - before) / length, _dot(after - before, b - a) / length**2
    slack = CONSISTENCY_TOLERANCE * steep + _rounding(_norm(before), _norm(after), length)
    bound: Array = np.full(POINTS, math.inf)
    with suppress(*UNDEFINED):
        bound = op.lipschitz_constants(np.ones_like(a), p.y)  # of a block with rows of norm 1
    return getattr(op, "monotonicity", 0.0) - rise - slack, steep - bound - slack


def _of_slopes(op: Operator, p: Points, products: Callable[[Operator, Array, Points], Array]) -> Array:
    a, b = _ends(p)
    before, after = _maps(op, a, p.y), _maps(op, b, p.y)
    between, given = (after - before) / (2.0 * p.h[:, None]), products(op, p.u, p)
    kink = _norm(products(op, b, p) - products(op, a, p))
    rounding = _rounding(_norm(before), _norm(after), p.h)
    return _norm(between - given) - CONSISTENCY_TOLERANCE * np.maximum(_norm(between), _norm(given)) - kink - rounding


def _of_resolvent(op: Operator, p: Points) -> Array:
    """w = (b - u)/t must be g(u), or between its values on the sides of a kink: a step towards w - g(u) passes w."""
    t, s = 10.0 ** np.linspace(-1.0, 1.0, POINTS), np.ones(op.k)
    u = _each((op.k,), lambda i, out: op.backward(p.u[i], t[i], s, p.y[i], out))
    wanted, got = (p.u - u) / t[:, None], _maps(op, u, p.y)
    towards = (wanted - got) / _norm(wanted - got)[:, None]
    passed = _dot(_maps(op, u + p.h[:, None] * towards, p.y) - wanted, towards)
    rounding = DIFFERENCE_ROUNDING * (_norm(p.u) + _norm(u)) / t
    return -passed - CONSISTENCY_TOLERANCE * (_norm(wanted) + _norm(got)) - rounding
