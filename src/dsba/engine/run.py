"""An algorithm under way: the one loop that draws samples, advances, records, stops and writes checkpoints."""

import enum
import hashlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dsba._system.signals import interruptible
from dsba._system.threads import one_blas_thread
from dsba._version import __version__
from dsba.algorithms import Algorithm, sampling
from dsba.algorithms.iterates import Iterates
from dsba.algorithms.planner import MethodPlan
from dsba.engine import checkpoint
from dsba.engine.budgets import Budget, Limits
from dsba.engine.history import History
from dsba.engine.recorder import LARGEST_RESIDUAL, Recorder
from dsba.errors import CheckpointError
from dsba.network import COUNTERS, Counts, Network, alike
from dsba.network.transport import Draws
from dsba.problem.problem import Problem
from dsba.storage.atomic import clear_torn
from dsba.storage.fingerprint import steady_digest_of
from dsba.types import Array, Arrays

Callback = Callable[[dict[str, float]], object]

CHUNK_SECONDS = 0.5  # how long Ctrl-C and the clock may wait for a kernel
CHECKPOINT_SHARE = 0.1  # of the time may go into writing checkpoints


class Status(enum.StrEnum):
    """How a run ended.

    Examples
    --------
    >>> import dsba
    >>> [str(status) for status in dsba.Status]
    ['converged', 'budget', 'diverged', 'interrupted']
    """

    CONVERGED = "converged"
    BUDGET = "budget"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Result:
    """The result of a run: one iterate per node, their mean, the history, and how the run ended.

    Parameters
    ----------
    status : Status
        How the run ended.
    message : str
        The same as a sentence, with numbers.
    Z : numpy.ndarray
        One row per node; on several processes, of the nodes of this one.
    z : numpy.ndarray
        The mean of all nodes' iterates.
    passes : float
        Passes over the data.
    seconds : float
        Seconds of the algorithm alone, evaluation excluded.
    history : History
        The measurements at the record points.
    algorithm : Algorithm
        The algorithm with its step size as a number.
    plan : MethodPlan or None
        What "auto" took, why, and what it expected of each candidate.

    Examples
    --------
    >>> import dsba
    >>> problem = dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), n_nodes=4, lam=0.1)
    >>> ring = dsba.Topology.ring(4)
    >>> result = dsba.solve(problem, ring, "extra", max_passes=3)
    >>> result.Z.shape, result.status
    ((4, 30), <Status.BUDGET: 'budget'>)
    """

    status: Status
    message: str
    Z: Array
    z: Array
    passes: float
    seconds: float
    history: History
    algorithm: Algorithm
    plan: MethodPlan | None = None

    @property
    def step_size(self) -> float:
        return self.algorithm.alpha

    def __repr__(self) -> str:
        return f"Result({self.status}, {self.algorithm.name}, {self.passes:.4g} passes: {self.message})"


