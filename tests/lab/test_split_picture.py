"""The picture of a split: its bars are the rows that the nodes hold."""

from __future__ import annotations

import numpy as np
import pytest
import queues
from conftest import make_data, make_problem

import dsba
from dsba.lab.split_picture import counted_labels


@pytest.mark.parametrize("split", ["label", "shards:2", "power:1.5"])
def test_the_bars_are_the_rows(split):
    X, y = make_data("softmax")
    problem = dsba.Problem.from_arrays(X, np.array(["low", "mid", "top"])[y], "softmax", n_nodes=5, split=split)
    names, counts = counted_labels(problem)
    assert names == ["low", "mid", "top"]
    held = [problem.y[a:b] for a, b in zip(problem.start[:-1], problem.start[1:], strict=True)]
    assert counts.tolist() == [[int((labels == k).sum()) for k in range(3)] for labels in held]
    (axes,) = dsba.lab.holdings(problem).axes
    bars = np.array([[bar.get_height() for bar in group] for group in axes.containers])
    assert np.array_equal(bars, counts.T)
    tops = [bar.get_y() + bar.get_height() for bar in axes.containers[-1]]
    assert np.array_equal(tops, problem.sizes)


def test_two_classes_and_numbers():
    X, y = make_data("logistic")
    names, counts = counted_labels(dsba.Problem.from_arrays(X, np.where(y > 0, "yes", "no"), "logistic", n_nodes=3))
    assert names == ["no", "yes"]
    assert counts.sum(axis=0).tolist() == [int((y < 0).sum()), int((y > 0).sum())]
    names, counts = counted_labels(make_problem("ridge", 4, split="label"))
    assert counts.tolist() == np.diag([15] * 4).tolist()  # sorted numbers: a quarter of them at every node


def test_every_label_has_a_look_of_its_own():
    """The eleventh label had the colour of the first one."""
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.repeat(np.arange(20), 3)
    (axes,) = dsba.lab.holdings(dsba.Problem.from_arrays(X, y, "softmax", n_nodes=3)).axes
    assert len({(group[0].get_facecolor(), group[0].get_hatch()) for group in axes.containers}) == 20


def test_what_cannot_be_drawn_is_refused():
    def work(net):
        rows = np.arange(8.0).reshape(4, 2) + net.rank
        with pytest.raises(dsba.InputError, match="needs all nodes in one process, and 1 of them are here"):
            dsba.lab.holdings(dsba.Problem([(rows, rows[:, 0])], "ridge", lam=0.1, group=net))

    queues.together(dsba.Topology.path(2), 2, work)
    X, y = np.random.default_rng(0).normal(size=(63, 2)), np.repeat(np.arange(21), 3)
    with pytest.raises(dsba.InputError, match="room for 20 classes, and the labels have 21"):
        dsba.lab.holdings(dsba.Problem.from_arrays(X, y, "softmax", n_nodes=3))
