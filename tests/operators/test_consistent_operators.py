"""A user-defined operator whose methods contradict each other is refused by name; one that is right never is."""

from __future__ import annotations

import importlib.util
import math
import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import numba
import numpy as np
import pytest
import scipy.sparse as sp

import dsba
from dsba import operators
from dsba.kernels import samples as kernel
from dsba.operators import AUC, Huber, ScaledHuber, Softmax, consistency
from dsba.operators.compiled import operator_type

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=60)
LABELS = {
    "real": [NORMAL, 150.0 + 77.0 * NORMAL, 1e6 + NORMAL, 1e-6 * NORMAL, np.ones(1), 1e200 * NORMAL, NORMAL**9],
    "count": [RNG.poisson(m, 60).astype(float) for m in (0.5, 8.0, 1e4, 1e12)],
    "binary": [RNG.choice([-1.0, 1.0], 60), np.ones(5)],
    "multiclass": [RNG.integers(0, 4, 60).astype(float)],
}


def problem(op, y=None):
    y = LABELS[operators.get(op).labels][0] if y is None else y
    return dsba.Problem.from_arrays(np.random.default_rng(1).normal(size=(y.size, 3)), y, op, n_nodes=1, lam=0.1)


def evaluated(op):
    """The map at 0 for the labels of a problem, by a kernel."""
    y, G = problem(op).y, np.empty((60, op.k))
    kernel.forward_all(op, np.zeros_like(G), y, G)
    return G[:, 0], y


# Operators that are right --------------------------------------------------------------------------


@dataclass(frozen=True)
class LogCosh(dsba.ScalarOperator):
    scale: float = 1.0
    lipschitz: ClassVar[float] = 1.0

    def value(self, u, y):
        r = abs(u - y) / self.scale
        return self.scale**2 * (r + math.log1p(math.exp(-2.0 * r)) - math.log(2.0))

    def map(self, u, y):
        return self.scale * math.tanh((u - y) / self.scale)

    def slope(self, u, y):
        return 1.0 - math.tanh((u - y) / self.scale) ** 2


@dataclass(frozen=True)
class NaiveLogCosh(LogCosh):
    """Overflows far from the label."""

    def value(self, u, y):
        return self.scale**2 * math.log(math.cosh((u - y) / self.scale))


@dataclass(frozen=True)
class Pinball(dsba.ScalarOperator):
    """The quantile's loss: its resolvent often ends at the kink."""

    tau: float = 0.9

    def value(self, u, y):
        return self.tau * (y - u) if y > u else (1.0 - self.tau) * (u - y)

    def map(self, u, y):
        return -self.tau if y > u else 1.0 - self.tau

    def slope(self, u, y):
        return 0.0

    def resolvent(self, b, t, y):
        return min(max(y, b - t * (1.0 - self.tau)), b + t * self.tau)


@dataclass(frozen=True)
class SmoothPinball(dsba.ScalarOperator):
    tau: float = 0.3
    width: float = 0.1

    @property
    def lipschitz(self):
        return 1.0 / (4.0 * self.width)

    def value(self, u, y):
        r = (u - y) / self.width
        return self.width * (max(r, 0.0) + math.log1p(math.exp(-abs(r))) - self.tau * r)

    def map(self, u, y):
        return 0.5 + 0.5 * math.tanh((u - y) / self.width / 2.0) - self.tau

    def slope(self, u, y):
        return (1.0 - math.tanh((u - y) / self.width / 2.0) ** 2) / (4.0 * self.width)


@dataclass(frozen=True)
class Insensitive(dsba.ScalarOperator):
    """max(0, |u - y| - width): two kinks, flat between them; without a value."""

    width: float = 0.5

    def map(self, u, y):
        return 1.0 if u - y > self.width else (-1.0 if u - y < -self.width else 0.0)

    def slope(self, u, y):
        return 0.0


@dataclass(frozen=True)
class Hinge(dsba.ScalarOperator):
    labels: ClassVar[str] = "binary"

    def value(self, u, y):
        return max(0.0, 1.0 - y * u)

    def map(self, u, y):
        return -y if y * u < 1.0 else 0.0

    def slope(self, u, y):
        return 0.0

    def resolvent(self, b, t, y):
        m = y * b
        return b if m >= 1.0 else y * min(1.0, m + t)


