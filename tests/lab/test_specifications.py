"""Experiments as they are written down: TOML, plans, identifiers, and the data that they name."""

from __future__ import annotations

import tomllib

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from conftest import make_data
from hypothesis import given
from small_experiments import SMALL, spec

from dsba.errors import InputError
from dsba.lab import paper, plan, run, runner
from dsba.lab.example import EXAMPLE
from dsba.lab.reading import read
from dsba.lab.runner import check
from dsba.lab.sources import Sources

# Specifications ----------------------------------------------------------------------------------


def test_an_experiment_survives_the_way_through_toml():
    experiment = spec(seeds=[3, 1], splits=["label"], metrics=["consensus"])
    assert read(tomllib.loads(experiment.to_toml())) == experiment


@given(title=st.text(), label=st.text(min_size=1))
@hypothesis.example(title="\x7f", label="a\r\nb\x00\u2028")
@hypothesis.settings(max_examples=50, deadline=None)
def test_any_text_survives_the_way_through_an_experiments_file(tmp_path_factory, title, label):
    experiment = spec(title=title, data=[{"name": "breast-cancer", "label": label}])
    file = tmp_path_factory.mktemp("written") / "experiment.toml"
    file.write_bytes(experiment.to_toml().encode())
    assert read(file) == experiment


def test_the_example_is_valid_and_every_key_in_it_is_known():
    experiment = read(tomllib.loads(EXAMPLE))
    assert len(plan.make(experiment).runs) == 2 * 3 * 3
    uncommented = EXAMPLE.replace("# metrics", "metrics").replace("# tol = ", "tol = ").replace("# label", "label")
    assert read(tomllib.loads(uncommented)).metrics == ("gap", "consensus")


GOOD = """seeds = [0]
[[data]]
name = 'breast-cancer'
[[problem]]
operator = 'ridge'
[[method]]
algorithm = 'dsba'
"""
BAD = {
    "seeds = [0\n": "not TOML",
    f"seeds = [{'9' * 5_000}]\n": "not TOML",
    "[[method]]\nalgorithm = 'dsb'\n": r"line 9: method\.1\.algorithm: unknown algorithm 'dsb'; did you mean 'dsba'",
    "[[method]]\nalgorithm = 'dsa'\n\ntabel = 'full'\n": r"line 11: method\.1\.tabel: unknown option of dsa",
    "[stop]\nmax_pases = 3\n": r"line 9: stop\.max_pases: unknown key; known here: max_passes",
    "[stop]\nmax_passes = 'many'\n": r"line 9: stop\.max_passes: .* got 'many'",
    "[[problem]]\noperator = 'rigde'\n": r"line 9: problem\.1\.operator: unknown operator 'rigde'",
    "[[network]]\ngraph = 'rng'\n": r"line 9: network\.0\.graph: unknown graph",
    "[[network]]\nn_nodes = 30\np = 0.001\n": r"line 8: network\.0: none of 1000 random graphs",
    "[[method]]\nalgorithm = 'dsba'\n": "two methods are called 'DSBA'",
    "[[method]]\nalgorithm = 'extra'\nstep_size = 'fast'\n": "unknown step size of EXTRA 'fast'",
    "[[data]]\nname = 'no-such-file'\n": "no file 'no-such-file'",
    "[[problem]]\noperator = {a = 1}\n": r"line 9: problem\.1\.operator.*: unknown operator {'a': 1}",
    "[[problem]]\noperator = '..:X'\n": r"line 9: problem\.1\.operator: .* a module's name begins with no dot",
    "[[problem]]\noperator = 'huber'\ndelta = 'x'\n": r"line 10: problem\.1\.delta: 'delta' must be a number, got 'x'",
    "[[problem]]\noperator = 'ridge'\nlam = 5e-324\n": "lam must be 0 or at least 1e-300, got 5e-324",
    "[[method]]\nalgorithm = {a = 1}\n": r"line 9: method\.1\.algorithm.*: unknown algorithm {'a': 1}",
    "[[method]]\nalgorithm = 'dsa'\ngrid = {step_size = []}\n": r"line 10: method\.1\.grid\.step_size: .* at least 1",
    "[[network]]\ngraphs = 3\n": r"line 9: network\.0\.graphs: 'graphs' must be a list, got 3",
    "[[network]]\nn_nodes = 100000\n": r"line 8: network\.0: a graph may have at most 10000 nodes",
}


