"""The fused forms equal the definition over the same indices (invariant 3, the lazy part)."""

from __future__ import annotations

import os

import numpy as np
import pytest
from conftest import OPERATORS, make_problem
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dsba
from dsba.algorithms import sampling
from dsba.algorithms.dsba.lazy import MANY
from dsba.algorithms.iterates import StackedRows
from dsba.engine.recorder import Recorder
from dsba.kernels.dense import Recursion
from dsba.kernels.modes import GAPS, ModeState, Spectrum, plan_modes, rows_from_modes, side_by_side
from dsba.network import Simulator


def run(algorithm, problem, topology, z0, samples, cuts=()):
    net = Simulator(topology)
    algorithm = algorithm.resolved(problem, topology)
    state = algorithm.init(problem, net, z0)
    for part in np.split(samples, cuts):
        state = algorithm.advance(state, problem, net, part)
    return state, net


def relative(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


@pytest.mark.parametrize("form", ["dense", "lazy"])
@pytest.mark.parametrize("method", [dsba.DSBA, dsba.DSA])
@pytest.mark.parametrize("operator", OPERATORS)
def test_fused_equals_step(operator, method, form, unequal):
    problem = make_problem(operator, split=unequal)
    topology = dsba.Topology.path(4)
    z0 = np.linspace(-0.2, 0.3, problem.dim)
    samples = sampling.draw(3, problem.sizes, 0, 600)
    for table in ("zero", "full"):
        step, net = run(method(form="step", table=table), problem, topology, z0, samples)
        fused, other = run(method(form=form, table=table), problem, topology, z0, samples, cuts=(1, 2, 5, 200))
        assert relative(fused.Z, step.Z) < 1e-11
        assert np.allclose(fused.phi, step.phi, rtol=0, atol=1e-11)
        assert fused.t == step.t == 600
        assert other.rounds == net.rounds
        assert (other.doubles == net.doubles).all()


@pytest.mark.parametrize("method", [dsba.DSBA, dsba.DSA])
@pytest.mark.parametrize("operator", ["logistic", "auc", "softmax"])
def test_column_after_column_equals_step(operator, method, unequal, monkeypatch):
    """The lazy form of many nodes, with few of them; AUC has columns without lambda, softmax columns side by side."""
    problem = make_problem(operator, split=unequal)
    topology = dsba.Topology.path(4)
    z0 = np.linspace(-0.2, 0.3, problem.dim)
    samples = sampling.draw(3, problem.sizes, 0, 400)
    step, _ = run(method(form="step"), problem, topology, z0, samples)
    before, net = run(method(form="lazy"), problem, topology, z0, samples)
    monkeypatch.setattr("dsba.algorithms.dsba.lazy.MANY", 4)
    fused, other = run(method(form="lazy"), problem, topology, z0, samples, cuts=(1, 2, 5, 200))
    assert relative(fused.Z, step.Z) < 1e-11
    assert np.allclose(fused.phi, step.phi, rtol=0, atol=1e-11)
    assert (fused.modes != before.modes).any()  # sums in another order: it was another kernel
    assert (fused.stamp == before.stamp).all()
    assert other.rounds == net.rounds


def test_many_nodes_go_column_after_column():
    """Nothing patched: as many nodes as it takes, on a graph of few edges."""
    n_nodes = MANY
    X, y = dsba.data.make_text_like(n_rows=2 * n_nodes, n_columns=60, row_length=5)
    problem = dsba.Problem.from_arrays(X, y, n_nodes=n_nodes)
    topology = dsba.Topology.grid(20, n_nodes // 20)
    samples = sampling.draw(0, problem.sizes, 0, 12)
    step, _ = run(dsba.DSBA(form="step"), problem, topology, np.zeros(problem.dim), samples)
    lazy, _ = run(dsba.DSBA(form="lazy"), problem, topology, np.zeros(problem.dim), samples)
    assert relative(lazy.Z, step.Z) < 1e-11


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_nodes=st.integers(1, 9),
    operator=st.sampled_from(["ridge", "logistic", "auc"]),
    backward=st.booleans(),
    strength=st.floats(0.3, 2.0),
    regularize=st.sampled_from(["weights", "all"]),
)
def test_lazy_equals_step_anywhere(seed, n_nodes, operator, backward, strength, regularize):
    """Random problems, graphs, splits, step sizes: lazy equals step where alpha lam >= 1e-2."""
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(np.concatenate([np.arange(n_nodes), rng.integers(n_nodes, size=60 - n_nodes)]))
    problem = make_problem(operator, n_nodes, lam=0.2, seed=seed, split=nodes, regularize=regularize)
    topology = dsba.Topology.random(n_nodes, 0.5, seed=seed)
    method = dsba.DSBA if backward else dsba.DSA
    alpha = strength * method().resolved(problem, topology).step_size
    assume(alpha * problem.lam >= 1e-2)
    samples = sampling.draw(seed, problem.sizes, 0, 200)
    z0 = rng.normal(size=problem.dim)
    step, _ = run(method(alpha, form="step"), problem, topology, z0, samples)
    if not np.abs(step.Z).max() < 1e3:
        return  # twice the safe step size may diverge; both forms then do
    lazy, _ = run(method(alpha, form="lazy"), problem, topology, z0, samples)
    assert relative(lazy.Z, step.Z) < 1e-11


@pytest.mark.parametrize("operator", ["ridge", "softmax"])
def test_a_column_that_nobody_visits_for_long(operator):
    """Gaps longer than the table of powers: the column moves by leaps and meets the dense form again."""
    X = np.zeros((40, 2))
    X[:, 0] = np.linspace(0.5, 1.5, 40)
    X[0, 1] = 1.0  # one sample of node 0 alone
    y = X[:, 0] if operator == "ridge" else np.arange(40) % 3
    problem = dsba.Problem.from_arrays(X, y, operator, n_nodes=2, lam=1e-3, split=np.repeat([0, 1], 20))
    topology = dsba.Topology.path(2)
    samples = sampling.draw(0, problem.sizes, 0, GAPS + 900)
    samples[100 : GAPS + 500, 0] = np.maximum(samples[100 : GAPS + 500, 0], 1)
    assert (samples[GAPS + 500 :, 0] == 0).any()
    for method in (dsba.DSBA, dsba.DSA):
        z0 = np.linspace(0.3, -0.7, problem.dim)
        dense, _ = run(method(0.3, form="dense"), problem, topology, z0, samples)
        lazy, _ = run(method(0.3, form="lazy"), problem, topology, z0, samples)
        assert relative(lazy.Z, dense.Z) < 1e-11


def test_rows_are_moved_together_only_where_they_are_copies():
    """Softmax's rows are one row in neighbouring columns; another number, column or length, and they are not."""
    assert side_by_side(*make_problem("softmax").csr, 3)
    assert not side_by_side(*make_problem("auc").csr, 4)
    assert not side_by_side(*make_problem("ridge").csr, 1)
    indptr, indices, data = np.array([0, 2, 4]), np.array([0, 6, 1, 7]), np.array([0.5, 2.0, 0.5, 2.0])
    assert side_by_side(indptr, indices, data, 2)
    assert not side_by_side(indptr, np.array([0, 6, 1, 8]), data, 2)
    assert not side_by_side(indptr, indices, np.array([0.5, 2.0, 0.5, 2.5]), 2)
    assert not side_by_side(np.array([0, 2, 3]), indices[:3], data[:3], 2)


@pytest.mark.parametrize(
    "gap",
    [
        0,
        1,
        17,
        GAPS - 1,
        GAPS,
        GAPS + 1,
        10 * GAPS + 5,
        3 * GAPS**2 + 7,
    ],
)
@pytest.mark.parametrize("backward", [True, False])
def test_powers_of_the_recursion(gap, backward):
    """Any gap equals the matrix power in extended precision, with and without lambda."""
    w, alpha_lam = np.array([1.0, 0.7, 0.0]), 1e-4
    A = (np.array([0, 1, 2]), np.zeros(2, np.int32), np.ones(2))
    rule = Recursion(backward, 1.0, np.empty(0), (0.0, 0.0), (0.0, 0.0), 1, np.empty((0, 1)))
    plan = plan_modes(A, 1, 2, rule, alpha_lam, Spectrum(w, np.eye(3)))
    modes = np.zeros((2, 2, plan.basis.shape[1]))
    modes[:, :, :3] = np.random.default_rng(0).normal(size=(2, 2, 3))
    out = np.empty((3, 2))
    rows_from_modes(plan, ModeState(modes, np.zeros(2, np.int64), np.empty((0, 1))), gap, out)
    for column, x in enumerate((alpha_lam, 0.0)):
        for m in range(3):
            r, kappa = (1 / (1 + np.longdouble(x)), w[m]) if backward else (np.longdouble(1), w[m] - np.longdouble(x))
            M = np.array([[1 - r * (1 - w[m]), r], [-kappa * r * (1 - w[m]), kappa * r]])
            power, k = np.eye(2, dtype=np.longdouble), gap
            while k:
                power, M, k = (power @ M if k & 1 else power), M @ M, k >> 1
            terms = power[0] * modes[column, :, m]
            assert abs(out[m, column] - terms.sum()) <= 1e-14 * np.abs(terms).sum() + 1e-16


def test_mixing_down_to_minus_identity():
    """W = -1 on the second mode: nothing in the lazy form divides by w~."""
    problem = make_problem("logistic", n_nodes=2)
    topology = dsba.Topology.path(2, tau=1.0)
    assert topology.eigenvalues[-1] == pytest.approx(0.0, abs=1e-15)
    samples = sampling.draw(0, problem.sizes, 0, 400)
    step, _ = run(dsba.DSBA(1.0, form="step"), problem, topology, np.zeros(problem.dim), samples)
    lazy, _ = run(dsba.DSBA(1.0, form="lazy"), problem, topology, np.zeros(problem.dim), samples)
    assert relative(lazy.Z, step.Z) < 1e-11


@pytest.mark.full
def test_int64_indices_run_in_every_form():
    problem = make_problem("logistic")
    wide = make_problem("logistic")
    wide.A.indices = wide.A.indices.astype(np.int64)
    wide.csr = (wide.csr[0], wide.A.indices, wide.csr[2])
    topology = dsba.Topology.ring(4)
    for form in ("step", "dense", "lazy"):
        a = dsba.solve(problem, topology, max_passes=3, form=form)
        b = dsba.solve(wide, topology, max_passes=3, form=form)
        assert (a.Z == b.Z).all()


def test_rows_do_not_disturb_the_lazy_state():
    """Looking at the iterates more often changes no bit of them."""
    problem = make_problem("logistic")
    topology = dsba.Topology.ring(4)
    often = dsba.solve(problem, topology, max_passes=10, record_every=0.25, form="lazy")
    seldom = dsba.solve(problem, topology, max_passes=10, record_every=5, form="lazy")
    assert (often.Z == seldom.Z).all()


@pytest.mark.full
def test_lazy_equals_dense_at_the_papers_lambda():
    """20 passes at lam = 1/(10 Q): 1e-8. On Farm Ads where it is at hand, else on synthetic text."""
    if os.environ.get("DSBA_DATA"):
        X, y = dsba.load_libsvm("farm-ads")
    else:
        X, y = dsba.data.make_text_like(n_rows=2000, n_columns=10_000, row_length=80)
    problem = dsba.Problem.from_arrays(X, y, "logistic")
    topology = dsba.Topology.random(10, 0.4, seed=0)
    samples = sampling.draw(0, problem.sizes, 0, 20 * int(problem.sizes.max()))
    dense, _ = run(dsba.DSBA(form="dense"), problem, topology, np.zeros(problem.dim), samples)
    lazy, _ = run(dsba.DSBA(form="lazy"), problem, topology, np.zeros(problem.dim), samples)
    assert relative(lazy.Z, dense.Z) < 1e-8


def test_auto_takes_a_fused_form():
    sparse = dsba.data.make_text_like(n_rows=200, n_columns=5000, row_length=10)
    wide = dsba.Problem.from_arrays(*sparse, n_nodes=10)
    topology = dsba.Topology.ring(10)
    assert dsba.DSBA().chosen_form(wide, Simulator(topology)) == "lazy"
    X = np.random.default_rng(0).normal(size=(400, 20))
    full = dsba.Problem.from_arrays(X, np.sign(X[:, 0]), n_nodes=100)
    assert dsba.DSBA().chosen_form(full, Simulator(dsba.Topology.ring(100))) == "dense"


@pytest.mark.parametrize("method", [dsba.DSBA, dsba.DSA])
def test_the_dense_form_is_exact_in_columns_that_are_seldom_touched(method):
    """A long run with a small alpha lam: rounding errors of the nodes' mean must not add up (1e-10 and more once)."""
    rng = np.random.default_rng(0)
    X = np.zeros((400, 12))
    X[:, :8] = rng.normal(size=(400, 8))
    X[rng.integers(400, size=4), np.arange(8, 12)] = 3.0
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=400) > 0, 1.0, -1.0)
    problem = dsba.Problem.from_arrays(X, y, "logistic", n_nodes=4, lam=1e-5)
    topology = dsba.Topology.ring(4)
    samples = sampling.draw(0, problem.sizes, 0, 60_000)
    step = "auto" if method is dsba.DSBA else 1 / (3 * problem.constants.L_plan)  # SAGA's: rounding grows with it
    dense, _ = run(method(step, form="dense"), problem, topology, np.zeros(12), samples)
    lazy, _ = run(method(step, form="lazy"), problem, topology, np.zeros(12), samples)
    assert relative(dense.Z[:, 8:], lazy.Z[:, 8:]) < 2e-14