@dataclass(frozen=True)
class Gamma(dsba.ScalarOperator):
    """y exp(-u) + u: labels are no scores. Overflows for large negative u."""

    labels: ClassVar[str] = "count"

    def value(self, u, y):
        return y * math.exp(-u) + u

    def map(self, u, y):
        return 1.0 - y * math.exp(-u)

    def slope(self, u, y):
        return y * math.exp(-u)


@dataclass(frozen=True)
class Quartic(dsba.ScalarOperator):
    def value(self, u, y):
        return 0.25 * (u - y) ** 4

    def map(self, u, y):
        return (u - y) ** 3

    def slope(self, u, y):
        return 3.0 * (u - y) ** 2


@dataclass(frozen=True)
class Direction(dsba.Operator):
    """sqrt(1 + |u - (cos y, sin y)|^2)."""

    k: ClassVar[int] = 2
    copies: ClassVar[int] = 2

    def loss(self, u, y):
        return math.hypot(1.0, u[0] - math.cos(y), u[1] - math.sin(y))

    def forward(self, u, y, out):
        out[0], out[1] = u[0] - math.cos(y), u[1] - math.sin(y)
        h = math.hypot(1.0, out[0], out[1])
        out[0], out[1] = out[0] / h, out[1] / h

    def backward(self, b, t, s, y, out):
        """The length of u - (cos y, sin y) solves rho + t rho / sqrt(1 + rho^2) = far: bisection."""
        t, far = t * s[0], math.hypot(b[0] - math.cos(y), b[1] - math.sin(y))
        low, high = 0.0, far
        for _ in range(200):
            rho = 0.5 * (low + high)
            low, high = (low, rho) if rho + t * rho / math.hypot(1.0, rho) > far else (rho, high)
        out[0] = math.cos(y) + rho / far * (b[0] - math.cos(y))
        out[1] = math.sin(y) + rho / far * (b[1] - math.sin(y))

    def curvature(self, U, V, y):
        r = U - np.column_stack([np.cos(y), np.sin(y)])
        h = np.sqrt(1.0 + np.sum(r**2, axis=1, keepdims=True))
        return V / h - r * np.sum(r * V, axis=1, keepdims=True) / h**3

    def blocks(self, X, y):
        return sp.csr_array(sp.kron(X, sp.csr_array(np.eye(2)), format="csr"))

    def lipschitz_constants(self, s, y):
        return s[:, 0]


@dataclass(frozen=True)
class Rotation(dsba.Operator):
    """A monotone map that is no gradient, with a resolvent of its own."""

    k: ClassVar[int] = 2
    copies: ClassVar[int] = 2

    def forward(self, u, y, out):
        out[0], out[1] = u[1] + y, -u[0]

    def backward(self, b, t, s, y, out):
        out[0] = (b[0] - t * y - t * b[1]) / (1.0 + t * t)
        out[1] = b[1] + t * out[0]

    def jacobian(self, u, y, out):
        out[0, 0], out[0, 1], out[1, 0], out[1, 1] = 0.0, 1.0, -1.0, 0.0

    blocks = Direction.blocks


RIGHT = [
    LogCosh(), LogCosh(0.01), LogCosh(30.0), NaiveLogCosh(), Pinball(), SmoothPinball(), SmoothPinball(0.9, 1e-4),
    Insensitive(), Hinge(), Gamma(), Quartic(), Direction(), Rotation(),
]  # fmt: skip
OWN = [op.fitted(y, np.ones(60)) for op in map(operators.get, operators.names()) for y in LABELS[op.labels][:1]]
OWN += [AUC(p=0.3, centered=False), ScaledHuber(), ScaledHuber(2.0), Huber(0.01)]


@pytest.mark.parametrize("op", RIGHT + OWN, ids=repr)
def test_nothing_contradicts_an_operator_that_is_right(op):
    for y in LABELS[op.labels]:
        found = {claim: count for claim, count in consistency.contradictions(op, y) if count}
        assert not found


@pytest.mark.parametrize("op", RIGHT, ids=repr)
def test_an_operator_that_is_right_makes_a_problem(op):
    assert problem(op).component == op


@pytest.mark.parametrize("op", [op for op in RIGHT if isinstance(op, dsba.ScalarOperator)], ids=repr)
def test_all_20_points_of_a_right_operator_are_compared(op):
    """Nothing is right only because nothing was tried: twice the map contradicts wherever the map is not 0."""
    p = consistency._points(op, LABELS[op.labels][0])
    moving = [op.map(u[0], y) != 0.0 for u, y in zip(p.u, p.y, strict=True)]
    twice = type("Twice", (type(op),), {"map": lambda self, u, y: 2.0 * type(op).map(self, u, y)})()
    if op.has_loss:
        counts = dict(consistency.contradictions(twice, LABELS[op.labels][0]))
        assert counts["map is not the derivative of value"] >= 0.75 * sum(moving) > consistency.ALLOWED_CONTRADICTIONS


