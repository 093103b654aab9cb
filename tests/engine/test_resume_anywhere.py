"""Random methods, problems, budgets and stops: a run that is stopped and resumed is the run that never stopped."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import also_in_full, make_problem
from test_checkpoint import same_run

import dsba
from dsba.network import Delayed, Lossy, Simulator

METHODS = dsba.algorithms.names()
SETTINGS = 300
FIRST = METHODS[: METHODS.index("solam") + 1]  # those there were when the gate's settings were found
LATER = METHODS[len(FIRST) :]
GATE = (0, 46, 77, 90, 118, 188, 194, 252)  # all but the first ended elsewhere while budgets were forecast
BUDGETS = {"max_passes": "passes", "max_rounds": "rounds", "max_doubles": "doubles_max"}  # and what they count
SINGLE = ("point-saga", "saga", "solam")


def drawn(number):
    """A problem, a topology and the options of a run of this number's method."""
    rng = np.random.default_rng([28, number])
    method = FIRST[number % len(FIRST)] if number < SETTINGS else LATER[number % len(LATER)]
    pick = lambda *choices: choices[rng.integers(len(choices))]  # noqa: E731
    for _ in range(50):
        n_nodes = 1 if method in SINGLE else pick(3, 4, 6)
        problem = make_problem(pick("ridge", "logistic", "auc"), n_nodes, pick(0.02, 0.3), seed=pick(0, 1))
        topology = pick(dsba.Topology.ring, dsba.Topology.path)(n_nodes)
        options = {"algorithm": method, "record_every": pick(0.3, 1, 2.71, 40), "seed": pick(0, 7)}
        if method in ("dsba", "dsa"):
            options |= {"form": pick("step", "dense", "lazy"), "table": pick("zero", "full"), "batch_size": pick(1, 3)}
            options["communication"] = pick("dense", "sparse", "cached")
        options |= {"tol": pick(None, None, 1e-3), "max_passes": None, pick(*BUDGETS): pick(3, 11.3, 24, 700)}
        if n_nodes == 1:
            options["max_passes"] = pick(3, 11.3)
        if options.get("max_passes") == 700:
            options["max_passes"] = 35
        if rng.random() < 0.2:
            options["step_size"] = pick(0.5, 20.0)
        faulty = pick(None, None, None, lambda net: Delayed(net, (0, 2)), lambda net: Lossy(net, 0.2))
        try:
            solve(problem, topology, {**options, "max_passes": 0}, faulty)
        except dsba.InputError:
            continue  # the method does not apply
        return rng, problem, topology, options, faulty
    raise AssertionError(f"nothing was found that {method} applies to")


def solve(problem, topology, options, faulty, **more):
    network = faulty and faulty(Simulator(topology))
    return dsba.solve(problem, topology, network=network, **options | more)


def stop(rng, whole, options):
    """A smaller budget of any kind, beside those of the run."""
    kind, column = list(BUDGETS.items())[rng.integers(len(BUDGETS))]
    spent = rng.uniform(0, max(whole.history[column][-1], 1))
    return {kind: min(spent, options.get(kind) or np.inf)}


@pytest.mark.parametrize("number", also_in_full(GATE, range(SETTINGS + 10 * len(LATER))))
def test_stopped_anywhere_and_resumed(number, tmp_path):
    rng, *setting = drawn(number)
    whole, path = solve(*setting), tmp_path / "checkpoint"
    for _ in range(rng.integers(1, 4)):
        solve(*setting, checkpoint=path, **stop(rng, whole, setting[2]))
    same_run(solve(*setting, checkpoint=path), whole)


def first_to_reach(limit, column, *args, max_passes, **options):
    """The iteration at which a budget of ``limit`` ends, found by measuring every iteration."""
    history = dsba.solve(*args, max_passes=max_passes, record_every=0.01, **options).history
    return history["iteration"][np.flatnonzero(history[column] >= limit)[0]]


@pytest.mark.parametrize("budget", [17, 40.5])
@pytest.mark.parametrize("method", ["ssda", "msda", "p-extra", "d-admm"])
def test_a_budget_of_an_inner_solver_ends_where_it_is_reached(method, budget, tmp_path):
    """No record point is near the end, and an iteration takes several passes, first more and later fewer."""
    problem, topology, path = make_problem("logistic", lam=0.002), dsba.Topology.ring(4), tmp_path / "checkpoint"
    options = {"algorithm": method, "record_every": 30, "max_passes": budget}
    whole = dsba.solve(problem, topology, **options)
    assert whole.history["iteration"][-1] == first_to_reach(
        budget, "passes", problem, topology, method, max_passes=budget
    )
    for part in (3, 9.5, 14):
        dsba.solve(problem, topology, checkpoint=path, **options | {"max_passes": part})
    same_run(dsba.solve(problem, topology, checkpoint=path, **options), whole)


@pytest.mark.parametrize("communication", ["dense", "sparse", "cached"])
@pytest.mark.parametrize(("kind", "limit"), [("max_doubles", 1001), ("max_rounds", 77)])
def test_a_budget_of_messages_ends_where_it_is_reached(kind, limit, communication):
    problem, topology = make_problem("ridge"), dsba.Topology.path(4)
    options = {"algorithm": "dsba", "communication": communication, "max_passes": 20}
    result = dsba.solve(problem, topology, record_every=1e6, **options, **{kind: limit})
    assert result.status == "budget"
    assert result.history["iteration"][-1] == first_to_reach(limit, BUDGETS[kind], problem, topology, **options)


def test_a_run_resumed_between_two_records_meets_its_tolerance_at_a_record(tmp_path):
    """The place where it was stopped is not one at which the undisturbed run is measured."""
    problem, topology, path = make_problem("ridge"), dsba.Topology.ring(4), tmp_path / "checkpoint"
    options = {"record_every": 10, "max_passes": 60, "tol": 0.05}
    whole = dsba.solve(problem, topology, **options)
    dsba.solve(problem, topology, checkpoint=path, **options | {"max_passes": whole.passes - 0.2})
    same_run(dsba.solve(problem, topology, checkpoint=path, **options), whole)
