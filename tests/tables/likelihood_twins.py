"""Likelihoods written a second time, slow and obvious, with a Newton iteration and a test of existence of their own.

Nothing here knows the code of a model but its name. Derivatives are differences. Whether a maximum exists is a question
to a linear program: the likelihoods are concave, so there is none if a direction lowers no row's probability and raises
one's.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.special import gammaln
from scipy.stats import logistic, norm

KINDS = {
    "logistic": "binary", "probit": "binary", "cloglog": "binary", "quasi-binomial": "binary", "quasi-poisson": "count",
    "negative-binomial": "count", "gamma": "positive", "inverse-gaussian": "positive", "multinomial": "classes",
    "ordinal": "classes", "cox": "times",
}  # fmt: skip
CLASSES = 3


class SmallTable(NamedTuple):
    name: str
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    offset: np.ndarray
    strata: np.ndarray

    @property
    def parameters(self):
        q = self.X.shape[1]
        return {"multinomial": 2 * q, "ordinal": q + 2, "negative-binomial": q + 1}.get(self.name, q)


def small_table(name, seed):
    """8 to 40 rows at two sites, some columns of zeros and ones; at times weights, an offset, dependent columns."""
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    n, p, kind = int(rng.integers(8, 40)), int(rng.integers(1, 4)), KINDS[name]
    X = np.where(rng.random(p) < 0.4, rng.random((n, p)) < 0.4, rng.normal(size=(n, p))).astype(float)
    if seed % 29 == 0:
        X[:, -1] = 2.0 * X[:, 0] - 1.0
    if name not in ("cox", "ordinal"):
        X = np.column_stack([np.ones(n), X])
    u = X @ rng.normal(size=X.shape[1])
    weight = rng.choice([0.5, 1.0, 2.0], n) if rng.random() < 0.3 else np.ones(n)
    offset = 0.5 * rng.normal(size=n) if rng.random() < 0.3 and name != "multinomial" else np.zeros(n)
    if kind == "binary":
        y = (rng.random(n) < 1 / (1 + np.exp(-u))).astype(float)
    elif kind == "count":
        y = rng.negative_binomial(2, 1 / (1 + 0.5 * np.exp(np.minimum(u, 3.0)))).astype(float)
    elif kind == "positive":
        y = rng.gamma(3.0, np.exp(0.5 * u) / 3.0) + 1e-3
    elif kind == "classes":
        y = np.clip(np.round(u + rng.logistic(size=n)), 0, 2)
    else:
        y = np.column_stack([rng.integers(1, int(rng.integers(3, 30)), n), rng.random(n) < 0.7]).astype(float)
    return SmallTable(name, X, y, weight, offset, np.arange(n) % 2)


def llf(table, z):
    """The log-likelihood up to a constant; minus infinity where a class would have no room."""
    name, X, y, w, o, _ = table
    if name == "multinomial":
        U = np.column_stack([np.zeros(len(X)), *(X @ part for part in np.split(z, CLASSES - 1))])
        return w @ (U[np.arange(len(X)), y.astype(int)] - np.log(np.exp(U).sum(axis=1)))
    u = X @ z[: X.shape[1]] + o
    if name in ("logistic", "quasi-binomial", "probit"):
        F = norm if name == "probit" else logistic
        return w @ np.where(y > 0, F.logcdf(u), F.logsf(u))
    if name == "cloglog":
        return w @ np.where(y > 0, np.log(-np.expm1(-np.exp(u))), -np.exp(u))
    if name == "gamma":
        return -w @ (y / np.exp(u) + u)
    if name == "inverse-gaussian":
        return -0.5 * w @ ((y / np.exp(u) - 1.0) ** 2 / y)
    if name == "quasi-poisson":
        return w @ (y * u - np.exp(u))
    if name == "negative-binomial":
        t = np.exp(z[-1]) if z[-1] < 18.0 else np.nan  # beyond it is a Poisson model, and rounding
        return w @ (
            gammaln(y + t) - gammaln(t) - gammaln(y + 1) + t * np.log(t) + y * u - (y + t) * np.log(np.exp(u) + t)
        )
    if name == "ordinal":
        cuts = np.array([-np.inf, *z[X.shape[1] :], np.inf])
        low, high = cuts[y.astype(int)] - u, cuts[y.astype(int) + 1] - u
        P = np.where(low > 0, logistic.sf(low) - logistic.sf(high), logistic.cdf(high) - logistic.cdf(low))
        return w @ np.log(P) if (P > 0).all() else -np.inf
    return sum(_partial(table, u, table.strata == stratum) for stratum in (0, 1))


def _partial(table, u, here):
    """Cox's partial likelihood of one stratum, Efron's ties: tied rows have their mean weight."""
    time, died, w, u = table.y[here, 0], table.y[here, 1] > 0, table.weight[here], u[here]
    total, risk = w[died] @ u[died], w * np.exp(u)
    for t in np.unique(time[died]):
        tied = died & (time == t)
        left = risk[time >= t].sum() - np.arange(tied.sum()) / tied.sum() * risk[tied].sum()
        total -= w[tied].mean() * np.log(left).sum()
    return total


def exists(table):
    """Whether the likelihood has one maximum, by a linear program; None where it is not concave."""
    if table.name == "inverse-gaussian":
        return None
    A = _directions(table)
    if np.linalg.matrix_rank(A) < A.shape[1]:
        return False
    if table.name == "gamma":
        return True
    best = linprog(-A.sum(axis=0), A_ub=-A, b_ub=np.zeros(len(A)), bounds=(-1.0, 1.0), method="highs")
    assert best.status == 0
    return -best.fun < 1e-7


def _directions(table):
    """Rows a with a'd >= 0 for every direction d in which no row's probability falls to zero."""
    name, X, y = table[:3]
    if KINDS[name] == "binary":
        return np.where(y > 0, 1.0, -1.0)[:, None] * X
    if KINDS[name] == "count":
        return np.concatenate([-X, X[y > 0]])
    if name == "gamma":
        return X
    if name == "multinomial":
        units = np.vstack([np.zeros(2), np.eye(2)])
        pairs = ((x, units[int(k)] - units[j]) for x, k in zip(X, y, strict=True) for j in range(3) if j != k)
        return np.array([np.kron(unit, x) for x, unit in pairs])
    if name == "ordinal":
        cuts = np.eye(2)
        above = [np.append(-x, cuts[int(k)]) for x, k in zip(X, y, strict=True) if k < 2]
        return np.array(above + [np.append(x, -cuts[int(k) - 1]) for x, k in zip(X, y, strict=True) if k > 0])
    pairs = itertools.product(np.flatnonzero(y[:, 1]), range(len(X)))
    rows = [X[d] - X[r] for d, r in pairs if y[r, 0] >= y[d, 0] and table.strata[d] == table.strata[r]]
    return np.array(rows).reshape(-1, X.shape[1])


def newton(table, steps=80):
    """A maximum found from zero, or the place that was reached; and minus the second derivatives there."""
    with np.errstate(all="ignore"):
        return _newton(table, steps)


def _newton(table, steps):
    z, h = np.zeros(table.parameters), 1e-3
    if table.name == "ordinal":
        z[-2:] = -1.0, 1.0
    here, units = llf(table, z), np.eye(z.size)
    for _ in range(steps):
        g, H = slope(table, z, h), np.zeros((z.size, z.size))
        for j in range(z.size):
            H[j] = -(slope(table, z + h * units[j], h) - slope(table, z - h * units[j], h)) / (2 * h)
        H = 0.5 * (H + H.T)
        ridge = max(0.0, 1e-6 * np.trace(np.abs(H)) - 2.0 * np.linalg.eigvalsh(H)[0]) if not _positive(H) else 0.0
        step = np.linalg.solve(H + (ridge + 1e-300) * units, g)
        if step @ g < 1e-18:
            break
        while not (there := llf(table, z + step)) > here - 1e-12 * abs(here) and np.abs(step).max() > 1e-14:
            step = 0.5 * step
        z, here = z + step, there
    return z, H


def _positive(H):
    return np.linalg.eigvalsh(H)[0] > 1e-9 * np.trace(np.abs(H))


def slope(table, z, h):
    """The slope of the log-likelihood, by five points: the error is of the order h^4."""
    found = []
    for unit in np.eye(z.size):
        f = [llf(table, z + k * h * unit) for k in (-2, -1, 1, 2)]
        found.append((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h))
    return np.array(found)
