"""The tables of the documentation that benchmarks make, against the rows and histories that they are made of."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import __main__ as bench
from benchmarks import choice, communication, paper, rounds
from benchmarks.measure import Row
from docs import tables

import dsba


@pytest.fixture
def kept(monkeypatch):
    """What was recorded, by name."""
    monkeypatch.setattr(tables, "write", lambda root, name, table: found.update({name: table}))
    found = {}
    return found


def test_a_table_of_rows_is_kept_when_all_its_parts_were_measured(kept):
    parts, _ = bench.TABLES["bench-ratios"]
    measured = {part: [Row(part, 0.5, 2.0, note="a note"), Row(f"{part}, more", 3.0, 2.0, "s", True)] for part in parts}
    bench.keep({part: rows for part, rows in measured.items() if part != parts[0]})
    assert not kept
    bench.keep(measured)
    assert list(kept) == ["bench-ratios"]
    table = kept["bench-ratios"]
    assert table["command"] == f"python -m benchmarks {' '.join(parts)}"
    assert table["columns"] == ["figure", "measured", "target", "note"]
    assert len(table["rows"]) == 2 * len(parts)
    assert table["rows"][:2] == [
        [parts[0], "0.5 x", "at most 2", "a note"],
        [f"{parts[0]}, more", "3 s", "at least 2", ""],
    ]


@pytest.mark.parametrize("name", bench.TABLES)
def test_the_parts_of_a_table_are_benchmarks_and_its_starts_exist(name):
    parts, others = bench.TABLES[name]
    assert set(parts) <= set(bench.PARTS)
    assert tables.Tree(tables.ROOT).reached([*(bench.PARTS[part].__module__ for part in parts), *others])


@pytest.mark.parametrize(("columns", "kinds"), [(22, ["CPU seconds"]), (120, ["estimated time"])])
def test_a_choice_without_estimates_has_its_seconds_alone(columns, kinds, monkeypatch):
    monkeypatch.setattr(choice, "_seconds", lambda *_: 1.0)
    X, y = dsba.data.make_text_like(n_rows=400, n_columns=columns, row_length=8)
    found = choice._compared("a set", "logistic", X, y)
    assert [next(kind for kind in kinds if kind in row.name) for row in found] == kinds


def test_what_moves_is_what_the_histories_counted(monkeypatch):
    small = {"n_rows": 60, "n_columns": 200, "row_length": 8}
    monkeypatch.delenv("DSBA_DATA", raising=False)
    monkeypatch.setitem(communication.SETS, "farm-ads", ("Few", small))
    monkeypatch.setattr(communication, "METHODS", {"DSBA-s": ("dsba", "sparse"), "DSBA-s, cached": ("dsba", "cached")})
    monkeypatch.setattr(communication, "MOST_PASSES", {"dsba": 5})
    lines, rows = communication.until_the_gap("farm-ads")
    problem = dsba.Problem.from_arrays(*dsba.data.make_text_like(**small), "logistic")
    topology = dsba.Topology.random(10, 0.4, seed=0)
    for line, how in zip(lines[1:3], ("sparse", "cached"), strict=True):
        history = dsba.solve(problem, topology, max_passes=5, communication=how, reference=True).history
        assert line[1] == f"5, gap {history['gap'][-1]:.1e}"
        assert line[2] == f"{history['doubles_max'][-1]:.3g}"
        assert line[3] == f"{history['bytes_max'][-1] / 1000:.3g} kB"
    assert lines[0][0] == "Few (60 × 200)"
    assert [row.target for row in rows] == [0.1, 40]


def made_up(method, seed):
    """A history whose gap falls by 10 in so many passes as the method's name is long, and one more for the seed."""
    passes = np.arange(61.0)
    fall = 10.0 ** -(passes / (len(method) + seed))
    columns = {"passes": passes, "doubles_max": 100 * passes, "gap": fall, "distance": fall, "auc": 1 - fall / 2}
    return dsba.History(columns)


