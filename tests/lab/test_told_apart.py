"""What a report shows under one name is one thing: titles, lines of sweeps, curves, bold numbers, test labels."""

from __future__ import annotations

import numpy as np
import pytest
from small_experiments import SMALL, TINY, spec

import dsba
from dsba.lab import ExperimentResults, plan, run, sweeps
from dsba.lab.folder import Folder
from dsba.lab.index import ShownReference

EXTRA = [{"algorithm": "extra", "step_size": "auto"}]
RING = {"graph": "ring", "n_nodes": 8}
PATH, STAR = dsba.Topology.path(8), dsba.Topology.star(8)


def titles_of(kind, entries):
    return [one.title for one in getattr(spec(**{kind: entries}), kind)]


# Titles ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "entries"),
    [
        ("network", [RING, RING | {"tau": 16.0}]),
        ("network", [{"n_nodes": 8}, {"n_nodes": 8, "seed": 1}]),
        ("network", [RING | {"drop": 0.001}, RING | {"drop": 0.004}]),
        ("network", [RING | {"compress": "4-bit"}, RING | {"compress": "4-bit", "pull": 0.5}]),
        ("problem", [{"operator": "logistic"}, {"operator": "logistic", "intercept": True}]),
        ("problem", [{"operator": "logistic", "intercept": True}, {"operator": "logistic", "intercept": 0.5}]),
    ],
)
def test_titles_tell_settings_apart(kind, entries):
    assert len(set(titles_of(kind, entries))) == 2


@pytest.mark.parametrize(
    ("kind", "entries"),
    [
        ("network", [{"graph": PATH.edges}, {"graph": STAR.edges}]),
        ("network", [RING | {"mixing": dsba.Topology.ring(8).W}, RING | {"mixing": dsba.Topology.ring(8, tau=9.0).W}]),
        ("network", [RING | {"drop": 0.1}, RING | {"drop": 0.1, "link_seed": 1}]),
        ("problem", [{"operator": "huber", "delta": 1.0}, {"operator": "huber", "delta": 1.0000001}]),
    ],
)
def test_what_titles_cannot_tell_apart_needs_labels(kind, entries):
    with pytest.raises(dsba.InputError, match=f"two {kind}s are called '.*': give each its own label"):
        spec(**{kind: entries})
    labelled = [entry | {"label": f"number {n}"} for n, entry in enumerate(entries)]
    assert titles_of(kind, labelled) == ["number 0", "number 1"]


def test_a_graph_that_was_given_claims_no_probability():
    assert titles_of("network", [{"graph": dsba.Topology.random(8, 0.9, seed=3)}]) == ["random, N = 8, laplacian"]


def test_the_index_keeps_every_network():
    made = plan.make(spec(network=[RING | {"tau": tau} for tau in (4.0, 16.0, 64.0)]))
    kept = made.index().networks
    gammas = [dsba.Topology.ring(8, tau=tau).gamma for tau in (4.0, 16.0, 64.0)]
    assert [kept[case.network.title].gamma for case in made.cases] == pytest.approx(gammas)


def test_the_label_of_a_problem_is_shown_and_changes_no_identifier():
    plain, named = (plan.make(spec(problem=[SMALL["problem"][0] | label])) for label in ({}, {"label": "mine"}))
    assert [job.id for job in plain.jobs] == [job.id for job in named.jobs]
    assert named.cases[0].shown().problem == "mine"


# What a report makes of histories ------------------------------------------------------------------


def results_of(folder, costs, **changes):
    """Results whose runs need ``costs(case, method)`` passes to reach a gap of 0.01; None: never."""
    made = plan.make(spec(**changes))
    shown, histories = made.index(), {}
    for planned, entry in zip(made.runs, shown.runs, strict=True):
        reached = costs(planned.case, planned.method)
        gap, last = (0.5, 1.0) if reached is None else (0.01, reached)
        counted = {
            name: [0.0, last]
            for name in ("passes", "work", "rounds", "doubles_max", "bytes_max", "seconds", "cpu_seconds")
        }
        histories[entry.id] = dsba.History({**counted, "gap": [1.0, gap]})
    results = ExperimentResults(Folder(folder), shown, histories)
    known = {case.pooled.id: case.pooled.problem.lam for case in made.cases}
    results.__dict__["_references"] = {
        id: ShownReference(id=id, rows=9, columns=9, nonzeros=9, lam=lam, residual=0.0, certified=True, metric="gap")
        for id, lam in known.items()
    }
    return results


