"""Attacks on all messages of a run of survival models: nobody's columns, and no small count, between processes.

The attacker is the first process. It knows its own rows, hears every answer of a run, and takes its own part off every
sum. One leaver between two times is a quotient of differences of sums over risk sets, and one event at a time is a
quotient of sums over events.
"""

from __future__ import annotations

import sys
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
import queues

import dsba
from dsba.fitting.spec import FitSpec
from dsba.network import Simulator
from dsba.tables import fit as tables
from dsba.tables.hazards import baseline_hazard, proportional_hazards
from dsba.tables.inputs import as_sites
from dsba.tables.survival import curves_of

sys.path.append(str(Path(__file__).parents[2] / "yardsticks"))
from reference_values import table

COLUMNS = ["age", "bmi", "crp"]
RING, FEW = dsba.Topology.ring(5), 3
MODEL = "Surv(time, died) ~ age + bmi + crp"
NETWORKS = (Simulator, queues.QueueNetwork)


def people():
    """All rows differ, and so do all times: on exact times one person leaves between any two of them."""
    frame = table()
    rng = np.random.default_rng(0)
    frame["time"] = frame["time"] + rng.permutation(len(frame)) / len(frame)
    frame["crp"] += 1e-3 * np.arange(len(frame))
    return frame


def heard(monkeypatch, work):
    """What ``work`` gives, and all that the first process hears: every total, also without its own part."""
    totals = []
    for network in NETWORKS:

        def listen(net, rows, plain=network.sum):
            total = plain(net, rows)
            if net.rank == 0:
                own = rows.sum(axis=0) if isinstance(rows, np.ndarray) and net.size > 1 else 0.0
                totals.append((total, total - own))
            return total

        monkeypatch.setattr(network, "sum", listen)
        for name in ("share", "gather", "largest"):
            plain = getattr(network, name)

            def ask(net, value, *rest, plain=plain, **more):
                answer = plain(net, value, *rest, **more)
                if net.rank == 0:
                    totals.append((numbers(answer),) * 2)
                return answer

            monkeypatch.setattr(network, name, ask)
    found = work()
    monkeypatch.undo()
    return found, totals


def numbers(value):
    """All numbers in a value of JSON's types, one after the other."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | np.ndarray):
        return np.concatenate([np.zeros(0), *map(numbers, value)])
    return np.array([float(value)] if isinstance(value, int | float) else [])


def singled_out(totals, X):
    """Rows whose columns are quotients anywhere in a sum, in differences within it, or in those to the sum before.

    S0, S1 and E0, E1 of a time lie beside each other, and those of the next time follow.
    """
    found, width = set(), X.shape[1] + 1
    changes = [later - sooner for (sooner, _), (later, _) in pairwise(totals) if sooner.shape == later.shape]
    for total in (one for one in (*chain(*totals), *changes) if len(one) >= width):
        windows = np.lib.stride_tricks.sliding_window_view(total, width)
        found |= matches(windows, X)
        for step in range(1, min(len(windows), 6 * width)):
            found |= matches(windows[step:] - windows[:-step], X)
    return found


def matches(parts, X, near=1e-7):
    with np.errstate(all="ignore"):
        guesses = parts[:, 1:] / parts[:, :1]
    guesses = guesses[np.isfinite(guesses).all(axis=1)]
    order = np.argsort(X[:, 0])
    low, high = (np.searchsorted(X[order, 0], guesses[:, 0] + side) for side in (-near, near))
    return {
        int(n)
        for g in np.flatnonzero(high > low)
        for n in order[low[g] : high[g]]
        if (np.abs(guesses[g] - X[n]) < near).all()
    }


def scaled(frame, results):
    raw = frame[COLUMNS].to_numpy(float)
    return (raw - raw.mean(axis=0)) / np.array(results.metadata.sd)


def fits(sites, spec, net):
    """A fit with all that asks for risk sets again."""
    results = tables.fit_sites(sites, spec, net)
    proportional_hazards(results, sites, net, "log")
    if spec.strata == "none":
        baseline_hazard(results, sites, net)
    return results


def around(frame):
    """A grid that an attacker would propose: an end just before and just after every tenth person's time."""
    times = np.sort(frame["time"].to_numpy())[::10]
    ends = np.sort(np.concatenate([times - 1e-4, times + 1e-4]))
    return (*ends.tolist(), float(frame["time"].max()) + 1.0)


def test_on_exact_times_the_attack_finds_people(monkeypatch):
    """In one process nothing is hidden: the same attack must work there, or it would show nothing elsewhere."""
    frame = people()
    spec = FitSpec(formula=MODEL, operator="cox", strata=None, graph="ring")
    sites = as_sites(frame, "site")
    results, totals = heard(monkeypatch, lambda: tables.fit_sites(sites, spec, Simulator(RING)))
    assert len(singled_out(totals, scaled(frame, results))) > 30


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize(("strata", "proposed"), [(None, False), (None, True), ("site", False)])
def test_between_processes_the_attack_finds_nobody(monkeypatch, strata, proposed, ties):
    frame = people()
    grid = around(frame) if proposed else None
    spec = FitSpec(formula=MODEL, operator="cox", strata=strata, ties=ties, grid=grid, cov="HC1", graph="ring")
    sites = as_sites(frame, "site")
    everyone, totals = heard(
        monkeypatch, lambda: queues.together(RING, 5, lambda net: fits([sites[net.rank]], spec, net))
    )
    assert len(totals) > 30
    X = frame[COLUMNS].to_numpy(float)
    others = {n for n, site in enumerate(frame["site"]) if site != sites[0].name}
    seen = singled_out(totals, scaled(frame, everyone[0])) | singled_out(totals, X) | singled_out(totals, X - X.mean(0))
    assert seen & others == set()


@pytest.mark.parametrize("strata", [None, "site"])
@pytest.mark.parametrize("proposed", [False, True])
@pytest.mark.parametrize("group", ["1", "treated"])
def test_no_interval_of_curves_has_a_few(monkeypatch, strata, proposed, group):
    """Events, and all who leave: in every interval of every group none, or at least three at other sites."""
    frame = people()
    spec = FitSpec(
        formula=f"Surv(time, died) ~ {group}", operator="cox", strata=strata, grid=around(frame) if proposed else None
    )
    sites = as_sites(frame, "site")
    found, totals = heard(
        monkeypatch, lambda: queues.together(RING, 5, lambda net: curves_of([sites[net.rank]], spec, net))
    )
    groups, intervals = len(found[0].curves), max(len(curve) for curve in found[0].curves.values())
    sent = [pair for pair in totals if pair[0].sum() == len(frame) and len(pair[0]) == 2 * groups * intervals]
    assert len(sent) == 1  # the counts
    for events, censored in (counts.reshape(2, groups, -1) for counts in sent[0]):
        for count in (events, events + censored):
            assert ((count == 0) | (count >= FEW)).all()
