"""The lazy kernel: against the dense one, against scikit-learn's SAGA, against d and N."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import dsba
from benchmarks.measure import Row, dataset, in_new_process, interleaved
from dsba.algorithms import sampling
from dsba.engine.recorder import Recorder
from dsba.network import Simulator
from dsba.problem.validation import as_csr

FARM = {"n_rows": 4143, "n_columns": 54_877, "row_length": 197}
NEWS = {"n_rows": 19_996, "n_columns": 1_355_191, "row_length": 455}


NODES = (2, 5, 10, 20, 50, 100, 300, 1000)
LARGEST = "sparse, d = 20,000, 60 a row"  # the shape that is measured up to 1000 nodes


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
    return [Row("peak memory, news20.binary", in_new_process(MEMORY)[0], 1.2, unit="GB")]


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


def _saga(problem: dsba.Problem, passes: int) -> Callable[[], Any]:
    """A run of SAGA on the pooled data, which gives its weights."""
    from scipy.sparse import csr_matrix
    from sklearn.linear_model._sag import sag_solver

    X, y = csr_matrix(problem.A), (problem.y > 0).astype(np.float64)  # it wants 0 and 1
    X.indptr = X.indptr.astype(np.int32)

    def run() -> Any:
        options = {"max_iter": passes, "tol": 0, "is_saga": True, "random_state": 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is not meant to converge
            return sag_solver(X, y, None, "log", problem.lam * y.size, **options)[0]

    return run


GAP = 1e-8


def to_gap() -> list[Row]:
    """CPU time to a relative gap of 1e-8 at N = 10 over that of scikit-learn's SAGA on the pooled data."""
    return [_to_gap("farm-ads", FARM), _to_gap("news20.binary", NEWS)]


def _to_gap(name: str, synthetic: dict[str, int]) -> Row:
    """Both make as many passes as they need, found beforehand, and measure nothing on their way."""
    shown, data = dataset(name, **synthetic)
    problem, topology = dsba.Problem.from_arrays(*data, operator="logistic"), dsba.Topology.random(10, 0.4, seed=0)
    reference = dsba.optimum(problem).z
    result = dsba.solve(problem, topology, reference=reference, gap_tol=GAP, max_passes=200)
    assert result.status == "converged", result
    passes = _passes_of_saga(problem, reference)
    begin, saga = partial(Runner, problem, topology, "lazy"), _saga(problem, passes)
    tasks = {"ours": lambda: begin(round(result.passes * problem.n_samples / 10))(), "saga": saga}
    spent = interleaved(tasks, repeats=5, clock=time.process_time)
    note = f"{result.passes:.0f} passes, {spent['ours']:.2f} s, against {passes} passes, {spent['saga']:.2f} s"
    return Row(f"CPU time to a gap of 1e-8 over SAGA's, {shown}", spent["ours"] / spent["saga"], 2, note=note)