def lines_of(results, x):
    """All lines of a sweep, each as its x and its costs."""
    panels = sweeps.sweep(results, x, "passes", 0.01, None)
    return [
        (panel.title.split("\n")[0], label, [point[:2] for point in points])
        for panel in panels
        for label, points in panel.lines.items()
    ]


def test_methods_share_a_curve_only_where_their_histories_agree(tmp_path):
    methods = [{"algorithm": "dsba"}, {"algorithm": "dsba", "communication": "sparse"}]
    alike = results_of(tmp_path, lambda case, method: 2.0, method=methods)
    apart = results_of(tmp_path, lambda case, method: 2.0 if method.communication == "dense" else 3.0, method=methods)
    assert list(alike.panel(alike.cases[0], "passes", "gap").curves) == ["DSBA"]
    assert list(alike.panel(alike.cases[0], "bytes_max", "gap").curves) == ["DSBA", "DSBA-s"]
    assert list(apart.panel(apart.cases[0], "passes", "gap").curves) == ["DSBA", "DSBA-s"]


def test_a_sweep_over_nodes_has_a_line_for_every_graph(tmp_path):
    networks = [{"graph": g, "n_nodes": n} for n in (4, 8) for g in ("ring", "complete")]
    networks += [{"graph": "ring", "n_nodes": 4, "mixing": "metropolis"}]

    def costs(case, method):
        return {"ring": 1.0, "complete": 2.0}[case.network.graph]

    found = lines_of(results_of(tmp_path, costs, network=networks, method=EXTRA), "N")
    assert found == [
        ("ridge, λ = 0.01, ring, laplacian", "EXTRA", [(4.0, 1.0), (8.0, 1.0)]),
        ("ridge, λ = 0.01, complete, laplacian", "EXTRA", [(4.0, 2.0), (8.0, 2.0)]),
        ("ridge, λ = 0.01, ring, metropolis", "EXTRA", [(4.0, 1.0)]),
    ]


def test_a_sweep_over_lambda_has_a_line_for_every_problem(tmp_path):
    problems = [{"operator": "ridge", "lam": lam, "intercept": i} for lam in (0.1, 0.2) for i in (True, False)]
    problems[0]["label"] = "a label changes nothing"

    def costs(case, method):
        return 1.0 if case.pooled.problem.intercept else 2.0

    found = lines_of(results_of(tmp_path, costs, problem=problems, method=EXTRA), "lam")
    assert found == [
        ("ridge, intercept, ring, N = 4, laplacian", "EXTRA", [(0.1, 1.0), (0.2, 1.0)]),
        ("ridge, ring, N = 4, laplacian", "EXTRA", [(0.1, 2.0), (0.2, 2.0)]),
    ]


def test_a_sweep_over_the_spectral_gap_keeps_flaws_apart(tmp_path):
    networks = [RING | {"tau": tau} | flaw for tau in (4.0, 8.0) for flaw in ({}, {"drop": 0.1})]
    found = lines_of(results_of(tmp_path, lambda *_: 1.0, network=networks, method=EXTRA), "gamma")
    assert [(title, len(points)) for title, _, points in found] == [
        ("ridge, λ = 0.01, N = 8", 2),
        ("ridge, λ = 0.01, N = 8, 10% loss", 2),
    ]


def test_a_sweep_over_an_option_has_a_line_for_every_other_setting(tmp_path):
    methods = [
        {"algorithm": "dsba", "step_size": "auto", "batch_size": b, "communication": c, "label": f"{c} {b}"}
        for b in (1, 4)
        for c in ("dense", "cached")
    ]
    methods += [{"algorithm": "dsa", "step_size": "auto"}]
    results = results_of(
        tmp_path, lambda case, method: 2.0 if method.communication == "cached" else 1.0, method=methods
    )
    assert [line[1:] for line in lines_of(results, "batch_size")] == [
        ("DSBA, communication = dense", [(1.0, 1.0), (4.0, 1.0)]),
        ("DSBA, communication = cached", [(1.0, 2.0), (4.0, 2.0)]),
        ("DSA", [(1.0, 1.0)]),
    ]


