"""Bad input is refused at the edge: what was got, what was wanted, in one line (invariant 8)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import make_data, make_problem
from refused import COLUMNS, INF, NAN, RING, ROWS, X, Y, problem, refusal, solve, with_entry

import dsba

# Data --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_matrix, sp.coo_array, pd.DataFrame])
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_not_finite_data(value, container):
    message = refusal(problem, container(with_entry(value)))
    assert "row 7" in message
    assert "column 3" in message


def test_not_finite_data_in_a_shard():
    message = refusal(dsba.Problem, [(X, Y), (with_entry(NAN), Y)])
    assert "shard 1" in message
    assert "row 7" in message
    assert "column 3" in message


@pytest.mark.parametrize(
    ("bad", "got"),
    [
        (X[0], "(12,)"),
        (X[None], "(1, 60, 12)"),
        (3.0, "()"),
        (None, "()"),
        (np.array([[1, "a"], [2, None]], object), "object"),
        (np.full((ROWS, 2), "a"), "<U1"),
        (np.full((ROWS, 2), "1"), "<U1"),
        (X * 1j, "complex128"),
        (sp.csr_array(X * 1j), "complex128"),
        (np.zeros((ROWS, 2), "M8[s]"), "datetime64"),
        (np.zeros((ROWS, 2), "m8[s]"), "timedelta64"),
        ([[1.0, 2.0], [3.0]], ""),
        (sp.coo_array(X[0]), "(12,)"),
    ],
)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_not_a_matrix_of_numbers(bad, got):
    assert got in refusal(problem, bad)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_no_columns(container):
    assert "no columns" in refusal(problem, container(np.zeros((ROWS, 0))))


def test_no_rows():
    assert "0" in refusal(problem, np.zeros((0, 3)), [], n_nodes=1)


def forms_of_data():
    yield "list", X.tolist(), Y.tolist()
    yield "frame", pd.DataFrame(X), pd.Series(Y, index=np.arange(ROWS)[::-1])
    yield "named frame", pd.DataFrame(X, columns=[f"c{j}" for j in range(COLUMNS)]), pd.Series(Y).astype("category")
    yield "sparse frame", pd.DataFrame(X).astype(pd.SparseDtype(float, 0.0)), Y
    yield "nullable labels", X, pd.Series(Y).astype("Int64")
    yield "csr_matrix", sp.csr_matrix(X), Y
    yield "csc_array", sp.csc_array(X), Y
    yield "coo_array", sp.coo_array(X), Y
    yield "lil_array", sp.lil_array(X), Y
    yield "fortran", np.asfortranarray(X), Y


@pytest.mark.parametrize(("X_", "y_"), [pytest.param(a, b, id=name) for name, a, b in forms_of_data()])
def test_the_same_data_in_any_container(X_, y_):
    assert problem(X_, y_).digest() == problem(X, Y).digest()


def test_the_same_data_with_wide_indices():
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert problem(wide, Y).digest() == problem(X, Y).digest()


def test_numbers_of_any_type():
    whole = np.round(10 * X)
    wanted = problem(whole).digest()
    for other in (whole.astype(int), sp.csr_array(whole.astype(np.int32)), whole.astype(np.float32)):
        assert problem(other).digest() == wanted
    assert problem(X != 0).digest() == problem((X != 0).astype(float)).digest()


def test_duplicate_and_unsorted_entries_are_summed():
    rows, columns = np.nonzero(X)
    values = X[rows, columns]
    order = np.random.default_rng(0).permutation(2 * rows.size)
    twice = [np.tile(part, 2)[order] for part in (values / 2, rows, columns)]
    messy = sp.coo_array((twice[0], (twice[1], twice[2])), shape=X.shape)
    assert np.allclose(problem(messy).A.toarray(), problem(X).A.toarray(), rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "scale",
    [
        1e200,
        1e-200,
    ],
)
def test_rows_of_any_scale_are_normalised(scale):
    with np.errstate(all="ignore"):
        rows = problem(X * scale).A.toarray()
    assert np.allclose(rows, problem(X).A.toarray(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("operator", ["ridge", "logistic", "auc"])
def test_empty_rows_are_harmless(operator):
    """All-zero rows, stored or not, and a node that has nothing else: solved to the optimum."""
    X, y = make_data(operator)
    X[[0, 1, 2, 20, 40, 59]] = 0.0
    stored = sp.csr_array(X)
    stored.data[:3] = 0.0
    nodes = np.repeat([0, 1, 2, 3], [3, 17, 20, 20])
    for data in (X, stored):
        empty = dsba.Problem.from_arrays(data, y, operator, lam=0.05, split=nodes)
        assert np.isfinite(empty.A.data).all()
        z_star, residual = dsba.optimum(empty)
        assert residual < 1e-12
        for algorithm in ("dsba", "dsa"):
            result = dsba.solve(empty, RING, algorithm, max_passes=3000, tol=1e-11, record_every=20)
            assert result.status == "converged", result
            assert np.abs(result.z - z_star).max() < 1e-8


def test_all_data_zero():
    assert "zero" in refusal(dsba.solve, problem(np.zeros_like(X)), RING)


# Labels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", ["logistic", "auc", "squared-hinge"])
@pytest.mark.parametrize(
    ("labels", "got"),
    [
        (np.arange(ROWS) % 3, "exactly two values, got 3."),
        (np.linspace(0, 1, ROWS), "got 60."),
        (np.array(["a", "b", "c", "d"] * 15), "got 4."),
        (np.ones(ROWS), "got 1."),
        (["yes"] * ROWS, "got 1."),
        (np.where(Y > 0, 1.0, NAN), "of 60 are not finite"),
        (np.where(Y > 0, 1.0, INF), "of 60 are not finite"),
    ],
)
def test_labels_not_two_valued(operator, labels, got):
    assert got in refusal(problem, X, labels, operator)


@pytest.mark.parametrize(
    ("negative", "positive"),
    [(-1, 1), (0, 1), (1, 2), (-0.5, 7.25), (False, True), ("ham", "spam"), (b"n", b"p"), (3, 200)],
)
@pytest.mark.parametrize("kind", ["array", "list", "object", "series"])
def test_two_values_of_any_kind(negative, positive, kind):
    values = [positive if y > 0 else negative for y in Y]
    labels = {
        "array": np.array(values),
        "list": values,
        "object": np.array(values, object),
        "series": pd.Series(values),
    }[kind]
    mapped = problem(X, labels)
    assert list(mapped.classes) == [negative, positive]
    assert (mapped.y == problem(X, Y).y).all()
    assert set(mapped.y) == {-1.0, 1.0}


@pytest.mark.parametrize("bad", [None, "b"], ids=["none", "mixed"])
@pytest.mark.parametrize("split", ["random", "label"])
def test_labels_without_an_order(bad, split):
    """Refused with a sentence, or mapped: either is fine, a TypeError is not."""
    labels = np.array([1 if y > 0 else bad for y in Y], object)
    try:
        mapped = problem(X, labels, split=split)
    except dsba.InputError:
        return
    assert len(mapped.classes) == 2


def test_shards_with_labels_of_different_kinds():
    refusal(dsba.Problem, [(np.eye(2), [1, 1]), (np.eye(2), ["1", "b"])])


def test_missing_label():
    labels = pd.Series([None, *Y[1:]]).astype("Int64")
    assert "1 of 60 are not finite or are missing" in refusal(problem, X, labels)


@pytest.mark.parametrize(
    ("labels", "got"),
    [
        (Y[:-1], "(59,)"),
        (Y[:, None], "(60, 1)"),
        (None, "()"),
        (1.0, "()"),
        ([], "(0,)"),
        ([[1], [1, 2]], ""),
    ],
)
def test_labels_of_wrong_length(labels, got):
    assert got in refusal(problem, X, labels)


def test_labels_of_wrong_length_in_a_shard():
    message = refusal(dsba.Problem, [(X, Y), (X[:5], Y[:6])])
    assert "shard 1" in message
    assert "(6,)" in message


@pytest.mark.parametrize(
    ("labels", "got"),
    [
        (np.where(Y > 0, "a", "b"), "<U1"),
        (np.array([None] * ROWS), "60 of 60 are not finite"),
        (np.where(Y > 0, NAN, 0.0), "of 60 are not finite"),
        (np.full(ROWS, -INF), "60 of 60 are not finite"),
        (Y * 1j, "complex"),
        (np.zeros(ROWS, "M8[s]"), "datetime64"),
    ],
)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_labels_that_are_no_numbers(labels, got):
    message = refusal(problem, X, labels, "ridge")
    assert "Ridge" in message
    assert got in message


def test_negative_counts():
    message = refusal(problem, X, np.arange(ROWS) - 2.0, "poisson")
    assert "Poisson" in message
    assert "2 of 60 are below" in message


SECRET = 4711.25


@pytest.mark.parametrize(
    "given",
    [
        {"shards": [[X + SECRET, Y, Y, Y]]},
        {"shards": X + SECRET},
        {"shards": {"hospital": (X, Y)}},
        {"shards": [(np.where(X[7, 3] == X, INF, SECRET), Y)]},
        {"shards": [(X, Y, np.where(Y > 0, -SECRET, SECRET))]},
        {"shards": [(X, np.where(Y > 0, SECRET, NAN))]},
        {"shards": [(X, np.where(Y > 0, SECRET, SECRET))]},
        {"shards": [(X, np.where(Y > 0, f"patient {SECRET}", "patient"))], "operator": "ridge"},
        {"shards": [(X, np.array([SECRET, "patient", None] * 20, object))], "operator": "ridge"},
        {"shards": [(X, np.where(Y > 0, SECRET, -SECRET))], "operator": "poisson"},
    ],
)
def test_no_value_of_the_data_in_an_error(given):
    message = refusal(dsba.Problem, given["shards"], given.get("operator", "logistic"))
    assert "4711" not in message
    assert "patient" not in message
    assert "hospital" not in message


# Nodes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "n_nodes",
    [
        0,
        -3,
        ROWS + 1,
        2.5,
        "4",
        None,
        True,
        NAN,
    ],
)
def test_number_of_nodes(n_nodes):
    assert repr(n_nodes) in refusal(problem, n_nodes=n_nodes)


def test_more_nodes_than_rows_names_both():
    message = refusal(problem, X[:3], [0, 1, 0], n_nodes=4)
    assert "3" in message
    assert "4" in message


def test_number_of_nodes_of_any_integer_type():
    assert problem(n_nodes=np.int32(4)).n_nodes == 4


@pytest.mark.parametrize(
    ("split", "got"),
    [
        (np.arange(ROWS) % 3 * 2, "node 1"),
        ((np.arange(ROWS) % 4) - 1, "(60,)"),
        (np.arange(10) % 4, "(10,)"),
        ((np.arange(ROWS) % 4).astype(float), "float64"),
        (Y > 0, "bool"),
        (None, "()"),
        (np.array(["a"] * ROWS), "<U1"),
        (np.where(np.arange(ROWS) == 0, 10**12, 0), ""),
    ],
)
def test_split_that_is_none(split, got):
    assert got in refusal(problem, split=split)


@pytest.mark.parametrize("kind", [list, pd.Series, np.uint8, np.uint64, np.int32])
def test_split_of_any_integer_type(kind):
    nodes = np.arange(ROWS) % 4
    given = nodes.astype(kind) if isinstance(kind, type) and issubclass(kind, np.integer) else kind(nodes)
    assert problem(split=given).digest() == problem(split=nodes).digest()


def test_empty_node_in_shards():
    message = refusal(dsba.Problem, [(X, Y), (np.zeros((0, COLUMNS)), [])])
    assert "node 1" in message
    assert "[60, 0]" in message


@pytest.mark.parametrize(
    "shards",
    [
        [],
        (),
        None,
        [(X, Y, Y)],
        [5],
    ],
)
def test_no_shards(shards):
    assert "shard" in refusal(dsba.Problem, shards)


def test_shards_of_different_width():
    message = refusal(dsba.Problem, [(X, Y), (X[:, :5], Y)])
    assert "[12, 5]" in message


def test_problem_and_topology_of_different_size():
    message = refusal(dsba.solve, make_problem("ridge"), dsba.Topology.ring(5))
    assert "4" in message
    assert "5" in message


@pytest.mark.parametrize("topology", [dsba.Topology.ring(5), dsba.Topology.star(4)], ids=["size", "graph"])
def test_network_of_another_topology(topology):
    refusal(solve, network=dsba.Simulator(topology))


@pytest.mark.parametrize(
    "pair",
    [
        lambda p: (p, None),
        lambda p: (RING, p),
        lambda p: (None, RING),
    ],
)
def test_problem_and_topology_of_wrong_type(pair):
    refusal(dsba.solve, *pair(make_problem("ridge")))


# The graph ---------------------------------------------------------------------------------------


def test_disconnected_graph():
    message = refusal(dsba.Topology.from_edges, [(0, 1), (2, 3)])
    assert "{0, 1}" in message
    assert "{2, 3}" in message


@pytest.mark.parametrize(
    ("W", "got"),
    [
        (np.eye(3), "1"),
        (np.array([[0.5, 0.5, 0], [0.4, 0.1, 0.5], [0, 0.5, 0.5]]), "W["),
        (np.full((3, 3), 1 / 3), "(0, 2)"),
        (np.array([[0.5, 0.4, 0], [0.4, 0.1, 0.5], [0, 0.5, 0.5]]), "0.9"),
        (np.array([[-1.0, 2, 0], [2, -3, 2], [0, 2, -1]]), "eigenvalue"),
        (np.full((3, 3), NAN), "nan"),
        (np.eye(4), "(4, 4)"),
        ("laplace", "laplacian"),
    ],
)
def test_not_a_mixing_matrix(W, got):
    assert got in refusal(dsba.Topology.path, 3, mixing=W)


# Nothing of the caller's is touched ----------------------------------------------------------------


@pytest.mark.parametrize("operator", ["ridge", "auc"])
@pytest.mark.parametrize("single", [False, True])
def test_the_callers_arrays_stay_as_they_are(operator, single):
    X, y = make_data(operator)
    messy = sp.csr_array((np.r_[1.0, X.ravel()[1:]], np.tile(np.arange(11, -1, -1), 60), np.arange(61) * 12))
    for data in (X, sp.csr_array(X), sp.csr_matrix(X), messy, sp.csc_array(X)):
        parts = [data] if isinstance(data, np.ndarray) else [data.data, data.indices, data.indptr]
        z0 = np.linspace(0, 1, 12 + 3 * (operator == "auc"))
        before = [part.copy() for part in (*parts, y, z0)]
        if single:
            made = dsba.Problem([(data, y)], operator, 0.05)
            dsba.solve(made, dsba.Topology.ring(1), max_passes=2, z0=z0, reference=z0)
        else:
            made = dsba.Problem.from_arrays(data, y, operator, 4, 0.05)
            dsba.solve(made, RING, max_passes=2, z0=z0, reference=z0)
        parts = [data] if isinstance(data, np.ndarray) else [data.data, data.indices, data.indptr]
        for now, then in zip((*parts, y, z0), before, strict=True):
            assert now.dtype == then.dtype
            assert (now == then).all()


def test_read_only_arrays_are_enough():
    X, y = make_data("ridge")
    z0 = np.zeros(12)
    for array in (X, y, z0):
        array.flags.writeable = False
    made = dsba.Problem.from_arrays(X, y, "ridge", 4)
    for form in ("step", "dense", "lazy"):
        assert np.isfinite(dsba.solve(made, RING, max_passes=2, z0=z0, form=form).Z).all()
