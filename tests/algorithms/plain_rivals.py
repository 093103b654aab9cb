"""Plain twins of the rivals: matrices and loops, written from the papers' equations.

A twin knows the data as dense arrays, W as a matrix, and the numbers that were drawn; nothing of the library's kernels,
networks or states.
"""

import numpy as np

from dsba.algorithms import sampling
from dsba.algorithms.step_rules import planned_convexity


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
        self.Lap, self.gap = np.eye(self.N) - topology.W, topology.gamma
        self.mu = planned_convexity(problem)
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
    """Liu et al.: C rounds to multiples of half the largest magnitude, up with the probability that keeps the mean.

    A scale travels as the next float32 above it.
    """
    H, Hw, D = X, d.W @ X, np.zeros_like(X)
    for coin in coins[:, 0]:
        u = np.array([generator.random(d.p) for generator in sampling.generators(coin, range(d.N))])
        G = d.gradient(X)
        Y = X - eta * G - eta * D
        half = np.abs(Y - H).max(axis=1, keepdims=True) / 2
        near = half.astype(np.float32)
        scale = np.where(near < half, np.nextafter(near, np.float32(np.inf)), near).astype(np.float64)
        Q = scale * np.floor((Y - H) / scale + u)
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


def exact_diffusion(d, alpha, X, draws):
    """Yuan, Ying, Zhao and Sayed: adapt, correct, combine."""
    psi = X
    for _ in draws:
        psi, psi_prev = X - alpha * d.gradient(X), psi
        X = d.W_tilde @ (psi + X - psi_prev)
    return X


def proxskip(d, gamma, X, draws, coins, p=None):
    """Mishchenko et al., for consensus: the proximal map is one round, and h its control variates."""
    p = p or min(1.0, np.sqrt(d.mu / (d.L * d.gap)))
    h = np.zeros_like(X)
    for coin in coins[:, 0]:
        X_hat = X - gamma * (d.gradient(X) - h)
        X = d.W_tilde @ X_hat if coin < p else X_hat
        h = h + p / gamma * (X - X_hat)
    return X


def extragradient(d, eta, Z, draws):
    """Mukherjee and Chakraborty, both operator values written out."""
    S = d.gradient(Z)
    for _ in draws:
        half = Z - eta * S
        S_half = S + d.gradient(half) - d.gradient(Z)
        Z_new = d.W_tilde @ Z - eta * S_half
        Z, S = Z_new, d.W_tilde @ S + d.gradient(Z_new) - d.gradient(Z)
    return Z


def fast_mix(d, X, K):
    """Liu and Morse, as PMGT-VR and Mudag print it."""
    eta = (1 - np.sqrt(1 - (1 - d.gap) ** 2)) / (1 + np.sqrt(1 - (1 - d.gap) ** 2))
    X_prev = X
    for _ in range(K):
        X_prev, X = X, (1 + eta) * d.W_tilde @ X - eta * X_prev
    return X


def pmgt_saga(d, alpha, X, draws):
    """Ye, Xiong and Zhang: every entry of the table is a whole gradient."""
    K = int(np.ceil(1 / np.sqrt(d.gap)))
    table = [[d.sample(n, i, X[n]) for i in range(d.q[n])] for n in range(d.N)]
    v = S = d.gradient(X)
    for samples in draws:
        X = fast_mix(d, d.prox(X - alpha * S, alpha), K)
        v_old, v = v, np.empty_like(X)
        for n, i in enumerate(samples):
            new = d.sample(n, i, X[n])
            v[n] = new - table[n][i] + np.mean(table[n], axis=0) + d.lam * X[n]
            table[n][i] = new
        S = fast_mix(d, S + v - v_old, K)
    return X


def acc_gt(d, eta, X, draws):
    """Ye, Luo, Zhou and Zhang (Mudag), with the gradient before the first one taken for zero."""
    K, a = 2 * int(np.ceil(1 / np.sqrt(d.gap))), np.sqrt(d.lam * eta)
    Y = Y_prev = X
    G_prev = np.zeros_like(X)
    for _ in draws:
        G = d.gradient(Y)
        X_new = fast_mix(d, Y + (X - Y_prev) - eta * (G - G_prev), K)
        Y, Y_prev, G_prev = X_new + (1 - a) / (1 + a) * (X_new - X), Y, G
        X = X_new
    return X


def lt_admm(d, gamma, X, draws, tau=5, rho=0.7):
    """Ren et al., with a variable z for each end of each edge; rho cancels where beta rho is given."""
    near = [np.flatnonzero((d.W[n] != 0) & (np.arange(d.N) != n)) for n in range(d.N)]
    graph = -(np.abs(d.W) > 0).astype(float)
    np.fill_diagonal(graph, [len(m) for m in near])
    beta = 1 / (rho * tau * np.linalg.eigvalsh(graph).max())
    z = {(n, m): rho * X[n] for n in range(d.N) for m in near[n]}
    for _ in draws:
        pull = np.array([rho * len(near[n]) * X[n] - sum(z[n, m] for m in near[n]) for n in range(d.N)])
        phi = X
        for _ in range(tau):
            phi = phi - gamma * d.gradient(phi) - beta * pull
        X = phi
        z = {(n, m): (z[n, m] - z[m, n]) / 2 + rho * X[m] for n, m in z}
    return X


def adom_plus(d, eta, x, draws):
    """Kovalev et al., Algorithm 2, with the constants 4, 2 and 4 of the docstring; x+ and y+ by a linear system."""
    values = np.linalg.eigvalsh(d.Lap)
    W, chi, mu, L = d.Lap / values[-1], values[-1] / values[1], d.lam, d.L
    tau2, nu = np.sqrt(mu / L), mu / 2
    sigma2, beta, alpha = tau2 / (4 * chi), 1 / (2 * L), mu / 2
    tau1, sigma1 = 1 / (1 / tau2 + 1 / 2), 1 / (1 / sigma2 + 1 / 2)
    theta, gamma, delta, zeta = nu / (4 * sigma2), nu / (2 * sigma2 * chi**2), 1 / (4 * L), 1 / 2
    y = z = m = y_f = z_f = np.zeros_like(x)
    x_f, system = x, np.array([[1 + eta * alpha, -eta], [theta, 1 + theta * beta]])
    for _ in draws:
        x_g, y_g, z_g = tau1 * x + (1 - tau1) * x_f, sigma1 * y + (1 - sigma1) * y_f, sigma1 * z + (1 - sigma1) * z_f
        g = d.gradient(x_g) - nu * x_g
        right = np.stack([x + eta * alpha * x_g - eta * g, y + theta * beta * g - theta / nu * (y_g + z_g)])
        x_new, y_new = np.einsum("ij,jnp->inp", np.linalg.inv(system), right)
        z_new = z + gamma * delta * (z_g - z) - W @ (gamma / nu * (y_g + z_g) + m)
        m = gamma / nu * (y_g + z_g) + m - W @ (gamma / nu * (y_g + z_g) + m)
        x_f, y_f = x_g + tau2 * (x_new - x), y_g + sigma2 * (y_new - y)
        z_f = z_g - zeta * W @ (y_g + z_g)
        x, y, z = x_new, y_new, z_new
    return x_f
