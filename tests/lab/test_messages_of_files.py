"""Messages of experiments show no data, and files keep what they were given."""

from __future__ import annotations

import numpy as np
import pytest
from small_experiments import spec

import dsba
from dsba.lab import plan
from dsba.lab.reading import read

X = np.random.default_rng(0).normal(size=(20, 3)) + 700
Y = np.sign(X[:, 0] - 700) * 700


@pytest.mark.parametrize(
    "changes",
    [
        {"data": {"name": "d", "X": X, "y": Y}},
        {"data": [X]},
        {"data": [X.tolist()]},
        {"data": [{"name": X, "X": X, "y": Y}]},
        {"data": [{"name": "d", "label": Y, "X": X, "y": Y}]},
        {"data": [{"name": "d", "label": Y.tolist(), "X": X, "y": Y}]},
        {"metrics": [X]},
        {"seeds": X[:, 0]},
    ],
)
def test_an_array_in_the_wrong_place_is_not_shown(changes):
    with pytest.raises(dsba.InputError) as caught:
        spec(**changes)
    assert "70" not in str(caught.value)
    assert "69" not in str(caught.value)


def test_an_array_as_a_graph_is_refused_in_a_sentence_of_its_own():
    with pytest.raises(dsba.InputError, match="edge"):
        spec(network=[{"graph": np.zeros((20, 3))}])


def test_no_early_records_survive_the_way_through_toml(tmp_path):
    experiment = spec(stop={"record_first": None})
    (tmp_path / "mine.toml").write_text(experiment.to_toml())
    again = read(tmp_path / "mine.toml")
    assert again.stop.record_first is None
    assert [job.id for job in plan.make(again).jobs] == [job.id for job in plan.make(experiment).jobs]
