"""The lazy kernel: against the dense one, against scikit-learn's SAGA, against d and N."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np

import dsba
from benchmarks.measure import Row, dataset, in_new_process, interleaved
from dsba import sampling
from dsba.network import Simulator

FARM = {"n_rows": 4143, "n_columns": 54_877, "row_length": 197}
NEWS = {"n_rows": 19_996, "n_columns": 1_355_191, "row_length": 455}


class Runner:
    """An algorithm under way; each call makes the same number of further iterations."""

    def __init__(self, problem: dsba.Problem, topology: dsba.Topology, form: str, iterations: int) -> None:
        self.problem, self.net, self.iterations = problem, Simulator(topology), iterations
        self.algorithm = dsba.DSBA(form=form).resolved(problem, topology)
        self.state = self.algorithm.init(problem, self.net, np.zeros(problem.dim))
        self(1)

    def __call__(self, iterations: int | None = None) -> None:
        samples = sampling.draw(0, self.problem.sizes, self.state.t, iterations or self.iterations)
        self.state = self.algorithm.advance(self.state, self.problem, self.net, samples)


def lazy_against_dense() -> list[Row]:
    """News20-binary, logistic, N = 10: time per iteration."""
    name, data = dataset("news20.binary", **NEWS)
    problem = dsba.Problem.from_arrays(*data, operator="logistic")
    topology = dsba.Topology.random(10, 0.4, seed=0)
    lazy, dense = Runner(problem, topology, "lazy", 500), Runner(problem, topology, "dense", 3)
    lazy(2000)  # one pass: from here on the columns are spread over all gaps
    spent = interleaved({"lazy": lazy, "dense": dense}, repeats=3)
    per_lazy, per_dense = spent["lazy"] / 500, spent["dense"] / 3
    note = f"{per_dense * 1e3:.1f} ms dense, {per_lazy * 1e3:.3f} ms lazy per iteration"
    return [Row(f"lazy against dense, {name}", per_dense / per_lazy, 100, at_least=True, note=note)]


MEMORY = """
import dsba
from benchmarks.kernels import NEWS
from benchmarks.measure import dataset, peak_memory_gb
name, data = dataset("news20.binary", **NEWS)
problem = dsba.Problem.from_arrays(*data, operator="logistic")
del data
dsba.solve(problem, dsba.Topology.random(10, 0.4, seed=0), max_passes=2)
print(peak_memory_gb())
"""


def memory() -> list[Row]:
    """Peak memory of loading and solving News20-binary, logistic, N = 10, in a process of its own."""
    dataset("news20.binary", **NEWS)  # parsed and cached beforehand
    return [Row("peak memory, news20.binary", in_new_process(MEMORY), 1.2, unit="GB")]


def against_saga() -> list[Row]:
    """Time per pass at N = 10 over scikit-learn's SAGA on the pooled data."""
    return [
        _against_saga("farm-ads", FARM, target=2.2),
        _against_saga("news20.binary", NEWS, target=2.2),
    ]


def _against_saga(name: str, synthetic: dict[str, int], target: float) -> Row:
    shown, data = dataset(name, **synthetic)
    problem = dsba.Problem.from_arrays(*data, operator="logistic")
    one_pass = problem.n_samples // problem.n_nodes
    lazy = Runner(problem, dsba.Topology.random(10, 0.4, seed=0), "lazy", one_pass)
    lazy()
    short, long = _saga(problem, 2), _saga(problem, 6)
    short()
    tasks = {"lazy": lazy, "short": short, "long": long, "lazy again": lazy}
    spent = interleaved(tasks, repeats=9, clock=time.process_time)  # each works in one thread
    saga = (spent["long"] - spent["short"]) / 4
    ours = 0.5 * (spent["lazy"] + spent["lazy again"])
    note = f"{ours * 1e3:.1f} ms against {saga * 1e3:.1f} ms per pass; stretch 1.5"
    return Row(f"pass over scikit-learn's SAGA, {shown}", ours / saga, target, note=note)


def _saga(problem: dsba.Problem, passes: int) -> Callable[[], None]:
    from scipy.sparse import csr_matrix
    from sklearn.linear_model._sag import sag_solver

    X, y = csr_matrix(problem.A), problem.y
    X.indptr = X.indptr.astype(np.int32)

    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is not meant to converge
            sag_solver(X, y, None, "log", problem.lam * y.size, max_iter=passes, tol=0, is_saga=True, random_state=0)

    return run


def against_dimension() -> list[Row]:
    """Cost of an iteration at 100 nonzeros a row, d = 1e6 over d = 1e4."""
    runners = {}
    for d in (10_000, 100_000, 1_000_000):
        data = dsba.data.make_text_like(n_rows=2000, n_columns=d, row_length=100)
        problem = dsba.Problem.from_arrays(*data, operator="logistic")
        runners[d] = Runner(problem, dsba.Topology.random(10, 0.4, seed=0), "lazy", 400)
    per_nonzero = {d: r.problem.A.nnz for d, r in runners.items()}
    spent = interleaved({str(d): r for d, r in runners.items()}, repeats=7)
    cost = {d: spent[str(d)] / per_nonzero[d] for d in runners}
    note = ", ".join(f"d = {d:,}: {cost[d] / cost[10_000]:.2f}" for d in cost)
    return [Row("cost of d = 1e6 over d = 1e4, 100 nonzeros a row", cost[1_000_000] / cost[10_000], 3.0, note=note)]


def against_nodes() -> tuple[list[Row], dict[str, dict[int, dict[str, float]]]]:
    """Cost of an iteration for N = 2..100, lazy and dense, and what the automatic choice loses."""
    curves: dict[str, dict[int, dict[str, float]]] = {}
    worst, where = 0.0, ""
    for shape, data in _shapes().items():
        for n in (2, 5, 10, 20, 50, 100):
            problem = dsba.Problem.from_arrays(*data, operator="logistic", n_nodes=n)
            topology = dsba.Topology.random(n, min(1.0, max(0.4, 3 / n)), seed=0)
            forms = {form: Runner(problem, topology, form, max(4, 2000 // n)) for form in ("lazy", "dense")}
            spent = interleaved(forms, repeats=5)
            chosen = dsba.DSBA().chosen_form(problem, Simulator(topology))
            loss = spent[chosen] / min(spent.values())
            each = max(4, 2000 // n)
            curves.setdefault(shape, {})[n] = {form: spent[form] / each for form in forms}
            if loss > worst:
                worst, where = loss, f"worst at {shape}, N = {n}"
    return [Row("automatic form over the better one, N = 2..100", worst, 1.2, note=where)], curves


def _shapes() -> dict[str, dsba.data.Dataset]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 60))
    dense = dsba.data.Dataset(dsba.problem._as_csr(X, "X"), np.sign(X[:, 0]))
    return {
        "sparse, d = 20,000, 60 a row": dsba.data.make_text_like(n_rows=2000, n_columns=20_000, row_length=60),
        "sparse, d = 2,000, 60 a row": dsba.data.make_text_like(n_rows=2000, n_columns=2000, row_length=60),
        "sparse, d = 300, 60 a row": dsba.data.make_text_like(n_rows=2000, n_columns=300, row_length=60),
        "dense, d = 60": dense,
    }
