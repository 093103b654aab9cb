"""The updates of the rivals against plain twins: matrices and loops, written from the papers' equations.

A twin knows the data as dense arrays, W as a matrix, and the numbers that were drawn; nothing of the library's kernels,
networks or states.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import ROOT, make_problem

import dsba
from dsba.algorithms import sampling
from dsba.network import Simulator
from dsba.operators.penalties import L1

TOPOLOGIES = [dsba.Topology.star(4), dsba.Topology.path(4, mixing="metropolis")]


class Dense:
    """The problem as arrays: local gradients c_n (1/q_n) sum of l'(x'z) x + lam z, sample by sample."""

    def __init__(self, problem, topology):
        self.N, self.lam, self.p = problem.n_nodes, problem.lam, problem.dim
        self.X, self.y, self.start = problem.A.toarray(), problem.y, problem.start
        self.q = np.diff(self.start)
        self.L = problem.local_smoothness.max() + self.lam  # a parameter, as the step size is
        self.L_sample = problem.constants.L_plan
        self.c = self.N * self.q / self.q.sum()
        self.logistic = type(problem.component).__name__ == "Logistic"
        self.W, self.W_tilde = topology.W, (np.eye(self.N) + topology.W) / 2
        self.Lap = np.eye(self.N) - topology.W
        self.l1 = 0.0 if problem.penalty is None else problem.penalty.strength

    def derivative(self, i, u):
        return -self.y[i] / (1 + np.exp(self.y[i] * u)) if self.logistic else u - self.y[i]

    def sample(self, n, i, z):
        """c_n times the gradient of the loss of sample i of node n."""
        row = self.start[n] + i
        return self.c[n] * self.derivative(row, self.X[row] @ z) * self.X[row]

    def gradient(self, Z):
        means = [sum(self.sample(n, i, Z[n]) for i in range(self.q[n])) / self.q[n] for n in range(self.N)]
        return np.array(means) + self.lam * Z

    def prox(self, V, t):
        """Soft thresholds."""
        return np.where(np.abs(V) <= t * self.l1, 0.0, V - t * self.l1 * np.sign(V))


def pg_extra(d, alpha, X, draws):
    """Shi, Ling, Wu and Yin: the first step, then the general one."""
    G, half = d.gradient(X), d.W @ X - alpha * d.gradient(X)
    X, X_prev, G_prev = d.prox(half, alpha), X, G
    for _ in draws[1:]:
        G = d.gradient(X)
        half = d.W @ X + half - d.W_tilde @ X_prev - alpha * (G - G_prev)
        X, X_prev, G_prev = d.prox(half, alpha), X, G
    return X


def nids(d, alpha, X, draws):
    """Li, Shi and Yan, with the bracket's old gradient taken for zero at first."""
    Z, X_prev, G_prev = X, X, np.zeros_like(X)
    for _ in draws:
        G = d.gradient(X)
        Z = Z - X + d.W_tilde @ (2 * X - X_prev - alpha * G + alpha * G_prev)
        X, X_prev, G_prev = d.prox(Z, alpha), X, G
    return X


def papc(d, eta, X, draws, P):
    """Kovalev, Salim and Richtarik, with the gossip matrix P."""
    mu, tau = d.lam, min(1.0, 1 / (4 * eta * d.L))
    theta = 1 / (eta * np.linalg.eigvalsh(P).max())
    Xf, Y = X, np.zeros_like(X)
    for _ in draws:
        Xg = tau * X + (1 - tau) * Xf
        g = d.gradient(Xg) - mu * Xg
        Xh = (X - eta * (g + Y)) / (1 + eta * mu)
        Y = Y + theta * P @ Xh
        X_new = (X - eta * (g + Y)) / (1 + eta * mu)
        Xf = Xg + 2 * tau / (2 - tau) * (X_new - X)
        X = X_new
    return Xf


def apapc(d, eta, X, draws):
    return papc(d, eta, X, draws, d.Lap)


