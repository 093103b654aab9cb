"""The API reference: numpydoc's own validation of every public object, and examples that run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import shutil
from functools import cached_property

import pytest
from conftest import ROOT
from numpydoc.validate import validate

import dsba

MODULES = (dsba, dsba.algorithms, dsba.data, dsba.lab, dsba.network, dsba.operators, dsba.penalties)
# What functions of tables return. Their methods have examples, which continue the example of the class.
TABLES = (
    "dsba.tables.results.Results", "dsba.tables.tests.WaldTest", "dsba.tables.tests.LinearTests",
    "dsba.tables.tests.Prediction", "dsba.tables.evaluation.Evaluation", "dsba.tables.hazards.BaselineHazard",
    "dsba.tables.meta.SiteEstimates", "dsba.tables.meta.MetaAnalysis", "dsba.tables.survival.SurvivalCurves",
    "dsba.tables.survival.LogRank", "dsba.tables.elastic_net.ElasticNetPath", "dsba.tables.exports.TextTable",
    "dsba.tables.description.Description", "dsba.data.sources.TableSource",
)  # fmt: skip
OTHERS = ("dsba.errors.FitError", "dsba.fitting.not_converged.NotConvergedWarning", *TABLES)
# What a person calls on the results of a comparison; the page and the tables of the folder use more of them.
OF_RESULTS = ("load", "on", "to_frame", "summary", "winners", "tuning", "plot", "sweep", "map", "to_latex", "report")
NOT_ASKED = {"ES01", "SA01"}  # an extended summary and a See Also section
NOT_CALLED = ("dsba.network.contract.Group", "dsba.engine.run.Status")  # classes whose constructor nobody calls
WITH_METHODS = (
    "Topology",
    "History",
    "Link",
    "Penalty",
    "Group",
    "IndexRange",
    "FitError",
    *(path.rpartition(".")[2] for path in TABLES),
)
FACE = {"from_arrays", "n_nodes", "n_samples", "n_features", "dim", "lam", "classes", "objective"}  # of a Problem
# Pages and examples of those who write algorithms and losses, which use more of a Problem.
INSIDE = ("architecture.md", "own-algorithm.md", "own_algorithm.py", "paper.md")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def found(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def public():
    """Every public class and function by its full name."""
    listed = [getattr(module, name) for module in MODULES for name in module.__all__]
    objects = [*filter(lambda one: inspect.isclass(one) or inspect.isfunction(one), listed), *map(found, OTHERS)]
    return dict(sorted({f"{one.__module__}.{one.__qualname__}": one for one in objects}.items()))


PUBLIC = public()


def methods():
    """The public methods of estimators and of some classes, by their full names."""
    for path, cls in PUBLIC.items():
        if cls.__name__ in WITH_METHODS or cls.__name__.startswith("Decentralized"):
            for name, one in inspect.getmembers(cls, callable):
                if not name.startswith("_") and str(getattr(inspect.unwrap(one), "__module__", "")).startswith("dsba"):
                    yield f"{path}.{name}"


def properties(path):
    """The public properties of a class, by their full names."""
    for name, _ in inspect.getmembers(PUBLIC[path], lambda one: isinstance(one, property | cached_property)):
        if not name.startswith("_"):
            yield f"{path}.{name}"


def faults(path, excused):
    return [f"{path}: {code} {text}" for code, text in validate(path)["errors"] if code not in excused]


@pytest.mark.parametrize("path", PUBLIC)
def test_numpydoc_finds_nothing_wrong(path):
    assert faults(path, NOT_ASKED | ({"PR01"} if path in NOT_CALLED else set())) == []
    if inspect.isfunction(PUBLIC[path]) and inspect.signature(PUBLIC[path]).parameters:
        assert "\nRaises\n------\n" in inspect.getdoc(PUBLIC[path])


def test_the_face_of_a_problem_is_documented_and_enough():
    """The docstring, the reference and the promise name the same eight names; pages and examples use no others."""
    text, page = inspect.getdoc(dsba.Problem), (ROOT / "docs" / "api.md").read_text()
    attributes = re.search(r"Attributes\n-+\n(.*?)\n\n", text, re.DOTALL)[1]
    listed = re.findall(r"\w+", " ".join(re.findall(r"^(\w.*) :", attributes, re.MULTILINE)))
    members = re.search(r"::: dsba.Problem\n +options:\n +members: \[(.*)\]", page)[1]
    assert {*listed, *members.split(", ")} == FACE
    assert set(re.findall(r"`(\w+)`", re.search(r"eight names:(.*?)\.\n", page, re.DOTALL)[1])) == FACE
    problem = dsba.Problem.from_arrays([[1.0], [2.0], [3.0]], ["a", "b", "a"], n_nodes=3)
    assert all(hasattr(problem, name) for name in FACE)
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")]
    used = {
        (path.name, name)
        for path in pages
        if path.name not in INSIDE
        for name in re.findall(r"(?<!\.)\bproblem\.([a-zA-Z]\w*)", path.read_text())
    }
    assert len(used) > 3
    assert {(page, name) for page, name in used if name not in FACE} == set()


def test_methods_have_parameters_and_returns():
    paths = [*methods(), *(f"dsba.problem.problem.Problem.{name}" for name in ("from_arrays", "objective"))]
    assert len(paths) > 40
    assert [fault for path in paths for fault in faults(path, NOT_ASKED | {"EX01"})] == []


@pytest.mark.parametrize("path", TABLES)
def test_what_functions_of_tables_return_is_documented_whole(path):
    """Every method has an example, and what the annotations say it returns; every property has its sentence."""
    named = [one for one in methods() if one.startswith(f"{path}.")]
    assert [fault for one in named for fault in faults(one, NOT_ASKED)] == []
    assert [fault for one in properties(path) for fault in faults(one, NOT_ASKED | {"EX01"})] == []
    for method in (getattr(PUBLIC[path], one.rpartition(".")[2]) for one in named):
        returns = inspect.signature(method).return_annotation != "None"
        assert ("\nReturns\n-------\n" in inspect.getdoc(method)) == returns, method


def test_the_page_has_what_is_called_on_the_results_of_a_comparison():
    """Each with its parameters, what it returns, and an example."""
    path = "dsba.lab.results.ExperimentResults"
    assert [fault for name in OF_RESULTS for fault in faults(f"{path}.{name}", NOT_ASKED)] == []
    page = (ROOT / "docs" / "api.md").read_text()
    listed = re.search(r"::: dsba.lab.ExperimentResults\n +options:\n +members: \[(.*)\]", page)[1]
    assert tuple(listed.replace('"', "").split(", ")) == OF_RESULTS  # YAML reads a bare on as true


@pytest.mark.filterwarnings("ignore:Between owners", "ignore:Look at this")
@pytest.mark.parametrize("path", PUBLIC)
def test_examples_run(path, tmp_path, monkeypatch, request):
    """Examples of methods follow the example of their class, and use its names."""
    monkeypatch.chdir(tmp_path)
    if path == "dsba.lab.results.ExperimentResults":
        shutil.copytree(request.getfixturevalue("finished"), "results")
    runner, names = doctest.DocTestRunner(optionflags=FLAGS), {}
    for test in sorted(doctest.DocTestFinder().find(PUBLIC[path], path, globs={})):
        said = []
        test.globs = names
        runner.run(test, out=said.append, clear_globs=False)
        assert said == []


def public_names():
    """The shortest name by which users import each public object, by the name of the place where it is defined."""
    names = {}
    for module in reversed(MODULES):
        for one in (getattr(module, name) for name in module.__all__):
            if inspect.isclass(one) or inspect.isfunction(one):
                names[f"{one.__module__}.{one.__qualname__}"] = f"{module.__name__}.{one.__name__}"
    return names


def test_the_page_lists_every_public_object_by_the_name_that_users_write():
    listed = set(re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE))
    modules = {path for path in listed if inspect.ismodule(found(path))}
    names = public_names()
    wanted = {names.get(path, path) for path in PUBLIC if path.rpartition(".")[0] not in modules}
    assert listed - modules == wanted
