"""Nodes on MPI ranks: bit by bit the simulator (invariant 3), counted honestly (6), and one model from many sites."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import mpi_script
import numpy as np
import pytest
from conftest import ROOT, also_in_full
from mpi import MPIEXEC, SCRIPT, TRAIN, mpiexec, needs_mpi, run
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.fitting import FitSpec, codec, train
from dsba.fitting.not_converged import EXIT_CODE
from dsba.network.mpi import MPINetwork

pytestmark = needs_mpi

EXACT = {"history.iteration", "history.passes", "history.nominal_passes", *mpi_script.COUNTS}
EXACT |= {f"history.{name}" for name in ("rounds", "doubles_max", "index_bytes_max", "bytes_max")}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DSBA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT / 'tests'}")


def script(ranks, task, tmp_path, *arguments):
    out = tmp_path / "found.json"
    code, text = mpiexec(ranks, sys.executable, "-m", "mpi4py", SCRIPT, task, out, *arguments)
    assert code == 0, text
    return json.loads(out.read_text())


# The simulator's twin ------------------------------------------------------------------------------


EVERYTHING = [pytest.param(n, mpi_script.OPERATORS, marks=pytest.mark.full) for n in (1, 2, 3, 5)]


@pytest.mark.parametrize(("ranks", "operators"), [(2, ("logistic", "auc")), *EVERYTHING])
def test_every_algorithm_is_the_simulators_on_any_number_of_ranks(ranks, operators, tmp_path):
    """The gate has one number of ranks; the contract itself is held on 1, 2 and 3 (test_transports.py)."""
    expected = mpi_script.simulate(operators)
    np.savez(tmp_path / "expected.npz", **expected)
    applicable = {key.split("/")[0] for key in expected}
    assert {case.split()[1] for case in applicable} == set(dsba.algorithms.names()) - {"point-saga", "saga", "solam"}
    found = script(ranks, "compare", tmp_path, tmp_path / "expected.npz", *operators)
    assert set(found) == applicable
    for case, differences in found.items():
        if "lazy" not in case:
            assert differences == {}, case
        else:
            assert not EXACT & set(differences), case
            assert max(differences[key] for key in ("Z", "z")) < 1e-11, case


def test_links_with_flaws_between_ranks(tmp_path):
    assert script(2, "flawed", tmp_path) == dict.fromkeys(("lossy", "delayed", "compressed", "identity"), True)


def test_the_counters_are_what_the_transport_carried(tmp_path):
    for communication, ranks in script(5, "transport", tmp_path).items():
        kind = "rows" if communication == "dense" else "frames"
        for facts in ranks:
            assert facts["received"][kind] == facts["bytes"] > 0
            assert facts["received"][{"rows": "frames", "frames": "rows"}[kind]] == 0
            if kind == "rows":
                assert 8 * facts["doubles"] == facts["bytes"]
        sent = sum(facts["sent"][kind] for facts in ranks)
        assert sent == sum(facts["received"][kind] for facts in ranks)


# One command -----------------------------------------------------------------------------------------


def make_sites(folder, labels=("-1", "1"), count=4, seed=0):
    """A file per site, of different sizes; the site of number n is in a folder of its own."""
    rng = np.random.default_rng(seed)
    files = []
    for n in range(count):
        X = rng.normal(size=(12 + 3 * n, 11)) * (rng.random((12 + 3 * n, 11)) < 0.7)
        X[0, -1] = 1.0
        lines = [
            f"{labels[int(x[:7].sum() + 0.5 * rng.normal() > 0)]} "
            + " ".join(f"{j + 1}:{v:.17g}" for j, v in enumerate(x) if v)
            for x in X
        ]
        file = folder / f"host{n}" / f"site{n}.svm"
        file.parent.mkdir(parents=True)
        file.write_text("\n".join(lines) + "\n")
        files.append(file)
    return files


def same_model(a, b, joined=frozenset()):
    """Equal models; ``joined`` are measures of held-out rows that processes count in fewer intervals."""
    a, b = codec.load(a), codec.load(b)
    assert (a.Z == b.Z).all()
    assert (a.weights == b.weights).all()
    assert (a.intercepts == b.intercepts).all()
    assert (a.classes is None) == (b.classes is None)
    assert a.classes is None or a.classes.tolist() == b.classes.tolist()
    assert a.spec == b.spec
    tables = [one.table and replace(one.table, test=None) for one in (a, b)]
    assert tables[0] == tables[1]
    tests = [vars(one.table.test) if one.table and one.table.test else {} for one in (a, b)]
    assert tests[0].keys() == tests[1].keys()
    assert [k for k, v in tests[0].items() if v != tests[1][k] and k not in joined] == []
    different = {key for key, value in vars(a.run).items() if value != getattr(b.run, key)}
    assert different <= {"figures", "processes", "masked"}  # what the transport is, and seconds
    figures = [{k: v for k, v in m.run.figures.plain().items() if "seconds" not in k} for m in (a, b)]
    assert figures[0] == figures[1]


@pytest.mark.full  # the gate has the methods on ranks above, and the commands in test_fitting.py
@pytest.mark.parametrize("options", [("--communication", "dense"), ("--communication", "cached", "--operator", "auc")])
def test_one_process_and_many_ranks_give_the_same_model(options, tmp_path):
    files = make_sites(tmp_path)
    words = (*map(str, files), "--graph", "ring", "--lam", "0.02", "--max-passes", "15", *options)
    alone = CliRunner().invoke(app, ["train", *words, "--out", str(tmp_path / "one")])
    assert alone.exit_code == EXIT_CODE, alone.output
    for ranks in (2, 4):
        code, text = mpiexec(ranks, *TRAIN, *words, "--out", tmp_path / f"on{ranks}")
        assert code == EXIT_CODE, text
        assert text.count("Model of 4 nodes") == 1  # rank 0 speaks
        same_model(tmp_path / "one", tmp_path / f"on{ranks}")
    assert json.loads((tmp_path / "on4" / "model.json").read_text())["processes"] == 4


@pytest.mark.full
def test_no_rank_needs_anothers_files(tmp_path):
    """Hosts without a common file system: in each working folder there is one site's file, and no other."""
    labels = ("0", "5")
    files = make_sites(tmp_path, labels)
    names = [file.name for file in files]
    command = (*TRAIN, *names, "--graph", "path", "--max-passes", "50", "--out", "out")
    parts = [(":",) * (n > 0) + ("-n", "1", "-wdir", file.parent, *command) for n, file in enumerate(files)]
    code, text = run(MPIEXEC, *(word for part in parts for word in part))
    assert code == 0, text
    assert not (files[1].parent / "out" / "model.dsba").exists()
    model, _ = train(files, FitSpec(graph="path", max_passes=50.0))
    assert (codec.load(files[0].parent / "out").Z == model.Z).all()
    assert model.classes.tolist() == [0.0, 5.0]
    code, text = run(sys.executable, "-m", "dsba", "predict", files[0].parent / "out", files[1])
    assert code == 0, text
    assert set(text.split()) <= set(labels)
    truth = [line.split()[0] for line in files[1].read_text().splitlines()]
    assert np.mean([a == b for a, b in zip(text.split(), truth, strict=True)]) > 0.7