def opapc(d, eta, X, draws):
    values, vectors = np.linalg.eigh(d.Lap)
    l1, l2 = values[1], values[-1]
    K, c2, c3 = int(np.sqrt(l2 / l1)), (l2 + l1) / (l2 - l1), 2 / (l1 + l2)
    T = np.polynomial.chebyshev.Chebyshev.basis(K)
    return papc(d, eta, X, draws, vectors @ np.diag(1 - T(c2 * (1 - c3 * values)) / T(c2)) @ vectors.T)


def gt_saga(d, alpha, X, draws):
    """Xin, Khan and Kar: every entry of the table is a whole gradient."""
    table = [[d.sample(n, i, X[n]) for i in range(d.q[n])] for n in range(d.N)]
    v = Y = d.gradient(X)
    for samples in draws:
        X = d.W_tilde @ X - alpha * Y
        v_old, v = v, np.empty_like(X)
        for n, i in enumerate(samples):
            new = d.sample(n, i, X[n])
            v[n] = new - table[n][i] + np.mean(table[n], axis=0) + d.lam * X[n]
            table[n][i] = new
        Y = d.W_tilde @ Y + v - v_old
    return X


def diging(d, alpha, X, draws):
    """Nedic, Olshevsky and Shi, with W~ as the mixing matrix."""
    Y = d.gradient(X)
    for _ in draws:
        X_new = d.W_tilde @ X - alpha * Y
        X, Y = X_new, d.W_tilde @ Y + d.gradient(X_new) - d.gradient(X)
    return X


def dgd(d, alpha, X, draws):
    """Nedic and Ozdaglar, with a constant step."""
    for _ in draws:
        X = d.W @ X - alpha * d.gradient(X)
    return X


def dual_averaging(d, alpha, X, draws):
    """Duchi, Agarwal and Wainwright, with P the one of W and W~ that mixes faster; the mean of all points."""

    def second(P):
        return np.sort(np.abs(np.linalg.eigvalsh(P)))[-2]

    P, center, Y, points = min(d.W, d.W_tilde, key=second), X, np.zeros_like(X), []
    for t in range(1, len(draws) + 1):
        Y = P @ Y + d.gradient(X)
        X = center - alpha / np.sqrt(t) * Y
        points.append(X)
    return np.mean(points, axis=0)


def lead(d, eta, X, draws, coins):
    """Liu et al.: C rounds to multiples of half the largest magnitude, up with the probability that keeps the mean."""
    H, Hw, D = X, d.W @ X, np.zeros_like(X)
    for coin in coins[:, 0]:
        u = np.array([generator.random(d.p) for generator in sampling.generators(coin, range(d.N))])
        G = d.gradient(X)
        Y = X - eta * G - eta * D
        top = np.abs(Y - H).max(axis=1, keepdims=True)
        Q = top / 2 * np.sign(Y - H) * np.floor(2 * np.abs(Y - H) / top + u)
        Yh, Yw = H + Q, Hw + d.W @ Q
        H, Hw = 0.5 * H + 0.5 * Yh, 0.5 * Hw + 0.5 * Yw
        D = D + (Yh - Yw) / (2 * eta)
        X = X - eta * G - eta * D
    return X


def acc_vr_extra(d, alpha, X, draws, coins):
    """Li, Lin and Fang, with whole gradients at the anchor."""
    b, q, U2 = int(np.ceil(np.sqrt(d.q.max()))), d.q.max(), d.Lap / 2
    th1 = min(0.5, np.sqrt(q * d.lam / (b * (d.L_sample + d.lam))) / 2)
    m, beta = d.lam * alpha / th1, d.L
    Z = Wt = X
    V = np.zeros_like(X)
    for first, second in coins:
        Y = th1 * Z + Wt / 2 + (1 - th1 - 0.5) * X
        est = d.gradient(Wt) - d.lam * Wt + d.lam * Y
        for samples in sampling.batches(first, range(d.N), d.q, b):
            est = est + np.array([d.sample(n, i, Y[n]) - d.sample(n, i, Wt[n]) for n, i in enumerate(samples)]) / b
        Z_new = (m * Y + Z - alpha / th1 * (est + V + th1 * beta * U2 @ Z)) / (1 + m)
        V = V + th1 * beta * U2 @ Z_new
        X, Z = Y + th1 * (Z_new - Z), Z_new
        Wt = X if second < b / q else Wt
    return X


