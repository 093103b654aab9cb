"""One sample per node, and whole tables, on the stacked blocks A (CSR, k rows a sample)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def forward_all(op: Any, U: Any, y: Any, G: Any) -> None:
    """G_i <- g(U_i) for all samples."""
    for i in range(U.shape[0]):
        op.forward(U[i], y[i], G[i])


@njit(cache=True)
def loss_all(op: Any, U: Any, y: Any, weight: Any) -> float:
    """sum_i weight_i loss(U_i, y_i)."""
    total = 0.0
    for i in range(U.shape[0]):
        total += weight[i] * op.loss(U[i], y[i])
    return total


@njit(cache=True)
def slope_all(op: Any, u: Any, y: Any, out: Any) -> None:
    """out_i <- g'(u_i), for k = 1."""
    for i in range(u.size):
        out[i] = op.slope(u[i], y[i])


@njit(cache=True)
def dot_block(indptr: Any, indices: Any, data: Any, row: int, z: Any, out: Any) -> None:
    """out <- A_i z for the block that starts at ``row``."""
    for r in range(out.size):
        total = 0.0
        for e in range(indptr[row + r], indptr[row + r + 1]):
            total += data[e] * z[indices[e]]
        out[r] = total


@njit(cache=True)
def norms_block(indptr: Any, indices: Any, data: Any, row: int, r: Any, out: Any) -> None:
    """out <- the squared norms of A_i's rows in the metric diag(r)."""
    for c in range(out.size):
        out[c] = 0.0
        for e in range(indptr[row + c], indptr[row + c + 1]):
            out[c] += r[indices[e]] * data[e] * data[e]


@njit(cache=True)
def norms_all(A: Any, r: Any, out: Any) -> None:
    """out_i <- squared row norms of A_i in the metric diag(r), for all samples."""
    indptr, indices, data = A
    for i in range(out.shape[0]):
        norms_block(indptr, indices, data, i * out.shape[1], r, out[i])


@njit(cache=True)
def add_block(indptr: Any, indices: Any, data: Any, row: int, coef: Any, scale: float, r: Any, z: Any) -> None:
    """z <- z + scale diag(r) A_i' coef for the block that starts at ``row``."""
    for c in range(coef.size):
        x = scale * coef[c]
        for e in range(indptr[row + c], indptr[row + c + 1]):
            z[indices[e]] += x * r[indices[e]] * data[e]


@njit(cache=True)
def table_rows(op: Any, A: Any, y: Any, start: Any, Z: Any, out: Any) -> None:
    """out_i <- g(A_i z_n) for every sample i of every node n."""
    indptr, indices, data = A
    u = np.empty(out.shape[1])
    for n in range(Z.shape[0]):
        for i in range(start[n], start[n + 1]):
            dot_block(indptr, indices, data, i * u.size, Z[n], u)
            op.forward(u, y[i], out[i])


@njit(cache=True)
def average_rows(A: Any, weight: Any, start: Any, table: Any, ones: Any, out: Any) -> None:
    """out_n <- (1/q_n) sum_i weight_i A_i' table_i over the samples of node n."""
    indptr, indices, data = A
    for n in range(out.shape[0]):
        out[n] = 0.0
        for i in range(start[n], start[n + 1]):
            scale = weight[i] / (start[n + 1] - start[n])
            add_block(indptr, indices, data, i * table.shape[1], table[i], scale, ones, out[n])


@njit(cache=True)
def forward_samples(op: Any, A: Any, y: Any, ids: Any, Z: Any, out: Any) -> None:
    """out_n <- g(A_i z_n), i = ids[n]."""
    indptr, indices, data = A
    u = np.empty(out.shape[1])
    for n in range(ids.size):
        dot_block(indptr, indices, data, ids[n] * u.size, Z[n], u)
        op.forward(u, y[ids[n]], out[n])


@njit(cache=True)
def backward_samples(op: Any, A: Any, y: Any, ids: Any, t: Any, r: Any, V: Any, out: Any) -> None:
    """v_n <- z with z + t_n diag(r) A_i' g(A_i z) = v_n, and out_n <- g(A_i z), i = ids[n]."""
    indptr, indices, data = A
    k = out.shape[1]
    b, s, u = np.empty(k), np.empty(k), np.empty(k)
    for n in range(ids.size):
        i = ids[n]
        dot_block(indptr, indices, data, i * k, V[n], b)
        norms_block(indptr, indices, data, i * k, r, s)
        op.backward(b, t[n], s, y[i], u)
        op.forward(u, y[i], out[n])
        add_block(indptr, indices, data, i * k, out[n], -t[n], r, V[n])
