"""The planner: what "auto" takes, whether its expectations come true, and that all processes agree on it."""

from __future__ import annotations

import itertools
import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
import queues
from conftest import ROOT, make_problem
from test_newton import shards, table

import dsba
from dsba.algorithms import planner
from dsba.algorithms.costs import USUAL_ACCURACY, Configuration, CostModel, Estimate
from dsba.algorithms.planner import FINE_TOLERANCE, MethodPlan, plan
from dsba.engine import checkpoint
from dsba.network import Simulator, link_speed, mpi

RING = dsba.Topology.ring(4)


def text(operator="logistic", n_nodes=5, rows=500, columns=3000):
    X, y = dsba.data.make_text_like(n_rows=rows, n_columns=columns, row_length=30)
    return dsba.Problem.from_arrays(X, y, operator, n_nodes=n_nodes)


def squares(operator="ridge", rows=400, columns=400, **options):
    """As many rows as columns, more than a small table has."""
    rng = np.random.default_rng(0)
    y = rng.choice([-1, 1], rows) if operator == "logistic" else rng.normal(size=rows)
    return dsba.Problem.from_arrays(rng.normal(size=(rows, columns)), y, operator, 4, **options)


# What is chosen -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_nodes", [1, 2, 5])
@pytest.mark.parametrize("operator", dsba.operators.names())
def test_a_small_table_is_for_newton(operator, n_nodes):
    made = plan(make_problem(operator, n_nodes), Simulator(dsba.Topology.family("path", n_nodes)))
    assert made.chosen == Configuration("newton")
    assert made.reason == "newton was chosen: for at most 100 coefficients it is exact after a few rounds."


def test_wide_sparse_data_is_for_batches_or_p_extra():
    made = plan(text(), Simulator(dsba.Topology.ring(5)))
    assert made.chosen.name in ("dsba", "p-extra")
    assert made.chosen.batch_size != 1
    assert f"{made.chosen} was chosen for 3,000 coefficients at 20 ms and 100 Mbit/s" in made.reason


def test_the_plan_follows_the_link():
    """A Hessian over a thin line costs more than many short messages; at no cost for bytes it is the other way."""
    problem = squares("logistic")
    far, near = (plan(problem, Simulator(RING), link=dsba.Link(1e-6, w)) for w in (1e6, 1e15))
    assert [e.seconds for e in far.estimates] == sorted(e.seconds for e in far.estimates)
    assert far.estimates[-1].configuration.name == "newton"
    twins = {e.configuration: e for e in near.estimates}
    for estimate in far.estimates:  # the same rounds and bytes, which take longer
        twin = twins[estimate.configuration]
        assert (estimate.rounds, estimate.megabytes) == (twin.rounds, twin.megabytes)
        assert estimate.seconds - twin.seconds >= 0.99 * 8 * estimate.megabytes
    assert far.chosen.name != "newton"
    assert plan(squares("ridge"), Simulator(RING), accuracy=1e-9, link=dsba.Link(0.02, 1e12)).chosen.name == "newton"


def test_a_budget_of_passes_is_kept():
    """A method of few rounds that takes all samples in each of them is no good with few passes."""
    problem, net = text(), Simulator(dsba.Topology.ring(5))
    free = plan(problem, net, link=dsba.Link(latency=1.0))
    most = 1.01 * min(estimate.passes for estimate in free.estimates)
    tight = plan(problem, net, link=dsba.Link(latency=1.0), max_passes=most)
    assert free.estimates[0].passes > most >= tight.estimates[0].passes
    assert free.estimates[0].rounds < tight.estimates[0].rounds
    assert set(tight.estimates) == set(free.estimates)


def test_of_batch_sizes_that_take_as_long_the_fewest_passes_win():
    """Within 5 % of the seconds. Other methods and other ways to communicate must be faster; a budget comes first."""
    kinds = {b: Configuration("dsba", b, "compressed") for b in (32, 128, 256)}
    fast, near, slow = (
        Estimate(kinds[b], 1, 1, seconds, passes)
        for b, seconds, passes in ((256, 1.0, 60), (128, 1.04, 30), (32, 1.06, 9))
    )
    others = [
        Estimate(Configuration("dsba", 128, "dense"), 1, 1, 1.01, 20),
        Estimate(Configuration("newton"), 1, 1, 1.02, 5),
    ]
    assert planner._ordered([slow, *others, near, fast], math.inf) == (near, fast, *others, slow)
    assert planner._ordered([slow, near, fast], 20.0)[0] == slow
    assert planner._ordered([near, fast._replace(seconds=0.9)], math.inf)[0].configuration == kinds[256]