# Operators that are wrong --------------------------------------------------------------------------


def wrong(base, **members):
    return dataclass(frozen=True)(type("Mine", (base,), members))()


def other_backward(self, b, t, s, y, out):
    Direction.backward(self, b, 2.0 * t, s, y, out)


def transposed(self, u, y, out):
    out[0], out[1] = -u[1], -u[0]


WRONG = {
    "value off by a factor": (
        wrong(LogCosh, value=lambda self, u, y: 2.0 * LogCosh.value(self, u, y)),
        "map is not the derivative of value",
    ),
    "value of another label": (
        wrong(LogCosh, value=lambda self, u, y: LogCosh.value(self, u, -y)),
        "map is not the derivative of value",
    ),
    "value off by a factor, with a kink": (
        wrong(Hinge, value=lambda self, u, y: 0.5 * Hinge.value(self, u, y)),
        "map is not the derivative of value",
    ),
    "the wrong sign": (
        wrong(LogCosh, map=lambda self, u, y: -LogCosh.map(self, u, y)),
        "map is not the derivative of value",
    ),
    "the wrong sign without a value": (
        wrong(dsba.ScalarOperator, map=lambda self, u, y: y - u, slope=lambda self, u, y: -1.0),
        "map is not monotone",
    ),
    "a map that turns back": (
        wrong(dsba.ScalarOperator, map=lambda self, u, y: math.sin(u - y), slope=lambda self, u, y: math.cos(u - y)),
        "map is not monotone",
    ),
    "a monotonicity that does not hold": (wrong(LogCosh, monotonicity=1.0), "map is less steep than monotonicity"),
    "the slope of another function": (
        wrong(LogCosh, slope=lambda self, u, y: 1.0 / (1.0 + (u - y) ** 2)),
        "slope is not the derivative of map",
    ),
    "a Lipschitz constant that is too small": (wrong(LogCosh, lipschitz=0.5), "map is steeper than lipschitz"),
    "the resolvent of another step": (
        wrong(Hinge, resolvent=lambda self, b, t, y: Hinge.resolvent(self, b, 2.0 * t, y)),
        "resolvent does not solve u + t map(u) = b",
    ),
    "a resolvent that was inherited": (
        wrong(
            Huber,
            value=lambda self, u, y: (u - y) ** 2,
            map=lambda self, u, y: 2.0 * (u - y),
            slope=lambda self, u, y: 2.0,
            lipschitz=2.0,
        ),
        "resolvent does not solve u + t map(u) = b",
    ),
    "several scores, another loss": (
        wrong(Direction, loss=lambda self, u, y: 2.0 * Direction.loss(self, u, y)),
        "forward is not the derivative of loss",
    ),
    "several scores, a map that is not monotone": (wrong(Rotation, forward=transposed), "forward is not monotone"),
    "several scores, another curvature": (
        wrong(Direction, curvature=lambda self, U, V, y: V),
        "curvature is not the derivative of forward",
    ),
    "several scores, a constant that is too small": (
        wrong(Direction, lipschitz_constants=lambda self, s, y: 0.3 * s[:, 0]),
        "forward is steeper than lipschitz_constants",
    ),
    "several scores, the resolvent of another step": (
        wrong(Direction, backward=other_backward),
        "backward does not solve u + t forward(u) = b",
    ),
    "another Jacobian": (
        wrong(Softmax, jacobian=lambda self, u, y, out: out.fill(1.0)),
        "jacobian is not the derivative of forward",
    ),
}


@pytest.mark.parametrize(("op", "claim"), WRONG.values(), ids=WRONG)
def test_an_operator_that_is_wrong_is_refused_by_name(op, claim):
    with pytest.raises(dsba.InputError) as caught:
        problem(op)
    sentence, _, rest = str(caught.value).partition(" at ")
    assert sentence == f"the operator Mine contradicts itself: {claim}"
    count, _, rest = rest.partition(" ")
    assert rest == "of 20 points."
    assert 3 < int(count) <= 20


@pytest.mark.parametrize("y", LABELS["real"][:4], ids=["small", "large", "far", "tiny"])
def test_labels_of_any_size_show_a_wrong_value(y):
    with pytest.raises(dsba.InputError, match="map is not the derivative of value"):
        problem(wrong(Huber, value=lambda self, u, y: 2.0 * Huber.value(self, u, y)), y)


