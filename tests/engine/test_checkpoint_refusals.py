"""Checkpoints of another run, files that are none, and damaged ones are refused in a sentence, before any work."""

from __future__ import annotations

import hashlib
import io
import json
import stat
from dataclasses import dataclass

import numpy as np
import pytest
from conftest import make_data, make_problem
from test_checkpoint import RING, refused, solve

import dsba
from dsba.engine import checkpoint as store
from dsba.network import MessageSimulator
from dsba.storage import sealed


def other_data():
    X, y = make_data("ridge")
    X[5, 5] += 1e-9
    return dsba.Problem.from_arrays(X, y, "ridge", 4, 0.05)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"problem": lambda: make_problem("ridge", lam=0.05000001)}, "problem"),
        ({"problem": other_data}, "problem"),
        ({"problem": lambda: make_problem("ridge", seed=1)}, "problem"),
        ({"problem": lambda: make_problem("ridge", split="label")}, "problem"),
        ({"topology": dsba.Topology.path(4)}, "topology"),
        ({"topology": dsba.Topology.ring(4, mixing="metropolis")}, "topology"),
        ({"seed": 1}, "seed"),
        ({"algorithm": "dsa"}, "algorithm"),
        ({"table": "full"}, "algorithm"),
        ({"form": "lazy"}, "algorithm"),
        ({"step_size": 0.125}, "0.125"),
        ({"z0": np.full(12, 1e-9)}, "z0"),
        ({"record_every": 2}, "record_every"),
        ({"reference": None}, "reference"),
        ({"reference": np.ones(12)}, "reference"),
    ],
)
def test_a_checkpoint_of_another_run(ridge, tmp_path, change, named):
    path = tmp_path / "run.dsba"
    usual = {"form": "dense", "step_size": 0.5}
    solve(ridge, path, max_passes=3, **usual)
    before = path.read_bytes()
    change = {**usual, **change}
    problem = change.pop("problem", lambda: ridge)()
    with pytest.raises(dsba.CheckpointError) as caught:
        solve(problem, path, **change)
    refused(str(caught.value), path, named)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_another_problem_gets_the_blame_and_not_its_step_size(ridge, tmp_path):
    path = tmp_path / "run.dsba"
    solve(ridge, path, max_passes=3)
    with pytest.raises(dsba.CheckpointError) as caught:
        solve(make_problem("ridge", lam=0.06), path)
    refused(str(caught.value), path, "problem")


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def file_of(facts, **arrays):
    """A sealed file of anything."""
    buffer = io.BytesIO()
    sealed.write(buffer, facts, arrays)
    return buffer.getvalue()


def forged(header, content=b""):
    """A right seal on a header of anything."""
    data = sealed.MAGIC + len(header).to_bytes(8, "little") + header + content
    return data + hashlib.sha256(data).digest()


def layout(*arrays):
    return forged(json.dumps({"facts": {"format": store.FORMAT, "run": {}}, "arrays": arrays}).encode(), bytes(24))


FOREIGN = {
    "empty": b"",
    "text": b"hello, I am no checkpoint\n",
    "zeros": bytes(1000),
    "pickle": b"\x80\x04K\x01.",
    "zip without end": b"PK\x03\x04" + bytes(100),
    "npz": npz(a=np.zeros(3)),
    "npy": npy(np.zeros(3)),
    "magic alone": sealed.MAGIC,
    "no seal": sealed.MAGIC + bytes(100),
    "header is no JSON": forged(b"{"),
    "header is a number": forged(b"7"),
    "header of nothing": forged(b"{}"),
    "header without end": forged(b'{"facts": ' * 100_000),
    "header beyond the file": forged(b"")[:-40] + (1 << 60).to_bytes(8, "little"),
    "facts are a list": forged(b'{"facts": [], "arrays": []}'),
    "array without a name": layout([3, "<f8", [3]]),
    "an array twice": layout(["a", "<f8", [1]], ["a", "<f8", [2]]),
    "array of objects": layout(["a", "|O", [3]]),
    "array of records": layout(["a", [["b", "<f8"]], [3]]),
    "array longer than the file": layout(["a", "<f8", [4]]),
    "array shorter than the file": layout(["a", "<f8", [2]]),
    "array of no size": layout(["a", "<f8", [-1, -3]]),
    "array beyond any memory": layout(["a", "<f8", [2**40, 2**40]]),
    "empty array beyond any memory": layout(["a", "<f8", [2**62, 2**62, 0]], ["b", "<f8", [3]]),
    "another format": file_of({"format": "dsba-checkpoint-99", "run": {}}),
    "no run": file_of({"format": store.FORMAT}),
    "run is a list": file_of({"format": store.FORMAT, "run": []}),
    "another run": file_of({"format": store.FORMAT, "run": {"program": "other 1.0"}}),
}