def test_large_batches_for_long_rounds():
    model = CostModel(text(), dsba.Topology.random(5), dsba.Link(1.0, 1e9), 1e-4)
    free = CostModel(model.problem, model.topology, dsba.Link(0.0, 1e18), 1e-4)
    slow, fast = (min(m.batch_sizes, key=lambda b: m.dsba(b, "dense").seconds) for m in (model, free))
    assert slow > fast
    assert dsba.DSBA(batch_size="auto").resolved(model.problem, model.topology).batch_size > 1


def test_batches_are_large_where_samples_are_many_and_columns_few():
    """Rates made of lambda alone do not tell the rounds of batches of 64, 128 and 256 apart: they took 128."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 10)) * np.linspace(1, 0.2, 10)
    y = X @ rng.normal(size=10) + 0.5 * rng.normal(size=2000)
    problem = dsba.Problem.from_arrays(X, y, "ridge", n_nodes=4)
    stop = {"gap_tol": 1e-6, "max_passes": 100, "reference": dsba.optimum(problem).z, "record_every": 0.5}
    rounds = {
        b: dsba.solve(problem, RING, "dsba", batch_size=b, communication="compressed", **stop).history["rounds"][-1]
        for b in (64, 128, 256, "auto")
    }
    assert rounds["auto"] == min(rounds.values()) < 0.5 * rounds[128]


def test_an_operator_that_newton_refuses():
    class Bare(dsba.operators.ScalarOperator):
        lipschitz = 1.0

        def map(self, u, y):
            return u - y

    problem = dsba.Problem(shards(*table("ridge"), [240]), Bare())
    made = plan(problem, Simulator(dsba.Topology.path(1)))
    assert {e.configuration.name for e in made.estimates} == {"dsba"}
    assert {e.configuration.batch_size for e in made.estimates} == {1}


@pytest.mark.parametrize(
    ("problem", "accuracy", "why"),
    [(squares(lam=0.0), 1e-3, "without a penalty"), (squares(), 0.1 * FINE_TOLERANCE, "to the last digits")],
)
def test_where_newton_is_always_taken(problem, accuracy, why):
    made = plan(problem, Simulator(RING), accuracy=accuracy, link=dsba.Link(0.0, 1e6))
    assert made.chosen.name == "newton"
    assert why in made.reason


def test_rows_of_the_data_are_never_shown():
    for problem in (text(), text("auc"), squares("logistic")):
        net = Simulator(dsba.Topology.ring(problem.n_nodes))
        for estimate in plan(problem, net).estimates:
            candidate = estimate.configuration
            assert dsba.algorithms.get(candidate.name, **candidate.options).discloses != "rows"


# Whether expectations come true -------------------------------------------------------------------


def costs_of(problem, topology, made, tol):
    """Rounds and megabytes that a run of the plan's choice needs."""
    result = dsba.solve(problem, topology, made, tol=tol, max_passes=1000)
    assert result.status == "converged"
    last = result.history.last()
    return last["rounds"], last["bytes_max"] / 1e6


@pytest.mark.parametrize("operator", ["ridge", "logistic"])
def test_newton_needs_what_is_expected(operator):
    problem = squares(operator)
    made = plan(problem, Simulator(RING))
    expected = next(e for e in made.estimates if e.configuration.name == "newton")
    found = costs_of(problem, RING, MethodPlan(expected.configuration, ""), 1e-6)
    assert np.all(np.array(found) <= 1.3 * np.array([expected.rounds, expected.megabytes]))
    assert np.all(np.array(found) >= 0.5 * np.array([expected.rounds, expected.megabytes]))


@pytest.mark.parametrize("operator", ["ridge", "logistic"])
@pytest.mark.parametrize(
    "configuration",
    [
        Configuration("dsba", 16, "compressed"),
        Configuration("dsba", 4, "dense"),
        Configuration("p-extra", None, "dense"),
    ],
)
def test_rows_need_what_is_expected(configuration, operator):
    """Within a factor of 2.5; the constants were fitted on real text and not on this."""
    problem, topology = text(operator, rows=600, columns=2000), dsba.Topology.random(5, seed=0)
    made = plan(problem, Simulator(topology))
    expected = next(e for e in made.estimates if e.configuration == configuration)
    found = np.array(costs_of(problem, topology, MethodPlan(configuration, ""), 1e-4))
    ratios = found / [expected.rounds, expected.megabytes]
    assert np.all((ratios > 1 / 2.5) & (ratios < 2.5)), ratios


