"""Standard errors clustered by few sites: CR2 with Satterthwaite's degrees of freedom, from sums over the sites.

With X~ = (wV)^1/2 X, residuals r~ = (wV)^-1/2 w (y - mu), M = (X~'X~)^-1 and H_g = X~_g M X~_g', site g has

    score  s_g = X~_g' A_g r~_g,   A_g = (I - H_g)^-1/2             cov = M (sum s_g s_g') M
    for the coefficient of c:  b_g = A_g X~_g M c,  u_g = X~_g' b_g,  t_g = b_g'b_g,  q_g = u_g' M u_g
    df = (sum t_g - q_g)^2 / [ sum (t_g - q_g)^2 - q_g^2  +  tr(M U M U) ],   U = sum u_g u_g'

df is (sum of eigenvalues)^2 / (sum of their squares) of the matrix P_gh = b_g'(I - H)_gh b_h, whose off-diagonal is
-u_g' M u_h (Bell and McCaffrey 2002; Pustejovsky and Tipton 2018, with the model's own variances as the working ones).
A_g acts in p dimensions: with E'E = M and E X~_g'X~_g E' = Q L Q' it is I + X~_g E'Q diag(a) Q'E X~_g'.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dsba.algorithms.newton import symmetric
from dsba.network import Group, summed
from dsba.operators import link_of
from dsba.tables.design import Design
from dsba.tables.families import Family
from dsba.tables.scaling import ScaledColumns
from dsba.types import Array

MOST_COEFFICIENTS = 30  # p^3/2 numbers are summed for the degrees of freedom; above, CR1 with t(G - 1)
FEWEST_SITES = 3
WHOLE = 1.0 - 1e-10  # an eigenvalue of H_g above: a direction that the site alone determines, which has no residual


def few_sites(sites: int, coefficients: int) -> str:
    """What to know of errors that are clustered by so few sites."""
    how = "CR2, Satterthwaite" if coefficients <= MOST_COEFFICIENTS else f"CR1, t({sites - 1})"
    said = f"Errors are clustered by {sites} sites ({how})."
    if sites > coefficients:
        return said
    return f"{said} The sites are not more than its {coefficients} coefficients: joint tests do not exist."


class Clustered(NamedTuple):
    """The covariance of coefficients of scaled columns, and their degrees of freedom."""

    covariance: Array
    df: Array


def cr2(
    columns: ScaledColumns, coefficients: Array, family: Family, bread: Array, back: Array, group: Group
) -> Clustered:
    """CR2; ``back`` turns the coefficients into those whose degrees of freedom are wanted, one a row."""
    p = coefficients.size
    parts = [_site(design.X, *_working(design, coefficients, family), bread, back) for design in columns.designs]
    total = summed(group, np.array(parts))
    half = p * (p + 1) // 2
    meat, spread, squares, upper = np.split(total, np.cumsum([half, p, p]))
    cross = np.array([_crossed(symmetric(one, p), bread) for one in upper.reshape(p, half)])
    return Clustered(bread @ symmetric(meat, p) @ bread, spread**2 / np.maximum(squares + cross, 1e-300))


def _working(design: Design, coefficients: Array, family: Family) -> tuple[Array, Array]:
    """Of each row the root of its weight in the information, and its residual in these units."""
    X, weight = design.X, design.weight
    mu = link_of(family.link).mean((X @ coefficients + design.offset)[:, None])
    variance = weight * family.variance(mu)
    root = np.sqrt(variance)
    score = weight * (design.y - mu)
    return root, np.divide(score, root, out=np.zeros_like(root), where=root > 0.0)


def _site(X: Array, root: Array, residual: Array, M: Array, back: Array) -> Array:
    """What one site adds: the upper triangles of s s' and of u u', t - q, and (t - q)^2 - q^2."""
    X, p = X * root[:, None], len(M)
    E = np.linalg.cholesky(M).T  # E'E = M
    values, Q = np.linalg.eigh(E @ (X.T @ X) @ E.T)
    values = np.clip(values, 0.0, 1.0)
    usual = values < WHOLE
    # (I - H)^-1/2 = I + sum over eigenvectors; where the site alone has a direction, the inverse is that of the rest.
    growth = np.where(usual, 1.0 / np.sqrt(np.where(usual, 1.0 - values, 1.0)), 0.0) - 1.0
    vectors = X @ E.T @ Q  # of length sqrt(values)
    lift = np.divide(growth, values, out=np.zeros(p), where=values > 1e-14)
    score = X.T @ (residual + vectors @ (lift * (vectors.T @ residual)))
    B = X @ (M @ back.T)
    B = B + vectors @ (lift[:, None] * (vectors.T @ B))
    U = X.T @ B  # a column for each coefficient
    q = np.einsum("ij,ik,kj->j", U, M, U)
    left, upper = (B**2).sum(axis=0) - q, np.triu_indices(p)
    crosses = [np.outer(u, u)[upper] for u in U.T]
    return np.concatenate([np.outer(score, score)[upper], left, left**2 - q**2, *crosses])


def _crossed(U: Array, M: Array) -> float:
    """tr(M U M U)."""
    MU = M @ U
    return float((MU * MU.T).sum())
