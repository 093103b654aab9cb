"""Draws the pictures of the documentation that the demo does not: python docs/pictures.py"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import dsba

IMAGES = Path(__file__).parent / "images"
COLOURS = {"complete": "#0072B2", "random": "#009E73", "grid": "#CC79A7", "ring": "#E69F00", "path": "#D55E00"}


def mixing() -> None:
    """Disagreement of ten random numbers under repeated mixing."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    start = np.random.default_rng(0).normal(size=(10, 200))
    for graph, colour in COLOURS.items():
        topology = dsba.Topology.family(graph, 10, seed=0)
        Z, spread = start, []
        for _ in range(60):
            spread.append(float(np.std(Z, axis=0).mean()))
            Z = topology.W_tilde @ Z
        axes.semilogy(np.maximum(spread, 1e-8), color=colour, label=f"{graph}, γ = {topology.gamma:.2f}")
    axes.set(xlabel="rounds of mixing", ylabel="disagreement", ylim=(1e-6, 2))
    axes.grid(True, color="0.9")
    axes.legend(frameon=False)
    figure.savefig(IMAGES / "mixing.png", dpi=120)


if __name__ == "__main__":
    mixing()