def _passes_of_saga(problem: dsba.Problem, reference: Any) -> int:
    """The fewest passes after which its gap is small enough."""
    best, worst = problem.objective(reference), problem.objective(np.zeros(problem.dim))

    def enough(passes: int) -> bool:
        return problem.objective(_saga(problem, passes)()) - best <= GAP * (worst - best)

    most = next(2**power for power in range(10) if enough(2**power))
    return min(passes for passes in range(most // 2 + 1, most + 1) if passes == most or enough(passes))


def against_dimension() -> list[Row]:
    """Cost of a nonzero at 100 nonzeros a row, d = 1e6 over d = 1e4: as in text, and with columns drawn as d u^3."""
    kinds: dict[str, Callable[[int], tuple[Any, Any]]] = {
        "as in text": lambda d: dsba.data.make_text_like(n_rows=2000, n_columns=d, row_length=100),
        "drawn as d u^3": _cubic,
    }
    rows = []
    for kind, make in kinds.items():
        runners = {}
        for d in (10_000, 100_000, 1_000_000):
            problem = dsba.Problem.from_arrays(*make(d), operator="logistic")
            runners[d] = Runner(problem, dsba.Topology.random(10, 0.4, seed=0), "lazy", 400)
            runners[d](2000)  # from here on the columns are spread over all gaps
        spent = interleaved({str(d): r for d, r in runners.items()}, repeats=15, clock=time.process_time)
        cost = {d: spent[str(d)] / r.problem.A.nnz for d, r in runners.items()}
        note = ", ".join(f"d = {d:,}: {cost[d] / cost[10_000]:.2f}" for d in cost)
        name = f"cost of d = 1e6 over d = 1e4, 100 nonzeros a row, columns {kind}"
        rows.append(Row(name, cost[1_000_000] / cost[10_000], 1.5, note=note))
    return rows


def _cubic(d: int) -> tuple[Any, Any]:
    """2000 rows of 100 entries in the columns d u^3, u uniform; a column drawn twice in a row is one entry."""
    rng = np.random.default_rng(0)
    columns = (d * rng.random(200_000) ** 3).astype(np.int64)
    X = csr_array((rng.normal(size=columns.size), (np.repeat(np.arange(2000), 100), columns)), shape=(2000, d))
    return X, np.sign(rng.normal(size=2000))


def records() -> list[Row]:
    """A record over a pass, Farm Ads, logistic, N = 10 to 1000; both use threads where they are worth it."""
    name, data = dataset("farm-ads", **FARM)
    rows = []
    for n in (10, 100, 1000):
        problem = dsba.Problem.from_arrays(*data, operator="logistic", n_nodes=n)
        runner = Runner(problem, dsba.Topology.random(n, 0.4, seed=0), "lazy", problem.n_samples // n)
        recorder = Recorder(problem)
        tasks = {"pass": runner, "record": partial(_record, runner, recorder)}
        tasks["record"]()
        spent = interleaved(tasks, repeats=15 if n < 1000 else 3)
        note = f"{spent['record'] * 1e3:.1f} ms against {spent['pass'] * 1e3:.1f} ms"
        rows.append(Row(f"a record over a pass, {name}, N = {n}", spent["record"] / spent["pass"], 0.2, note=note))
    return rows


def _record(runner: Runner, recorder: Recorder) -> None:
    recorder.measure(runner.algorithm.iterates(runner.state, runner.problem))


THOUSAND = """
import time
import dsba
from benchmarks.kernels import FARM
from benchmarks.measure import dataset, peak_memory_gb
name, data = dataset("farm-ads", **FARM)
begun, spent = time.perf_counter(), time.process_time()
problem = dsba.Problem.from_arrays(*data, operator="logistic", n_nodes=1000)
result = dsba.solve(problem, dsba.Topology.random(1000, 0.4, seed=0), max_passes=2000, tol=1e-6)
assert result.status == "converged", result
minutes = [(now - then) / 60 for now, then in ((time.perf_counter(), begun), (time.process_time(), spent))]
print(result.passes, peak_memory_gb(), *minutes)
"""


def thousand_nodes() -> list[Row]:
    """Farm Ads, logistic, 1000 nodes, to a relative residual of 1e-6 with a record every pass."""
    passes, memory, minutes, spent = in_new_process(THOUSAND, figures=4)
    note = f"{passes:.0f} passes, {spent:.1f} minutes of CPU"
    return [
        Row("1000 nodes, Farm Ads, to a residual of 1e-6", minutes, 10, unit="min", note=note),
        Row("peak memory of that run", memory, 4, unit="GB"),
    ]


TWENTY = """
import time
import numpy as np
import dsba
from benchmarks.kernels import Runner
from benchmarks.measure import dataset, interleaved, peak_memory_gb
name, data = dataset("news20", n_rows=15_935, n_columns=62_061, row_length=80)
classes = data.y if len(np.unique(data.y)) > 2 else np.arange(len(data.y)) % 20
problem = dsba.Problem.from_arrays(data.X, classes, operator="softmax")
del data
runner = Runner(problem, dsba.Topology.random(10, 0.4, seed=0), "lazy", problem.n_samples // 10)
runner()
spent = interleaved({"wall": runner}, repeats=5)["wall"]
cpu = interleaved({"cpu": runner}, repeats=5, clock=time.process_time)["cpu"]
del runner  # a run has one state
dsba.solve(problem, dsba.Topology.random(10, 0.4, seed=0), max_passes=0.2)
print(spent, cpu, peak_memory_gb())
"""


def twenty_classes() -> list[Row]:
    """News20's twenty classes in one softmax model, N = 10."""
    seconds, cpu, memory = in_new_process(TWENTY, figures=3)
    note = f"{seconds:.2f} s a pass, {cpu:.2f} s of CPU"
    return [Row("peak memory, news20, twenty classes", memory, 1.2, unit="GB", note=note)]


def against_nodes() -> tuple[list[Row], dict[str, dict[int, dict[str, float]]]]:
    """Cost of an iteration for N = 2..1000, lazy and dense, and what the automatic choice loses."""
    curves: dict[str, dict[int, dict[str, float]]] = {}
    worst, where = 0.0, ""
    for shape, data in _shapes().items():
        for n in NODES if shape == LARGEST else NODES[:6]:
            problem = dsba.Problem.from_arrays(*data, operator="logistic", n_nodes=n)
            topology = dsba.Topology.random(n, 1.0 if n < 5 else 0.4 if n <= 100 else 10 / n, seed=0)
            forms = {form: Runner(problem, topology, form, max(4, 2000 // n)) for form in ("lazy", "dense")}
            spent = interleaved(forms, repeats=5, clock=time.process_time)
            chosen = dsba.DSBA().chosen_form(problem, Simulator(topology))
            loss = spent[chosen] / min(spent.values())
            each = max(4, 2000 // n)
            curves.setdefault(shape, {})[n] = {form: spent[form] / each for form in forms}
            if loss > worst:
                worst, where = loss, f"worst at {shape}, N = {n}"
    return [Row("automatic form over the better one, N = 2..1000", worst, 1.2, note=where)], curves


def _shapes() -> dict[str, dsba.data.Dataset]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 60))
    dense = dsba.data.Dataset(as_csr(X, "X"), np.sign(X[:, 0]))
    return {
        LARGEST: dsba.data.make_text_like(n_rows=2000, n_columns=20_000, row_length=60),
        "sparse, d = 2,000, 60 a row": dsba.data.make_text_like(n_rows=2000, n_columns=2000, row_length=60),
        "sparse, d = 300, 60 a row": dsba.data.make_text_like(n_rows=2000, n_columns=300, row_length=60),
        "dense, d = 60": dense,
    }
