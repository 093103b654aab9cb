"""An attack on all sums of a Cox run: differences of neighbouring risk sets give nobody's columns between processes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import queues

import dsba
from dsba.fitting.spec import FitSpec
from dsba.network import Simulator
from dsba.tables import fit as tables
from dsba.tables.design import as_sites

sys.path.append(str(Path(__file__).parents[2] / "yardsticks"))
from reference_values import table

COLUMNS = ["age", "bmi", "crp"]
SPEC = FitSpec(formula="Surv(time, died) ~ age + bmi + crp", operator="cox", strata=None, graph="ring")
NETWORKS = (Simulator, queues.QueueNetwork)
LONGEST = 3000  # longer sums are those of the grid: how many sites have events, and random words


def totals_of_a_run(monkeypatch, work):
    """The results of the first process, and every total over all sites that a process sees."""
    seen = []
    for network in NETWORKS:

        def heard(net, rows, plain=network.sum):
            total = plain(net, rows)
            if net.rank == 0:
                seen.append(total)
            return total

        monkeypatch.setattr(network, "sum", heard)
    results = work()
    monkeypatch.undo()
    return results, seen


def singled_out(totals, X):
    """Rows whose columns are quotients of differences, or of parts, anywhere in a sum.

    S0, S1 and E0, E1 lie beside each other, for each time. The leaver between two times is the quotient of their
    differences, and a single event is E1/E0: both of every two windows of 1 + p numbers.
    """
    found, width = set(), X.shape[1] + 1
    for total in (total for total in totals if width <= len(total) < LONGEST):
        windows = np.lib.stride_tricks.sliding_window_view(total, width)
        parts = [windows]
        for step in range(1, min(len(windows), 6 * width)):
            parts.append(windows[step:] - windows[:-step])
        for part in parts:
            with np.errstate(divide="ignore", invalid="ignore"):
                guesses = part[:, 1:] / part[:, :1]
            guesses = guesses[np.isfinite(guesses).all(axis=1)]
            if len(guesses):
                near = np.abs(guesses[:, None, 0] - X[None, :, 0]) < 1e-7
                for g, n in zip(*np.nonzero(near), strict=True):
                    if (np.abs(guesses[g] - X[n]) < 1e-7).all():
                        found.add(int(n))
    return found


def test_the_attack_finds_people_on_exact_times_and_nobody_between_processes(monkeypatch):
    frame = table().assign(crp=lambda f: f["crp"] + 1e-3 * np.arange(len(f)))  # all rows differ
    sites = as_sites(frame, "site")
    ring = dsba.Topology.ring(5)
    raw = frame[COLUMNS].to_numpy(float)

    def together():
        return queues.together(ring, 5, lambda net: tables.fit_sites([sites[net.rank]], SPEC, net))[0]

    results, totals = totals_of_a_run(monkeypatch, lambda: tables.fit_sites(sites, SPEC, Simulator(ring)))
    scaled = (raw - raw.mean(axis=0)) / np.array(results.metadata.sd)
    assert len(singled_out(totals, scaled)) > 30  # on exact times the attack works
    results, totals = totals_of_a_run(monkeypatch, together)
    assert len(totals) > 15
    assert singled_out(totals, scaled) | singled_out(totals, raw) == set()