def dvr(d, rho, X, draws, coins, catalyst=False):
    """Hendrikx, Bach and Massoulie: the iterate from its relation to all points y, in every iteration anew."""
    q, values = d.q.max(), np.linalg.eigvalsh(d.Lap)
    tau = max(0.0, d.L_sample / q - d.lam) if catalyst else 0.0
    sigma, l1, l2 = d.lam + tau, values[1], values[-1]
    weight = 2 * l1 / (sigma + d.L - d.lam)
    L_comp, L_comm = weight * (1 + d.L_sample / q / sigma) * q, l2 / sigma
    p_comp = 1 / (1 + L_comm / L_comp)
    eta = min(p_comp / L_comp, (1 - p_comp) / L_comm)
    loop, root = int(np.ceil((q + d.L_sample / sigma) / p_comp)), np.sqrt(d.lam / sigma)
    center = last = X
    node = np.repeat(np.arange(d.N), d.q)
    y = np.einsum("ij,ij->i", d.X, X[node])
    far = np.zeros_like(X)  # what gossip has moved

    def relation():
        g = np.array([d.derivative(i, y[i]) for i in range(y.size)]) * (d.c / d.q)[node]
        sums = np.array([g[node == n] @ d.X[node == n] for n in range(d.N)])
        return (tau * center - sums) / sigma + far

    for t, (samples, coin) in enumerate(zip(draws, coins[:, 0], strict=True), 1):
        X = relation()
        if coin < p_comp:
            for n, i in enumerate(samples):
                row = d.start[n] + i
                share = min(1.0, rho * d.q[n] / q)
                assert catalyst or abs(share - eta * weight * d.q[n] / p_comp) < 1e-12
                y[row] = (1 - share) * y[row] + share * (d.X[row] @ X[n])
        else:
            far = far - eta / (sigma * (1 - p_comp)) * d.Lap @ X
        if catalyst and t % loop == 0:
            X = relation()
            center, last = X + (1 - root) / (1 + root) * (X - last), X
    return relation()


def dvr_catalyst(d, rho, X, draws, coins):
    return dvr(d, rho, X, draws, coins, catalyst=True)


def vi_numbers(d, eta):
    values = np.linalg.eigvalsh(d.Lap)
    chi, b = values[-1] / values[1], d.lam / d.L**2
    a = 1 - min(1 / (1 + 3 * d.L * np.sqrt(chi) / d.lam), 1 / (2 * chi))
    return d.Lap / values[-1], a, b, min(1 / (2 * b), 1 / (9 * eta))


def vi_papc(d, eta, Z, draws):
    """Kovalev et al., Algorithm 1, with full batches: line by line the authors' program."""
    G, a, b, theta = vi_numbers(d, eta)
    Z_old, Y = Z, np.zeros_like(Z)
    Y_old = Y
    for _ in draws:
        Delta = d.gradient(Z) + a * (d.gradient(Z) - d.gradient(Z_old)) - (Y + a * (Y - Y_old))
        Z, Z_old = Z - eta * Delta, Z
        Y, Y_old = Y - theta * G @ (Z - b * (d.gradient(Z) - Y)), Y
    return Z


def vi_papc_vr(d, eta, Z, draws, coins):
    """Kovalev et al., Algorithm 1, with batches of one sample.

    The estimate delta and the pull p (w - Z) are those of the authors' program for one node, and the dual step is that
    of their program for full batches. No printed text of the whole was compared: what it must fulfil is tested below.
    """
    G, a, b, theta = vi_numbers(d, eta)
    p, Y, nodes = 1 / d.q.max(), np.zeros_like(Z), range(d.N)
    Z_old, Y_old, w, w_old = Z, Y, Z, Z

    def some(samples, P):
        return np.array([d.sample(n, i, P[n]) + d.lam * P[n] for n, i in enumerate(samples)])

    for first, second, third in coins:
        (s1,), (s2,) = (sampling.batches(coin, nodes, d.q, 1) for coin in (first, second))
        delta = some(s1, Z) - some(s1, w_old) + a * (some(s1, Z) - some(s1, Z_old)) + d.gradient(w_old)
        Delta = delta - (Y + a * (Y - Y_old))
        Z, Z_old = Z + p * (w - Z) - eta * Delta, Z
        half = some(s2, Z) - some(s2, w) + d.gradient(w)
        Y, Y_old = Y - theta * G @ (Z - b * (half - Y)), Y
        w, w_old = (Z if third < p else w), w
    return Z