@pytest.fixture
def finished():
    found = paper.Finished()
    spec = paper.paper(["breast-cancer"], gap_tol=paper.GAP, seeds=[0, 1, 2])
    runs = [
        run
        for run in paper.plan.make(spec).runs
        if not (run.method.title in ("SSDA", "DLM") and run.case.pooled.problem.operator.startswith("auc"))
    ]
    found.add(spec, {run.id: made_up(run.method.title, run.seed) for run in runs})
    return found


def test_the_tables_of_the_paper_are_medians_of_the_histories(kept, finished):
    """A method of k letters needs k + 1 passes for a factor of 10, in the median of three seeds."""
    paper.keep(finished)
    assert sorted(kept) == ["paper-auc", "paper-auc-distance", "paper-doubles", "paper-passes"]
    assert kept["paper-passes"]["columns"] == ["", "DSBA", "DSA", "SSDA", "DLM", "EXTRA"]
    (ridge, logistic) = kept["paper-passes"]["rows"]
    assert ridge == ["ridge, breast-cancer", "15, 30", "12, 24", "15, 30", "12, 24", "18, 36"]
    assert logistic[1:] == ridge[1:]
    assert kept["paper-auc"]["rows"][0] == ["breast-cancer, DSBA", "0.6845", "0.8009", "0.9500", "1.0000", "14"]
    assert len(kept["paper-auc"]["rows"]) == 3
    distances = kept["paper-auc-distance"]["rows"]
    assert [line[0] for line in distances] == [
        f"breast-cancer, {form}, {method}" for form in ("centred", "the paper's own") for method in ("DSBA", "DSA")
    ]
    assert distances[1][1:] == ["1e-05", "1e-10", "1e-15"]
    problem = dsba.Problem.from_arrays(*dsba.data.load("breast-cancer"), "ridge")
    shipped = problem.A.nnz - min(np.diff(problem.csr[0]).sum() // 10, problem.A.nnz)
    (line, _) = kept["paper-doubles"]["rows"]
    assert line[:4] == ["1e-06, logistic, breast-cancer", "3.0e+03", "4.2e+03", "0.714"]
    assert float(line[4]) == pytest.approx(shipped, rel=0.05)


def test_a_gap_that_was_not_reached_is_told(finished):
    key = "breast-cancer", "ridge", "EXTRA"
    finished.histories[key] = [made_up("x" * 20, seed) for seed in range(3)]  # 21 passes for a factor of 10
    finished.histories["breast-cancer", "ridge", "DLM"] = [made_up("x" * 12, seed) for seed in range(3)]
    ridge = paper.of_passes(finished)[1]
    assert ridge[4:] == ["39, then 2.4e-05", "1.4e-03"]
    finished.histories["breast-cancer", "ridge", "DSBA-s"] = finished.histories[key]
    assert paper.of_doubles(finished)[2][1:4] == ["not reached", "", ""]


def test_rounds_go_on_where_they_were_stopped_and_begin_anew_after_an_edit(kept, tmp_path, monkeypatch):
    asked = []

    def runs(name, operator):
        asked.append((name, operator))
        if len(asked) == 4:
            raise KeyboardInterrupt
        return [rounds.Line(name, operator, "DSBA, b = 1", 1.0, 7.0, float(len(asked)), 1e-7)]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rounds, "runs", runs)
    with pytest.raises(KeyboardInterrupt):
        rounds.main([])
    assert not kept
    rounds.main([])
    every = [(name, operator) for name in rounds.SETS for operator in rounds.OPERATORS]
    assert asked == every[:4] + every[3:]
    assert kept["rounds-ridge"]["columns"] == ["ridge", *(rounds.TITLES.get(name, name) for name in rounds.SETS)]
    assert kept["rounds-ridge"]["rows"] == [["DSBA, b = 1", "7 / 1", "7 / 3", *(f"7 / {n}" for n in (6, 8, 10, 12))]]
    monkeypatch.setattr(rounds, "code_of", lambda starts: "another code")
    rounds.main(["news20"])
    assert asked[-2:] == [("news20", "ridge"), ("news20", "logistic")]
