"""Contracts instead of type checks: what the sources must not say."""

from __future__ import annotations

import ast

import pytest
from conftest import ROOT

SOURCES = sorted((ROOT / "src" / "dsba").rglob("*.py"))
NETWORKS = {"Simulator", "MessageSimulator", "MPINetwork", "Transport", "Network", "Group", "Alone"}
OPERATORS = {"AUC", "ScalarOperator", "Ridge", "Logistic", "Softmax", "Poisson", "Huber", "SquaredHinge", "ScaledHuber"}


def names(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {
        n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)
    }


def offences(tree, within_operators):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            asked = names(node.args[1])
            if asked & NETWORKS or (asked & OPERATORS and not within_operators):
                yield node.lineno
        if isinstance(node, ast.Compare) and not within_operators:
            sides = [node.left, *node.comparators]
            texts = {s.value for s in sides if isinstance(s, ast.Constant)}
            if "auc" in texts or any("__name__" in names(s) for s in sides if texts & OPERATORS):
                yield node.lineno


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT / "src")))
def test_nobody_asks_for_the_class_of_a_network_or_an_operator(path):
    lines = list(offences(ast.parse(path.read_text()), "operators" in path.parts))
    assert not lines, f"{path.name}, lines {lines}"


def test_the_check_finds_what_it_looks_for():
    for text in (
        "isinstance(net, Simulator)",
        "isinstance(p.component, (AUC, X))",
        'x.operator != "auc"',
        'type(c).__name__ == "AUC"',
    ):
        assert list(offences(ast.parse(text), False)), text


def compiled_functions(path, decorators=frozenset({"njit", "part"})):
    """Functions under ``@njit`` or ``@part``, with the number of their arguments."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and any(names(d) & decorators for d in node.decorator_list):
            yield node.name, len(node.args.args)


def taken_from_kernels(tree):
    """The names that a file uses of the kernels' modules."""
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and "dsba.kernels" in (n.module or "")]
    modules = {a.asname or a.name for n in imports if n.module == "dsba.kernels" for a in n.names}
    attributes = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and names(n.value) & modules)
    return {a.name for n in imports for a in n.names} | {n.attr for n in attributes}


def test_parts_of_kernels_are_called_by_kernels_only():
    """A call from Python would end the process: parts are compiled without a way in."""
    kernels = [path for path in SOURCES if path.parent.name == "kernels"]
    parts = {name for path in kernels for name, _ in compiled_functions(path, {"part"})}
    assert "sample_delta" in parts
    for path in set(SOURCES) - set(kernels):
        assert not taken_from_kernels(ast.parse(path.read_text())) & parts, path.name


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT / "src")))
def test_compiled_functions_live_in_kernels_and_take_few_arguments(path):
    found = dict(compiled_functions(path))
    assert not found or path.parent.name == "kernels"
    assert not {name: count for name, count in found.items() if count > 8}
