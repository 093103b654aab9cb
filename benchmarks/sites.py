"""Sites over TLS: what a round costs, and how long a model takes where the lines have a latency.

The sites are threads of this process (rounds, latencies) or processes (the four tables), on loopback; a relay delays
what passes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import dsba
from benchmarks.measure import Row, interleaved
from benchmarks.relay import Relay
from dsba.algorithms.choice import choose
from dsba.network.pinned import Door, Member, answer, context, dialled
from dsba.network.sites import Place, SiteNetwork
from dsba.study import keys
from dsba.study.trial import FILE, Trial, arrange

STUDY = bytes(32)
ROUNDS = 300
NUMBERS = 100  # of a row: 800 bytes
ONE_WAY = 0.02  # seconds
LATENCIES = (0.0, 0.005, 0.01, 0.02)
METHODS = ("newton", "dsba", "p-extra")
FORMULA = "readmitted ~ age + C(sex) + sbp + disea"
OUT = Path("results") / "bench"


def over_tls() -> list[Row]:
    return [*against_bare_websockets(), *four_tables(), *against_latency()]


# Places ---------------------------------------------------------------------------------------------


@contextmanager
def places(size: int, delay: float | None = None) -> Iterator[list[Place]]:
    """Sites with keys; with a delay, every site is reached through a relay."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        made = [keys.make(f"site{n}", folder / f"site{n}.pem") for n in range(size)]
        ports = [Relay(0).port for _ in range(size)]
        fronts = ports if delay is None else [stack.enter_context(Relay(port, delay)).port for port in ports]
        members = [Member(f"site{n}", ("127.0.0.1", fronts[n]), key.certificate) for n, key in enumerate(made)]
        yield [
            Place(members, n, folder / f"site{n}.pem", key.sign, STUDY, listen=("127.0.0.1", ports[n]))
            for n, key in enumerate(made)
        ]


def together(topology: dsba.Topology, where: list[Place], work: Callable[[SiteNetwork], Any]) -> list[Any]:
    """``work`` at every site at once."""
    answers: list[Any] = [None] * len(where)

    def one(place: Place) -> None:
        with SiteNetwork(topology, place, patience=120) as net:
            answers[place.rank] = net.run(lambda: work(net))

    threads = [threading.Thread(target=one, args=(place,)) for place in where]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


# A round --------------------------------------------------------------------------------------------


def against_bare_websockets() -> list[Row]:
    """Two sites send each other a row and wait for the other's, against the same over websockets and TLS alone."""
    Z = np.random.default_rng(0).normal(size=(1, NUMBERS))
    two = dsba.Topology.complete(2)
    with places(2) as where, bare(where) as (near, far):

        def ours() -> None:
            def rounds(net: SiteNetwork) -> float:
                net.mix(Z)
                begun = time.perf_counter()
                for _ in range(ROUNDS):
                    net.mix(Z)
                return time.perf_counter() - begun

            spent["ours"].append(max(together(two, where, rounds)))

        def theirs() -> None:
            threads = [threading.Thread(target=_exchange, args=(line, Z.tobytes())) for line in (near, far)]
            begun = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            spent["bare"].append(time.perf_counter() - begun)

        spent: dict[str, list[float]] = {"ours": [], "bare": []}
        interleaved({"ours": ours, "bare": theirs}, repeats=7)
    cost = {name: float(np.median(values)) / ROUNDS for name, values in spent.items()}
    note = f"{1e3 * cost['ours']:.2f} ms against {1e3 * cost['bare']:.2f} ms"
    return [
        Row("a round of two sites (800 bytes each way) over bare websockets", cost["ours"] / cost["bare"], 2, note=note)
    ]


def _exchange(line: Any, data: bytes) -> None:
    for _ in range(ROUNDS):
        line.send(data)
        line.recv(60)


@contextmanager
def bare(where: list[Place]) -> Iterator[tuple[Any, Any]]:
    """The two ends of one connection, with the same certificates and nothing else."""
    import socket

    members, found = where[0].members, []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = context(where[0].key, members, server=True)
        thread = threading.Thread(target=lambda: found.append(answer(listener.accept()[0], server, members, Door())))
        thread.start()
        there = members[0]._replace(address=listener.getsockname())
        with dialled(there, context(where[1].key, members, server=False)) as near:
            thread.join()
            yield near, found[0][0]
            found[0][0].close()


# Latency --------------------------------------------------------------------------------------------


