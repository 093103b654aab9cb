"""Makes the pictures of the documentation: python docs/pictures.py

Those of `make demo` and of benchmarks are taken from their results where these are here, and else stay as they are.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import dsba

IMAGES = Path(__file__).parent / "images"
ROOT = IMAGES.parent.parent
OF_RESULTS = {
    "demo.png": "demo/figures/logistic.png",
    "binary-logistic.png": "results/bench/paper/binary-*/figures/logistic.png",
    "binary-ridge.png": "results/bench/paper/binary-*/figures/ridge.png",
    "real-auc.png": "results/bench/paper/text-*/figures/auc.png",
    "real-logistic.png": "results/bench/paper/text-*/figures/logistic.png",
    "real-ridge.png": "results/bench/paper/text-*/figures/ridge.png",
    "cost-against-nodes.png": "results/bench/cost-against-nodes.png",
    "time-against-latency.png": "results/bench/time-against-latency.png",
}
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


# Diagrams: boxes on a grid of columns and rows, and arrows between them -------------------------------

BOX, GAP, HEIGHT, LEAD = 168, 38, 58, 26
STYLE = """<style>text{font:13px system-ui,sans-serif;fill:#1b2a38;text-anchor:middle}.name{font-weight:600}
rect{fill:#eef4fa;stroke:#4477aa;rx:8}path{fill:none;stroke:#5b6b7a;stroke-width:1.6;marker-end:url(#tip)}
.page{fill:#fff;stroke:none;rx:0}.plain{marker-end:none}circle{fill:#eef4fa;stroke:#4477aa}</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0 0 8 4 0 8z" style="fill:#5b6b7a;stroke:none"/></marker></defs>"""

ROOMS = {
    "data/": (0, 0, "files, tables, arrays"),
    "tables/, study/": (1, 0, "schema, design, results"),
    "fitting/": (2, 0, "scale, start, model"),
    "problem/": (3, 0, "samples, operator, λ"),
    "operators/": (4, 0, "maps g on Rᵏ"),
    "lab/": (2, 1, "plan, jobs, figures"),
    "engine/": (3, 1, "the one loop"),
    "algorithms/": (4, 1, "init, step, advance"),
    "graph/": (1, 2, "nodes, edges, W"),
    "network/": (3, 2, "rows, frames, sums"),
}
WAYS = [
    ("data/", "tables/, study/"), ("tables/, study/", "fitting/"), ("fitting/", "problem/"), ("operators/", "problem/"),
    ("problem/", "engine/"), ("graph/", "network/"), ("network/", "engine/"), ("algorithms/", "engine/"),
    ("lab/", "engine/"),
]  # fmt: skip


def rooms() -> None:
    """The house: which way data walks."""
    shapes = [_arrow(_centre(*ROOMS[a][:2]), _centre(*ROOMS[b][:2])) for a, b in WAYS]
    for name, (column, row, what) in ROOMS.items():
        x, y = _centre(column, row)
        shapes.append(f'<rect x="{x - BOX / 2}" y="{y - HEIGHT / 2}" width="{BOX}" height="{HEIGHT}"/>')
        shapes.append(f'<text class="name" x="{x}" y="{y - 5}">{name}</text><text x="{x}" y="{y + 15}">{what}</text>')
    _write("architecture.svg", 5 * (BOX + GAP), 3 * (HEIGHT + 2 * LEAD), shapes)


def _centre(column: int, row: int) -> tuple[float, float]:
    return (column + 0.5) * (BOX + GAP), (row + 0.5) * (HEIGHT + 2 * LEAD)


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    """From the edge of one box to the edge of the other."""
    (x0, y0), (x1, y1) = start, end
    dx, dy = x1 - x0, y1 - y0
    reach = min((BOX / 2) / abs(dx) if dx else 1, (HEIGHT / 2) / abs(dy) if dy else 1)
    a, b = reach, 1 - reach
    return f'<path d="M{x0 + a * dx:.0f} {y0 + a * dy:.0f} L{x0 + b * dx:.0f} {y0 + b * dy:.0f}"/>'


def server_and_neighbours() -> None:
    """Four sites around a server, and four sites on a ring."""
    corners = [(-90, -70), (90, -70), (90, 70), (-90, 70)]
    shapes = []
    for middle, title, lines in [
        (190, "Federated: a server in the middle", [((0, 0), corner) for corner in corners]),
        (570, "Decentralised: neighbours only", list(zip(corners, corners[1:] + corners[:1], strict=True))),
    ]:
        spots = [(middle + x, 150 + y) for x, y in corners]
        for (x0, y0), (x1, y1) in lines:
            shapes.append(f'<path class="plain" d="M{middle + x0} {150 + y0} L{middle + x1} {150 + y1}"/>')
        for x, y in spots:
            shapes.append(f'<rect x="{x - 35}" y="{y - 18}" width="70" height="36"/>')
            shapes.append(f'<text x="{x}" y="{y + 5}">site</text>')
        shapes.append(f'<text class="name" x="{middle}" y="34">{title}</text>')
    shapes.append('<circle cx="190" cy="150" r="32"/><text x="190" y="155">server</text>')
    _write("neighbours.svg", 760, 260, shapes)


def plots_of_models() -> None:
    """The plots that blocks of docs/howto/models.md write."""
    page = (Path(__file__).parent / "howto" / "models.md").read_text().replace("clinic.csv", "../assets/clinic.csv")
    with contextlib.chdir(IMAGES):
        for block in page.split("```python\n")[1:]:
            if '.png"' in (code := block.split("```")[0]):
                exec(code, {})


def of_results() -> None:
    """Figures of finished results, the newest of each."""
    for name, pattern in OF_RESULTS.items():
        if found := sorted(ROOT.glob(pattern), key=lambda path: path.stat().st_mtime):
            shutil.copyfile(found[-1], IMAGES / name)


def _write(name: str, width: int, height: int, shapes: list[str]) -> None:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    page = f'<rect class="page" width="{width}" height="{height}"/>'
    (IMAGES / name).write_text("\n".join([head, STYLE, page, *shapes, "</svg>"]) + "\n")


if __name__ == "__main__":
    mixing()
    rooms()
    server_and_neighbours()
    plots_of_models()
    of_results()