@pytest.mark.parametrize(
    "name",
    FOREIGN,
)
def test_a_file_that_is_no_checkpoint(ridge, tmp_path, name):
    path = tmp_path / "run.dsba"
    path.write_bytes(FOREIGN[name])
    worked = []
    with pytest.raises(dsba.CheckpointError) as caught:
        solve(ridge, path, callbacks=[worked.append])
    refused(str(caught.value), path)
    assert path.read_bytes() == FOREIGN[name]
    assert not worked


@pytest.mark.parametrize("name", ["text", "npz", "npy", "header of nothing"])
def test_the_reason_is_for_a_person(ridge, tmp_path, name):
    """Neither an invitation to unpickle a text file, nor a bare key, nor the words of an interpreter."""
    path = tmp_path / "run.dsba"
    path.write_bytes(FOREIGN[name])
    with pytest.raises(dsba.CheckpointError) as caught:
        solve(ridge, path)
    assert not any(word in str(caught.value) for word in ("pickle", "('header')", "context manager"))


def rewritten(path, drop=(), **changes):
    """The checkpoint with other arrays, under a right seal."""
    facts, arrays = sealed.read(path)
    kept = {name: array for name, array in arrays.items() if name not in drop}
    path.write_bytes(file_of(facts, **{**kept, **changes}))


KEPT = ["state.Z", "state.phi", "state.t", "history.residual", "seconds", "cpu_seconds"]
KEPT += ["net.rounds", "net.doubles", "net.index_bytes", "net.bytes"]


@pytest.mark.parametrize("name", KEPT)
def test_a_checkpoint_that_lacks_an_array(ridge, tmp_path, name):
    path = tmp_path / "run.dsba"
    solve(ridge, path, max_passes=3, form="dense")
    rewritten(path, drop=[name])
    with pytest.raises(dsba.CheckpointError):
        solve(ridge, path, form="dense")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state.Z", np.zeros((4, 11))),
        ("state.phi", np.zeros((60, 1), np.float32)),
        *((name, value) for name, value in [("history.residual", np.ones(2)), ("net.doubles", np.zeros(3))]),
    ],
)
def test_a_checkpoint_with_an_array_of_another_shape(ridge, tmp_path, name, value):
    path = tmp_path / "run.dsba"
    solve(ridge, path, max_passes=3, form="dense")
    rewritten(path, **{name: value})
    with pytest.raises(dsba.CheckpointError):
        solve(ridge, path, form="dense")


@pytest.mark.parametrize("form", ["dense", "lazy"])
@pytest.mark.parametrize("later", [1, 10**15])
def test_a_checkpoint_beyond_its_history(ridge, tmp_path, later, form):
    """An iteration beyond the next record point was never written by a run, and nothing may try to reach it."""
    path = tmp_path / "run.dsba"
    run = solve(ridge, path, max_passes=3, form=form)
    interval = int(run.history["iteration"][-1] - run.history["iteration"][-2])
    rewritten(path, **{"state.t": sealed.read(path)[1]["state.t"] + later * interval})
    with pytest.raises(dsba.CheckpointError, match="another iteration than its history leads to"):
        solve(ridge, path, form=form)


@pytest.fixture(scope="module")
def good(ridge, tmp_path_factory):
    """The bytes of a whole checkpoint with a long history."""
    path = tmp_path_factory.mktemp("good") / "run.dsba"
    solve(ridge, path, max_passes=60, record_every=0.066, form="lazy")
    return path.read_bytes()


