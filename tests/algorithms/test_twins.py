"""The updates of the rivals against their plain twins (``plain_rivals.py``)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import ROOT, make_problem
from plain_rivals import (
    Dense,
    acc_gt,
    acc_vr_extra,
    adom_plus,
    apapc,
    d_bfgs,
    dgd,
    diging,
    dual_averaging,
    dual_rbcd,
    dvr,
    dvr_catalyst,
    exact_diffusion,
    extragradient,
    gt_saga,
    lead,
    lt_admm,
    network_newton,
    newton,
    nids,
    opapc,
    pg_extra,
    pmgt_saga,
    proxskip,
    vi_papc,
    vi_papc_vr,
)

import dsba
from dsba.algorithms import sampling
from dsba.network import Simulator
from dsba.operators.penalties import L1

TOPOLOGIES = [dsba.Topology.star(4), dsba.Topology.path(4, mixing="metropolis")]

COINED = {
    "proxskip": proxskip,
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
    "exact-diffusion": exact_diffusion,
    "extragradient": extragradient,
    "pmgt-saga": pmgt_saga,
    "acc-gt": acc_gt,
    "lt-admm": lt_admm,
    "adom-plus": adom_plus,
}


LESS_EXACT = {"d-bfgs", "lead"}  # matrices, and differences in units of the largest one, multiply rounding
OF_THEIR_OWN = {"dual-rbcd", "gossip-pairwise", "solam"}  # tests below
ELSEWHERE = {
    "algorithms/test_batches.py": {"dsba", "dsa"},
    "algorithms/test_one_node.py": {"point-saga", "saga"},
    "algorithms/test_baselines.py": {"extra", "dlm"},
    "graph/test_directed.py": {"push-pull", "push-diging"},
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


@pytest.mark.parametrize("name", ["pg-extra", "nids", "pmgt-saga"])
def test_equals_its_twin_with_a_penalty(name, unequal):
    compare(name, make_problem("ridge", 4, split=unequal, penalty=L1(0.05)))


@pytest.mark.parametrize("name", ["gt-saga", "pmgt-saga", "dvr"])
def test_equals_its_twin_where_columns_wait(name):
    """Few of many columns in a sample: the method goes through touched columns only."""
    rng, X = np.random.default_rng(5), sp.random_array((40, 600), density=0.005, random_state=5, format="csr")
    nodes = np.repeat(np.arange(4), (4, 8, 12, 16))
    problem = dsba.Problem.from_arrays(X, np.sign(rng.normal(size=40)), "logistic", 4, lam=0.05, split=nodes)
    assert (
        dsba.algorithms.get(name)
        .resolved(problem, TOPOLOGIES[0])
        .init(problem, Simulator(TOPOLOGIES[0]), np.zeros(600))
        .lazy
    )
    compare(name, problem)


def test_proxskip_equals_its_twin_where_it_skips_rounds(unequal):
    compare("proxskip", make_problem("ridge", 4, split=unequal), partial(proxskip, p=0.3), probability=0.3)


def test_dual_rbcd_equals_its_twin(unequal):
    compare("dual-rbcd", make_problem("ridge", 4, split=unequal), dual_rbcd)


def compare(name, problem, twin=None, **options):
    twin = twin or (TWINS | COINED)[name]
    name, _, option = name.partition(" ")
    # Catalyst's inner loops take their time; a BFGS matrix multiplies rounding by ten in every iteration or so; and
    # after a few of Newton's steps every start would give the same.
    iterations = 400 if option else {"d-bfgs": 10, "newton": 2, "lead": 40}.get(name, 50)
    tolerance = 1e-10 if option or name in LESS_EXACT else 1e-12
    for topology in TOPOLOGIES:
        z0 = np.linspace(-0.5, 0.5, problem.dim)
        method = dsba.algorithms.get(name, **({option: True} if option else options)).resolved(problem, topology)
        draws = [sampling.draw(3, problem.sizes, 0, iterations)]
        if method.coins:
            draws.append(sampling.coins(3, method.coins, 0, iterations))
        net = Simulator(topology)
        state = method.advance(method.init(problem, net, z0), problem, net, *draws)
        assert not option or 2 * state.plan.inner < iterations
        expected = twin(Dense(problem, topology), method.alpha, np.tile(z0, (4, 1)), *draws)
        assert np.abs(method.rows(state) - expected).max() < tolerance * np.abs(expected).max()


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
        method, net = dsba.algorithms.get(name, step_size=0.05).resolved(problem, topology), Simulator(topology)
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