@pytest.mark.parametrize(
    ("costs", "bold"),
    [
        ({"EXTRA": 2.0, "DSBA": 2.0, "DGD": 3.0}, ["EXTRA", "DSBA"]),
        ({"EXTRA": 0.0, "DSBA": 2.0, "DGD": None}, ["EXTRA"]),
        ({"EXTRA": 2.0, "DSBA": 3.0, "DGD": None}, []),  # DGD was stopped after 1: undecided
    ],
)
def test_what_is_bold_is_the_verdict(costs, bold, tmp_path):
    methods = [{"algorithm": name, "step_size": "auto"} for name in ("extra", "dsba", "dgd")]
    results = results_of(tmp_path, lambda case, method: costs[method.title], method=methods)
    rows = [line.split(" & ") for line in results.to_latex(["passes"], tol=0.01).splitlines() if "&" in line]
    assert [name for name, cell in rows if "textbf" in cell] == bold


# Who leads ---------------------------------------------------------------------------------------

METHODS = [{"algorithm": name, "step_size": "auto"} for name in ("extra", "dsa", "dgd", "dsba")]
COUNTED = ("passes", "work", "rounds", "doubles_max", "bytes_max", "seconds", "cpu_seconds")


def test_a_method_that_alone_went_further_does_not_lead(tmp_path):
    """EXTRA is 150 times cheaper to the tolerance that both reached; DSA went on beyond it."""
    results = results_of(tmp_path, lambda case, method: 1.0, method=METHODS[:2])
    wanted = (([0, 1], [1, 1e-7]), ([0, 150, 160], [1, 1e-7, 1e-11]))
    for one, (costs, gaps) in zip(results.runs, wanted, strict=True):
        results.partial[one.id] = dsba.History(dict.fromkeys(COUNTED, costs) | {"gap": gaps})
    (row,) = results.winners()
    assert (row["tolerance"], row["doubles_max"]) == (1e-6, "EXTRA")


# Labels of test sets -------------------------------------------------------------------------------

ROWS = np.random.default_rng(0).normal(size=(24, 3))


def measured(folder, operator, train, test, metric, **more):
    data = {"name": "d", "X": ROWS, "y": np.resize(train, 24), "X_test": ROWS, "y_test": np.resize(test, 24)} | more
    problem = [{"operator": operator, "lam": 0.1}]
    changes = {"data": [data], "problem": problem, "metrics": [metric], "method": EXTRA}
    results = run(TINY | changes, folder / "out", workers=1, report=False)
    return results.histories[results.runs[0].id]


@pytest.mark.parametrize(
    ("operator", "train", "test", "metric"),
    [
        ("softmax", [1, 3, 5], [1, 2, 3, 5], "test_accuracy"),
        ("softmax", [1, 3, 5], [1, 3, 7], "test_log_loss"),
        ("softmax", [1, 3, 5], [1, 2, 3], "test_loss"),
        ("logistic", [1, 2], [0, 1], "test_accuracy"),
        ("logistic", ["yes", "no"], ["Yes", "No"], "test_accuracy"),
        ("logistic", ["0", "1"], [0, 1], "test_accuracy"),
    ],
)
def test_labels_that_training_never_saw_are_refused_before_anything_runs(operator, train, test, metric, tmp_path):
    with pytest.raises(dsba.InputError) as caught:
        measured(tmp_path, operator, train, test, metric)
    sentence = f"the test set of 'd' has labels that are not among the {len(train)} classes of the training data."
    assert str(caught.value) == sentence
    assert not (tmp_path / "out").exists()


def test_half_of_the_classes_is_half_of_the_training_classes(tmp_path):
    """The test set has classes 0 and 1 alone, and both belong to the first half of 0, 1, 2, 3."""
    history = measured(tmp_path, "logistic", [0, 1, 2, 3], [0, 1], "test_accuracy", positive="half")
    assert history["test_accuracy"][0] == 0.0  # z = 0 predicts -1
