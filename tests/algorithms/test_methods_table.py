"""The table of `benchmarks.methods`, against the histories that it is made of, and its sentences against numbers."""

from __future__ import annotations

import math
import re

import numpy as np
from benchmarks import methods, tuned
from benchmarks.methods import GAP, HEADS, LINKS, Measured, measured, table, who_wins
from benchmarks.tuned import VARIANTS, entries
from small_experiments import SMALL

import dsba
from dsba.lab import ExperimentResults, run
from dsba.lab.curves import NODE_SPEED

UNTUNED = {"chosen": {}, "better": None}


def test_the_table_is_made_of_the_histories(tmp_path):
    found, wanted, sweep = [], {}, 1e9
    for name in ("newton", "dsba", "dgd"):
        method = {"algorithm": name, "step_size": "auto"}
        spec = SMALL | {"stop": {"max_passes": 40, "gap_tol": GAP}, "method": [method]}
        results = run(spec, tmp_path / name, workers=1, report=False)
        found.append(measured(results, sweep, 4, UNTUNED))
        history = results.histories[results.runs[0].id]
        at = np.flatnonzero(history["gap"] <= GAP)
        passes, work, rounds, moved = (
            float(history[cost][at[0] if at.size else -1]) for cost in ("passes", "work", "rounds", "bytes_max")
        )
        times = [work * sweep / NODE_SPEED / 4 + link.seconds(rounds, moved) for link in LINKS.values()]
        wanted[results.runs[0].method] = [passes, work, rounds, moved / 1e6, *times]
        assert found[-1].reached == bool(at.size)
    rows = {line[0]: line[1 : 1 + len(HEADS)] for line in table(found)}
    for name in ("NEWTON", "DSBA"):
        assert np.allclose([float(cell.strip("*").replace(",", "")) for cell in rows[name]], wanted[name], rtol=0.01)
    assert rows["DGD"] == [f"gap {found[2].gap:.0e}", *[""] * (len(HEADS) - 1)]
    assert found[2].costs == tuple(wanted["DGD"])
    assert rows["NEWTON"][2].startswith("**")  # the fewest rounds


def test_what_was_kept_is_what_another_machine_goes_on_from(tmp_path, monkeypatch):
    """A row as it was measured, costs that are infinite included; what has no row with the present code is missing."""
    monkeypatch.setattr(methods, "KEPT", tmp_path / "methods.json")
    monkeypatch.setattr(tuned, "key_of", lambda data, name: f"{data}/{name}")
    monkeypatch.setattr(tuned, "known", lambda: {"a9a/dgd": UNTUNED})
    monkeypatch.setattr(ExperimentResults, "load", lambda folder: folder)
    row = Measured("DGD", "step_size 1", False, (math.inf,) * len(HEADS), 0.5, "0 of 10")
    monkeypatch.setattr(methods, "measured", lambda *_: row)
    X, y = dsba.data.load_breast_cancer()
    problem = dsba.Problem.from_arrays(X, y, "logistic", n_nodes=4, lam=0.01)
    methods.keep("a9a", problem)
    assert methods.all_measured("a9a") == [row]
    missing = methods.missing("a9a", problem, dsba.Topology.ring(4))
    assert "dgd" not in missing
    assert "extra" in missing
    assert "d-bfgs" in methods.missing("a9a", problem, dsba.Topology.path(4))


def test_every_method_for_an_objective_is_measured():
    for_auc, for_one_node = {"solam", "gossip-pairwise"}, {"saga", "point-saga"}
    assert set(entries()) == set(dsba.algorithms.names()) - for_auc - for_one_node | set(VARIANTS)


SENTENCE = re.compile(
    r"(?P<head>.+?): (?P<first>.+?) needs? the least \((?P<least>[^)]+)\)"
    r"(?:, before (?P<next>.+?) \((?P<cost>\S+), (?P<ratio>\S+) times as much\))?"
    r"(?:; stopped before they had spent as much: (?P<early>.+))?\."
)


def random_table(rng):
    """Some methods with costs of many sizes, ties, methods that were stopped, and methods that diverged."""
    found = []
    for n in range(rng.integers(1, 9)):
        costs = np.where(rng.random(len(HEADS)) < 0.5, rng.integers(1, 4, len(HEADS)), 10 ** rng.uniform(-3, 7))
        reached = bool(rng.random() < 0.6)
        if not reached and rng.random() < 0.3:
            costs[:] = np.inf
        found.append(Measured(f"M{n}", "", reached, tuple(map(float, costs)), float(rng.random())))
    return found


def test_the_sentences_say_what_the_numbers_say():
    """Read back from the words and judged again from the costs alone, for 200 random results."""
    rng, seen = np.random.default_rng(0), dict.fromkeys(("nobody", "tie", "next", "early"), 0)
    for _ in range(200):
        found = random_table(rng)
        for k, (head, sentence) in enumerate(zip(HEADS, who_wins(found), strict=True)):
            costs = {one.method: one.costs[k] for one in found if one.reached}
            if not costs:
                assert sentence == f"{head}: no method reached the gap."
                seen["nobody"] += 1
                continue
            said, best = SENTENCE.fullmatch(sentence).groupdict(), min(costs.values())
            winners = {name for name, cost in costs.items() if cost == best}
            assert said["head"] == head
            assert set(said["first"].split(" and ")) == winners
            assert np.isclose(float(said["least"].replace(",", "")), best, rtol=0.005)
            others = {name: cost for name, cost in costs.items() if name not in winners}
            assert (said["next"] is None) == (not others)
            if others:
                assert costs[said["next"]] == min(others.values())
                assert np.isclose(float(said["ratio"]), min(others.values()) / best, rtol=0.005)
            early = {one.method for one in found if not one.reached and one.costs[k] < best}
            assert set(said["early"].split(", ") if said["early"] else []) == early
            seen = {"nobody": seen["nobody"], "tie": seen["tie"] + (len(winners) > 1),
                    "next": seen["next"] + bool(others), "early": seen["early"] + bool(early)}  # fmt: skip
    assert min(seen.values()) > 20