def test_the_same_labels_give_the_same_points():
    first, again = (consistency._points(Huber(), LABELS["real"][1]) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))


def test_operators_of_the_package_are_not_checked_again(monkeypatch):
    monkeypatch.setattr(consistency, "contradictions", lambda op, y: [("it was checked", 20)])
    assert problem(Huber()).component == Huber()
    with pytest.raises(dsba.InputError, match="it was checked"):
        problem(LogCosh())


# Operators that cannot be evaluated or compiled -----------------------------------------------------

LOSS = """
import math
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
import dsba

@dataclass(frozen=True)
class Mine(dsba.ScalarOperator):
    scale: object = 1.0
    name: ClassVar[str] = "mine"
    lipschitz: ClassVar[float] = 1.0

    def map(self, u, y):
        return u - y

    def slope(self, u, y):
        return 1.0
"""


def mine(tmp_path, monkeypatch, body, scale=1.0):
    """The loss above with another body of ``map``, from a file."""
    path = tmp_path / "my_loss.py"
    path.write_text(LOSS.replace("return u - y", body))
    spec = importlib.util.spec_from_file_location("my_loss", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "my_loss", module)
    spec.loader.exec_module(module)
    return replace(module.Mine(), scale=scale)


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ('return {y: [u - y], "b": "text"}[y][0]', 15),
        ("return np.linalg.multi_dot([np.eye(2), np.eye(2) * (u - y)])[0, 0]", 15),
        ('return u - y if self.name == "mine" else 0.0', 15),
        ("return sum({v for v in (u - y, None) if v is not None})", 15),
        ('return float(f"{u - y}")', 14),  # Numba does not know the line: that of the method
        ("import os; return u - y", 14),
        ("u -= y", 14),  # returns nothing
        ('return "text"', 14),
    ],
)
def test_a_loss_that_cannot_be_compiled_is_told_the_line(tmp_path, monkeypatch, line, number):
    op = mine(tmp_path, monkeypatch, line)
    with pytest.raises(dsba.InputError) as caught:
        evaluated(op)
    shown = line if number == 15 else "def map(self, u, y):"
    assert str(caught.value).startswith(f"Mine.map cannot be compiled, see line {number} of my_loss.py ({shown}): a ")
    assert caught.value.__cause__ is not None


def test_a_loss_of_several_scores_that_cannot_be_compiled():
    def helper(u):
        return u[1]

    def forward(self, u, y, out):
        out[0], out[1] = helper(u) + y, -u[0]

    with pytest.raises(dsba.InputError, match=r"Mine.forward cannot be compiled, see line \d+ of test_consistent_"):
        evaluated(wrong(Rotation, forward=forward))


def test_no_method_is_blamed_that_can_be_compiled():
    assert operator_type(Rotation).refusal() is None


def test_the_errors_of_numba_that_no_operator_is_to_blame_for_stay_as_they_are():
    with pytest.raises(numba.TypingError):
        kernel.forward_all(Huber(), "no array", np.zeros(1), np.zeros((1, 1)))


@pytest.mark.parametrize("line", ["return (u - y) / nothing", "return [u - y][1]", "return np.nothing"])
def test_a_loss_that_fails_is_told_the_line_but_no_label(tmp_path, monkeypatch, line):
    with pytest.raises(dsba.InputError) as caught:
        problem(mine(tmp_path, monkeypatch, line))
    kind = type(caught.value.__cause__).__name__
    assert str(caught.value) == f"the operator Mine cannot be evaluated: {kind} in line 15 of my_loss.py ({line})."


@pytest.mark.parametrize("scale", ["much", None, [1.0], {"a": 1.0}, np.ones(2)])
def test_the_fields_of_a_loss_are_numbers(tmp_path, monkeypatch, scale):
    op = mine(tmp_path, monkeypatch, "return u - y", scale)
    with pytest.raises(dsba.InputError, match=rf"must be numbers, Mine\.scale is of type {type(scale).__name__}\."):
        problem(op)


@pytest.mark.parametrize("scale", [1, True, np.float32(1.0), np.bool_(True), np.int64(1)])
def test_numbers_of_any_kind_are_fields(tmp_path, monkeypatch, scale):
    op = mine(tmp_path, monkeypatch, "return self.scale * (u - y)", scale)
    g, y = evaluated(op)
    assert g.tolist() == (-y).tolist()