# A run with a plan --------------------------------------------------------------------------------


def test_the_engine_plans_and_says_why():
    problem = make_problem("logistic", 4)
    result = dsba.solve(problem, RING, "auto", tol=1e-6)
    assert result.algorithm.name == "newton"
    assert result.plan == plan(problem, Simulator(RING))
    assert "chosen" not in result.message  # which says how the run ended
    assert (result.Z == dsba.solve(problem, RING, "newton", tol=1e-6).Z).all()
    assert dsba.solve(problem, RING, "newton", tol=1e-6).plan is None
    for given in ({"step_size": 0.1}, {"communication": "sparse"}, {"table": "full"}):
        other = dsba.solve(problem, RING, "auto", max_passes=2, **given)
        assert other.algorithm.name == "dsba"
        assert "was given" in other.plan.reason


def test_a_newton_that_was_taken_for_its_time_ends_at_the_tolerance():
    """A newton of this name, and one that is taken without an estimate, go on to the last digits."""
    problem, kind = squares("logistic", 2000, 120), Configuration("newton")
    timed, always = MethodPlan(kind, "", (Estimate(kind, 80, 2, 1, 10),)), MethodPlan(kind, "")
    rough, plain = (dsba.solve(problem, RING, made, tol=1e-5).history for made in (timed, always))
    assert rough["residual"][-2] > 1e-5 >= rough["residual"][-1] > plain["residual"][-1]
    assert (rough["residual"] == plain["residual"][: len(rough)]).all()
    assert rough["rounds"][-1] < plain["rounds"][-1]
    by_gap = dsba.solve(problem, RING, timed, reference=True, gap_tol=1e-6).history["gap"]
    assert by_gap[-2] > 1e-6 >= by_gap[-1]


def test_the_table_of_a_plan():
    made = plan(text(), Simulator(dsba.Topology.ring(5)), link=dsba.Link(0.01, 1e8))
    reason, head, *lines = str(made).splitlines()
    assert reason == made.reason
    assert head.split() == ["candidate", "rounds", "MB", "seconds"]
    assert len({len(line) for line in (head, *lines)}) == 1
    assert lines[0].startswith(str(made.chosen))
    kinds = {(e.configuration.name, e.configuration.communication) for e in made.estimates}
    assert len(lines) == len(kinds)


def test_the_page_shows_what_the_planner_says(capsys):
    page = (ROOT / "docs" / "which-method.md").read_text()
    code, shown = (re.search(rf"^```{kind}\n(.*?)^```", page, re.M | re.S).group(1) for kind in ("python", "text"))
    exec(code, {})
    assert capsys.readouterr().out == shown


def test_gossip_is_part_of_a_plan():
    """The run has the bits of one on the Chebyshev mixing, and the network is as it was afterwards."""
    problem, path = text(n_nodes=12, rows=120, columns=300), dsba.Topology.path(12)
    made = MethodPlan(Configuration("dsba", 4, "dense", gossip=4), "why not")
    net = Simulator(path)
    result = dsba.solve(problem, path, made, max_passes=3, network=net)
    assert net.topology == path
    twin = dsba.solve(problem, path.chebyshev(4), "dsba", max_passes=3, batch_size=4)
    assert (result.Z == twin.Z).all()
    assert result.history["rounds"][-1] == twin.history["rounds"][-1] >= 4 * result.history["iteration"][-1]


def test_a_long_thin_graph_asks_for_gossip():
    problem, path = text(n_nodes=20, rows=200, columns=300), dsba.Topology.path(20)
    model = CostModel(problem, path, dsba.Link(0.1, 1e9), 1e-4)
    assert min(model.mixings, key=lambda K: model.dsba(8, "dense", K).seconds) > 1
    near = CostModel(problem, dsba.Topology.complete(20), dsba.Link(0.1, 1e9), 1e-4)
    assert list(near.mixings) == [1]


@pytest.mark.parametrize("size", [1, 3])
def test_a_plan_is_made_once(size, tmp_path, monkeypatch):
    """A resumed run goes on with the method that was chosen, whatever the model says by then."""
    topology = dsba.Topology.ring(3)
    sites = shards(*table("logistic"), [60, 80, 100])

    def work(net):
        problem = dsba.Problem(sites[net.nodes.start : net.nodes.stop], "logistic", group=net)
        return dsba.solve(problem, topology, "auto", max_passes=3, checkpoint=tmp_path / "run")

    first = queues.together(topology, size, work)
    monkeypatch.setattr("dsba.engine.solve.plan", lambda *_: pytest.fail("a plan was made anew"))
    for before, after in zip(first, queues.together(topology, size, work), strict=True):
        assert (after.algorithm.name, after.plan) == ("newton", before.plan)
        assert (after.Z == before.Z).all()


