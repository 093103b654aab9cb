"""A plan is made once: every identifier is hashed once, every problem is built once, and modules import one way."""

from __future__ import annotations

import ast
import pickle
from graphlib import TopologicalSorter

from conftest import ROOT
from small_experiments import SMALL, spec

from dsba.lab import jobs, plan, run, runner
from dsba.problem.problem import Problem

METHODS = [{"algorithm": "dsba"}, {"algorithm": "dsba", "communication": "sparse"}, *SMALL["method"][1:]]


def test_a_comparison_hashes_each_identifier_once(tmp_path, monkeypatch):
    """Five jobs (a reference, a search that two methods share, three runs) and a case."""
    made, real = [], jobs.identifier
    monkeypatch.setattr(jobs, "identifier", lambda *content: made.append(real(*content)) or made[-1])
    todo = runner.check(SMALL | {"method": METHODS})
    results = run(todo, tmp_path, workers=1)
    assert len(todo.jobs) == 5
    assert sorted(made) == sorted([*(job.id for job in todo.jobs), *(case.id for case in todo.cases)])
    assert [one.id for one in results.runs] == [one.id for one in todo.runs]
    run(todo, tmp_path, workers=1, force=True)
    assert len(made) == 6


def test_a_job_takes_its_identifier_to_another_process(monkeypatch):
    made = plan.make(spec(method=METHODS)).jobs
    packed = pickle.dumps(made)
    monkeypatch.setattr(jobs, "identifier", lambda *content: 1 / 0)
    assert pickle.loads(packed) == made


def test_the_real_problem_is_built_once(tmp_path, monkeypatch):
    """For the plan's check, the search and the runs; the reference has one of its own, with all rows at one node."""
    built, real = [], Problem.from_arrays
    lam = 0.0123  # a problem that no other test of this process has built
    monkeypatch.setattr(Problem, "from_arrays", lambda *args, **rest: built.append(args[3]) or real(*args, **rest))
    run(SMALL | {"problem": [{"operator": "ridge", "lam": lam}], "method": METHODS}, tmp_path, workers=1)
    assert sorted(built) == [1, 4]


def test_every_job_says_what_it_writes(tmp_path):
    todo = runner.check(SMALL | {"method": METHODS})
    results = run(todo, tmp_path, workers=1)
    written = {path for job in todo.jobs for path in job.files(results.folder) if path.exists()}
    assert written == {path for path in tmp_path.rglob("*.dsba") if path != results.folder.index}
    assert all(job.is_done(results.folder) for job in todo.jobs)


def imports_of(path):
    """The modules of the laboratory that a module imports anywhere, for types or in a function too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "dsba.lab":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dsba.lab."):
            yield node.module.split(".")[2]


def test_modules_of_the_laboratory_import_one_way():
    home = ROOT / "src" / "dsba" / "lab"
    graph = {path.stem: set(imports_of(path)) for path in home.glob("*.py") if path.stem != "__init__"}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(graph)
