"""A search by several seeds compares every seed with itself."""

from __future__ import annotations

import pytest
from small_experiments import spec

from dsba.engine.run import Status
from dsba.lab import plan
from dsba.lab.folder import Folder
from dsba.lab.index import Attempt
from dsba.lab.tuning import SearchRun


@pytest.mark.parametrize(
    ("ends", "holds"),
    [
        ({0: (1e-3, 1e-3), 1: (1e-6, 1e-6), 2: (1e-3, 1e-3)}, True),  # seed 1 is luckier, and nobody became worse
        ({0: (5e-3, 1e-3), 1: (5e-3, 1e-3), 2: (5e-6, 1e-6)}, False),
        ({0: (5e-3, 1e-3), 1: (1e-6, 1e-6), 2: (5e-9, 1e-9)}, False),  # two of three, whatever the size of their gaps
    ],
)
def test_a_candidate_holds_where_its_seeds_end_near_their_own_best(ends, holds, tmp_path):
    experiment = spec(tune={"passes": 6, "seeds": list(ends)}, method=[{"algorithm": "extra"}])
    search = SearchRun(plan.make(experiment).tunings[0], Folder(tmp_path), lambda record: False)
    for seed, (value, least) in ends.items():
        found = Attempt(status=str(Status.BUDGET), passes=6.0, cost=6.0, value=value, least=least)
        search.journal[f"0-s{seed}-6"] = found
    assert search.attempt(search.trials[0], 6.0).holds == holds
