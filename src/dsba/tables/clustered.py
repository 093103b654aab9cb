"""Standard errors clustered by few sites: CR2 with Satterthwaite's degrees of freedom, from sums over the sites.

With X~ = (wV)^1/2 X, M = (X~'X~)^-1 = E'E, Z = X~ E' and residuals r~ = (wV)^-1/2 w (y - mu), site g has

    score  s_g = Z_g' A_g r~_g,   A_g = (I - Z_g Z_g')^-1/2             cov = E' (sum s_g s_g') E
    for the coefficient of c:  b_g = A_g Z_g E c,  u_g = Z_g' b_g,  t_g = b_g'b_g,  q_g = u_g'u_g
    df = (sum t_g - q_g)^2 / [ sum (t_g - q_g)^2 - q_g^2  +  tr(U U) ],   U = sum u_g u_g'

df is (sum of eigenvalues)^2 / (sum of their squares) of the matrix P_gh = b_g'(I - H)_gh b_h, whose off-diagonal is
-u_g'u_h (Bell and McCaffrey 2002; Pustejovsky and Tipton 2018, with the model's own variances as the working ones).
A_g acts in p dimensions: with Z_g'Z_g = Q L Q' it is I + Z_g Q diag(a) Q' Z_g'. The columns of Z have no unit, c is
scaled so that Ec has length 1, and residuals are divided by their standard deviation: no unit costs a sum digits.
"""

from __future__ import annotations

import numpy as np

from dsba.algorithms.newton import symmetric
from dsba.network import Group, summed
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


def cr2(
    columns: ScaledColumns, coefficients: Array, family: Family, bread: Array, back: Array, group: Group, scale: float
) -> tuple[Array, Array]:
    """CR2 of the coefficients, and the degrees of freedom of those that ``back`` turns them into, one a row.

    ``scale`` is the variance of residuals, where the family has one.
    """
    p, E = coefficients.size, np.linalg.cholesky(bread).T
    wanted = E @ back.T
    wanted = wanted / np.sqrt((wanted**2).sum(axis=0))
    working = [_working(design, coefficients, family) for design in columns.designs]
    held = zip(columns.designs, working, strict=True)
    parts = [_site(one.X @ E.T * root[:, None], residual / scale**0.5, wanted) for one, (root, residual) in held]
    half = p * (p + 1) // 2
    meat, spread, squares, upper = np.split(summed(group, np.array(parts)), np.cumsum([half, p, p]))
    cross = np.array([(symmetric(one, p) ** 2).sum() for one in upper.reshape(p, half)])
    return scale * (E.T @ symmetric(meat, p) @ E), spread**2 / np.maximum(squares + cross, 1e-300)


def _working(design: Design, coefficients: Array, family: Family) -> tuple[Array, Array]:
    """Of each row the root of its weight in the information, and its residual in these units."""
    mu = family.mean(design, coefficients)
    root = np.sqrt(design.weight * family.variance(mu))
    score = design.weight * (design.y - mu)
    return root, np.divide(score, root, out=np.zeros_like(root), where=root > 0.0)


def _site(Z: Array, residual: Array, wanted: Array) -> Array:
    """What one site adds: the upper triangles of s s' and of u u', t - q, and (t - q)^2 - q^2."""
    values, Q = np.linalg.eigh(Z.T @ Z)
    values = np.clip(values, 0.0, 1.0)
    usual = values < WHOLE
    # (I - H)^-1/2 = I + sum over eigenvectors; where the site alone has a direction, the inverse is that of the rest.
    growth = np.where(usual, 1.0 / np.sqrt(np.where(usual, 1.0 - values, 1.0)), 0.0) - 1.0
    vectors = Z @ Q  # of length sqrt(values)
    lift = np.divide(growth, values, out=np.zeros(len(Q)), where=values > 1e-14)
    score = Z.T @ (residual + vectors @ (lift * (vectors.T @ residual)))
    B = Z @ wanted
    B = B + vectors @ (lift[:, None] * (vectors.T @ B))
    U = Z.T @ B  # a column for each coefficient
    q = (U**2).sum(axis=0)
    left, upper = (B**2).sum(axis=0) - q, np.triu_indices(len(Q))
    crosses = [np.outer(u, u)[upper] for u in U.T]
    return np.concatenate([np.outer(score, score)[upper], left, left**2 - q**2, *crosses])
