"""Every algorithm reaches the certified optimum, however the data is split (invariants 1 and 2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import OPERATORS, make_data, make_problem

import dsba
from dsba.algorithms import DIGing

GRAPHS = ["ring", "star", "path", "random", "complete"]
UNEQUAL = np.repeat(np.arange(10), [1, 1, 1, 1, 2, 2, 4, 8, 15, 25])
MANY_NODES = [(graph, 10, split) for graph in GRAPHS for split in ("random", UNEQUAL)]
FEW_NODES = [("path", 2, "random"), ("path", 2, np.repeat([0, 1], [3, 57])), ("complete", 1, "random")]
METHODS = dsba.algorithms.names()


def applies(method, operator, n_nodes):
    problem = make_problem(operator, n_nodes, lam=0.1)
    return dsba.algorithms.get(method).why_not(problem, dsba.Simulator(dsba.Topology.path(n_nodes))) is None


def settings(method, operator):
    """Graph, number of nodes and split: everything the method applies to."""
    return [case for case in FEW_NODES + MANY_NODES if applies(method, operator, case[1])]


PAIRS = [(m, o) for m in METHODS for o in OPERATORS if settings(m, o)]
LINEAR = [pair for pair in PAIRS if dsba.algorithms.REGISTRY[pair[0]].linear]
# Methods of which the gate sees one operator and few graphs, and `make full` everything.
RIVALS = [
    "pg-extra",
    "nids",
    "apapc",
    "opapc",
    "gt-saga",
    "lead",
    "acc-vr-extra",
    "dvr",
    "vi-papc",
    "vi-papc-vr",
    "dual-rbcd",
    "gossip-pairwise",
    "proxskip",
    "exact-diffusion",
    "extragradient",
    "pmgt-saga",
    "acc-gt",
    "lt-admm",
    "adom-plus",
    "push-pull",
    "push-diging",
]
NEIGHBOURHOOD = ["network-newton", "d-bfgs"]  # these end near the optimum; see test_rivals.py


def solved(problem, topology, method, distance=1e-11, **options):
    """Run until the nodes are this near to the certified optimum, or for very long."""
    z_star, residual = dsba.optimum(problem)
    assert residual < 1e-12
    options = {"max_passes": 20_000, "record_every": 10, "reference": z_star} | options
    near = [lambda record: record["distance"] < distance]
    return dsba.solve(problem, topology, method, callbacks=near, **options)


def in_tiers(pairs):
    """The gate has the paper's operators for its methods, and all operators for DSBA and Newton's method."""

    def in_gate(method, operator):
        return method not in RIVALS and (operator in ("ridge", "logistic", "auc") or method in ("dsba", "newton"))

    return [pytest.param(*pair, marks=[] if in_gate(*pair) else pytest.mark.full) for pair in pairs]


@pytest.mark.parametrize(("method", "operator"), in_tiers(LINEAR))
def test_reaches_the_certified_optimum(method, operator):
    certify(method, operator, settings(method, operator))


@pytest.mark.parametrize("method", [m for m in RIVALS if dsba.algorithms.REGISTRY[m].linear])
def test_rivals_reach_the_certified_optimum_on_few_graphs(method):
    operator = next(o for o in ("ridge", "auc") if (method, o) in LINEAR)
    certify(method, operator, [("path", 2, np.repeat([0, 1], [10, 50])), ("random", 10, "random")])


def certify(method, operator, cases, **options):
    for graph, n_nodes, split in cases:
        problem = make_problem(operator, n_nodes, lam=0.1, split=split)
        result = solved(problem, dsba.Topology.family(graph, n_nodes), method, distance=1e-8, **options)
        assert result.history["distance"][-1] < 1e-8, (result, graph, n_nodes, split)
        assert np.abs(result.Z - result.z).max() < 1e-6


@pytest.mark.full
@pytest.mark.parametrize("split", ["random", "unequal", "label"])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("method", RIVALS[RIVALS.index("proxskip") :])
def test_newer_methods_reach_ten_digits_on_every_graph_and_split(method, graph, split):
    problem = make_problem("ridge", 10, lam=0.1, split=UNEQUAL if split == "unequal" else split)
    result = solved(problem, dsba.Topology.family(graph, 10), method, distance=1e-10, max_passes=60_000)
    assert result.history["distance"][-1] < 1e-10, result


def test_every_method_has_a_certificate():
    """The optimum for linear methods, a rate for the others. The gate sees the optimum of every linear one."""
    linear = {method for method, _ in LINEAR}
    sublinear = {method for method, _ in PAIRS} - linear - set(NEIGHBOURHOOD)
    assert sorted([*linear, *sublinear, *NEIGHBOURHOOD]) == sorted(METHODS)
    assert not linear & set(NEIGHBOURHOOD)
    in_gate = {one.values[0] for one in in_tiers(LINEAR) if not one.marks}
    assert linear == in_gate | (set(RIVALS) & linear)
    assert set(RIVALS) <= set(METHODS)


class Forgetful(DIGing):
    """Trackers that forget the old operator value."""

    def step(self, s, problem, net, samples):
        new = super().step(s, problem, net, samples)
        return replace(new, Y=new.Y + s.B)


class Biased(DIGing):
    """The first node's tracker begins a millionth off."""

    def init(self, problem, net, z0):
        state = super().init(problem, net, z0)
        return replace(state, Y=state.Y + 1e-6 * (np.arange(len(state.Y)) == 0)[:, None])


