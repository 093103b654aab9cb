"""The one form in which data enters: rows in CSR, one label each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dsba.errors import InputError
from dsba.types import Array


class Dataset(NamedTuple):
    """Samples and labels; ``X, y = dataset`` takes it apart.

    Parameters
    ----------
    X : scipy.sparse.csr_matrix
        The samples: CSR, float64, sorted indices.
    y : numpy.ndarray
        One float64 label for each row.

    Examples
    --------
    >>> import dsba
    >>> X, y = dsba.data.load("breast-cancer")
    >>> X.shape, y.shape
    ((569, 30), (569,))
    """

    X: sp.csr_matrix
    y: Array


def binarise(y: Array, positive: str | Iterable[float]) -> Array:
    """Two classes from several: +1 for the classes in ``positive``, -1 for all others.

    "half" are the first n // 2 of the n classes in increasing order: News20's 1..10 against 11..20,
    Sector's 52 smaller labels against its 53 larger ones.

    Parameters
    ----------
    y : numpy.ndarray
        The labels.
    positive : str or Iterable[float]
        The classes that become +1, or "half".

    Returns
    -------
    numpy.ndarray
        The labels -1 and +1.

    Raises
    ------
    InputError
        If a class is not among the labels.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> dsba.data.binarise(np.array([1.0, 2.0, 3.0]), [2]).tolist()
    [-1.0, 1.0, -1.0]
    """
    classes = np.unique(y)
    if isinstance(positive, str):
        chosen = classes[: classes.size // 2]
    else:
        chosen = np.array(sorted(set(positive)), dtype=np.float64)
        if missing := sorted(set(chosen) - set(classes)):
            raise InputError(
                f"positive names the class {missing[0]:g}, which is not among the {classes.size} of the data."
            )
    return np.where(np.isin(y, chosen), 1.0, -1.0)


def csr(data: Array, indices: npt.NDArray[Any], indptr: npt.NDArray[Any], n_columns: int) -> sp.csr_matrix:
    """A CSR matrix with int32 indices where every number fits, int64 ones elsewhere."""
    shape = (len(indptr) - 1, n_columns)
    index = sp.get_index_dtype(maxval=max(len(data), *shape))
    return sp.csr_matrix((data, indices.astype(index, copy=False), indptr.astype(index, copy=False)), shape=shape)
