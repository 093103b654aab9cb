"""Ranks on several hosts: a model trained over a network of three is the simulator's."""

from __future__ import annotations

import pytest
from benchmarks.namespaces import Unavailable, hosts
from conftest import ROOT
from mpi import TRAIN, needs_mpi, run
from test_mpi import make_sites

from dsba.fitting import FitSpec, codec, train
from dsba.fitting.not_converged import EXIT_CODE


@pytest.fixture(scope="module")
def three_hosts():
    try:
        with hosts(3) as there:
            yield there
    except Unavailable as error:
        pytest.skip(f"hosts cannot be made here: {error}")


@needs_mpi
@pytest.mark.full
@pytest.mark.parametrize("communication", ["cached", "dense"])
def test_six_ranks_on_three_hosts(communication, three_hosts, tmp_path, monkeypatch):
    monkeypatch.setenv("DSBA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    files = make_sites(tmp_path, count=6)
    options = ("--graph", "random:0.5", "--max-passes", "10", "--communication", communication)
    command = three_hosts.mpiexec(2, *TRAIN, *files, *options, "--out", tmp_path / "run")
    code, text = run(*command)
    assert code == EXIT_CODE, text
    found = codec.load(tmp_path / "run")
    model, result = train(files, FitSpec(graph="random:0.5", max_passes=10.0, communication=communication))
    assert (found.Z == model.Z).all()
    assert found.run.processes == 6
    assert found.run.figures.bytes_max == result.history["bytes_max"][-1]
