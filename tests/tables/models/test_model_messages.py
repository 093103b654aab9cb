"""Attacks on all messages of a run of survival models: nobody's columns, and no small count, between processes.

The attacker is any of the processes. It knows its own rows, hears every answer of a run, and takes its own part off
every sum. One leaver between two times is a quotient of differences of sums over risk sets, and one event at a time is
a quotient of sums over events. Of curves it looks for the times of people, and for counts of
one or two people.
"""

from __future__ import annotations

import sys
from itertools import chain, combinations
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
    frame["time"] += (rng.permutation(len(frame)) + rng.random(len(frame))) / len(frame)  # no quotients of counts
    frame["crp"] += 1e-3 * np.arange(len(frame))
    return frame


def heard(monkeypatch, work, attacker=0):
    """What ``work`` gives, and all that one process hears: every total, also without its own part."""
    totals = []
    for network in NETWORKS:

        def listen(net, rows, plain=network.sum):
            total = plain(net, rows)
            if net.rank == attacker:
                own = rows.sum(axis=0) if isinstance(rows, np.ndarray) and net.size > 1 else 0.0
                totals.append((total, total - own))
            return total

        monkeypatch.setattr(network, "sum", listen)
        for name in ("share", "gather", "largest"):
            plain = getattr(network, name)

            def ask(net, value, *rest, plain=plain, **more):
                answer = plain(net, value, *rest, **more)
                if net.rank == attacker:
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
    """Rows whose columns are quotients anywhere in a sum, in differences within it, or in those to other sums.

    S0, S1 and E0, E1 of a time lie beside each other, and those of the next time follow.
    """
    found, width = set(), X.shape[1] + 1
    changes = [b - a for pair in zip(*totals, strict=True) for a, b in combinations(pair, 2) if a.shape == b.shape]
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
@pytest.mark.parametrize(
    ("strata", "proposed", "attacker"), [(None, False, 0), (None, False, 3), (None, True, 0), ("site", False, 2)]
)
def test_between_processes_the_attack_finds_nobody(monkeypatch, strata, proposed, attacker, ties):
    frame = people()
    grid = around(frame) if proposed else None
    spec = FitSpec(formula=MODEL, operator="cox", strata=strata, ties=ties, grid=grid, cov="HC1", graph="ring")
    sites = as_sites(frame, "site")
    everyone, totals = heard(
        monkeypatch, lambda: queues.together(RING, 5, lambda net: fits([sites[net.rank]], spec, net)), attacker
    )
    assert len(totals) > 30
    X = frame[COLUMNS].to_numpy(float)
    others = {n for n, site in enumerate(frame["site"]) if site != sites[attacker].name}
    seen = singled_out(totals, scaled(frame, everyone[0])) | singled_out(totals, X) | singled_out(totals, X - X.mean(0))
    assert seen & others == set()
    assert told_times(totals, frame["time"].to_numpy()[sorted(others)]) == 0


def matching(values, wanted, near=1e-7):
    """How many of the wanted numbers are among the values."""
    values = np.sort(values[np.isfinite(values)])
    low, high = (np.searchsorted(values, wanted + side) for side in (-near, near))
    return int((high > low).sum())


def told_times(totals, wanted):
    """How many of the wanted times are numbers of a message, or differences or quotients of neighbours in it."""
    found = 0
    for total in chain(*totals):
        with np.errstate(all="ignore"):
            beside = [total, np.diff(total), total[1:] / total[:-1], np.diff(total) / total[:-1]]
        found += matching(np.concatenate(beside), wanted)
    return found


def small_counts(totals, rows, width):
    """Numbers of one or two people in any message that counts people by interval: as they are, or as those at risk."""
    found = []
    for total in chain(*totals):
        if len(total) < width or (total % 1.0).any() or (total < 0.0).any() or total.max(initial=0.0) > rows:
            continue
        if len(total) % width == 0 and total.sum() >= rows / 2:
            table = total.reshape(-1, width)
            found += [part for part in (table, np.abs(np.diff(table))) if ((part > 0) & (part < FEW)).any()]
    return found


def curve_run(monkeypatch, frame, strata, proposed, group, attacker):
    spec = FitSpec(
        formula=f"Surv(time, died) ~ {group}", operator="cox", strata=strata, grid=around(frame) if proposed else None
    )
    sites = as_sites(frame, "site")
    return heard(
        monkeypatch, lambda: queues.together(RING, 5, lambda net: curves_of([sites[net.rank]], spec, net)), attacker
    )


def test_in_one_process_the_attack_on_curves_finds_people(monkeypatch):
    """Where nothing is hidden the messages have counts of one person, and the curve has people's times."""
    frame = people()
    spec = FitSpec(formula="Surv(time, died) ~ treated", operator="cox", strata=None)
    found, totals = heard(monkeypatch, lambda: curves_of(as_sites(frame, "site"), spec, Simulator(RING)))
    assert small_counts(totals, len(frame), frame["time"].nunique())
    times = [(curve["time"].to_numpy(),) * 2 for curve in found.curves.values()]
    assert told_times(times, frame["time"].to_numpy()) >= len(frame)


@pytest.mark.parametrize("attacker", [0, 2, 4])
@pytest.mark.parametrize("strata", [None, "site"])
@pytest.mark.parametrize("proposed", [False, True])
@pytest.mark.parametrize("group", ["1", "treated"])
def test_no_message_of_curves_and_of_their_test_has_a_few(monkeypatch, strata, proposed, group, attacker):
    """Events, and all who leave: in every interval of every group none, or at least three at other sites."""
    frame = people()
    found, totals = curve_run(monkeypatch, frame, strata, proposed, group, attacker)
    groups, intervals = len(found[0].curves), max(len(curve) for curve in found[0].curves.values())
    sent = [pair for pair in totals if pair[0].sum() == len(frame) and len(pair[0]) == 2 * groups * intervals]
    assert len(sent) == 1  # the counts
    for events, censored in (counts.reshape(2, groups, -1) for counts in sent[0]):
        for count in (events, events + censored):
            assert ((count == 0) | (count >= FEW)).all()
    others = frame["time"][frame["site"] != sorted(set(frame["site"]))[attacker]].to_numpy()
    assert told_times(totals, others) == 0
    besides = [pair for pair in totals if pair is not sent[0]]
    assert not small_counts(besides, len(frame), groups * intervals)
    if strata == "site" and groups > 1:  # the sums of the test: observed and expected events, over all times
        (sums,) = (pair for pair in totals if len(pair[0]) == groups * (groups + 2))
        assert all((side[:groups] >= FEW).all() for side in sums)


@pytest.mark.parametrize("attacker", range(5))
def test_the_curve_itself_shows_no_leaver(monkeypatch, attacker):
    """Of the published curve an attacker takes off its own rows on the same ends: no interval has one or two people."""
    frame = people()
    found, _ = curve_run(monkeypatch, frame, None, False, "treated", attacker)
    own = as_sites(frame, "site")[attacker].frame
    for level, curve in found[0].curves.items():
        ends = curve["time"].to_numpy()
        here = own[own["treated"] == level]
        place = np.minimum(np.searchsorted(ends, here["time"]), len(ends) - 1)
        for column, rows in (("n_event", here["died"].to_numpy() == 1), ("n_risk", np.ones(len(here), bool))):
            pooled = curve[column].to_numpy() if column == "n_event" else -np.diff(curve[column], append=0)
            rest = pooled - np.bincount(place[rows], minlength=len(ends))
            assert ((rest == 0) | (rest >= FEW)).all()
