"""All methods on real data: what a relative gap of 1e-6 costs in passes, rounds, bytes, and in time on three networks.

`DSBA_DATA=folder python -m benchmarks.methods farm-ads` (three sets without names) tunes every method and runs it. The
table is kept in docs/results. The folder results/methods/farm-ads has the results and pages of three groups:
methods that touch few samples a round, methods that touch all, and DLM. What is finished is not repeated.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from docs.tables import record

from benchmarks.measure import DEFINING
from dsba import Link, lab
from dsba.lab.results import ExperimentResults

GAP = 1e-6
SETS = ("farm-ads", "reuters-moneyfx.trn", "a9a")
NARROW = ("a9a",)  # few columns, so that methods with matrices of all pairs of columns apply
OUT = Path("results") / "methods"
INPUTS = (*DEFINING, "src/dsba/lab/tuning.py", "benchmarks/methods.py")

LINKS = {
    "0.1 ms, 10 Gbit/s": Link(1e-4, 1e10),
    "1 ms, 1 Gbit/s": Link(1e-3, 1e9),
    "20 ms, 100 Mbit/s": Link(2e-2, 1e8),
}

FEW_SAMPLES: list[dict[str, Any]] = [
    {"algorithm": "dsba", "label": "DSBA"},
    {"algorithm": "dsba", "label": "DSBA-s", "communication": "sparse"},
    {"algorithm": "dsba", "label": "DSBA-s, cached", "communication": "cached"},
    {"algorithm": "dsba", "label": "DSBA, b = 32", "batch_size": 32},
    {"algorithm": "dsba", "label": "DSBA-s, cached, b = 32", "batch_size": 32, "communication": "cached"},
    *({"algorithm": name} for name in ("dsa", "gt-saga", "pmgt-saga", "dvr", "acc-vr-extra", "vi-papc-vr")),
]
ALL_SAMPLES = [
    *("extra", "pg-extra", "nids", "ssda", "msda", "p-extra", "d-admm", "apapc", "opapc"),
    *("lead", "diging", "dgd", "dual-averaging", "dual-rbcd", "vi-papc"),
    *("exact-diffusion", "proxskip", "lt-admm", "acc-gt", "adom-plus", "extragradient"),
    *("push-pull", "push-diging"),
]
ONLY_NARROW: list[dict[str, Any]] = [{"algorithm": "newton", "step_size": "auto"}, {"algorithm": "network-newton"}]


def experiments_of(name: str) -> dict[str, dict[str, Any]]:
    """By folder. A pass of a method that touches all samples is cheap, and one or two rounds: it gets many more.

    DLM's second parameter matters late, so its search is longer.
    """
    whole = [{"algorithm": method} for method in ALL_SAMPLES] + (ONLY_NARROW if name in NARROW else [])
    return {
        "few-samples": setting(name, 30, 150, 0.5) | {"method": FEW_SAMPLES},
        "all-samples": setting(name, 60, 1500, 2) | {"method": whole},
        "dlm": setting(name, 400, 1500, 2) | {"method": [{"algorithm": "dlm"}]},
    }


def setting(name: str, tune_passes: int, passes: int, record_every: float) -> dict[str, Any]:
    """The paper's setting: ten nodes, a random graph, unit rows, lambda = 1/(10 Q)."""
    return {
        "title": f"All methods, {name}",
        "axes": ["passes", "rounds", "bytes_max", "time"],
        "stop": {"max_passes": passes, "gap_tol": GAP, "record_every": record_every},
        "tune": {"passes": tune_passes},
        "data": [{"name": name}],
        "problem": [{"operator": "logistic"}],
        "network": [{"graph": "random", "n_nodes": 10, "p": 0.4, "seed": 0}],
    }


def table(parts: list[ExperimentResults]) -> list[list[str]]:
    """Cells, the head first; methods that reached the gap first, by their passes; the least of each column in bold."""
    rows = [row for results in parts for row in results.summary()]
    on = [{row["method"]: row for part in parts for row in part.on(link).summary()} for link in LINKS.values()]
    cost = f"to_{GAP:g}"
    reached = sorted((row for row in rows if row[f"passes_{cost}"] is not None), key=lambda row: row[f"passes_{cost}"])
    columns = [
        [row[f"passes_{cost}"] for row in reached],
        [row[f"rounds_{cost}"] for row in reached],
        [row[f"bytes_max_{cost}"] / 1e6 for row in reached],
        *([times[row["method"]][f"time_{cost}"] for row in reached] for times in on),
    ]
    heads = ["method", "passes", "rounds", "MB into the busiest node", *(f"s at {link}" for link in LINKS)]
    lines = [heads]
    for k, row in enumerate(reached):
        lines.append([row["method"], *(_bold(column[k], min(column)) for column in columns)])
    for row in sorted((row for row in rows if row not in reached), key=lambda row: row["final"]):
        lines.append([row["method"], f"not reached: {row['final']:.0e}", *[""] * (len(columns) - 1)])
    return lines


def _bold(value: float, least: float) -> str:
    text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"**{text}**" if value == least else text


if __name__ == "__main__":
    for name in sys.argv[1:] or SETS:
        # One after the other: side by side they would slow each other down, and seconds are part of the table.
        parts = [lab.run(spec, OUT / name / part, workers=1) for part, spec in experiments_of(name).items()]
        record(f"methods-{name.partition('-moneyfx')[0]}", f"python -m benchmarks.methods {name}", table(parts), INPUTS)
