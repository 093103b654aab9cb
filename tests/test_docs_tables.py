"""The tables of the documentation come from results files; what they depend on marks them stale, and nothing else."""

from __future__ import annotations

import importlib.util
import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STEP_RULES = "src/dsba/algorithms/step_rules.py"
# Words, no measurement.
TYPED = ("| the paper's | here |", "| extra | for | brings |", "| candidate | sends | good for |")


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("docs_tables", ROOT / "docs" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def copy(tables, tmp_path):
    """The pages and all that their tables depend on, measured just now."""
    shutil.copytree(ROOT / "docs" / "results", tmp_path / "docs" / "results")
    for page in tables.PAGES:
        shutil.copy(ROOT / "docs" / page, tmp_path / "docs" / page)
    for part in ("src", "benchmarks"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in tables.names(tmp_path):
        table = tables.read(tmp_path, name)
        tables.write(tmp_path, name, table | {"inputs": {i: tables.digest(tmp_path, i) for i in table["inputs"]}})
    return tmp_path


def rewritten(tables, root):
    for page in tables.PAGES:
        (root / "docs" / page).write_text(tables.made(root, page))
    return {page: (root / "docs" / page).read_bytes() for page in tables.PAGES}


def test_the_pages_have_the_cells_of_the_results_files(tables):
    """All but the marks of stale tables, which any change of the code moves; `make docs-tables` writes them."""
    for page in tables.PAGES:
        text = (ROOT / "docs" / page).read_text()
        assert tables.without_stale(tables.made(ROOT, page)) == tables.without_stale(text), page


def test_every_measured_table_of_the_pages_is_made(tables):
    for page in tables.PAGES:
        typed = tables.BLOCK.sub("", (ROOT / "docs" / page).read_text()).splitlines()
        heads = [line for line, after in pairwise(typed) if after.startswith("| ---")]
        assert set(heads) <= set(TYPED), page


def test_twice_gives_the_same_bytes(tables, copy):
    assert rewritten(tables, copy) == rewritten(tables, copy)


def test_a_changed_step_rule_marks_the_tables_that_depend_on_it(tables, copy):
    assert not any(tables.STALE in text.decode() for text in rewritten(tables, copy).values())
    with (copy / STEP_RULES).open("a") as stream:
        stream.write("ANOTHER_RULE = 1\n")
    marked = {page: text.decode() for page, text in rewritten(tables, copy).items()}
    stale = {block[1] for text in marked.values() for block in tables.BLOCK.finditer(text) if tables.STALE in block[0]}
    inputs = {name: json.loads((copy / "docs" / "results" / f"{name}.json").read_text())["inputs"] for name in
              tables.names(copy)}  # fmt: skip
    depending = {n for n, globs in inputs.items() if any(copy / STEP_RULES in copy.glob(glob) for glob in globs)}
    assert stale == depending
    assert {"rounds-ridge", "methods-a9a"} <= stale
    assert {"bench-hosts", "bench-tables"}.isdisjoint(stale)


def stale(tables, root):
    return {name for name in tables.names(root) if tables.changed(root, tables.read(root, name))}


def test_a_changed_rival_marks_only_tables_that_have_it(tables, copy):
    """LT-ADMM is in the tables of all methods, and nowhere else."""
    with (copy / "src/dsba/algorithms/rivals/lt_admm.py").open("a") as stream:
        stream.write("ANOTHER = 1\n")
    assert stale(tables, copy) == {"methods-a9a", "methods-farm-ads", "methods-reuters"}


def test_words_mark_nothing(tables, copy):
    path = copy / STEP_RULES
    path.write_text("# a comment\n" + path.read_text().replace('"""', '"""Another word. ', 1))
    assert not stale(tables, copy)


def test_a_new_measurement_is_fresh(tables, copy, monkeypatch):
    monkeypatch.setattr(tables, "ROOT", copy)
    (copy / STEP_RULES).write_text("ANOTHER_RULE = 1\n")
    assert tables.changed(copy, tables.read(copy, "rounds-steps"))
    tables.record("rounds-steps", "python -m benchmarks.steps", [["case", "passes"], ["a", ""]], [STEP_RULES])
    assert not tables.changed(copy, tables.read(copy, "rounds-steps"))
    made = tables.markdown(copy, "rounds-steps")
    assert made.splitlines()[1:4] == ["| case | passes |", "| --- | --- |", "| a | |"]
    assert tables.main(check=True) == 1  # other tables are stale, and the page has the old cells
    assert tables.main(check=False) == 0
    assert made in (copy / "docs" / "rounds.md").read_text()


def test_a_release_takes_fresh_tables_only(tables, copy, monkeypatch):
    monkeypatch.setattr(tables, "ROOT", copy)
    rewritten(tables, copy)
    assert tables.main(check=True) == 0
    (copy / "benchmarks" / "steps.py").write_text("pass")
    rewritten(tables, copy)
    assert tables.main(check=True) == 1
