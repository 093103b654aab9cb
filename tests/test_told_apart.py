"""What a report shows under one name is one thing: titles, lines of sweeps, curves, bold numbers, test labels."""

from __future__ import annotations

import pytest
from small_experiments import SMALL, spec

import dsba
from dsba.experiments import plan

RING = {"graph": "ring", "n_nodes": 8}
PATH, STAR = dsba.Topology.path(8), dsba.Topology.star(8)


def titles_of(kind, entries):
    return [one.title for one in getattr(spec(**{kind: entries}), kind)]


# Titles ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "entries"),
    [
        ("network", [RING, RING | {"tau": 16.0}]),
        ("network", [{"n_nodes": 8}, {"n_nodes": 8, "seed": 1}]),
        ("network", [RING | {"drop": 0.001}, RING | {"drop": 0.004}]),
        ("network", [RING | {"compress": "4-bit"}, RING | {"compress": "4-bit", "pull": 0.5}]),
        ("problem", [{"operator": "logistic"}, {"operator": "logistic", "intercept": True}]),
        ("problem", [{"operator": "logistic", "intercept": True}, {"operator": "logistic", "intercept": 0.5}]),
    ],
)
def test_titles_tell_settings_apart(kind, entries):
    assert len(set(titles_of(kind, entries))) == 2


@pytest.mark.parametrize(
    ("kind", "entries"),
    [
        ("network", [{"graph": PATH.edges}, {"graph": STAR.edges}]),
        ("network", [RING | {"mixing": dsba.Topology.ring(8).W}, RING | {"mixing": dsba.Topology.ring(8, tau=9.0).W}]),
        ("network", [RING | {"drop": 0.1}, RING | {"drop": 0.1, "link_seed": 1}]),
        ("problem", [{"operator": "huber", "delta": 1.0}, {"operator": "huber", "delta": 1.0000001}]),
    ],
)
def test_what_titles_cannot_tell_apart_needs_labels(kind, entries):
    with pytest.raises(dsba.InputError, match=f"two {kind}s are called '.*': give each its own label"):
        spec(**{kind: entries})
    labelled = [entry | {"label": f"number {n}"} for n, entry in enumerate(entries)]
    assert titles_of(kind, labelled) == ["number 0", "number 1"]


def test_a_graph_that_was_given_claims_no_probability():
    assert titles_of("network", [{"graph": dsba.Topology.random(8, 0.9, seed=3)}]) == ["random, N = 8, laplacian"]


def test_the_index_keeps_every_network():
    made = plan.make(spec(network=[RING | {"tau": tau} for tau in (4.0, 16.0, 64.0)]))
    kept = made.index().networks
    gammas = [dsba.Topology.ring(8, tau=tau).gamma for tau in (4.0, 16.0, 64.0)]
    assert [kept[case.network.title].gamma for case in made.cases] == pytest.approx(gammas)


def test_the_label_of_a_problem_is_shown_and_changes_no_identifier():
    plain, named = (plan.make(spec(problem=[SMALL["problem"][0] | label])) for label in ({}, {"label": "mine"}))
    assert [job.id for job in plain.jobs] == [job.id for job in named.jobs]
    assert named.cases[0].shown().problem == "mine"
