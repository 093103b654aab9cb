"""Nodes behind slow links: what a method costs in computing and in sending. Draws bandwidth.png.

Ten nodes, text-like sparse data. The time of a run is its own computing time plus, at the node that
receives most, the bytes over the speed of its link.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import dsba

GAP = 1e-4
METHODS = {"dsba": "dense", "dsba-s": "sparse", "dsba-s cached": "cached", "ssda": "dense", "msda": "dense"}
LINKS = {"1 Mbit/s": 1e6, "100 Mbit/s": 1e8, "10 Gbit/s": 1e10}


def main() -> None:
    X, y = dsba.data.load("synthetic-text")
    problem = dsba.Problem.from_arrays(X, y, "logistic", n_nodes=10, lam=1e-3)
    topology = dsba.Topology.random(10, 0.4, seed=0)
    z_star = dsba.optimum(problem).z
    print(f"{problem}: to a gap of {GAP:g}")
    print(f"{'':13} {'passes':>7} {'MB received':>12}", *(f"{name:>12}" for name in LINKS))
    figure, axes = plt.subplots(figsize=(6, 4))
    for method, communication in METHODS.items():
        limits = {"max_passes": 400, "gap_tol": GAP, "communication": communication}
        run = dsba.solve(problem, topology, method.split("-")[0], reference=z_star, **limits)
        last = run.history.last()
        if run.status != "converged":
            print(f"{method:13} {run.message}")
            continue
        times = [last["seconds"] + 8 * last["bytes_max"] / speed for speed in LINKS.values()]
        megabytes = last["bytes_max"] / 1e6
        print(f"{method:13} {last['passes']:7.0f} {megabytes:12.1f}", *(f"{time:10.2f} s" for time in times))
        axes.loglog(run.history["bytes_max"][1:] / 1e6, np.maximum(run.history["gap"][1:], 1e-12), label=method)
    everything = 12 * X.nnz * (problem.n_nodes - 1) / problem.n_nodes / 1e6
    axes.axvline(everything, color="gray", linestyle=":", label="shipping all data once")
    print(f"{'(ship all data once)':33} {everything:.1f} MB")
    axes.set(xlabel="MB received at the busiest node", ylabel="gap")
    axes.legend()
    figure.savefig("bandwidth.png", dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