class Alone(DIGing):
    """Nodes that do not mix their points."""

    def step(self, s, problem, net, samples):
        B = problem.local_operator(s.Z - self.alpha * s.B)
        return replace(s, Z=s.Z - self.alpha * s.B, B=B, t=s.t + 1)


@pytest.mark.parametrize("broken", [Forgetful(), Biased(), Alone()], ids=lambda method: type(method).__name__)
@pytest.mark.filterwarnings("ignore")
def test_a_broken_method_has_no_certificate(broken):
    """The certificate of the sound method holds on the same case, so that it is the fault that fails."""
    case = [("random", 10, "random")]
    certify("diging", "ridge", case, max_passes=4000)
    with pytest.raises(AssertionError):
        certify(broken, "ridge", case, max_passes=4000)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("method", ["dsba", "dsa", "extra"])
def test_reaches_the_floor_of_rounding(method, operator):
    """Further still: 1e-10 with unequal nodes on a slow graph."""
    problem = make_problem(operator, 10, lam=0.1, split=UNEQUAL)
    result = solved(problem, dsba.Topology.path(10), method, distance=1e-10)
    assert result.history["distance"][-1] < 1e-10


@pytest.mark.parametrize(
    ("method", "operator"), [pair for pair in PAIRS if pair not in LINEAR and pair[0] not in NEIGHBOURHOOD]
)
def test_sublinear_methods_keep_their_rate(method, operator):
    """The slope of a log-log fit over the last decade: 1/sqrt(t) or better in the gap, where there is one."""
    options = {"diminishing": True} if method == "dgd" else {}  # with a constant step it ends near the optimum only
    graph, n_nodes, split = settings(method, operator)[-1]
    problem = make_problem(operator, n_nodes, lam=0.1, split=split)
    topology = dsba.Topology.family(graph, n_nodes)
    budget = {"max_passes": 3000 * dsba.algorithms.get(method).samples_per_step(problem) / problem.n_samples}
    history = dsba.solve(
        problem, topology, method, reference=True, record_every=budget["max_passes"] / 60, **budget, **options
    ).history
    metric, least = ("gap", -0.45) if "gap" in history else ("distance", -0.2)
    t, value = history["iteration"][6:], history[metric][6:]
    slope = np.polyfit(np.log(t), np.log(value), 1)[0]
    assert slope < least, (slope, value)
    assert value[-1] < value[0]


@pytest.mark.parametrize("method", METHODS)
def test_refusals_name_method_problem_and_reason(method):
    """Before any work: the problem is not even looked at by ``init``."""
    for operator in OPERATORS:
        for n_nodes in (1, 4):
            problem = make_problem(operator, n_nodes, lam=0.1)
            if dsba.algorithms.get(method).why_not(problem, dsba.Simulator(dsba.Topology.path(n_nodes))) is None:
                continue
            with pytest.raises(dsba.InputError) as caught:
                dsba.solve(problem, dsba.Topology.complete(n_nodes), method)
            message = str(caught.value)
            assert method in message
            assert type(problem.component).__name__ in message or "N = 1" in message or "one node" in message
            assert len(message) > 40


