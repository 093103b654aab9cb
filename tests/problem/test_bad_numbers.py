"""Bad numbers and unknown names: one sentence that says what was got and what was wanted."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_problem
from refused import COLUMNS, INF, NAN, RING, problem, refusal, solve

import dsba

# Numbers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lam",
    [
        -1.0,
        -1e-300,
        NAN,
        INF,
        "0.1",
        "abc",
        [0.1],
        0.1j,
        True,
    ],
)
def test_lambda(lam):
    message = refusal(problem, lam=lam)
    assert "lam" in message
    assert repr(lam) in message


@pytest.mark.parametrize("lam", [5e-324, 1e-310])
def test_a_lambda_that_is_hardly_a_number(lam):
    """P-EXTRA divided by zero, and others blamed a step size that nobody had given."""
    assert refusal(problem, lam=lam) == f"lam must be 0 or at least 1e-300, got {lam!r}."
    assert problem(lam=1e-300).lam == 1e-300


@pytest.mark.parametrize("lam", [0, 0.0, 1, np.float32(0.5), np.int64(2)])
def test_lambda_of_any_number_type(lam):
    assert problem(lam=lam).lam == float(lam)


@pytest.mark.parametrize("algorithm", ["dsba", "dsa"])
@pytest.mark.parametrize(
    "step_size",
    [
        0,
        -1,
        NAN,
        INF,
        "fast",
        "0.1",
        "",
        True,
        None,
        1j,
        [0.1],
        np.array([0.1, 0.2]),
    ],
)
def test_step_size(step_size, algorithm):
    message = refusal(solve, step_size=step_size, algorithm=algorithm)
    assert "step" in message
    assert repr(step_size).strip("'") in message


@pytest.mark.parametrize("step_size", [0, -1.0, NAN, INF, "fast", True, None])
def test_step_size_of_an_object(step_size):
    assert repr(step_size).strip("'") in refusal(solve, algorithm=dsba.DSBA(step_size=step_size))


@pytest.mark.parametrize("step_size", [1, np.float32(0.5), np.float64(0.5), np.int64(1)])
def test_step_size_of_any_number_type(step_size):
    assert solve(step_size=step_size).step_size == float(step_size)


BUDGETS = ["max_passes", "max_seconds", "max_doubles", "tol", "gap_tol"]


@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("value", [-1, -1e-9, NAN, "3", [1.0]])
def test_limits(name, value):
    message = refusal(solve, **{name: value})
    assert name in message
    assert repr(value) in message


def test_no_limit():
    message = refusal(solve, max_passes=None, tol=1e-3)
    assert all(name in message for name in BUDGETS[:3])


def test_an_infinite_limit_is_no_limit():
    result = solve(max_passes=INF, max_doubles=500)
    assert result.status == "budget"


@pytest.mark.parametrize("value", [0, -1, NAN, INF, "1"])
def test_record_every(value):
    message = refusal(solve, record_every=value)
    assert "record_every" in message
    assert repr(value) in message


@pytest.mark.parametrize("seed", [-1, 1.5, "a", None, True, 2.0, [1]])
def test_seed(seed):
    message = refusal(solve, seed=seed)
    assert "seed" in message
    assert repr(seed) in message


@pytest.mark.parametrize("seed", [-1, 1.5, "a"])
def test_seed_of_the_split(seed):
    message = refusal(problem, seed=seed)
    assert "seed" in message
    assert repr(seed) in message


def test_gap_without_a_reference():
    assert "reference" in refusal(solve, gap_tol=0.1)


def test_gap_without_an_objective():
    message = refusal(dsba.solve, make_problem("auc"), RING, gap_tol=0.1, reference=True)
    assert "objective" in message


@pytest.mark.parametrize("name", ["z0", "reference"])
@pytest.mark.parametrize(
    ("point", "got"),
    [
        (np.zeros(3), "(3,)"),
        (np.zeros((4, COLUMNS)), "(4, 12)"),
        (7.0, "()"),
        (np.zeros((COLUMNS, 1)), "(12, 1)"),
        (np.full(COLUMNS, NAN), "nan"),
        ("zero", "zero"),
        (np.ones(COLUMNS) * 1j, "complex"),
        ([[1.0], [1.0, 2.0]], ""),
    ],
)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_points(name, point, got):
    message = refusal(solve, **{name: point})
    assert name in message
    assert got in message


def test_the_result_of_optimum_as_reference():
    """Taken for its z, or refused with a sentence."""
    small = make_problem("logistic")
    try:
        result = dsba.solve(small, RING, max_passes=1, reference=dsba.optimum(small))
    except dsba.InputError:
        return
    assert "gap" in result.history


@pytest.mark.parametrize("callbacks", [print, 5])
def test_callbacks_that_are_no_list(callbacks):
    assert "callbacks" in refusal(solve, callbacks=callbacks)


# Names -------------------------------------------------------------------------------------------


def assert_suggestion(message, got, meant):
    assert repr(got) in message
    assert f"did you mean {meant!r}?" in message


@pytest.mark.parametrize(
    ("options", "got", "meant"),
    [
        ({"operator": "logistik"}, "logistik", "logistic"),
        ({"operator": "Ridge "}, "Ridge ", "ridge"),
        ({"operator": "AUC"}, "AUC", "auc"),
        ({"split": "labels"}, "labels", "label"),
        ({"regularize": "weight"}, "weight", "weights"),
    ],
)
def test_unknown_names_in_a_problem(options, got, meant):
    assert_suggestion(refusal(problem, **options), got, meant)


@pytest.mark.parametrize(
    ("options", "got", "meant"),
    [
        ({"algorithm": "dsbaa"}, "dsbaa", "dsba"),
        ({"algorithm": "DSA"}, "DSA", "dsa"),
        ({"form": "lasy"}, "lasy", "lazy"),
        ({"table": "ful"}, "ful", "full"),
        ({"tabel": "full"}, "tabel", "table"),
        ({"step_size": "prooved"}, "prooved", "proved"),
        ({"step_size": "Auto"}, "Auto", "auto"),
    ],
)
def test_unknown_names_in_a_run(options, got, meant):
    assert_suggestion(refusal(solve, **options), got, meant)


@pytest.mark.parametrize("name", ["xyzzy", 3, None, ["ridge"]])
def test_a_name_near_no_other_lists_the_known(name):
    message = refusal(problem, operator=name)
    assert all(known in message for known in dsba.operators.names())
    message = refusal(solve, algorithm=name)
    assert all(known in message for known in dsba.algorithms.names())


def test_classes_in_place_of_objects():
    assert "Logistic()" in refusal(problem, operator=dsba.operators.Logistic)
    assert "DSBA" in refusal(solve, algorithm=dsba.DSBA)


def test_options_beside_an_object():
    assert "table" in refusal(solve, algorithm=dsba.DSBA(), table="full")


@pytest.mark.parametrize("option", ["name", "backward"])
def test_class_variables_are_no_options(option):
    message = refusal(solve, **{option: "x"})
    assert "backward," not in message
