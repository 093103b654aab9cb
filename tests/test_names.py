"""One name, one meaning: no two public classes and no two constants of modules share a name."""

from __future__ import annotations

import ast
from collections import defaultdict

from conftest import ROOT

SHARED = {"REGISTRY"}  # of algorithms, data sets, operators and penalties
HOME = ROOT / "src" / "dsba"


def top_level_names(tree):
    """The classes and constants of a module that have no leading underscore."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        targets = getattr(node, "targets", [node.target] if isinstance(node, ast.AnnAssign) else [])
        for target in targets:
            yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def test_no_two_classes_or_constants_share_a_name():
    homes = defaultdict(list)
    for path in sorted(HOME.rglob("*.py")):
        for name in set(top_level_names(ast.parse(path.read_text()))):
            homes[name].append(str(path.relative_to(HOME)))
    twice = {name: paths for name, paths in homes.items() if len(paths) > 1 and not name.startswith("_")}
    assert twice.keys() == SHARED, twice  # the list has no more than it needs