@pytest.mark.parametrize(("text", "message"), BAD.items(), ids=range(len(BAD)))
def test_bad_files_are_refused_with_the_line(text, message, tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text(GOOD + text)
    with pytest.raises(InputError, match=message):
        runner.check(file)


def test_a_method_that_does_not_apply_is_left_out_with_the_reason():
    made = check(spec(problem=[{"operator": "auc"}], method=[{"algorithm": "dsba"}, {"algorithm": "ssda"}]))
    assert [r.method.title for r in made.runs] == ["DSBA"]
    assert "SSDA is left out for auc" in made.left_out[0]


def test_identifiers_depend_on_what_is_computed_only():
    one, more = plan.make(spec()), plan.make(spec(method=[{"algorithm": "dsa"}, *SMALL["method"]], title="other"))
    assert {r.id for r in one.runs} < {r.id for r in more.runs}
    longer = plan.make(spec(stop={"max_passes": 13}))
    assert not {r.id for r in one.runs} & {r.id for r in longer.runs}
    assert not {t.id for t in one.tunings} & {t.id for t in longer.tunings}  # a search is verified at the run's budget


DATA = {"breast-cancer": "rows", "other": "test rows"}
CODE = {"auc": "operator", "extra": "algorithm", "dsba": "tuned algorithm", "mine.py:metric": "metric"}


def content_ids(data=DATA, code=CODE, **changes):
    """Of runs and searches of an experiment whose data and code have these digests."""
    methods = [{"algorithm": "extra", "step_size": 0.1}, {"algorithm": "dsba", "batch_size": 2}]
    base = {"data": [{"name": "breast-cancer", "test": "other"}], "problem": [{"operator": "auc", "lam": 0.01}]}
    base |= {"metrics": ["mine.py:metric"], "method": methods}
    return {job.id for job in plan.make(spec(**base | changes), Sources(data, code)).jobs if job.needs}


@pytest.mark.parametrize("changed", [*DATA, *CODE])
def test_identifiers_follow_the_content_of_data_and_code(changed):
    changes = {"data": DATA | {changed: "new"}} if changed in DATA else {"code": CODE | {changed: "new"}}
    before, after = content_ids(), content_ids(**changes)
    kept = {"extra": {"dsba", "tune"}, "dsba": {"extra"}}.get(changed, set())  # what the code is not of
    assert before & after == {id for id in before if any(f"-{word}-" in id for word in kept)}


@pytest.mark.parametrize(
    "method", [{"step_size": 0.2}, {"max_passes": 3}, {"max_seconds": 3.0}, {"max_rounds": 3}, {"max_doubles": 3}]
)
def test_identifiers_follow_the_settings_of_a_method(method):
    given = {"algorithm": "dsba", "label": "same", "step_size": 0.1, "batch_size": 2}
    assert not content_ids(method=[given]) & content_ids(method=[given | method])
    tuned = {"algorithm": "dsba", "label": "same", "batch_size": 2}
    assert not content_ids(method=[tuned]) & content_ids(method=[tuned | {"batch_size": 3}])


def test_every_combination_has_its_own_identifier():
    changes = {
        "seeds": [0, 1],
        "splits": ["random", "label"],
        "data": [{"name": "breast-cancer"}, {"name": "synthetic-text"}],
        "problem": [{"operator": "ridge", "lam": 0.01}, {"operator": "ridge", "lam": 0.1}, {"operator": "ridge"}],
        "network": [{"graph": "ring", "n_nodes": 4}, {"graph": "ring", "n_nodes": 5}, {"seed": 0}, {"seed": 1}],
        "method": [{"algorithm": "dsba"}, {"algorithm": "dsba", "table": "full", "label": "full"}],
    }
    made = plan.make(spec(**changes))
    cases = 2 * 2 * 3 * 4
    assert len({run.id for run in made.runs}) == len(made.runs) == cases * 2 * 2
    assert len({case.id for case in made.cases}) == cases
    assert len(made.tunings) == cases * 2
    assert len(made.jobs) == 2 * 3 + cases * 2 + cases * 2 * 2


def test_communication_shares_one_search():
    methods = [{"algorithm": "dsba"}, {"algorithm": "dsba", "communication": "sparse"}]
    made = plan.make(spec(method=methods))
    assert [r.method.title for r in made.runs] == ["DSBA", "DSBA-s"]
    assert len(made.tunings) == 1


def test_the_paper_is_the_paper():
    experiment = paper(["a9a"], seeds=[1])
    network = experiment.network[0]
    assert (network.n_nodes, network.p, network.mixing) == (10, 0.4, "laplacian")
    assert [p.operator for p in experiment.problem] == ["ridge", "logistic", "auc", "auc-paper"]
    assert all(p.lam is None for p in experiment.problem)  # 1/(10 Q)
    assert all(m.tuned for m in experiment.method)
    made = check(paper(["breast-cancer"], seeds=[1]))
    on_auc = {r.method.algorithm for r in made.runs if r.case.pooled.problem.operator == "auc"}
    assert on_auc == {"dsba", "dsa", "extra"}


# Data --------------------------------------------------------------------------------------------


def write_libsvm(path, X, y):
    entries = [" ".join(f"{j + 1}:{float(v)!r}" for j, v in enumerate(row) if v) for row in X]
    rows = [f"{label:g} {entry}" for label, entry in zip(y, entries, strict=True)]
    path.write_text("\n".join(rows) + "\n")


def test_more_than_two_classes_need_a_binarisation(tmp_path, monkeypatch):
    monkeypatch.setenv("DSBA_CACHE", str(tmp_path / "cache"))
    X, _ = make_data("logistic")
    y = np.arange(len(X)) % 5 + 1.0
    write_libsvm(tmp_path / "five", X, y)
    name = str(tmp_path / "five")
    with pytest.raises(InputError, match="has 5 classes and logistic needs two"):
        run(spec(data=[{"name": name}], problem=[{"operator": "logistic"}]), tmp_path / "a", workers=1)
    case = plan.make(spec(data=[{"name": name, "positive": "half"}])).cases[0]
    assert (case.build(0).y > 0).sum() == (y <= 2).sum()
    case = plan.make(spec(data=[{"name": name, "positive": [5, 1]}])).cases[0]
    assert (case.build(0).y > 0).sum() == np.isin(y, [1, 5]).sum()
    with pytest.raises(InputError, match="positive names the class 9"):
        plan.make(spec(data=[{"name": name, "positive": [9]}])).cases[0].build(0)


def test_the_test_set_beside_the_data_is_used(tmp_path, monkeypatch):
    from sklearn.metrics import roc_auc_score

    monkeypatch.setenv("DSBA_DATA", str(tmp_path))
    monkeypatch.setenv("DSBA_CACHE", str(tmp_path / "cache"))
    X, y = make_data("auc", rows=80)
    wider = np.hstack([X, np.ones((80, 2))])  # columns the training set has not
    write_libsvm(tmp_path / "set", X[:50], y[:50])
    write_libsvm(tmp_path / "set.t", wider[50:], y[50:])
    changes = {"data": [{"name": "set"}], "problem": [{"operator": "auc", "lam": 0.01}]}
    changes["method"] = [{"algorithm": "dsba", "step_size": "auto"}]
    results = run(spec(**changes), tmp_path / "out", workers=1)
    case = results.cases[0]
    assert results.reference(case).test_set == "set.t"
    z = results.folder.read_reference(case.reference)[1]
    scores = (X[50:] / np.linalg.norm(X[50:], axis=1, keepdims=True)) @ z[:12]
    assert results.reference(case).test_auc == pytest.approx(roc_auc_score(y[50:], scores), abs=1e-12)
    assert "test_auc" in results.histories[results.runs[0].id]