# Refusals --------------------------------------------------------------------------------------------


def test_a_rank_that_was_given_something_else_is_named_at_all_ranks(tmp_path):
    found = script(2, "disagree", tmp_path, *make_sites(tmp_path))
    assert len(found) == 15
    for what, messages in found.items():
        wanted = "topology" if what == "mixing" else what
        assert messages[0] == messages[1], what
        assert messages[0].startswith(f"rank 1 differs from rank 0 in {wanted}: it has "), messages


def test_the_command_ends_at_all_ranks_when_one_differs(tmp_path):
    files = make_sites(tmp_path)
    common = (*TRAIN, *files, "--out", tmp_path / "run", "--graph")
    code, text = run(MPIEXEC, "-n", 2, *common, "ring", ":", "-n", 1, *common, "path")
    assert code == 2
    assert text.count("rank 2 differs from rank 0 in topology") == 1
    assert "Traceback" not in text


def _without(file):
    file.unlink()
    return "site3.svm"


def _malformed(file):
    file.write_text("1 1:0.5\n1 3:what\n")
    return "line 2"


def _not_finite(file):
    file.write_text("1 1:0.5\n-1 3:nan\n")
    return "finite number"


@pytest.mark.parametrize("spoil", also_in_full([_malformed], [_without, _malformed, _not_finite]))
def test_bad_input_at_one_rank_ends_all_of_them(spoil, tmp_path):
    files = make_sites(tmp_path)
    reason = spoil(files[3])
    code, text = mpiexec(3, *TRAIN, *files, "--graph", "ring", "--out", tmp_path / "run")
    assert code == 2, text
    assert "Error (rank 2): " in text
    assert reason in text.lower()
    assert "Traceback" not in text


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    files = make_sites(tmp_path)
    command = (*TRAIN, *files, "--graph", "ring", "--max-passes", "3", "--out", tmp_path / "run")
    code, text = mpiexec(2, *command)
    assert code == EXIT_CODE, text
    code, text = mpiexec(2, *command, "--lam", "0.7")
    assert code == 2
    assert "belongs to another run" in text


@pytest.mark.parametrize("name", ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE"])
def test_the_wrong_mpiexec_is_named(name, tmp_path, monkeypatch):
    files = make_sites(tmp_path)
    monkeypatch.setenv(name, "4")
    code, text = run(*TRAIN, *files, "--out", tmp_path / "run")
    assert code == 2
    assert f"mpiexec started 4 processes ({name}), but mpi4py sees a world of one" in text


def test_more_ranks_than_nodes(tmp_path):
    files = make_sites(tmp_path)[:2]
    code, text = mpiexec(3, *TRAIN, *files, "--graph", "path", "--out", tmp_path / "run")
    assert code == 2
    assert "3 processes for 2 nodes" in text


# What needs no ranks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0, -1.0, "soon", float("nan")])
def test_a_timeout_is_a_positive_number(timeout):
    with pytest.raises(dsba.InputError, match="timeout must be a number"):
        MPINetwork(dsba.Topology.ring(3), timeout=timeout)
