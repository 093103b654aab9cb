"""Sites over TLS: what a round costs, and how long a model takes where the lines have a latency.

The sites are processes (rounds, the four tables) or threads of this one (latencies), on loopback; a relay delays what
passes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import dsba
from benchmarks.measure import Row
from benchmarks.relay import Relay
from dsba.algorithms.costs import CostModel
from dsba.fitting import FitSpec
from dsba.network.tls.pinned import HANDSHAKE, Member, context, dialled, opened
from dsba.network.tls.site_network import SiteNetwork, SitePlace
from dsba.study import keys
from dsba.study.trial import TRIAL_FILE, Trial, arrange

STUDY = bytes(32)
ROUNDS, TURNS = 200, 31
NUMBERS = 100  # of a row: 800 bytes
ONE_WAY = 0.02  # seconds
LATENCIES = (0.0, 0.005, 0.01, 0.02, 0.04)
METHODS = ("newton", "dsba", "p-extra")
FORMULA = "readmitted ~ age + C(sex) + sbp + disea"
OUT = Path("results") / "bench"


def over_tls() -> list[Row]:
    return [*against_bare_websockets(), *four_tables(), *against_latency()]


# Places ---------------------------------------------------------------------------------------------


@contextmanager
def places(size: int, delay: float | None = None) -> Iterator[list[SitePlace]]:
    """Sites with keys; with a delay, every site is reached through a relay."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        made = [keys.make(f"site{n}", folder / f"site{n}.pem") for n in range(size)]
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(size)]  # or a relay would take a port
        ports = [one.getsockname()[1] for one in held]
        fronts = ports if delay is None else [stack.enter_context(Relay(port, delay)).port for port in ports]
        for one in held:
            one.close()
        members = [Member(f"site{n}", ("127.0.0.1", fronts[n]), key.certificate) for n, key in enumerate(made)]
        yield [
            SitePlace(members, n, folder / f"site{n}.pem", key.sign, STUDY, listen=("127.0.0.1", ports[n]))
            for n, key in enumerate(made)
        ]


def together(topology: dsba.Topology, where: list[SitePlace], work: Callable[[SiteNetwork], Any]) -> list[Any]:
    """``work`` at every site at once."""
    answers: list[Any] = [None] * len(where)

    def one(place: SitePlace) -> None:
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
    """Two sites send each other a row and wait for the other's, against the same over websockets and TLS alone.

    Every site is a process, as in a study. Each has one line of both kinds, which take turns.
    """
    with places(2) as where, ProcessPoolExecutor(2, get_context("spawn")) as pool:
        facts = [place.members for place in where], [place.key for place in where], [place.listen for place in where]
        ports = [Relay(0).port] * 2
        spent = np.array(list(pool.map(_rounds_at, range(2), *facts, ports)))
    ours, bare = spent.max(axis=0).T / ROUNDS
    note = f"{1e3 * np.median(ours):.2f} ms against {1e3 * np.median(bare):.2f} ms"
    ratio = float(np.median(ours / bare))  # of turns that follow each other
    return [Row("a round of two sites (800 bytes each way) over bare websockets", ratio, 2, note=note)]


def _rounds_at(rank: int, members: list[Member], key: Path, listen: tuple[str, int], port: int) -> list[list[float]]:
    """At one of the two sites: seconds of a lot of rounds over our line and over a bare one, several times."""
    place = SitePlace(members, rank, key, keys.load(key).sign, STUDY, listen=listen)
    Z = np.random.default_rng(rank).normal(size=(1, NUMBERS))
    with SiteNetwork(dsba.Topology.complete(2), place, patience=120) as net, _bare_line(place, port) as line:

        def measured() -> list[list[float]]:
            return [
                [_seconds_of(lambda: net.mix(Z)), _seconds_of(lambda: _swap(line, Z.tobytes()))] for _ in range(TURNS)
            ]

        return net.run(measured)


def _seconds_of(round_: Callable[[], object]) -> float:
    round_()
    begun = time.perf_counter()
    for _ in range(ROUNDS):
        round_()
    return time.perf_counter() - begun


def _swap(line: Any, data: bytes) -> None:
    line.send(data)
    line.recv(60)


@contextmanager
def _bare_line(place: SitePlace, port: int) -> Iterator[Any]:
    """One end of a connection with the same certificates and nothing else; the first site listens."""
    members = place.members
    if place.rank == 1:
        time.sleep(1.0)  # until the other one listens
        there = members[0]._replace(address=("127.0.0.1", port))
        with dialled(there, context(place.key, members, server=False)) as line:
            yield line
        return
    with socket.create_server(("127.0.0.1", port)) as listener:
        secured = context(place.key, members, server=True).wrap_socket(listener.accept()[0], server_side=True)
        line = opened(secured, 1, members, threading.Event(), time.monotonic() + HANDSHAKE)
        yield line
        line.close()


# Latency --------------------------------------------------------------------------------------------


def four_tables() -> list[Row]:
    """From CSV files to the summary, with 20 ms one way: every site a process with its own key, behind a relay."""
    if not os.environ.get("DSBA_DATA"):
        print("  the four tables are in DSBA_DATA, which is not set")
        return []
    files = sorted((Path(os.environ["DSBA_DATA"]) / "sites").glob("*.csv"))
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch) / "study"
        model = FitSpec(formula=FORMULA, missing="drop", graph="ring")
        study = arrange(files, model, folder)
        ports = [member.address[1] for member in study.members if member.address]
        relays = [stack.enter_context(Relay(port, ONE_WAY)).port for port in ports]
        text = (folder / TRIAL_FILE).read_text()
        for port, relay in zip(ports, relays, strict=True):
            text = text.replace(f":{port}", f":{relay}")
        (folder / TRIAL_FILE).write_text(text)
        study = arrange(files, model, folder)
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

    def command(self, rank: int) -> list[str]:
        return [*super().command(rank), "--listen", f"127.0.0.1:{self.ports[rank]}"]


def against_latency() -> list[Row]:
    """Seconds to a relative residual of 1e-6 against the latency, measured and as the cost model of "auto" has it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    y = np.where(X @ rng.normal(size=5) + rng.normal(size=80) > 0, 1, -1)
    ring = dsba.Topology.ring(4)
    measured: dict[str, list[float]] = {method: [] for method in METHODS}
    predicted: dict[str, list[float]] = {"newton": [], "dsba": []}
    whole = dsba.Problem.from_arrays(X, y, "logistic", n_nodes=4, lam=0.1, split=np.arange(80) % 4)
    for method in METHODS:
        _seconds(method, X, y, ring, 0.0)  # compiles
    for delay in LATENCIES:
        model = CostModel(whole, ring, dsba.Link(delay), 1e-6)
        expected = {"newton": model.newton(), "dsba": model.dsba(1, "dense")}
        for method in METHODS:
            measured[method].append(_seconds(method, X, y, ring, delay))
            if method in predicted:
                predicted[method].append(expected[method].seconds)
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
    axes.set(xlabel="latency one way, ms", ylabel="seconds to a relative residual of 1e-6", ylim=(0, None))
    axes.grid(True, color="0.9")
    axes.legend(frameon=False, fontsize=8)
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / "time-against-latency.png"
    figure.savefig(path, dpi=150)
    return path