@dataclass(eq=False)
class Run:
    """An algorithm under way: its state, clock, history and checkpoint file."""

    problem: Problem
    net: Network
    algorithm: Algorithm
    z0: Array
    seed: int
    recorder: Recorder
    record_every: float
    early: int = 0  # record points before the first regular one
    history: History = field(default_factory=History)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    chunk: int = 1
    plan: MethodPlan | None = None  # of "auto"
    path: Path | None = None
    next_write: float = 0.0

    def __post_init__(self) -> None:
        self.group = self.problem.group
        self.state = self.algorithm.init(self.problem, self.net, self.z0)

    def until(self, limits: Limits, callbacks: Sequence[Callback] = ()) -> Result:
        """Go on until a limit is met; the last iterate is always measured."""
        self._warm_up()
        good: tuple[int, Iterates] | None = None
        budgets = self._budgets(limits)
        with interruptible() as interrupted, np.errstate(all="ignore"):
            if len(self.history) and self.state.t > self.history["iteration"][-1]:
                self._advance(budgets, interrupted)  # resumed between two record points: nothing is measured there
            while True:
                iterates = self.algorithm.iterates(self.state, self.problem)
                record = self._measure(iterates)
                verdict = self._verdict(record, iterates.mean, limits)
                asked = [callback(dict(record)) for callback in callbacks]
                stopped, due = self._anybody(any(asked) or interrupted.is_set(), time.monotonic() >= self.next_write)
                if stopped:
                    verdict = verdict or (Status.INTERRUPTED, "stopped on request")
                if verdict is None or verdict[0] != Status.DIVERGED:
                    good = (self.state.t, iterates)
                if self.state.t == self._record_point(len(self.history)):
                    self.history.append(record)
                if verdict:
                    break
                if due:
                    self._write_checkpoint()
                self._advance(budgets, interrupted)
            if verdict[0] != Status.DIVERGED:  # the last good checkpoint stays
                self._write_checkpoint()
        return self._result(record, verdict, good)

    def _good_iterates(self, good: tuple[int, Iterates] | None) -> tuple[Array, Array]:
        """The rows of the last good iterates, and their mean. Of a run that was resumed between two record points and
        has diverged at the second, they are those of the first. Those before the first iteration are the start.
        """
        if good is not None and good[1].kept is not None:
            return good[1].kept, good[1].mean
        recorded = [t for t in self.history["iteration"] if t < self.state.t] if len(self.history) else []
        if good is None and not recorded:
            return np.tile(self.z0, (len(self.problem.nodes), 1)), self.z0
        state, counts, remembered = self.state, self.net.counts, self.net.memory
        self._run_again(int(recorded[-1]) if good is None else good[0])
        rows = self.algorithm.rows(self.state)
        mean = self.algorithm.iterates(self.state, self.problem).mean if good is None else good[1].mean
        self.state, self.net.counts, self.net.memory = state, counts, remembered
        return rows, mean

    def _run_again(self, t: int) -> None:
        """Go to iteration t once more, from the start, unless the run is there."""
        if self.state.t == t:
            return
        self.net.reset()
        with np.errstate(all="ignore"):
            self.state = self.algorithm.init(self.problem, self.net, self.z0)
            self._warm_up()
            while self.state.t < t:
                self._iterate(self._draw(min(self.chunk, t - self.state.t)))

    def _measure(self, iterates: Iterates) -> dict[str, float]:
        doubles, index_bytes, total_bytes = self._busiest("doubles", "index_bytes", "bytes")
        with one_blas_thread():  # BLAS waits for its threads longer than it adds, and its bits depend on them
            measured = self.recorder.measure(iterates)
        return {
            "iteration": self.state.t,
            "passes": self.algorithm.passes(self.state, self.problem),
            "nominal_passes": self.algorithm.nominal_passes(self.state, self.problem),
            "work": self.algorithm.work(self.state, self.problem, self.net),
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "rounds": self.net.rounds,
            "doubles_max": doubles,
            "index_bytes_max": index_bytes,
            "bytes_max": total_bytes,
            **measured,
        }

    def _verdict(self, record: dict[str, float], mean: Array, limits: Limits) -> tuple[Status, str] | None:
        finite = math.isfinite(record["residual"]) and math.isfinite(record["consensus"])
        first = float(self.history["residual"][0]) if len(self.history) else record["residual"]
        if not finite or record["residual"] > LARGEST_RESIDUAL * max(1.0, first):  # of 0 and the start, the larger one
            growth = record["residual"] / (first or 1.0)
            grown = f"the residual grew {growth:.3g} times" if finite else "values are no longer finite"
            return Status.DIVERGED, (
                f"{grown} after {record['passes']:.3g} passes with step_size={self.algorithm.step_size:.6g}; "
                "try a smaller one (Z is the last good iterate)"
            )
        met = limits.tolerance_met(record, lambda tol: self.recorder.agree(record["consensus"], mean, tol))
        if met and self.algorithm.settled(self.state, self.problem):
            return Status.CONVERGED, met
        if sentence := self.algorithm.finished(self.state):
            if met or limits.tol is None:
                return Status.CONVERGED, f"{sentence}, the relative residual is {record['residual']:.3g}"
            return Status.BUDGET, f"{sentence}, but {limits.tolerance_missed(record)}"
        if sentence := limits.budget_spent(record):
            return Status.BUDGET, f"{sentence}, {limits.tolerance_missed(record)}"
        return None

    def _advance(self, budgets: Sequence[Budget], interrupted: threading.Event) -> None:
        """Advance to the next record point, or to the end of a budget."""
        target, stop = self._record_point(len(self.history)), False
        while self.state.t < target and not stop and (room := min(budget.room for budget in budgets)):
            draws = self._draw(count := min(self.chunk, room, target - self.state.t))
            begun, cpu = time.perf_counter(), time.process_time()
            self._iterate(draws)
            self.cpu_seconds += time.process_time() - cpu  # decides nothing, so it stays here
            # All processes take the slowest one's clock, so that all decide the same.
            news = np.array([time.perf_counter() - begun, float(interrupted.is_set())])
            took, stop = self.group.largest(news).tolist()
            self.seconds += took
            if took < CHUNK_SECONDS / 2:
                self.chunk = max(self.chunk, 2 * count)
            elif took > CHUNK_SECONDS:
                self.chunk = max(1, self.chunk // 2)

    def _budgets(self, limits: Limits) -> list[Budget]:
        spent: dict[str, Callable[[], float]] = {
            "passes": lambda: self.algorithm.passes(self.state, self.problem),
            "seconds": lambda: self.seconds,
            "doubles_max": lambda: self._busiest("doubles")[0],
            "rounds": lambda: self.net.rounds,
        }
        most = {"seconds": 0.0, **self.algorithm.most(self.state, self.problem, self.net)}
        return [Budget(limit, spent[name], most.get(name, math.inf)) for name, limit in limits.budgets.items()]

    def _iterate(self, draws: Draws) -> None:
        """As many iterations as were drawn."""
        for some in self.net.portions(draws):
            self.state = self.algorithm.advance(self.state, self.problem, self.net, *some)

    def _draw(self, count: int) -> Draws:
        """For the next iterations: samples, one column per node held here, and coins where the method asks for them."""
        t, nodes = self.state.t, self.problem.nodes
        sizes, order = self.algorithm.choices(self.problem), self.algorithm.order
        samples = sampling.draw(self.seed, sizes, t, count, nodes.start, order)
        if not self.algorithm.coins:
            return (samples,)
        return samples, sampling.coins(self.seed, self.algorithm.coins, t, count)

    def _anybody(self, *answers: bool) -> list[bool]:
        """Of each answer whether one of the processes says yes: one question, since each takes time between sites."""
        return [bool(largest) for largest in self.group.largest(np.array(answers, np.float64))]

    def _busiest(self, *counters: str) -> list[float]:
        """What the busiest node received, by counter."""
        return self.group.largest(np.array([getattr(self.net, name).max() for name in counters])).tolist()

    def _record_point(self, k: int) -> int:
        """The iteration of the k-th record."""
        place = k - self.early if k > self.early else 2.0 ** (k - 1 - self.early) if k else 0
        steps_per_pass = self.problem.n_samples / self.algorithm.samples_per_step(self.problem)
        return max(k, math.ceil(place * self.record_every * steps_per_pass - 1e-9))

    def _warm_up(self) -> None:
        """Compile or load kernels before the clock runs."""
        with np.errstate(all="ignore"):
            draws = self._draw(1)
            self.net.rehearse(partial(self.algorithm.warm_up, self.state, self.problem, self.net, *draws))

    def _result(
        self, record: dict[str, float], verdict: tuple[Status, str], good: tuple[int, Iterates] | None
    ) -> Result:
        """The result has the last good iterates; if there are none, the start."""
        history = History(self.history.to_dict())
        if len(history) == 0 or history["iteration"][-1] != record["iteration"]:
            history.append(record)  # the run ended between two record points; this record is not part of the checkpoint
        status, message = verdict
        message += self.algorithm.doubts(self.net)
        Z, z = self._good_iterates(good)
        return Result(status, message, Z, z, record["passes"], self.seconds, history, self.algorithm, self.plan)

    # Checkpoints -------------------------------------------------------------------------------

    @property
    def identity(self) -> dict[str, Any]:
        """What must agree if a checkpoint is to belong to this run."""
        records, nodes = (self.record_every, self.early), self.problem.nodes
        shared = identity_of(self.net, self.algorithm, self.seed, records, self.z0, self.recorder.z_star)
        return {"problem": self.problem.digest(), "nodes": [nodes.start, nodes.stop], **self._own_code(), **shared}

    def _own_code(self) -> dict[str, str]:
        """Digests of user-defined code in the run: its ``repr`` does not show what it does."""
        used: dict[str, Any] = {"operator": self.problem.component, "penalty": self.problem.penalty}
        used |= {"algorithm": self.algorithm} | {f"metric {n!r}": metric for n, metric in self.recorder.metrics.items()}
        digests = {f"code of the {name}": steady_digest_of(thing) for name, thing in used.items()}
        return {name: digest for name, digest in digests.items() if digest is not None}

    def attach(self, path: Path) -> None:
        """Write checkpoints to ``path``, and go on from the one that is there, if any.

        With several processes, each keeps its two latest checkpoints. No process begins to write one before all
        have written the one before. So the latest iteration that all processes have is always among them. Processes
        that received different answers before have none in common.
        """
        self.path, self._identity = path, self.identity
        checkpoint.require_same_kind(path, self.group.size)
        if self.group.size == 1:
            clear_torn(path)
            if path.exists():
                self._resume(path, checkpoint.load(path, self._identity))
            return
        self.slots = checkpoint.slots(path, self.group.rank)
        for slot in self.slots:
            clear_torn(slot)
        kept = {
            (int(arrays["state.t"]), arrays["history"].tobytes().hex()): (slot, arrays)
            for slot in self.slots
            if slot.exists() and {"state.t", "history"} <= (arrays := checkpoint.load(slot, self._identity)).keys()
        }
        everyone = alike(self.group, sorted(kept))
        common = [one for one in kept if all(list(one) in theirs for theirs in everyone)]
        if common:
            slot, arrays = kept[max(common)]
            self._resume(slot, arrays)
            self.slots.sort(key=slot.__eq__)  # the other one is overwritten first

    def _resume(self, path: Path, arrays: Arrays) -> None:
        """Go on from what a checkpoint kept."""
        self.state = checkpoint.restored(self.state, arrays)
        columns = {n.removeprefix("history."): a for n, a in arrays.items() if n.startswith("history.")}
        self._require_reached(path, columns.get("iteration", np.zeros(0)))
        counts = {name: arrays[f"net.{name}"] for name in COUNTERS if f"net.{name}" in arrays}
        expected = set(self._measure(self.algorithm.iterates(self.state, self.problem)))
        whole = set(columns) == expected and len({a.shape for a in columns.values()}) == 1
        if not whole or len(counts) < len(COUNTERS) or not {"seconds", "cpu_seconds"} <= set(arrays):
            raise CheckpointError(f"{path} lacks a part of the history or the counters.")
        if any(kept.shape != np.shape(getattr(self.net, name)) for name, kept in counts.items()):
            raise CheckpointError(f"{path} has counters of another number of nodes.")
        self.history = History(columns)
        self.net.counts = Counts(**counts)  # type: ignore[arg-type]
        self.net.memory = {n.removeprefix("links."): a for n, a in arrays.items() if n.startswith("links.")}
        self.seconds, self.cpu_seconds = float(arrays["seconds"]), float(arrays["cpu_seconds"])

    def _require_reached(self, path: Path, recorded: Array) -> None:
        """An error unless the iteration of the state follows from the recorded ones. Called before its first use."""
        *points, following = [self._record_point(k) for k in range(len(recorded) + 1)]
        if not points or not (recorded == points).all() or not points[-1] <= self.state.t < following:
            raise CheckpointError(f"{path} has another iteration than its history leads to; move it away.")

    def _write_checkpoint(self) -> None:
        """Called at record points, but not so often that writing takes a large share of the time; always at the end."""
        if self.path is None:
            return
        begun = time.monotonic()
        arrays = checkpoint.state_arrays(self.state)
        arrays |= {f"history.{name}": column for name, column in self.history.to_dict().items()}
        arrays |= {f"net.{name}": np.asarray(value) for name, value in self.net.counts._asdict().items()}
        arrays |= {f"links.{name}": rows for name, rows in self.net.memory.items()}
        arrays |= {"seconds": np.asarray(self.seconds), "cpu_seconds": np.asarray(self.cpu_seconds)}
        arrays["history"] = np.frombuffer(self.net.history, np.uint8)
        path = self.path
        if self.group.size > 1:
            path = self.slots[0]
            self.slots.reverse()
        checkpoint.save(path, self._identity, arrays, None if self.plan is None else self.plan.to_dict())
        ended = time.monotonic()
        self.next_write = ended + (ended - begun) / CHECKPOINT_SHARE


def identity_of(
    net: Network, algorithm: Algorithm, seed: int, records: tuple[float, int], z0: Array, z_star: Array | None
) -> dict[str, Any]:
    """What identifies a run, the same at all processes, and before and after a stop."""
    return {
        "program": f"dsba {__version__}",
        "topology": f"{net.topology!r}, {net.topology.digest()}",
        **net.identity,
        "seed": seed,
        "record_every": records[0],
        **({"early": records[1]} if records[1] else {}),
        "z0": _fingerprint(z0),
        "reference": _fingerprint(z_star),
        "algorithm": repr(algorithm),  # last: its step size follows from what is above
    }


def _fingerprint(point: Array | None) -> str | None:
    return None if point is None else hashlib.sha256(point.tobytes()).hexdigest()