def test_a_kept_plan_is_the_same_with_its_table():
    ring = dsba.Topology.ring(5)
    made = plan(text(), Simulator(ring))
    assert MethodPlan.from_dict(json.loads(json.dumps(made.to_dict())), ring) == made


@pytest.mark.parametrize(
    "forged",
    [
        {"chosen": ["{folder}/evil.py:Evil"], "reason": "why not", "estimates": []},
        {"chosen": ["dsba", 1, "cached"], "reason": "it shows rows", "estimates": []},
        {"chosen": ["dsba", "many", "dense"], "reason": "no number", "estimates": []},
        {"chosen": ["dsba"], "reason": "a short line", "estimates": [[["newton"], 1.0]]},
        {"name": "newton", "reason": "a record of another form"},
        ["newton"],
    ],
)
def test_a_forged_plan_runs_nothing(forged, tmp_path):
    (tmp_path / "evil.py").write_text("raise SystemExit('it ran')")
    if isinstance(forged, dict) and "{folder}" in str(forged):
        forged["chosen"] = [forged["chosen"][0].format(folder=tmp_path)]
    checkpoint.save(tmp_path / "run", {}, {}, forged)
    with pytest.raises(dsba.InputError, match=r"the plan in .*run cannot be used"):
        dsba.solve(make_problem("logistic", 4), RING, "auto", checkpoint=tmp_path / "run")


# The link -----------------------------------------------------------------------------------------


class FakeLines:
    """Two neighbours over lines of so many seconds and bits a second; nothing but ``now`` is a clock."""

    rank, size = 0, 3
    placement = SimpleNamespace(peers=[1, 2])

    def __init__(self, latency, bandwidth):
        self.latency, self.bandwidth, self.now, self.sent = latency, bandwidth, 0.0, {}

    def send(self, peer, message, purpose):
        self.sent[peer] = self.now + self.latency, message

    def receive(self, peer, purpose):
        arrives, message = self.sent.pop(peer)
        self.now = max(self.now, arrives) + 8 * len(message) / self.bandwidth
        return message

    def aside(self):
        return dsba.network.simulator.Alone()


@pytest.mark.parametrize(
    ("latency", "bandwidth", "found"),
    [
        (0.021, 9e7, dsba.Link(0.02, 1e8)),
        (1.2e-4, 8e9, dsba.Link(1e-4, 1e10)),
        (0.4, 2.2e6, dsba.Link(0.5, 2e6)),
        (5e-6, 1e18, dsba.Link(5e-6, 1e11)),
    ],
)
def test_a_link_is_measured(latency, bandwidth, found, monkeypatch):
    lines = FakeLines(latency, bandwidth)
    monkeypatch.setattr(link_speed, "time", SimpleNamespace(perf_counter=lambda: lines.now))
    assert link_speed.measured(lines, 3) == found


def test_all_processes_measure_the_same_link_and_make_the_same_plan():
    topology, whole = dsba.Topology.ring(3), text(n_nodes=3, rows=90, columns=400)

    def work(net):
        own = slice(*whole.start[[net.nodes.start, net.nodes.stop]])
        problem = dsba.Problem([(whole.A[own], whole.y[own])], "logistic", lam=whole.lam, group=net)
        before = net.counts
        made = plan(problem, net)
        assert all(map(np.array_equal, before, net.counts))  # what is measured is not a method's traffic
        return made, net.measured_link()

    plans, links = zip(*queues.together(topology, 3, work), strict=True)
    assert len(set(links)) == 1
    assert plans[0] == plans[1] == plans[2]
    assert "(measured)" in plans[0].reason
    assert Simulator(topology).measured_link() is None


@pytest.mark.parametrize(
    ("ranks", "crowding"),
    [
        ([["a", 0, 1]] * 10, 5.0),
        ([["a", 0, 1], ["a", 0, 1], ["b", 0, 1]], 1.0),
        ([["a", 0], ["a", 1], ["b", 0], ["b", 0]], 2.0),  # bound to cores: those of b to the same one
        ([["a", *range(8)]] * 2, 0.25),
    ],
)
def test_ranks_know_how_many_share_a_core(ranks, crowding):
    assert mpi._crowding(ranks) == mpi._crowding(ranks[::-1]) == crowding