def penalised(d, alpha, Z):
    return d.Lap @ Z + alpha * d.gradient(Z)


def hessian(d, n, z):
    X = d.X[d.start[n] : d.start[n + 1]]
    sigma = 1 / (1 + np.exp(-X @ z))
    slopes = sigma * (1 - sigma) if d.logistic else np.ones(len(X))
    return d.c[n] / d.q[n] * X.T @ (slopes[:, None] * X) + d.lam * np.eye(d.p)


def network_newton(d, alpha, Z, draws):
    """Mokhtari, Ling and Ribeiro, K = 1, with matrices over all nodes at once."""
    eye = np.eye(d.p)
    for _ in draws:
        g = penalised(d, alpha, Z).ravel()
        blocks = [alpha * hessian(d, n, Z[n]) + 2 * (1 - d.W[n, n]) * eye for n in range(d.N)]
        D = np.zeros((d.N * d.p, d.N * d.p))
        for n, block in enumerate(blocks):
            D[n * d.p : (n + 1) * d.p, n * d.p : (n + 1) * d.p] = block
        B = np.kron(np.eye(d.N) - 2 * np.diag(np.diag(d.W)) + d.W, eye)
        d0 = -np.linalg.solve(D, g)
        d1 = np.linalg.solve(D, B @ d0 - g)
        Z = Z + d1.reshape(Z.shape)
    return Z


def newton(d, alpha, Z, draws):
    """Newton's method on the pooled objective, whose gradient is the mean of the nodes'."""
    z = Z[0]
    for _ in draws:
        H = np.mean([hessian(d, n, z) for n in range(d.N)], axis=0)
        z = z - alpha * np.linalg.solve(H, d.gradient(np.tile(z, (d.N, 1))).mean(axis=0))
    return np.tile(z, (d.N, 1))


def d_bfgs(d, alpha, Z, draws, eps=0.2, gamma=1e-3):
    """Eisen, Mokhtari and Ribeiro, neighbourhood by neighbourhood.

    No printed text was compared: the secant condition that the method is made for is tested below.
    """
    around = [[n, *np.flatnonzero((d.W[n] != 0) & (np.arange(d.N) != n))] for n in range(d.N)]
    D = [np.repeat([1 / len(around[j]) for j in members], d.p) for members in around]
    B = [np.eye(len(members) * d.p) for members in around]
    for _ in draws:
        G, step = penalised(d, alpha, Z), np.zeros_like(Z)
        for n, members in enumerate(around):
            g = G[members].ravel()
            e = -(np.linalg.inv(B[n]) @ g + gamma * D[n] * g)
            for member, piece in zip(members, np.split(e, len(members)), strict=True):
                step[member] += piece
        Z_new = Z + eps * step
        G_new = penalised(d, alpha, Z_new)
        for n, members in enumerate(around):
            v = D[n] * (Z_new - Z)[members].ravel()
            r = (G_new - G)[members].ravel() - gamma * v
            if r @ v > 1e-10 * np.linalg.norm(r) * np.linalg.norm(v):
                Bv = B[n] @ v
                B[n] = B[n] + np.outer(r, r) / (r @ v) - np.outer(Bv, Bv) / (v @ Bv) + gamma * np.eye(v.size)
        Z = Z_new
    return Z


def dual_rbcd(d, eta, X, draws, coins):
    """Necoara, Nesterov and Glineur for ridge, whose conjugate's gradient is a linear system."""
    assert not d.logistic
    edges = [(m, n) for m in range(d.N) for n in range(m + 1, d.N) if d.W[m, n] != 0]
    zero, x = np.zeros(d.p), np.zeros_like(X)
    slope = [d.gradient(np.zeros_like(X))[n] for n in range(d.N)]

    def theta(n):
        return np.linalg.solve(hessian(d, n, zero), x[n] - slope[n])

    for coin in coins[:, 0]:
        m, n = edges[int(coin * len(edges))]
        move = eta * (theta(n) - theta(m))
        x[n], x[m] = x[n] - move, x[m] + move
    return np.array([theta(n) for n in range(d.N)])


