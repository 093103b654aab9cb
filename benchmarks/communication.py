"""What moves until the gap is 1e-6, for dense and sparse communication, and the work of a node whatever d is.

`DSBA_DATA=folder python -m benchmarks.communication` counts what moves, which is the same on every machine, and keeps
the tables of docs/benchmarks.md in docs/results. `python -m benchmarks relay` measures the work of a node.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from docs.tables import record

import dsba
from benchmarks.depends import starts
from benchmarks.kernels import FARM, NEWS
from benchmarks.measure import Row, dataset, interleaved, rows_as_cells
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
SETS = {"farm-ads": ("Farm Ads", FARM), "news20.binary": ("News20-binary", NEWS)}
STARTS = starts("benchmarks.communication", methods=("dsba", "dsa", "extra"))
Cells = list[list[str]]


def communication() -> list[Row]:
    """The ratios that have targets."""
    return [row for name in SETS for row in until_the_gap(name)[1]]


def until_the_gap(name: str) -> tuple[Cells, list[Row]]:
    """What the busiest node receives, N = 10, logistic: a table with its head, and the ratios that have targets."""
    title, synthetic = SETS[name]
    shown, data = dataset(name, **synthetic)
    problem = dsba.Problem.from_arrays(*data, operator="logistic")
    topology, reference = dsba.Topology.random(10, 0.4, seed=0), dsba.optimum(problem).z
    found = {}
    lines = [[f"{title} ({problem.n_samples:,} × {problem.A.shape[1]:,})", "passes", "DOUBLEs", "bytes"]]
    for label, (algorithm, how) in METHODS.items():
        options = {"max_passes": MOST_PASSES[algorithm], "gap_tol": GAP, "reference": reference, "communication": how}
        found[label] = dsba.solve(problem, topology, algorithm, **options).history
        lines.append([label, *_spent(found[label].last())])
        print(shown, *lines[-1], sep=" | ", flush=True)
    doubles, size = all_data_once(problem)
    lines.append(["ship all data to one node, once", "", f"{doubles:.3g}", _bytes(size)])
    cached, sparse = (found[label]["bytes_max"] for label in ("DSBA-s, cached", "DSBA-s"))
    # In the last pass every sample has been seen before, and a delta is one DOUBLE.
    again = np.diff(cached)[-1] / np.diff(found["DSBA-s, cached"]["doubles_max"])[-1]
    return lines, [
        Row(f"bytes of DSBA-s cached over DSBA-s, {shown}", cached[-1] / sparse[-1], 0.1),
        Row(f"bytes per delta of a known sample, headers included, {shown}", again, 40, unit="bytes"),
    ]


def _spent(last: dict[str, float]) -> list[str]:
    """Passes, with the gap where it is not small enough; DOUBLEs; bytes."""
    ended = f", gap {last['gap']:.1e}" if last["gap"] > GAP else ""
    return [f"{last['passes']:.0f}{ended}", f"{last['doubles_max']:.3g}", _bytes(last["bytes_max"])]


def _bytes(size: float) -> str:
    """In the unit that leaves one to three digits before the point."""
    power = min(int(np.log10(max(size, 1.0)) // 3), 4)
    return f"{size / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def all_data_once(problem: dsba.Problem) -> tuple[float, float]:
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


def main() -> None:
    ratios: list[Row] = []
    for name in SETS:
        lines, rows = until_the_gap(name)
        ratios += rows
        record(f"bench-moves-{name.replace('.', '-')}", "python -m benchmarks.communication", lines, STARTS)
    record("bench-moves-ratios", "python -m benchmarks.communication", rows_as_cells(ratios), STARTS)


if __name__ == "__main__":
    main()
