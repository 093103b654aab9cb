"""The tables of the documentation come from results files; what they depend on marks them stale, and nothing else."""

from __future__ import annotations

import ast
import shutil
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STEP_RULES = "src/dsba/algorithms/step_rules.py"
# Words, no measurement.
TYPED = ("| the paper's | here |", "| extra | for | brings |", "| candidate | sends | good for |")


@pytest.fixture(scope="module")
def tables():
    sys.path.insert(0, str(ROOT))
    from docs import tables

    return tables


@pytest.fixture(scope="module")
def fresh(tables, tmp_path_factory):
    """The pages and all that their tables depend on, measured just now."""
    root = tmp_path_factory.mktemp("fresh")
    shutil.copytree(ROOT / "docs" / "results", root / "docs" / "results")
    for page in tables.PAGES:
        shutil.copy(ROOT / "docs" / page, root / "docs" / page)
    shutil.copy(ROOT / "pyproject.toml", root)
    for part in ("src", "benchmarks"):
        shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
    tree = tables.Tree(root)
    for name in tables.names(root):
        table = tables.read(root, name)
        tables.write(root, name, table | {"inputs": tree.digests(table["starts"])})
    assert not stale(tables, root)
    return root


@pytest.fixture
def copy(fresh, tmp_path):
    return shutil.copytree(fresh, tmp_path, dirs_exist_ok=True)


def rewritten(tables, root):
    tree = tables.Tree(root)
    for page in tables.PAGES:
        (root / "docs" / page).write_text(tables.made(tree, page))
    return {page: (root / "docs" / page).read_bytes() for page in tables.PAGES}


def test_the_pages_have_the_cells_of_the_results_files(tables):
    """All but the marks of stale tables, which any change of the code moves; `make docs-tables` writes them."""
    for page in tables.PAGES:
        text = (ROOT / "docs" / page).read_text()
        assert tables.without_stale(tables.made(tables.Tree(ROOT), page)) == tables.without_stale(text), page


def test_every_measured_table_of_the_pages_is_made(tables):
    for page in tables.PAGES:
        typed = tables.BLOCK.sub("", (ROOT / "docs" / page).read_text()).splitlines()
        heads = [line for line, after in pairwise(typed) if after.startswith("| ---")]
        assert set(heads) <= set(TYPED), page


def test_every_table_is_kept_by_a_benchmark():
    """Its name, or the beginning of its name, is a text in the code of a benchmark that records tables."""
    whole, begun = set(), set()
    for path in (ROOT / "benchmarks").glob("*.py"):
        nodes = [*ast.walk(ast.parse(path.read_text()))]
        if any(isinstance(node, ast.Call) and ast.unparse(node.func) == "record" for node in nodes):
            whole |= {node.value for node in nodes if isinstance(node, ast.Constant)}
            begun |= {ast.unparse(node.values[0]).strip("'") for node in nodes if isinstance(node, ast.JoinedStr)}
    begun = {text for text in begun if text.endswith("-") and len(text) > 5}
    for path in (ROOT / "docs" / "results").glob("*.json"):
        assert path.stem in whole or path.stem.startswith(tuple(begun)), path.stem


def test_twice_gives_the_same_bytes(tables, copy):
    assert rewritten(tables, copy) == rewritten(tables, copy)


def stale(tables, root):
    tree = tables.Tree(root)
    return {name for name in tables.names(root) if tables.changed(tree, tables.read(root, name))}


def edited(root, path, function):
    """One more statement at the beginning of a function, given as "name" or "Class.name"."""
    file, body = root / "src" / "dsba" / path, ast.parse((root / "src" / "dsba" / path).read_text()).body
    for name in function.split("."):
        node = next(one for one in body if getattr(one, "name", None) == name)
        body = node.body
    line = next(one for one in body if not isinstance(one, ast.Expr)).lineno
    lines = file.read_text().splitlines()
    lines.insert(line - 1, " " * node.body[0].col_offset + "changed = 1")
    file.write_text("\n".join(lines))