def four_tables() -> list[Row]:
    """From CSV files to the summary, with 20 ms one way: every site a process with its own key, behind a relay."""
    if not os.environ.get("DSBA_DATA"):
        print("  the four tables are in DSBA_DATA, which is not set")
        return []
    files = sorted((Path(os.environ["DSBA_DATA"]) / "sites").glob("*.csv"))
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch) / "study"
        model = {"formula": FORMULA, "missing": "drop"}
        study = arrange(files, model, folder, graph="ring")
        ports = [member.address[1] for member in study.members if member.address]
        relays = [stack.enter_context(Relay(port, ONE_WAY)).port for port in ports]
        text = (folder / FILE).read_text()
        for port, relay in zip(ports, relays, strict=True):
            text = text.replace(f":{port}", f":{relay}")
        (folder / FILE).write_text(text)
        study = arrange(files, model, folder, graph="ring")
        trial = Behind(study, files, folder, ports)
        begun = time.perf_counter()
        trial.run(lambda sentence: None).save(Path(scratch) / "run")
        command = [sys.executable, "-m", "dsba", "summary", str(Path(scratch) / "run")]
        subprocess.run(command, check=True, capture_output=True, timeout=100)
        seconds = time.perf_counter() - begun
    name = f"Newton on four tables, CSV to summary, {1e3 * ONE_WAY:g} ms one way"
    return [Row(name, seconds, 20, "s", note=f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")]


class Behind(Trial):
    """Sites that listen at other ports than those that others dial."""

    def __init__(self, study: Any, files: list[Path], folder: Path, ports: list[int]) -> None:
        super().__init__(study, files, folder)
        self.ports = ports

    def start(self, rank: int) -> Any:
        self.options = ("--listen", f"127.0.0.1:{self.ports[rank]}")
        return super().start(rank)


def against_latency() -> list[Row]:
    """Seconds to a relative residual of 1e-6 against the latency, measured and as the cost model of "auto" has it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    y = np.where(X @ rng.normal(size=5) + rng.normal(size=80) > 0, 1, -1)
    ring = dsba.Topology.ring(4)
    measured: dict[str, list[float]] = {method: [] for method in METHODS}
    predicted: dict[str, list[float]] = {"newton": [], "dsba": []}
    whole = dsba.Problem.from_arrays(X, y, "logistic", n_nodes=4, lam=0.1, split=np.arange(80) % 4)
    for delay in LATENCIES:
        seconds = choose(whole, ring, latency=delay).seconds
        for method in METHODS:
            measured[method].append(_seconds(method, X, y, ring, delay))
            if method in predicted:
                predicted[method].append(seconds[method])
        spent = "".join(f"  {method} {measured[method][-1]:.2f} s" for method in METHODS)
        print(f"  {1e3 * delay:4g} ms one way{spent}")
    print(f"  saved {_figure(measured, predicted)}")
    return []


def _seconds(method: str, X: Any, y: Any, ring: dsba.Topology, delay: float) -> float:
    def work(net: SiteNetwork) -> float:
        own = [(X[n::4], y[n::4]) for n in net.nodes]
        problem = dsba.Problem(own, "logistic", lam=0.1, group=net)
        net.sum(np.ones((1, 1)))
        begun = time.perf_counter()
        dsba.solve(problem, ring, method, max_passes=200, tol=1e-6, record_every=5)
        return time.perf_counter() - begun

    with places(4, delay) as where:
        return max(together(ring, [replace(place) for place in where], work))


def _figure(measured: dict[str, list[float]], predicted: dict[str, list[float]]) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, 3.6), layout="constrained")
    axes = figure.subplots()
    colors = dict(zip(METHODS, ("#0072B2", "#D55E00", "#009E73"), strict=True))
    delays = [1e3 * delay for delay in LATENCIES]
    for method, seconds in measured.items():
        axes.plot(delays, seconds, marker="o", color=colors[method], label=f"{method}, measured")
    for method, seconds in predicted.items():
        axes.plot(delays, seconds, linestyle="--", color=colors[method], label=f'{method}, as "auto" predicts')
    axes.set(xlabel="latency one way, ms", ylabel="seconds to a residual of 1e-6", yscale="log")
    axes.grid(True, color="0.9")
    axes.legend(frameon=False, fontsize=8)
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / "time-against-latency.png"
    figure.savefig(path, dpi=150)
    return path