@pytest.mark.parametrize(("size", "crowding", "sharing"), [(6, 3.0, (3.0, 1)), (3, 0.5, (1.0, 2)), (2, 4.0, (4.0, 3))])
def test_nodes_that_share_a_core_work_one_after_the_other(size, crowding, sharing, monkeypatch):
    """Where the line is measured. With a given one the plan does not depend on the machines."""
    topology, whole, line = dsba.Topology.ring(6), text(n_nodes=6, rows=90, columns=400), dsba.Link(1e-4, 1e10)
    monkeypatch.setattr(dsba.network.Network, "measured_link", lambda net: line)

    def work(net):
        net.crowding = crowding
        ends = whole.start[net.nodes.start : net.nodes.stop + 1]
        own = [(whole.A[a:b], whole.y[a:b]) for a, b in itertools.pairwise(ends)]
        problem = dsba.Problem(own, "logistic", lam=whole.lam, group=net)
        return [plan(problem, net, link=given).estimates for given in (None, line)]

    measured, given = next(iter(plans := queues.together(topology, size, work)))
    assert all(other == [measured, given] for other in plans)
    for estimates, every, shared in ((measured, None, sharing), (given, 1.0, ())):
        model = CostModel(whole, topology, line, USUAL_ACCURACY, every, *shared)
        assert {model.newton(), model.dsba(4, "dense"), model.p_extra("compressed")} <= set(estimates)
    alone, crowded = (CostModel(whole, topology, line, 1e-4, 1.0, *shared).newton().seconds for shared in ((), sharing))
    assert crowded > alone


def test_records_between_processes_are_as_far_apart_as_is_best():
    """P sqrt(2 R/S) minimises P/s records of R seconds and half a distance s of S/P seconds a pass; at least two."""
    problem, topology = text(), dsba.Topology.ring(5)
    model = CostModel(problem, topology, dsba.Link(0.02, 1e8), 1e-4, None)
    assert model.newton().record_every == 1.0
    for made in (model.dsba(16, "compressed"), model.dsba(4, "dense"), model.p_extra("dense")):
        every = CostModel(problem, topology, model.link, 1e-4, made.record_every)
        assert made.record_every == int(made.record_every) <= max(1.0, made.passes / 2)
        again = every.dsba(*made.configuration[1:]) if made.configuration.name == "dsba" else every.p_extra("dense")
        assert again == made
    near = CostModel(problem, topology, dsba.Link(1e-9, 1e15), 1e-4, None).dsba(16, "dense")
    assert near.record_every == 1.0 < model.dsba(4, "dense").record_every


@pytest.mark.parametrize(("given", "wanted"), [({}, None), ({"record_every": 2.0}, 2.0), ({"link": dsba.Link()}, 1.0)])
def test_records_of_a_run_are_where_the_plan_has_them(given, wanted, monkeypatch):
    """Where the line is measured and nothing is asked for; a given line gives the bits of the simulator."""
    topology, whole = dsba.Topology.ring(3), text(n_nodes=3, rows=90, columns=400)
    monkeypatch.setattr(dsba.network.Network, "measured_link", lambda net: dsba.Link(0.01, 1e9))

    def work(net):
        own = slice(*whole.start[[net.nodes.start, net.nodes.stop]])
        problem = dsba.Problem([(whole.A[own], whole.y[own])], "logistic", lam=whole.lam, group=net)
        return dsba.solve(problem, topology, "auto", tol=1e-3, max_passes=100, **given)

    result, *_ = queues.together(topology, 3, work)
    assert result.status == "converged"
    every = result.plan.record_every if wanted is None else wanted
    assert every > 1.0 or wanted
    assert every <= np.diff(result.history["nominal_passes"])[0] < every + 1.0


@pytest.mark.parametrize("wrong", [{"link": (0.02, 1e8)}, {"link": "fast"}, {"record_every": 0.0}])
def test_a_plan_is_asked_for_with_numbers(wrong):
    with pytest.raises(dsba.InputError, match=f"{next(iter(wrong))} must be"):
        dsba.solve(text(), dsba.Topology.ring(5), "auto", **wrong)


@pytest.mark.parametrize("bad", [{"latency": -1.0}, {"bandwidth": 0.0}, {"bandwidth": "fast"}])
def test_a_network_that_cannot_be(bad):
    with pytest.raises(dsba.InputError, match=f"{next(iter(bad))} must be a number"):
        dsba.Link(**bad)