ALL_METHODS = {"methods-a9a", "methods-reuters"}
MOVES = {"bench-moves-farm-ads", "bench-moves-news20-binary", "bench-moves-ratios"}
PLANS = {"plans-compared", "plans-expected"}
AUTO = {"bench-choice", "bench-estimators", "bench-speed", *PLANS}
PAPER = {"paper-auc", "paper-auc-distance", "paper-doubles", "paper-passes"}
ROUNDS = {"rounds-logistic", "rounds-ridge"}
WITHOUT_DSBA = {"bench-installed", "bench-tables"}  # the second is Newton's method
RULES = {
    "algorithms/rivals/lt_admm.py LTADMM.auto_step": ALL_METHODS,
    "algorithms/rivals/ssda.py SSDA.auto_step": {*ALL_METHODS, *ROUNDS, *PLANS, "paper-doubles", "paper-passes"},
    "algorithms/rivals/extra.py EXTRA.auto_step": {
        *ALL_METHODS, *ROUNDS, *PAPER, *MOVES, "bench-growth", "bench-ratios"
    },
    "algorithms/dsba/dsa.py DSA.step_sizes": {*ALL_METHODS, *PAPER, *MOVES, "rounds-steps"},
    "algorithms/planner.py plan": AUTO,
    "algorithms/newton.py Newton.step": {*ALL_METHODS, *AUTO, "bench-tables"},
    "operators/losses.py Poisson.map": {"bench-tables"},
    "operators/softmax.py Softmax.forward": {"bench-speed", "rounds-steps"},
    "lab/tuning.py budgets": {*ALL_METHODS, *PAPER},
    "lab/page.py page": set(),
    "graph/directed.py DirectedMixing.of": set(),
    "graph/directed.py column_stochastic": ALL_METHODS,  # of the methods that can do with directed graphs
    "network/imperfect.py Lossy.delivered": set(),
    "study/audit.py digest_of": set(),
    "data/excel.py read": set(),
    "tables/models/cox.py Cox.sums": set(),
    "tables/inference.py infer": {"bench-speed", "bench-tables"},
    "estimators/base.py Decentralized._solve": {"bench-choice", "bench-estimators"},
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_a_changed_rule_marks_exactly_the_tables_that_depend_on_it(tables, copy, rule):
    edited(copy, *rule.split())
    assert stale(tables, copy) == RULES[rule]


def test_the_step_rule_of_dsba_marks_all_tables_that_have_it(tables, copy):
    edited(copy, "algorithms/step_rules.py", "practical_step")
    assert stale(tables, copy) == set(tables.names(copy)) - WITHOUT_DSBA
    marked = {page: text.decode() for page, text in rewritten(tables, copy).items()}
    said = {block[1] for text in marked.values() for block in tables.BLOCK.finditer(text) if tables.STALE in block[0]}
    assert said == stale(tables, copy)
    assert "changed since the measurement: `src/dsba/algorithms/step_rules.py`." in marked["rounds.md"]


def test_words_mark_nothing(tables, copy):
    path = copy / STEP_RULES
    path.write_text("# a comment\n" + path.read_text().replace('"""', '"""Another word. ', 1))
    assert not stale(tables, copy)


def test_a_new_measurement_is_fresh(tables, copy, monkeypatch):
    monkeypatch.setattr(tables, "ROOT", copy)
    starts = tables.read(copy, "rounds-steps")["starts"]
    edited(copy, "algorithms/step_rules.py", "practical_step")
    assert tables.changed(tables.Tree(copy), tables.read(copy, "rounds-steps"))
    tables.record("rounds-steps", "python -m benchmarks.steps", [["case", "passes"], ["a", ""]], starts)
    assert not tables.changed(tables.Tree(copy), tables.read(copy, "rounds-steps"))
    made = tables.markdown(tables.Tree(copy), "rounds-steps")
    assert made.splitlines()[1:4] == ["| case | passes |", "| --- | --- |", "| a | |"]
    assert tables.main(check=True) == 1  # other tables are stale, and the page has the old cells
    assert tables.main(check=False) == 0
    assert made in (copy / "docs" / "rounds.md").read_text()


def test_a_release_takes_fresh_tables_only(tables, copy, monkeypatch):
    monkeypatch.setattr(tables, "ROOT", copy)
    rewritten(tables, copy)
    assert tables.main(check=True) == 0
    path = copy / "benchmarks" / "steps.py"
    path.write_text(path.read_text().replace("FACTORS = (1.0,", "FACTORS = (2.0,"))
    rewritten(tables, copy)
    assert tables.main(check=True) == 1


# What a table depends on, in a tree that was made up ------------------------------------------------

MADE_UP = {
    "benchmarks/one.py": """
        import dsba
        from dsba import graph
        from dsba.algorithms.rivals.fast import Fast
        COUNT = 3
        def run():
            return dsba.solve("fast", graph.path(COUNT)).passes
        if __name__ == "__main__":
            print(run(), unused())
    """,
    "benchmarks/other.py": """
        from benchmarks.one import COUNT
        def run():
            return COUNT
    """,
    "src/dsba/__init__.py": """
        if TYPE_CHECKING:
            from dsba.engine import solve
    """,
    "src/dsba/engine.py": """
        from dsba.algorithms import get
        from dsba.algorithms.base import Base, Result
        from dsba.errors import check
        def solve(name, topology) -> Base:
            method = get(name)
            method.advance(topology)
            return Result(check(topology))
        def plan(topology):
            return topology
    """,
    "src/dsba/errors.py": "def check(x): return x",
    "src/dsba/graph.py": """
        from functools import cache
        def path(count):
            return _edges(count)
        def ring(count):
            return _edges(count) + [(0, count)]
        @cache
        def _edges(count):
            return list(range(count))
    """,
    "src/dsba/algorithms/__init__.py": """
        from dsba.algorithms.rivals.fast import Fast
        from dsba.algorithms.rivals.slow import Slow
        def get(name):
            return {"fast": Fast, "slow": Slow}[name]()
    """,
    "src/dsba/algorithms/base.py": """
        class Base:
            def advance(self, topology):
                return self.step(topology)
            def describe(self):
                return "in words"
        class Result:
            kind: Unused = 1
            passes = property(lambda self: 1)
            def __init__(self, found):
                self.found = found
    """,
    "src/dsba/algorithms/rivals/fast.py": """
        from dsba.algorithms.base import Base
        from dsba.algorithms.rivals.slow import helper
        class Fast(Base):
            def step(self, topology):
                return helper(topology)
    """,
    "src/dsba/algorithms/rivals/slow.py": """
        from dsba.algorithms.base import Base
        def helper(topology):
            return topology
        class Slow(Base):
            def step(self, topology):
                return None
    """,
}
# What is edited, and whether the table of benchmarks.one depends on it.
EDITS = {
    ("benchmarks/one.py", "COUNT = 3", "COUNT = 4"): True,
    ("benchmarks/one.py", "print(run(), unused())", "print(run())"): True,
    ("benchmarks/other.py", "return COUNT", "return 0"): False,
    ("src/dsba/engine.py", "Result(check(topology))", "Result(topology)"): True,
    ("src/dsba/engine.py", "def plan(topology):", "def plan(graph):"): False,
    ("src/dsba/errors.py", "return x", "return 0"): False,
    ("src/dsba/graph.py", "def path(count):", "def path(count=1):"): True,
    ("src/dsba/graph.py", "@cache", ""): True,
    ("src/dsba/graph.py", " + [(0, count)]", ""): False,
    ("src/dsba/algorithms/__init__.py", '"slow": Slow', '"slower": Slow'): False,
    ("src/dsba/algorithms/base.py", "self.step(topology)", "self.step(0)"): True,
    ("src/dsba/algorithms/base.py", '"in words"', '"in other words"'): False,
    ("src/dsba/algorithms/base.py", "lambda self: 1", "lambda self: 2"): True,
    ("src/dsba/algorithms/base.py", "self.found = found", "self.found = 0"): True,
    ("src/dsba/algorithms/rivals/fast.py", "return helper(topology)", "return 0"): True,
    ("src/dsba/algorithms/rivals/slow.py", "return topology", "return 0"): True,
    ("src/dsba/algorithms/rivals/slow.py", "return None", "return 0"): False,
}


@pytest.fixture
def made_up(tmp_path):
    for name, text in MADE_UP.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    return tmp_path


@pytest.mark.parametrize(("name", "old", "new"), EDITS)
def test_what_is_reached_counts_and_nothing_else(tables, made_up, name, old, new):
    starts = ["benchmarks.one", "dsba.algorithms.rivals.fast:Fast"]
    before = tables.Tree(made_up).digests(starts)
    text = (made_up / name).read_text()
    assert text.count(old) == 1
    (made_up / name).write_text(text.replace(old, new))
    after = tables.Tree(made_up).digests(starts)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert name in changed if EDITS[name, old, new] else not changed


def test_comments_do_not_count(tables, made_up):
    starts = ["benchmarks.one", "dsba.algorithms.rivals.fast:Fast"]
    before = tables.Tree(made_up).digests(starts)
    for path in made_up.rglob("*.py"):
        path.write_text("\n".join(f"{line}  # words" for line in path.read_text().splitlines()))
    assert tables.Tree(made_up).digests(starts) == before


def test_a_module_that_is_imported_is_no_program(tables, made_up):
    """Its COUNT is used, and not what it does as a program."""
    before = tables.Tree(made_up).digests(["benchmarks.other"])
    path = made_up / "benchmarks" / "one.py"
    path.write_text(path.read_text().replace("print(run(), unused())", "print(1)").replace("graph.path", "graph.ring"))
    assert tables.Tree(made_up).digests(["benchmarks.other"]) == before
    path.write_text(path.read_text().replace("COUNT = 3", "COUNT = 4"))
    assert tables.Tree(made_up).digests(["benchmarks.other"]) != before


def test_a_start_that_is_not_there_is_told(tables, made_up):
    with pytest.raises(ValueError, match=r"starts from 'dsba\.graph:star', and there is no such code"):
        tables.Tree(made_up).digests(["dsba.graph:star"])
