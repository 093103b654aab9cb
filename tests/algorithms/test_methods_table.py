"""The table of `benchmarks.methods`, against the histories that it is made of."""

from __future__ import annotations

import numpy as np
from benchmarks.methods import GAP, LINKS, experiments_of, table
from small_experiments import SMALL

import dsba
from dsba.lab import run


def test_the_table_is_made_of_the_histories(tmp_path):
    methods = [{"algorithm": name, "step_size": "auto"} for name in ("newton", "dsba", "dgd")]
    results = run(SMALL | {"stop": {"max_passes": 40, "gap_tol": GAP}, "method": methods}, tmp_path, workers=1)
    rows = {line[0]: line[1:] for line in table([results])}
    for run_ in results.runs:
        history, cells = results.histories[run_.id], rows[run_.method]
        reached = np.nonzero(history["gap"] <= GAP)[0]
        if not reached.size:
            assert cells[0] == f"not reached: {history['gap'][-1]:.0e}"
            continue
        at = reached[0]
        rounds, moved, seconds = (float(history[name][at]) for name in ("rounds", "bytes_max", "seconds"))
        times = [seconds / 4 + link.seconds(rounds, moved) for link in LINKS.values()]
        shown = [float(cell.strip("*").replace(",", "")) for cell in cells]
        wanted = [float(history["passes"][at]), rounds, moved / 1e6, *times]
        assert np.allclose(shown, wanted, rtol=0.01)
    assert "not reached" in rows["DGD"][0]
    assert rows["NEWTON"][1].startswith("**")  # the fewest rounds


def test_every_method_for_an_objective_is_in_the_table():
    named = {m["algorithm"] for part in experiments_of("a9a").values() for m in part["method"]}
    for_auc, for_one_node, for_few_columns = {"solam", "gossip-pairwise"}, {"saga", "point-saga"}, {"d-bfgs"}
    assert named == set(dsba.algorithms.names()) - for_auc - for_one_node - for_few_columns
