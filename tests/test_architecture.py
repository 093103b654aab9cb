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


def compiled_functions(path):
    """Functions under ``@njit``, with the number of their arguments."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and any("njit" in names(d) for d in node.decorator_list):
            yield node.name, len(node.args.args)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT / "src")))
def test_compiled_functions_live_in_kernels_and_take_few_arguments(path):
    found = dict(compiled_functions(path))
    assert not found or path.parent.name == "kernels"
    assert not {name: count for name, count in found.items() if count > 8}