@pytest.mark.parametrize("method", ["dsba", "dsa"])
@pytest.mark.parametrize("operator", ["logistic", "auc"])
def test_the_split_does_not_matter(operator, method, unequal):
    """The same pooled answer from equal, unequal, sorted-by-label and renumbered nodes."""
    answers = []
    for split in ("random", "label", unequal, 3 - unequal):
        problem = make_problem(operator, 4, lam=0.1, split=split)
        answers.append(solved(problem, dsba.Topology.path(4), method).z)
    for other in answers[1:]:
        assert np.abs(other - answers[0]).max() < 1e-9 * np.abs(answers[0]).max()


@pytest.mark.parametrize("form", ["dense", "lazy"])
@pytest.mark.parametrize("operator", ["ridge", "logistic", "softmax"])
def test_an_intercept_and_sample_weights_cost_nothing(operator, form, unequal):
    """A free coordinate and samples of any weight, 0 included: as near, in as many passes as without."""
    weights = np.random.default_rng(5).choice([0.0, 0.5, 1.0, 3.0], size=60)
    passes = []
    for options in ({}, {"intercept": True, "sample_weight": weights}):
        problem = make_problem(operator, 4, lam=0.1, split=unequal, **options)
        result = solved(problem, dsba.Topology.path(4), "dsba", form=form)
        assert result.history["distance"][-1] < 1e-10
        passes.append(result.passes)
    assert passes[1] < 4 * passes[0]  # the weights alone make L three times as large


def test_without_node_weights_the_answer_would_be_another(unequal):
    """The weights c_n are what makes the pooled answer: with all of them 1 it is off by percents."""
    problem = make_problem("logistic", 4, lam=0.1, split=unequal)
    z_star = dsba.optimum(problem).z
    problem.weight = np.ones_like(problem.weight)
    result = dsba.solve(problem, dsba.Topology.path(4), step_size=1.0, max_passes=2000)
    assert np.linalg.norm(result.z - z_star) > 0.03 * np.linalg.norm(z_star)


@pytest.mark.parametrize("regularize", ["weights", "all"])
def test_auc_with_lambda_on_weights_or_on_everything(regularize):
    problem = make_problem("auc", 4, lam=0.1, regularize=regularize)
    result = solved(problem, dsba.Topology.ring(4), "dsba")
    assert result.history["distance"][-1] < 1e-10
    assert problem.lam_diag[-1] == (0.1 if regularize == "all" else 0.0)


def test_auc_uses_the_global_share_of_positives():
    X, y = make_data("auc")
    problem = dsba.Problem.from_arrays(X, y, "auc", n_nodes=6, split="label")
    assert problem.component.p == np.mean(y > 0)


@pytest.mark.parametrize("rule", ["auto", "proved", "paper"])
def test_named_step_sizes_all_converge(rule):
    problem = make_problem("ridge", 4, lam=0.1)
    result = dsba.solve(problem, dsba.Topology.ring(4), step_size=rule, max_passes=3000, tol=1e-6)
    assert result.status == "converged"


def test_any_common_start_and_both_tables():
    problem = make_problem("logistic", 4, lam=0.1)
    z0 = np.full(problem.dim, 3.0)
    for table in ("zero", "full"):
        result = solved(problem, dsba.Topology.ring(4), "dsba", z0=z0, table=table)
        assert result.history["distance"][-1] < 1e-10
        assert result.history["distance"][0] > 1.0


def test_paper_lambda_on_embedded_data():
    """lam = 1/(10 Q), N = 10, random graph, automatic step size: a small gap after a few dozen passes."""
    topology = dsba.Topology.random(10, 0.4, seed=0)
    for name in ("breast-cancer", "synthetic-text"):
        problem = dsba.Problem.from_arrays(*dsba.data.load(name), operator="logistic")
        result = dsba.solve(problem, topology, max_passes=80, reference=True, gap_tol=1e-7)
        assert result.status == "converged", (name, result)


FIELD = METHODS[METHODS.index("solam") + 1 :]  # added in 2026; all of them are linear


@pytest.mark.full
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("method", FIELD)
def test_the_field_of_2026_reaches_the_optimum_to_ten_digits(method, graph):
    for split in ("random", "label", UNEQUAL):
        problem = make_problem("logistic", 10, lam=0.1, split=split)
        result = solved(problem, dsba.Topology.family(graph, 10), method, distance=1e-10)
        assert result.history["distance"][-1] < 1e-10, (result, split)