@pytest.mark.parametrize("operator", ["logistic", "auc"])
def test_measuring_in_mode_space_is_measuring_the_rows(operator, unequal):
    """Mean and scatter of the modes, also of columns that nobody visited for long, against those of the rows."""
    problem = make_problem(operator, split=unequal)
    z0 = np.linspace(-0.2, 0.3, problem.dim)
    samples = np.tile(sampling.draw(3, problem.sizes, 0, 1), (GAPS + 50, 1))
    state, _ = run(dsba.DSBA(form="lazy"), problem, dsba.Topology.path(4), z0, samples)
    recorder = Recorder(problem, dsba.optimum(problem).z)
    modes, rows = state.iterates(problem), StackedRows(problem, state.rows())
    assert modes.kept is None
    assert np.abs(modes.mean - rows.mean).max() < 1e-15
    found, wanted = recorder.measure(modes), recorder.measure(rows)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-15), name


@pytest.mark.parametrize("operator", ["auc", "softmax", "logistic"])
def test_indices_of_blocks_take_four_bytes(operator):
    """SciPy takes eight as soon as one of a matrix's index arrays has them; a lazy run holds the indices twice."""
    assert make_problem(operator).csr[1].dtype == np.int32


@pytest.mark.parametrize(("algorithm", "many"), [("dsba", 600), ("dsba", 4), ("extra", 600), ("p-extra", 600)])
def test_bits_do_not_depend_on_the_number_of_threads(algorithm, many, monkeypatch):
    """Iterates and history: pieces of a sweep share nothing, or are added in an order of their own."""
    X, y = dsba.data.make_text_like(n_rows=80, n_columns=3000, row_length=20)
    options = {"form": "lazy"} if algorithm == "dsba" else {}
    monkeypatch.setattr("dsba.algorithms.dsba.lazy.MANY", many)

    def outcome(cores):
        for module in ("dsba._system.threads", "dsba.problem.problem"):
            monkeypatch.setattr(f"{module}.CORES", cores)
        problem = dsba.Problem.from_arrays(X, y, n_nodes=4)
        assert len(problem.node_cuts) == cores + 1
        method = dsba.algorithms.get(algorithm, **options)
        result = dsba.solve(problem, dsba.Topology.path(4), method, max_passes=4, tol=0)
        figures = [result.history[name] for name in ("residual", "consensus", "objective")]
        return b"".join(np.asarray(part).tobytes() for part in (result.Z, *figures))

    for name in ("_system.threads.WORTH", "problem.problem.WORTH", "algorithms.rivals.extra.WORTH"):
        monkeypatch.setattr(f"dsba.{name}", 1)
    assert outcome(1) == outcome(2) == outcome(3)
