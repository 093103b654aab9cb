"""The paper's lemmas 1 to 4 and theorem 1, state by state, with every expectation enumerated.

Plain NumPy on affine components that are strongly monotone each, as the lemmas ask for: B_i(z) = M_i z - c_i with
mu <= M_i <= L. lambda is inside of the components here, as in the paper.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import dsba

MU, L, Q, P = 0.05, 1.0, 3, 2


class Paper:
    """DSBA as the paper writes it, on N nodes of Q components in R^P."""

    def __init__(self, topology, alpha, seed=0):
        rng = np.random.default_rng(seed)
        self.alpha, self.W, self.N = alpha, topology.W_tilde, topology.n_nodes
        values, vectors = np.linalg.eigh((np.eye(self.N) - topology.W) / 2)
        self.U, self.gamma = vectors * np.sqrt(np.clip(values, 0, None)) @ vectors.T, topology.gamma
        turns = [np.linalg.qr(rng.normal(size=(P, P)))[0] for _ in range(self.N * Q)]
        M = [V @ np.diag(rng.uniform(MU, L, P)) @ V.T for V in turns]
        self.M, self.c = np.reshape(M, (self.N, Q, P, P)), rng.normal(size=(self.N, Q, P))
        z = np.linalg.solve(self.M.sum(axis=(0, 1)), self.c.sum(axis=(0, 1)))
        self.z, self.Z = z, np.tile(z, (self.N, 1))
        self.best = np.einsum("nijk,k->nij", self.M, z) - self.c
        self.Q = -alpha * np.linalg.pinv(self.U, rcond=1e-8) @ self.best.mean(axis=1)

    def start(self):
        Z = np.tile(np.ones(P), (self.N, 1))
        return Z, self.U @ Z, np.zeros((self.N, Q, P))

    def outcomes(self, Z, Qs, phi):
        """z_{n,i}^{t+1} for every node and component, from W~Z - UQ - alpha (B_i(z+) - phi_i + mean phi)."""
        base = (self.W @ Z - self.U @ Qs)[:, None] + self.alpha * (self.c + phi - phi.mean(axis=1)[:, None])
        return np.linalg.solve(np.eye(P) + self.alpha * self.M, base[..., None])[..., 0]

    def after(self, Z, Qs, phi, choice):
        """Z+, Q+, the table, and the estimate of B at Z+."""
        rows = np.arange(self.N), np.array(choice)
        new = self.outcomes(Z, Qs, phi)[rows]
        values = np.einsum("njk,nk->nj", self.M[rows], new) - self.c[rows]
        estimate, table = values - phi[rows] + phi.mean(axis=1), phi.copy()
        table[rows] = values
        return new, Qs + self.U @ new, table, estimate

    def norm(self, Z, Qs):
        return np.sum(Z * (self.W @ Z)) + np.sum(Qs**2)

    def H(self, Z, Qs, phi):
        return self.norm(Z - self.Z, Qs - self.Q) + Q / (96 * L**2) * self.D(phi)

    def D(self, phi):
        return 2 / Q * np.sum((phi - self.best) ** 2)

    def S_and_T(self, Z, Qs, phi):
        new = self.outcomes(Z, Qs, phi)
        off = np.einsum("nijk,nik->nij", self.M, new) - self.c - self.best
        return 2 / Q * np.sum(off**2), 2 / Q * np.sum((new - self.z) * off)

    def mean(self, f, state):
        return np.mean([f(*self.after(*state, choice)) for choice in product(range(Q), repeat=self.N)])

    def walk(self, steps, seed=1):
        """States along a run."""
        state, rng = self.start(), np.random.default_rng(seed)
        for _ in range(steps):
            yield state
            state = self.after(*state, rng.integers(Q, size=self.N))[:3]


@pytest.fixture(params=["path", "complete"])
def paper(request):
    return Paper(dsba.Topology.family(request.param, 3), 1 / (24 * L))


def test_lemma_1(paper):
    for state in paper.walk(10):
        Z, Qs, _ = state
        new, Q_new, _, estimate = paper.after(*state, (0, 1, 2))
        off = estimate - paper.best.mean(axis=1)
        np.testing.assert_allclose(paper.alpha * off, paper.W @ (Z - new) - paper.U @ (Q_new - paper.Q), atol=1e-13)
        left = -2 * paper.alpha * np.sum((new - paper.Z) * off)
        right = paper.norm(new - paper.Z, Q_new - paper.Q) + paper.norm(new - Z, Q_new - Qs)
        assert left == pytest.approx(right - paper.norm(Z - paper.Z, Qs - paper.Q), abs=1e-12)


def test_lemmas_2_and_3(paper):
    for state in paper.walk(10):
        Z, _, phi = state
        S, T = paper.S_and_T(*state)
        best, D = paper.best.mean(axis=1), paper.D(phi)
        inner = paper.mean(lambda new, _q, _t, B, best=best: np.sum((new - paper.Z) * (best - B)), state)
        moved = paper.mean(lambda new, *_, Z=Z: np.sum((new - Z) ** 2), state)
        for theta, eta in product((0.0, 0.5, 1.0), (0.01, 0.2, 5.0)):
            assert inner <= moved / (2 * eta) + eta / 4 * D - theta / (2 * L) * S - (1 - theta) / 2 * T + 1e-12
        assert paper.mean(lambda _n, _q, _t, B, best=best: np.sum((B - best) ** 2), state) <= S + D + 1e-12


def test_lemma_4(paper):
    for state in paper.walk(10):
        Z, Qs, phi = state
        S, T = paper.S_and_T(*state)
        gamma, factor = paper.gamma, 2 + 4 / paper.gamma
        moved = paper.mean(lambda new, *_, Z=Z: np.sum((new - Z) * (paper.W @ (new - Z))), state)
        turned = paper.mean(lambda _n, Q_new, *_, Qs=Qs: np.sum((Q_new - Qs) ** 2), state)
        bound = factor * moved + T / MU + 2 * turned + 4 * paper.alpha**2 / gamma * (S + paper.D(phi))
        assert paper.norm(Z - paper.Z, Qs - paper.Q) <= bound + 1e-12


@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (1e-3, False)])
def test_theorem_1_holds_at_its_step_size_and_fails_below(factor, holds):
    """Its rate does not depend on alpha, and as alpha goes to 0 nothing moves."""
    paper = Paper(dsba.Topology.path(3), factor / (24 * L))
    rate = 1 - min(paper.gamma / 12, MU / (48 * L), 1 / (3 * Q), 1 / 4)
    kept = [paper.mean(lambda *new: paper.H(*new[:3]), s) <= rate * paper.H(*s) * (1 + 1e-12) for s in paper.walk(30)]
    assert all(kept) == holds
