"""Data sets as (X, y): LIBSVM files, and two sets which need no file."""

from __future__ import annotations

import os

from dsba.data.dataset import Dataset, binarise
from dsba.data.embedded import EMBEDDED, load_breast_cancer, make_text_like
from dsba.data.libsvm import IndexRange, find_file, index_range, load_libsvm

__all__ = [
    "EMBEDDED",
    "Dataset",
    "IndexRange",
    "binarise",
    "index_range",
    "load",
    "load_breast_cancer",
    "load_libsvm",
    "make_text_like",
]


def load(name_or_path: str | os.PathLike[str]) -> Dataset:
    """An embedded data set by its name, or a LIBSVM file.

    Parameters
    ----------
    name_or_path : str or os.PathLike[str]
        A name of ``EMBEDDED`` ("breast-cancer", "synthetic-text"), or what ``load_libsvm`` takes.

    Returns
    -------
    Dataset
        The samples and labels.

    Raises
    ------
    InputError
        If there is no such data set.

    Examples
    --------
    >>> import dsba
    >>> dsba.data.load("breast-cancer").X.shape
    (569, 30)
    """
    if isinstance(name_or_path, str) and name_or_path in EMBEDDED:
        return EMBEDDED[name_or_path]()
    return load_libsvm(find_file(name_or_path, embedded=EMBEDDED))