COINED = {
    "lead": lead,
    "acc-vr-extra": acc_vr_extra,
    "dvr": dvr,
    "dvr catalyst": dvr_catalyst,
    "vi-papc-vr": vi_papc_vr,
}
TWINS = {
    "newton": newton,
    "network-newton": network_newton,
    "d-bfgs": d_bfgs,
    "vi-papc": vi_papc,
    "pg-extra": pg_extra,
    "nids": nids,
    "apapc": apapc,
    "opapc": opapc,
    "gt-saga": gt_saga,
    "diging": diging,
    "dgd": dgd,
    "dual-averaging": dual_averaging,
}


OF_THEIR_OWN = {"dual-rbcd", "gossip-pairwise", "solam"}  # tests below
ELSEWHERE = {
    "algorithms/test_batches.py": {"dsba", "dsa"},
    "algorithms/test_one_node.py": {"point-saga", "saga"},
    "algorithms/test_baselines.py": {"extra", "dlm"},
    "solvers/test_local.py": {"ssda", "msda", "p-extra", "d-admm"},
}


def test_every_method_has_a_twin():
    """A new method is missing here until it has one."""
    named = [*OF_THEIR_OWN, *TWINS, *(name.partition(" ")[0] for name in COINED), *set().union(*ELSEWHERE.values())]
    assert set(named) == set(dsba.algorithms.names())
    assert all((ROOT / "tests" / file).exists() for file in ELSEWHERE)


@pytest.mark.parametrize("operator", ["ridge", "logistic"])
@pytest.mark.parametrize("name", [*TWINS, *COINED])
def test_equals_its_twin(name, operator, unequal):
    compare(name, make_problem(operator, 4, split=unequal))


@pytest.mark.parametrize("name", ["pg-extra", "nids"])
def test_equals_its_twin_with_a_penalty(name, unequal):
    compare(name, make_problem("ridge", 4, split=unequal, penalty=L1(0.05)))


def test_dual_rbcd_equals_its_twin(unequal):
    compare("dual-rbcd", make_problem("ridge", 4, split=unequal), dual_rbcd)


def compare(name, problem, twin=None):
    twin = twin or (TWINS | COINED)[name]
    name, _, option = name.partition(" ")
    # Catalyst's inner loops take their time; a BFGS matrix multiplies rounding by ten in every iteration or so; and
    # after a few of Newton's steps every start would give the same.
    iterations = 400 if option else {"d-bfgs": 10, "newton": 2}.get(name, 40)
    for topology in TOPOLOGIES:
        z0 = np.linspace(-0.5, 0.5, problem.dim)
        method = dsba.algorithms.get(name, **({option: True} if option else {})).resolved(problem, topology)
        draws = [sampling.draw(3, problem.sizes, 0, iterations)]
        if method.coins:
            draws.append(sampling.coins(3, method.coins, 0, iterations))
        net = Simulator(topology)
        state = method.advance(method.init(problem, net, z0), problem, net, *draws)
        assert not option or 2 * state.plan.inner < iterations
        expected = twin(Dense(problem, topology), method.alpha, np.tile(z0, (4, 1)), *draws)
        assert np.abs(method.rows(state) - expected).max() < 1e-10 * np.abs(expected).max()


