"""DSBA and DSA once more, in plain NumPy on dense vectors, with blocks of samples, to compare the fast forms with.

Nothing of the library is used but the data of a problem (A, y, weights c_n, lambda). Backward steps are solved in
R^p by Newton's iteration with halving, the table holds vectors, and the weights c_S = b_S q'/q are written out.
"""

from __future__ import annotations

import numpy as np


def _ridge(problem):
    return lambda u, y: (u - y, np.eye(1))


def _logistic(problem):
    def g(u, y):
        s = 1.0 / (1.0 + np.exp(y * u[0]))
        return np.array([-y * s]), np.array([[s * (1.0 - s)]])

    return g


def _auc(problem):
    """The derivatives of c e^2/2 - sign c h e + m h (b - a) - m theta^2/2 in (score, a, b), minus that in theta."""
    p = problem.component.p
    m = 2 * p * (1 - p)

    def g(u, y):
        sign, c, own = (1.0, 2 * (1 - p), 1) if y > 0 else (-1.0, 2 * p, 2)
        e, h = np.eye(4)[0] - np.eye(4)[own], np.eye(4)[3]  # as linear forms of u; h is 1 + theta
        a_b = np.eye(4)[2] - np.eye(4)[1]
        H = (
            c * np.outer(e, e)
            - sign * c * (np.outer(h, e) + np.outer(e, h))
            + m * (np.outer(h, a_b) + np.outer(a_b, h))
        )
        H[3, 3] -= m
        linear = -sign * c * e + m * a_b
        flip = np.diag([1.0, 1.0, 1.0, -1.0])
        return flip @ (H @ u + linear), flip @ H

    return g


def _softmax(problem):
    def g(u, y):
        p = np.exp(u - u.max())
        p /= p.sum()
        return p - np.eye(u.size)[int(y)], np.diag(p) - np.outer(p, p)

    return g


MAPS = {"ridge": _ridge, "logistic": _logistic, "auc": _auc, "softmax": _softmax}


def blocks(q, b):
    """Places 0..q-1 in ceil(q/b) parts of nearly equal size, in order."""
    count = -(-q // b)
    return [list(range(j * q // count, (j + 1) * q // count)) for j in range(count)]


class Node:
    """One node: its blocks, the table of whole vectors, the component of a block and its resolvent."""

    def __init__(self, problem, n, b, g):
        self.g, self.lam = g, problem.lam_diag
        lo, hi = problem.start[n], problem.start[n + 1]
        k = problem.k
        A = problem.A.toarray()
        self.A = [A[i * k : (i + 1) * k] for i in range(lo, hi)]
        self.y, self.w = problem.y[lo:hi], problem.weight[lo:hi]
        self.blocks = blocks(hi - lo, b)
        self.q = len(self.blocks)
        self.c = [len(S) * self.q / (hi - lo) for S in self.blocks]
        self.table = np.zeros((self.q, A.shape[1]))

    def component(self, S, z):
        """c_S times the mean of the block's operators at z, and its Jacobian."""
        value, slope = np.zeros(z.size), np.zeros((z.size, z.size))
        for i in self.blocks[S]:
            g, J = self.g(self.A[i] @ z, self.y[i])
            value += self.c[S] / len(self.blocks[S]) * self.w[i] * self.A[i].T @ g
            slope += self.c[S] / len(self.blocks[S]) * self.w[i] * self.A[i].T @ J @ self.A[i]
        return value, slope

    def backward(self, S, alpha, v):
        """z with z + alpha (B_S(z) + lam z) = v."""
        z = v / (1 + alpha * self.lam)

        def excess(z):
            return z + alpha * (self.component(S, z)[0] + self.lam * z) - v

        F = excess(z)
        for _ in range(100):
            J = np.diag(1 + alpha * self.lam) + alpha * self.component(S, z)[1]
            d, part = np.linalg.solve(J, F), 1.0
            while part > 1e-9 and not np.linalg.norm(excess(z - part * d)) < np.linalg.norm(F):
                part /= 2
            if part <= 1e-9:
                break
            z = z - part * d
            F = excess(z)
        return z


def run(method, operator, problem, topology, alpha, samples, z0, b=1, table="zero"):
    """All iterates (t, N, p) of DSBA or DSA over the given components."""
    N, W = topology.n_nodes, topology.W_tilde
    nodes = [Node(problem, n, b, MAPS[operator](problem)) for n in range(N)]
    if table == "full":
        for node in nodes:
            node.table = np.array([node.component(S, z0)[0] for S in range(node.q)])
    lam = problem.lam_diag
    Z = Z_prev = np.tile(z0, (N, 1))
    carry = np.array([-(node.table.mean(axis=0) + lam * z0) for node in nodes])
    out = [Z]
    for drawn in samples:
        mixed, new = W @ (2 * Z - Z_prev), np.empty_like(Z)
        for n, (node, S) in enumerate(zip(nodes, drawn, strict=True)):
            phi = node.table[S].copy()
            if method == "dsba":
                new[n] = node.backward(S, alpha, mixed[n] + alpha * (carry[n] + lam * Z[n]) + alpha * phi)
                node.table[S] = node.component(S, new[n])[0]
            else:
                node.table[S] = node.component(S, Z[n])[0]
                delta = node.table[S] - phi
                new[n] = mixed[n] + alpha * (carry[n] - delta) - alpha * lam * (Z[n] - Z_prev[n])
            carry[n] = (1 - 1 / node.q) * (node.table[S] - phi)
        Z, Z_prev = new, Z
        out.append(Z)
    return np.array(out)
