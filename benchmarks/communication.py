"""What moves until the gap is 1e-6, for dense and sparse communication, and the work of a node whatever d is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import dsba
from benchmarks.kernels import FARM, NEWS
from benchmarks.measure import Row, dataset, interleaved
from dsba.algorithms import sampling
from dsba.network import MessageSimulator
from dsba.network.messages.wire import VECTOR, entry_costs

GAP = 1e-6
MOST_PASSES = {"dsba": 100, "dsa": 300, "extra": 1000}  # the slow ones may end before the gap is reached, and say so
METHODS = {
    "DSBA, dense": ("dsba", "dense"),
    "DSBA-s": ("dsba", "sparse"),
    "DSBA-s, cached": ("dsba", "cached"),
    "DSA-s": ("dsa", "sparse"),
    "EXTRA": ("extra", "dense"),
}


def communication() -> list[Row]:
    return [
        *_until_the_gap("farm-ads", FARM),
        *_until_the_gap("news20.binary", NEWS),
        *work_against_dimension(),
    ]


def _until_the_gap(name: str, synthetic: dict[str, int]) -> Iterator[Row]:
    """DOUBLEs and bytes received at the busiest node, N = 10, logistic; the ratios that have targets."""
    shown, data = dataset(name, **synthetic)
    problem = dsba.Problem.from_arrays(*data, operator="logistic")
    topology = dsba.Topology.random(10, 0.4, seed=0)
    reference = dsba.optimum(problem).z
    print(f"{shown}: {problem}, {topology}, to a gap of {GAP:g}; received at the busiest node")
    found = {}
    for label, (algorithm, communication) in METHODS.items():
        budget = MOST_PASSES[algorithm]
        options = {"max_passes": budget, "gap_tol": GAP, "reference": reference, "communication": communication}
        history = dsba.solve(problem, topology, algorithm, **options).history
        found[label], last = history, history.last()
        note = f"{last['passes']:.0f} passes, gap {last['gap']:.1e}"
        _print_line(label, last["doubles_max"], last["bytes_max"], note)
    doubles, size = _all_data_once(problem)
    _print_line("ship all data once", doubles, size, "to one node")
    cached, sparse = (found[label]["bytes_max"] for label in ("DSBA-s, cached", "DSBA-s"))
    yield Row(f"bytes of DSBA-s cached over DSBA-s, {shown}", cached[-1] / sparse[-1], 0.1)
    # In the last pass every sample has been seen before, and a delta is one DOUBLE.
    again = np.diff(cached)[-1] / np.diff(found["DSBA-s, cached"]["doubles_max"])[-1]
    yield Row(f"bytes per delta of a known sample, headers included, {shown}", again, 40, unit="bytes")


def _print_line(label: str, doubles: float, size: float, note: str) -> None:
    print(f"  {label:20} {doubles:10.3g} DOUBLEs {size / 1e6:10.4g} MB   {note}", flush=True)


def _all_data_once(problem: dsba.Problem) -> tuple[float, float]:
    """Values, and bytes as sparse vectors, that one node must receive to have everybody's data."""
    source = np.repeat(np.arange(problem.n_nodes), problem.sizes)
    nonzeros = np.diff(problem.csr[0])
    size = entry_costs(VECTOR, source, np.zeros_like(source), *problem.csr[:2], problem.k)[:, 2]
    per_node = np.array([np.bincount(source, nonzeros), np.bincount(source, size)])
    doubles, total = per_node.sum(axis=1) - per_node[:, np.argmax(per_node[1])]
    return float(doubles), float(total)


def work_against_dimension() -> list[Row]:
    """A round of ten lazy nodes that exchange messages, 100 nonzeros a row: d = 1e6 over d = 1e4."""
    topology = dsba.Topology.random(10, 0.4, seed=0)
    rounds = {str(d): _rounds(d, topology, 100) for d in (10_000, 1_000_000)}
    spent = interleaved(rounds, repeats=7)
    note = ", ".join(f"d = {int(d):,}: {seconds:.2g} s for 100 rounds of all nodes" for d, seconds in spent.items())
    name = "round of a lazy node, d = 1e6 over d = 1e4, 100 nonzeros a row"
    return [Row(name, spent["1000000"] / spent["10000"], 3.0, note=note)]


def _rounds(d: int, topology: dsba.Topology, count: int) -> Callable[[], None]:
    """``count`` further rounds of all nodes."""
    data = dsba.data.make_text_like(n_rows=2000, n_columns=d, row_length=100)
    problem, net = dsba.Problem.from_arrays(*data, operator="logistic"), MessageSimulator(topology)
    algorithm = dsba.DSBA(form="lazy", communication="cached").resolved(problem, topology)
    state = algorithm.init(problem, net, np.zeros(problem.dim))

    def run() -> None:
        samples = sampling.draw(0, problem.sizes, state.t, count)
        algorithm.advance(state, problem, net, samples)

    run()
    return run