def test_solam_equals_its_twin():
    """Ying, Wen and Lyu: gradients of F in (w, a, b) and alpha written out, p counted, balls that some steps leave."""
    problem, R, c = make_problem("auc-paper", 1), 0.3, 1.5
    method, net = dsba.algorithms.get("solam", radius=R, step_size=c), Simulator(dsba.Topology.complete(1))
    draws = sampling.draw(3, problem.sizes, 0, 200)
    state = method.advance(method.init(problem, net, np.zeros(problem.dim)), problem, net, draws)
    d = problem.n_features
    X, y = problem.A[:: problem.k, :d].toarray(), problem.y
    bound = R * np.linalg.norm(X, axis=1).max()
    w, a, b, alpha, positives, total, mean, left = np.zeros(d), 0.0, 0.0, 0.0, 0, 0.0, np.zeros(d + 3), 0
    for t, (i,) in enumerate(draws, 1):
        gamma, x, u = c / np.sqrt(t), X[i], X[i] @ w
        total, mean = total + gamma, mean + gamma * np.array([*w, a, b, alpha])
        positives += y[i] > 0
        p = positives / t
        rise = -2 * p * (1 - p) * alpha
        if y[i] > 0:
            w = w - gamma * (2 * (1 - p) * (u - a) * x - 2 * (1 + alpha) * (1 - p) * x)
            a, alpha = a + gamma * 2 * (1 - p) * (u - a), alpha + gamma * (rise - 2 * (1 - p) * u)
        else:
            w = w - gamma * (2 * p * (u - b) * x + 2 * (1 + alpha) * p * x)
            b, alpha = b + gamma * 2 * p * (u - b), alpha + gamma * (rise + 2 * p * u)
        left += np.linalg.norm(w) > R
        w = w * min(1.0, R / np.linalg.norm(w)) if w.any() else w
        a, b, alpha = np.clip(a, -bound, bound), np.clip(b, -bound, bound), np.clip(alpha, -2 * bound, 2 * bound)
    assert 10 < left < 190
    assert np.abs(state.Z[0] - mean / total).max() < 1e-12


# What the methods must fulfil, derived by hand ---------------------------------------------------------


def test_vi_papc_vr_with_one_sample_a_node_is_vi_papc():
    """p is 1 and T is Z. The terms with T_prev cancel, and what is left is the update of VI-PAPC."""
    rng, topology = np.random.default_rng(0), dsba.Topology.path(6)
    problem = dsba.Problem.from_arrays(rng.normal(size=(6, 4)), rng.normal(size=6), "ridge", 6, lam=0.1)
    draws, coins = sampling.draw(0, problem.sizes, 0, 50), sampling.coins(0, 3, 0, 50)
    rows = []
    for name, given in (("vi-papc", (draws,)), ("vi-papc-vr", (draws, coins))):
        method, net = dsba.algorithms.get(name, step_size=0.05), Simulator(topology)
        rows.append(method.advance(method.init(problem, net, np.ones(4)), problem, net, *given).Z)
    assert np.abs(rows[0] - rows[1]).max() < 1e-12


def test_vi_papc_vr_estimates_without_bias():
    """The mean over all samples of F_i(Z) - F_i(T) + F(T) is F(Z), and that of F_i(Z) - F_i(Z') is F(Z) - F(Z')."""
    problem, method = make_problem("logistic"), dsba.algorithms.get("vi-papc-vr")
    Z, T, other = np.random.default_rng(0).normal(size=(3, 4, problem.dim))
    phi, batches = problem.local.table(T), [np.full((1, 4), i) for i in range(15)]
    mean = np.mean([method.estimate(problem, batch, Z, phi, problem.local.average(phi)) for batch in batches], axis=0)
    change = np.mean([method.difference(problem, batch, Z, other) for batch in batches], axis=0)
    assert np.abs(mean - problem.local_operator(Z)).max() < 1e-14
    assert np.abs(change - problem.local_operator(Z) + problem.local_operator(other)).max() < 1e-14


@pytest.mark.parametrize("operator", ["logistic", pytest.param("auc", marks=pytest.mark.full)])
def test_vi_papc_vr_rests_at_the_solution_and_nowhere_else(operator, unequal):
    """Z = T = z* and Y = F(Z) are a fixed point, whatever is drawn.

    Conversely Y starts at 0 and moves by columns of I - W, so its rows always sum to 0. Where Z rests, Y is F(Z). Where
    Y rests too, all rows of Z are equal. Then the sum of the F_n(z) is that of the rows of Y, which is 0.
    """
    problem, net = make_problem(operator, 4, lam=0.1, split=unequal), Simulator(dsba.Topology.path(4))
    method = dsba.algorithms.get("vi-papc-vr").resolved(problem, net.topology)
    draws, coins = sampling.draw(0, problem.sizes, 0, 100), sampling.coins(0, 3, 0, 100)
    moved = method.advance(method.init(problem, net, np.ones(problem.dim)), problem, net, draws, coins)
    assert np.abs(moved.Y.sum(axis=0)).max() < 1e-13 < 1e-3 < np.abs(moved.Y).max()
    start = method.init(problem, net, dsba.optimum(problem).z)
    F = problem.local_operator(start.Z)
    rest = method.advance(replace(start, Y=F, Y_prev=F), problem, net, draws, coins)
    assert np.abs(rest.Z - start.Z).max() < 1e-12


