"""The one form in which data enters: rows in CSR, one label each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp


class Dataset(NamedTuple):
    """`X, y = dataset`: X is CSR float64 with sorted indices, y one float64 label a row."""

    X: sp.csr_matrix
    y: npt.NDArray[np.float64]


def csr(
    data: npt.NDArray[np.float64],
    indices: npt.NDArray[np.signedinteger[Any]],
    indptr: npt.NDArray[np.signedinteger[Any]],
    n_columns: int,
) -> sp.csr_matrix:
    """A CSR matrix with int32 indices where every number fits, int64 ones elsewhere."""
    shape = (len(indptr) - 1, n_columns)
    index = sp.get_index_dtype(maxval=max(len(data), *shape))
    return sp.csr_matrix((data, indices.astype(index, copy=False), indptr.astype(index, copy=False)), shape=shape)
