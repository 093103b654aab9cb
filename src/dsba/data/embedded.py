"""Data sets which need no file: a small real one and a SYNTHETIC, text-like one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from dsba.data.dataset import Dataset, csr
from dsba.errors import InputError, require_package
from dsba.types import Array, Integers

LENGTH_SPREAD = 0.7  # standard deviation of the logarithm of a row's length


def load_breast_cancer() -> Dataset:
    """Breast Cancer Wisconsin, as scikit-learn ships it: real, dense, 569 x 30.

    Columns have mean 0 and variance 1; labels are -1 (malignant) and +1 (benign).

    Returns
    -------
    Dataset
        The samples and labels.

    Raises
    ------
    InputError
        If scikit-learn is not installed.

    Examples
    --------
    >>> import dsba
    >>> dsba.data.load_breast_cancer().X.shape
    (569, 30)
    """
    require_package("the data set breast-cancer", "sklearn", "estimators")
    from sklearn.datasets import load_breast_cancer as bundled

    X, y = bundled(return_X_y=True)
    return Dataset(sp.csr_matrix((X - X.mean(axis=0)) / X.std(axis=0)), 2.0 * y - 1.0)


def make_text_like(
    n_rows: int = 2000,
    n_columns: int = 20000,
    row_length: float = 60,
    positive: float = 0.5,
    noise: float = 0.05,
    seed: int = 0,
) -> Dataset:
    """Synthetic sparse data that looks like a bag of words; not measured on any text.

    Column popularity follows Zipf's law, the number of nonzeros in a row is log-normal, and a value is
    (1 + log count) * idf. A label is +1 where the score under a planted linear model of the row's direction is large.

    Parameters
    ----------
    n_rows : int
        The number of rows.
    n_columns : int
        The number of columns.
    row_length : float
        The mean number of nonzeros in a row, about.
    positive : float
        The share of the labels +1.
    noise : float
        The share of labels that are flipped, as many of either sign.
    seed : int
        The seed of the draws.

    Returns
    -------
    Dataset
        The samples and labels.

    Raises
    ------
    InputError
        If a number is out of range.

    Examples
    --------
    >>> import dsba
    >>> dsba.data.make_text_like(100, 500).X.shape
    (100, 500)
    """
    _check_arguments(n_rows, n_columns, row_length, positive, noise)
    rng = np.random.default_rng(seed)
    popularity = 1.0 / np.arange(1, n_columns + 1)
    popularity /= popularity.sum()
    mean_log = np.log(row_length) - LENGTH_SPREAD**2 / 2
    lengths = np.rint(rng.lognormal(mean_log, LENGTH_SPREAD, n_rows)).clip(1, n_columns).astype(np.int64)
    rows, ranks = _draw_columns(lengths, popularity, rng)
    counts = 1 + rng.poisson(lengths[rows] * popularity[ranks])
    frequency = np.bincount(ranks, minlength=n_columns)
    idf = 1.0 + np.log((1 + n_rows) / (1 + frequency))
    values = (1.0 + np.log(counts)) * idf[ranks]
    indptr = np.searchsorted(rows, np.arange(n_rows + 1))
    columns = rng.permutation(n_columns)[ranks]  # or the column number would be the popularity rank
    X = csr(values, columns, indptr, n_columns)
    X.sort_indices()
    return Dataset(X, _planted_labels(X, positive, noise, rng))


def _check_arguments(n_rows: int, n_columns: int, row_length: float, positive: float, noise: float) -> None:
    if n_rows < 2:
        raise InputError(f"n_rows must be at least 2, one for each label, got {n_rows}")
    if not 1 <= row_length <= n_columns:
        raise InputError(f"row_length must lie between 1 and n_columns={n_columns}, got {row_length}")
    if not 0 < positive < 1:
        raise InputError(f"positive must lie strictly between 0 and 1, got {positive}")
    limit = round(2 * min(positive, 1 - positive), 12)  # 1 - 0.9 is not quite 0.1
    if not 0 <= noise <= limit:
        raise InputError(f"noise must lie between 0 and {limit:g}, twice the rarer label's share, got {noise}")


def _draw_columns(lengths: Integers, popularity: Array, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Rows and popularity ranks of the nonzeros, increasing, without a repeated pair.

    A column is in a row of length l with probability min(1, c * popularity), c such that they sum
    to l. The first `certain` ranks have probability 1; the others' mass is cut into as many equal
    strata as entries are left, and one rank is drawn in each. Only neighbouring strata can draw
    the same rank, so no sorting is needed, and dropping repeats costs about 2 % of the entries.
    """
    below = np.concatenate(([0.0], np.cumsum(popularity)))
    n_columns = len(popularity)
    # rank h stays uncertain up to this length: h + (mass from h on) / popularity[h]
    longest = np.arange(n_columns) + (below[-1] - below[:-1]) / popularity
    certain = np.minimum(np.searchsorted(longest, lengths), lengths - 1)

    rows = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    start, stratum = below[certain], (below[-1] - below[certain]) / (lengths - certain)
    mass = start[rows] + (place - certain[rows] + rng.random(len(rows))) * stratum[rows]
    drawn = np.searchsorted(below, mass, side="right") - 1
    drawn = np.clip(drawn, certain[rows], n_columns - 1)  # rounding at the ends of the mass
    ranks = np.where(place < certain[rows], place, drawn)
    fresh = np.concatenate(([True], (rows[1:] != rows[:-1]) | (ranks[1:] != ranks[:-1])))
    return rows[fresh], ranks[fresh]


def _planted_labels(X: sp.csr_matrix, positive: float, noise: float, rng: np.random.Generator) -> Array:
    n_rows, n_columns = X.shape
    # the more common a column, the more it says: what only rare columns decide cannot be learnt
    weights = rng.standard_normal(n_columns) * np.sqrt(X.getnnz(axis=0))
    norms = np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1]))  # no row is empty
    scores = (X @ weights) / norms
    n_positive = min(max(round(positive * n_rows), 1), n_rows - 1)
    order = np.argsort(scores, kind="stable")
    y = np.full(n_rows, -1.0)
    y[order[n_rows - n_positive :]] = 1.0
    n_flips = min(round(noise * n_rows / 2), n_positive, n_rows - n_positive)
    flipped = [rng.choice(np.flatnonzero(y == sign), n_flips, replace=False) for sign in (-1.0, 1.0)]
    y[np.concatenate(flipped)] *= -1.0
    return y


EMBEDDED: dict[str, Callable[[], Dataset]] = {"breast-cancer": load_breast_cancer, "synthetic-text": make_text_like}
