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
    """`X, y = dataset`: X is CSR float64 with sorted indices, y one float64 label a row."""

    X: sp.csr_matrix
    y: Array


def binarise(y: Array, positive: str | Iterable[float]) -> Array:
    """+1 for the classes in ``positive``, -1 for all others.

    "half" are the first n // 2 of the n classes in increasing order: News20's 1..10 against 11..20,
    Sector's 52 smaller labels against its 53 larger ones.
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