def test_d_bfgs_fulfils_the_secant_condition_of_the_network(unequal):
    """The sum of all H_n^-1, each at the coordinates of its neighbourhood, takes the change of all gradients to Z's.

    By hand: H_n v = r + gamma v is the change of the gradients around n, and v has the share 1/m_j of the change at j.
    The m_j neighbourhoods with j add up their shares. The shares of Gamma D_n add up to Gamma in the same way.
    """
    problem, topology = make_problem("logistic", 4, split=unequal), dsba.Topology.star(4)
    method, net = dsba.algorithms.get("d-bfgs").resolved(problem, topology), Simulator(topology)
    state = method.init(problem, net, np.ones(problem.dim))
    for _ in range(4):
        before, state = state, method.step(state, problem, net, np.zeros(4, dtype=np.int64))
        change, total, shares = state.G[:, 0] - before.G[:, 0], np.zeros_like(state.Z), np.zeros(4)
        for n in range(4):
            members = [n, *topology.neighbors[n]]
            size = len(members) * problem.dim
            inverse = np.linalg.inv(state.H[n][:size, :size])
            total[members] += (inverse @ change[members].ravel()).reshape(len(members), -1)
            shares[members] += state.share[n, : len(members)]
        assert np.abs(total - (state.Z - before.Z)).max() < 1e-9 * np.abs(state.Z - before.Z).max()
        assert np.abs(shares - 1).max() < 1e-15


def test_gossip_pairwise_equals_its_twin(unequal):
    """Colin et al. with lists of samples; then the mean of w, and the mean scores of the slots met."""
    problem, topology, c = make_problem("auc", 4, split=unequal), dsba.Topology.star(4), 0.7
    draws, coins = sampling.draw(3, problem.sizes, 0, 60), sampling.coins(3, 4, 0, 60)
    method = dsba.algorithms.get("gossip-pairwise", step_size=c)
    net = Simulator(topology)
    state = method.advance(method.init(problem, net, np.zeros(problem.dim)), problem, net, draws, coins)
    d, q = problem.n_features, problem.sizes
    data = list(zip(problem.A[::4, :d].toarray(), problem.y, strict=True))
    own = [data[a:b] for a, b in zip(problem.start[:-1], problem.start[1:], strict=True)]
    slots = [list(samples) for samples in own]
    y, w, past, met = np.zeros((4, d)), np.zeros((4, d)), [], [[] for _ in range(4)]
    for t, (samples, (e, m_slot, n_slot, slot)) in enumerate(zip(draws, coins, strict=True), 1):
        m, n = topology.edges[int(e * len(topology.edges))]
        i, j = int(m_slot * q[m]), int(n_slot * q[n])
        slots[m][i], slots[n][j] = slots[n][j], slots[m][i]
        y[m] = y[n] = (y[m] + y[n]) / 2
        for node in range(4):
            (x, label), (x2, label2) = own[node][samples[node]], slots[node][int(slot * q[node])]
            met[node].append((x2, label2))
            if label != label2:
                far = x - x2 if label > 0 else x2 - x
                y[node] += 4 * q[node] / 60 * -(1 - w[node] @ far) * far
        w = -y / (problem.lam * t + np.sqrt(t) / c)
        past.append(w)
    mean = np.mean(past, axis=0)
    a, b = (
        np.array([np.mean([x @ mean[n] for x, label in met[n] if label == kind]) for n in range(4)]) for kind in (1, -1)
    )
    assert np.abs(state.Z - np.column_stack([mean, a, b, b - a])).max() < 1e-12