def refused_whole(ridge, path, mutated):
    """Every change is found; the file stays as it is."""
    path.write_bytes(mutated)
    with pytest.raises(dsba.CheckpointError) as caught:
        solve(ridge, path, max_passes=61, record_every=0.066, form="lazy")
    refused(str(caught.value), path)
    assert path.read_bytes() == mutated


def test_truncated(ridge, good, tmp_path):
    rng = np.random.default_rng(0)
    for length in [0, 1, 4, len(good) - 1, len(good) - 32, *rng.integers(len(good), size=40)]:
        refused_whole(ridge, tmp_path / "run.dsba", good[:length])


def test_bits_flipped_at_random(ridge, good, tmp_path):
    rng = np.random.default_rng(1)
    for position in [*range(60), *rng.integers(len(good), size=200), *range(len(good) - 40, len(good))]:
        mutated = bytearray(good)
        mutated[position] ^= 1 << int(rng.integers(8))
        refused_whole(ridge, tmp_path / "run.dsba", bytes(mutated))


def test_bytes_exchanged_or_inserted(ridge, good, tmp_path):
    rng = np.random.default_rng(2)
    for _ in range(30):
        a, b = sorted(rng.integers(len(good) - 3000, size=2))
        for mutated in (good[:a] + good[b:], good[:a] + bytes(7) + good[a:], good[:a] + bytes(int(b - a)) + good[b:]):
            if mutated != good:
                refused_whole(ridge, tmp_path / "run.dsba", mutated)


FORGED = {
    "t before the start": {"state.t": np.asarray(-1)},
    "t before the history's end": {"state.t": np.asarray(3)},
    "t of another type": {"state.t": np.asarray(3.0)},
    "history backwards": {"history.iteration": np.array([0.0, 15.0, 15.0, 45.0])},
    "history from the middle": {"history.iteration": np.array([15.0, 30.0, 40.0, 45.0])},
}


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("form", ["dense", "lazy"])
def test_iterations_that_do_not_follow_each_other(ridge, tmp_path, name, form):
    """A right seal on numbers that would let a run stand still."""
    path = tmp_path / "run.dsba"
    solve(ridge, path, max_passes=3, form=form)
    rewritten(path, **FORGED[name])
    with pytest.raises(dsba.CheckpointError) as caught:
        solve(ridge, path, form=form)
    refused(str(caught.value), path, "iteration")


@pytest.mark.parametrize("name", ["state.stamp", "state.2.stamp"])
@pytest.mark.parametrize("stamp", [-1, 46, 2**62])
def test_a_stamp_outside_of_the_run(ridge, tmp_path, stamp, name):
    """45 iterations are made. A column that is ahead of them kept a kernel busy for ever, and so at a node."""
    path = tmp_path / "run.dsba"
    nodes = {"communication": "cached", "network": MessageSimulator(RING)} if name == "state.2.stamp" else {}
    solve(ridge, path, max_passes=3, form="lazy", **nodes)
    rewritten(path, **{name: np.append(sealed.read(path)[1][name][:-1], stamp)})
    with pytest.raises(dsba.CheckpointError, match=r"stamps.* not between 0 and"):
        solve(ridge, path, form="lazy", **nodes)


def test_a_state_checks_itself():
    @dataclass
    class State:
        stamp: np.ndarray
        t: int = 0

        def require_sound(self):
            if not ((self.stamp >= 0) & (self.stamp <= self.t)).all():
                raise dsba.CheckpointError("a stamp lies beyond the iteration.")

    fresh = State(np.zeros(3, np.int64))
    arrays = {"state.stamp": np.array([0, 2, 4]), "state.t": np.asarray(4)}
    assert store.restored(fresh, arrays).t == 4
    with pytest.raises(dsba.CheckpointError, match="a stamp"):
        store.restored(fresh, arrays | {"state.t": np.asarray(3)})


def test_only_the_owner_may_read(ridge, tmp_path):
    path = tmp_path / "run.dsba"
    solve(ridge, path, max_passes=1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
