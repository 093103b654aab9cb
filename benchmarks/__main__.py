"""Run benchmarks: table on the screen, JSON and plot in results/bench.

A table of the documentation whose parts were all run, on real data, is kept in docs/results.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from docs.tables import record
from rich.console import Console
from rich.table import Table

from benchmarks import choice, communication, estimators, full_gradient, hosts, kernels, mpi, sites, startup, tables
from benchmarks.depends import AUTO, starts
from benchmarks.measure import Row, machine, rows_as_cells

OUT = Path("results") / "bench"


PARTS: dict[str, Callable[[], list[Row]]] = {
    "startup": startup.startup,
    "dense": kernels.lazy_against_dense,
    "memory": kernels.memory,
    "saga": kernels.against_saga,
    "gap": kernels.to_gap,
    "dimension": kernels.against_dimension,
    "records": kernels.records,
    "thousand": kernels.thousand_nodes,
    "classes": kernels.twenty_classes,
    "numpy": full_gradient.against_numpy,
    "scipy": full_gradient.against_scipy,
    "estimators": estimators.against_pooled,
    "choice": choice.choices,
    "reading": tables.against_pandas,
    "tables": tables.four_hospitals,
    "communication": communication.communication,
    "relay": communication.work_against_dimension,
    "mpi": mpi.rounds,
    "hosts": hosts.over_a_slow_network,
    "sites": sites.over_tls,
}
NODES = "nodes"  # gives a plot, too
# The tables of the documentation that are made of rows: their parts, and what these start from besides their modules.
TABLES: dict[str, tuple[Sequence[str], list[str]]] = {
    "bench-ratios": (("dense", "memory", "numpy", "scipy", "relay"), starts(methods=("dsba", "extra"))),
    "bench-speed": (
        ("startup", "saga", "gap", "dimension", "records", "thousand", "classes", "mpi"),
        starts("dsba.tables.fit:fit", methods=(AUTO, "dsba"), losses=("auc", "logistic", "ridge", "softmax")),
    ),
    "bench-estimators": (
        ("estimators",),
        starts(methods=(AUTO,), losses=("auc", "logistic", "ridge", "squared-hinge")),
    ),
    "bench-choice": (("choice",), starts(methods=(AUTO,), losses=("logistic", "ridge"))),
    "bench-tables": (
        ("tables",),
        starts("dsba.tables.fit:train", methods=("newton",), losses=("logistic", "poisson", "ridge")),
    ),
    "bench-hosts": (("hosts",), starts("benchmarks.namespaces", methods=("dsba",))),
}


def chosen() -> list[str]:
    """The benchmarks to run, by name; all of them if none is named."""
    names = [*PARTS, NODES]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", metavar="name", help=f"one of {', '.join(names)}; without any, all run")
    given = parser.parse_args().name
    if unknown := [name for name in given if name not in names]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(names)}")
    return given or names


def main(names: list[str]) -> None:
    console = Console()
    if not os.environ.get("DSBA_DATA"):
        console.print("DSBA_DATA is not set: synthetic text stands in for the real data sets.")
    measured: dict[str, list[Row]] = {}
    curves: dict[str, dict[int, dict[str, float]]] = {}
    for name in (name for name in PARTS if name in names):
        console.print(f"running {name} ...")
        measured[name] = PARTS[name]()
    if os.environ.get("DSBA_DATA"):
        keep(measured)
    rows = [row for part in measured.values() for row in part]
    if NODES in names:
        console.print(f"running {NODES} ...")
        found, curves = kernels.against_nodes()
        rows += found
    console.print(_table(rows))
    OUT.mkdir(parents=True, exist_ok=True)
    results = {"machine": machine(), "rows": [asdict(row) | {"met": row.met} for row in rows], "curves": curves}
    (OUT / "results.json").write_text(json.dumps(results, indent=1))
    console.print(f"saved {OUT / 'results.json'}")
    if curves:
        console.print(f"saved {_plot(curves)}")


def keep(measured: Mapping[str, Sequence[Row]]) -> None:
    """The tables of the documentation whose parts were all measured, and gave something."""
    for name, (parts, others) in TABLES.items():
        if all(measured.get(part) for part in parts):
            modules = sorted({PARTS[part].__module__ for part in parts})
            cells = rows_as_cells([row for part in parts for row in measured[part]])
            record(name, f"python -m benchmarks {' '.join(parts)}", cells, [*modules, *others])


def _table(rows: list[Row]) -> Table:
    table = Table("figure", "measured", "target", "met", "note")
    for row in rows:
        met = "yes" if row.met else "NO"
        table.add_row(row.name, f"{row.value:.3g} {row.unit}", row.bound, met, row.note)
    return table


def _plot(curves: dict[str, dict[int, dict[str, float]]]) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(curves), 3.6), layout="constrained")
    for axes, (shape, by_nodes) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        for form, style in (
            ("lazy", {"marker": "o", "color": "#0072B2"}),
            ("dense", {"marker": "s", "color": "#D55E00"}),
        ):
            axes.loglog(list(by_nodes), [1e6 * cost[form] for cost in by_nodes.values()], label=form, **style)
        axes.set(title=shape, xlabel="nodes N", ylabel="microseconds per iteration")
        axes.grid(True, color="0.9")
        axes.legend(frameon=False)
    path = OUT / "cost-against-nodes.png"
    figure.savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    main(chosen())
