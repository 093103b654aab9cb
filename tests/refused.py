"""What the tests of bad input share: good input, and the sentence of a refusal."""

from __future__ import annotations

import math

import pytest
from conftest import make_data, make_problem

import dsba

X, Y = make_data("logistic")
ROWS, COLUMNS = X.shape
RING = dsba.Topology.ring(4)
NAN, INF = math.nan, math.inf


def problem(X=X, y=Y, operator="logistic", n_nodes=4, **options):
    return dsba.Problem.from_arrays(X, y, operator, n_nodes=n_nodes, **options)


def solve(**options):
    return dsba.solve(make_problem("logistic"), RING, **{"max_passes": 1, **options})


def refusal(call, *args, **options):
    """The message with which a call is refused, after checking that it is fit for a person."""
    with pytest.raises(dsba.InputError) as caught:
        call(*args, **options)
    message = str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert message.endswith(".")
    assert "\n" not in message
    assert len(message) < 400
    return message


def with_entry(value, row=7, column=3):
    spoilt = X.copy()
    spoilt[row, column] = value
    return spoilt
