"""What goes wrong on a cluster: killed, stopped and interrupted ranks, and frames that are not what they should be."""

from __future__ import annotations

import os
import signal
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import psutil
import pytest
from conftest import ROOT, make_problem
from mpi import DEADLINE, MPIEXEC, needs_mpi, run, started
from test_mpi import make_sites, same_model

import dsba
from dsba.algorithms.dsba.node import hold_round
from dsba.engine import checkpoint
from dsba.fitting.not_converged import EXIT_CODE
from dsba.network import MessageSimulator
from dsba.network.messages.wire import CHECKSUM_BYTES, HEADER_BYTES, Header, WireError, encode_again, encode_dense, pack

RANKS = 3
SLOW_TRAIN = (sys.executable, ROOT / "tests" / "slow_train.py", "train")
OPTIONS = ("--graph", "ring", "--communication", "cached", "--lam", "1e-6", "--tol", "0", "--max-passes")
PASSES = 200


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.setenv("DSBA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    files = make_sites(tmp_path)

    def line(out, *more, passes=PASSES):
        return (MPIEXEC, "-n", RANKS, *SLOW_TRAIN, *files, *OPTIONS, passes, *more, "--out", tmp_path / out)

    return line


def ranks_of(launcher):
    """The processes of the ranks, in order; there may be a proxy between mpiexec and them."""
    below = psutil.Process(launcher.pid).children(recursive=True)
    ranks = {int(process.environ()["PMI_RANK"]): process.pid for process in below if "PMI_RANK" in process.environ()}
    return [ranks[rank] for rank in sorted(ranks)]


def shared_memory(pids):
    """The segments of the ranks, which a killed MPI leaves behind."""
    maps = [line.split() for pid in pids for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {Path(words[5]) for words in maps if len(words) > 5 and words[5].startswith("/dev/shm/mpich")}


def iterations(folder):
    """What every rank has kept: the iterations of its checkpoints."""
    slots = [[folder / f"checkpoint.rank{rank}.{slot}" for slot in range(2)] for rank in range(RANKS)]
    return [{int(checkpoint._read(s)[1]["state.t"]) for s in own if s.exists()} for own in slots]


def wait_for_progress(process, folder, beyond):
    """Until all ranks have kept an iteration later than ``beyond``."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline and process.poll() is None:
        if all(kept and max(kept) > beyond for kept in iterations(folder)):
            return
        time.sleep(0.02)
    raise AssertionError(f"no progress beyond {beyond}: {process.communicate()[0] if process.poll() else 'silent'}")


def alive(pids):
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def ended(process, pids, segments=()):
    """The exit code and the text, once nothing is left running; segments left in shared memory are removed."""
    text, _ = process.communicate(timeout=DEADLINE)
    deadline = time.monotonic() + 10
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(pids) == []
    for segment in segments:
        segment.unlink(missing_ok=True)
    return process.returncode, text


def half_written(folder):
    """The ranks that are writing a checkpoint."""
    return [
        int(file.name.split(".rank")[1][0])
        for file in folder.iterdir()
        if file.name.startswith(".part-checkpoint.rank")
    ]


def choose_victim(kill, folder, rng):
    """Every other time some rank at some moment, else one that is just writing a checkpoint."""
    if kill % 2:
        time.sleep(rng.uniform(0.0, 0.1))
        return int(rng.integers(RANKS))
    deadline = time.monotonic() + 2
    while not (writing := half_written(folder)) and time.monotonic() < deadline:
        pass
    return writing[0] if writing else 0


@needs_mpi
@pytest.mark.full
def test_ranks_killed_at_any_moment_and_resumed(command, tmp_path):
    """One run killed again and again ends with the bits of the one that was left alone. The gate has one kill of it."""
    code, text = run(*command("whole"))
    assert code == EXIT_CODE, text  # the budget is spent
    rng, reached, folder = np.random.default_rng(4), -1, tmp_path / "killed"
    for kill in range(10):
        with started(*command("killed")) as process:
            wait_for_progress(process, folder, reached)
            pids = ranks_of(process)
            assert len(pids) == RANKS, "the run ended before it could be killed"
            segments = shared_memory(pids)
            os.kill(pids[choose_victim(kill, folder, rng)], signal.SIGKILL)
            code, _ = ended(process, pids, segments)
            assert code != 0
        assert not (folder / "model.dsba").exists()
        common = set.intersection(*iterations(folder))
        assert max(common) > reached  # there is one that all ranks have, and it is a later one each time
        reached = max(common)
    code, text = run(*command("killed"))
    assert code == EXIT_CODE, text  # the budget is spent
    same_model(tmp_path / "whole", folder)
    assert half_written(folder) == []


@needs_mpi
@pytest.mark.full
def test_a_stopped_rank_ends_the_others_within_the_timeout(command, tmp_path):
    code, text = run(*command("warm", passes=1))  # so that no rank is silent because it compiles
    assert code == EXIT_CODE, text  # the budget is spent
    with started(*command("run", "--timeout", "4")) as process:
        wait_for_progress(process, tmp_path / "run", 0)
        pids = ranks_of(process)
        segments = shared_memory(pids)
        os.kill(pids[1], signal.SIGSTOP)
        begun = time.monotonic()
        code, text = ended(process, pids, segments)
        assert time.monotonic() - begun < 4 + 20
    assert code == 2
    assert "has heard nothing from" in text
    assert "for 4 seconds" in text
    assert "Traceback" not in text


@needs_mpi
@pytest.mark.full
@pytest.mark.parametrize("request_to_stop", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_stop_keeps_the_model_and_resumes(command, tmp_path, request_to_stop):
    code, text = run(*command("whole", passes=60))
    assert code == EXIT_CODE, text  # the budget is spent
    with started(*command("run", passes=60)) as process:
        wait_for_progress(process, tmp_path / "run", 0)
        pids = ranks_of(process)
        segments = shared_memory(pids)
        assert segments
        process.send_signal(request_to_stop)
        code, text = ended(process, pids)
    assert code != 0
    assert "interrupted: stopped on request" in text
    assert [segment for segment in segments if segment.exists()] == []  # an end by agreement leaves nothing behind
    assert (tmp_path / "run" / "model.dsba").exists()
    code, text = run(*command("run", passes=60))
    assert code == EXIT_CODE, text  # the budget is spent
    same_model(tmp_path / "whole", tmp_path / "run")


# Frames, at a node that is running -------------------------------------------------------------------


def running_nodes(communication, rounds=7):
    topology = dsba.Topology.ring(5)
    problem = make_problem(n_nodes=5)
    net = MessageSimulator(topology)
    algorithm = dsba.DSBA(form="dense", communication=communication).resolved(problem, topology)
    state = algorithm.init(problem, net, np.zeros(problem.dim))
    for t in range(rounds):
        hold_round(net, state.nodes)
        for node in state.nodes:
            node.step(t % 4)
    return state.nodes


def condition(node):
    arrays = {name: array.tobytes() for name, array in node.to_arrays().items()}
    return arrays, node.round, set(node.heard), dict(node.received)


def mutated(frame, others, rng):
    """A frame that is damaged, cut, too long, of another round or neighbour, or forged with a right checksum."""
    kind = rng.integers(6)
    data = bytearray(frame)
    if kind == 0:
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    elif kind == 1:
        data = data[: rng.integers(len(data))]
    elif kind == 2:
        data += rng.bytes(int(rng.integers(1, 300)))
    elif kind == 3:
        data = bytearray(others[rng.integers(len(others))])
    elif kind == 4:
        at, length = rng.integers(len(data)), rng.integers(1, 9)
        data[at : at + length] = rng.bytes(int(length))
    else:
        data[rng.integers(HEADER_BYTES - CHECKSUM_BYTES)] ^= 1 << rng.integers(8)
        data = _with_checksum(data)
    return bytes(data)


def _with_checksum(data):
    start, payload = bytes(data[: HEADER_BYTES - CHECKSUM_BYTES]), bytes(data[HEADER_BYTES:])
    return bytearray(start + zlib.crc32(payload, zlib.crc32(start)).to_bytes(CHECKSUM_BYTES, "little") + payload)


@pytest.mark.parametrize("communication", ["sparse", "cached"])
def test_a_node_refuses_what_is_not_due_and_stays_as_it_was(communication):
    before = [node.outbox() for node in running_nodes(communication, rounds=6)]
    nodes = running_nodes(communication)
    now = [node.outbox() for node in nodes]
    node, frame = nodes[0], now[1][0]
    others = [f for outbox in (*before, *now) for f in outbox.values() if f != frame]
    rng = np.random.default_rng(0)
    was, refused = condition(node), 0
    for _ in range(3000):
        bad = mutated(frame, others, rng)
        if bad == frame:  # bits that were flipped twice
            continue
        with pytest.raises(WireError):
            node.receive(1, bad)
        refused += 1
    assert refused > 2900
    assert condition(node) == was
    assert node.receive(1, frame)[0] > 0  # the right one is still welcome, once
    with pytest.raises(WireError, match="no frame due"):
        node.receive(1, frame)
    with pytest.raises(WireError, match="no frame due"):
        node.receive(2, now[2][1])  # no neighbour
    with pytest.raises(WireError, match="no frame from node 4"):
        node.step(0)


def _right_entries(neighbour):
    return [neighbour.mail[j] for j in neighbour.common.routing.due(1, 0, neighbour.round)]


def test_a_forged_entry_that_reads_well_is_refused():
    """Its checksum is right, and what it says is not: a dense row among deltas, a sample nobody sent."""
    nodes = running_nodes("cached")
    node = nodes[0]
    due = node.common.routing.due(1, 0, node.round)
    header = Header(node.common.session, 1, 0, node.round)
    was = condition(node)
    dense = [encode_dense(j, np.zeros(node.common.bounds.dim)) for j in due]
    unknown = [encode_again(j, node.common.bounds.sizes[j] - 1, np.ones(1)) for j in due]
    for entries in (dense, unknown, [*_right_entries(nodes[1])[:-1], dense[-1]]):
        with pytest.raises(WireError):
            node.receive(1, pack(header, entries))
        assert condition(node) == was
