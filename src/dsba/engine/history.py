"""The one format in which measurements are kept: columns of numbers, one entry a record point."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dsba.errors import require_package
from dsba.types import Array


class History:
    """Columns of numbers, one entry per record point. ``history["gap"]`` is an array.

    Parameters
    ----------
    columns : mapping of str to array-like, or None
        The columns to begin with.

    Raises
    ------
    KeyError
        If a column is asked for that the history does not have.

    Examples
    --------
    >>> import dsba
    >>> history = dsba.History({"passes": [0, 1], "gap": [1.0, 0.25]})
    >>> history["gap"].tolist(), history.last()
    ([1.0, 0.25], {'passes': 1.0, 'gap': 0.25})
    """

    def __init__(self, columns: Mapping[str, npt.ArrayLike] | None = None) -> None:
        self._columns: dict[str, list[float]] = {
            name: [float(v) for v in np.asarray(values).ravel()] for name, values in (columns or {}).items()
        }

    def append(self, record: Mapping[str, float]) -> None:
        """Add one record.

        Parameters
        ----------
        record : Mapping[str, float]
            A number for each column; every record of a history has the same columns.

        Raises
        ------
        ValueError
            If the record has other columns.
        """
        if self._columns and set(record) != set(self._columns):
            raise ValueError(f"record has columns {sorted(record)}, the history {sorted(self._columns)}")
        for name, value in record.items():
            self._columns.setdefault(name, []).append(float(value))

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    def __getitem__(self, name: str) -> Array:
        if name not in self._columns:
            hint = " Pass reference=True for gap and distance." if name in ("gap", "distance") else ""
            raise KeyError(f"no column {name!r}; there are {', '.join(self._columns)}.{hint}")
        return np.array(self._columns[name])

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), []))

    def last(self) -> dict[str, float]:
        """The newest record.

        Returns
        -------
        dict[str, float]
            The newest number of each column.
        """
        return {name: values[-1] for name, values in self._columns.items()}

    def to_dict(self) -> dict[str, Array]:
        """The columns as arrays.

        Returns
        -------
        dict[str, numpy.ndarray]
            One array for each column.
        """
        return {name: self[name] for name in self._columns}

    def to_frame(self) -> Any:
        """The columns as a pandas frame.

        Returns
        -------
        pandas.DataFrame
            One row for each record.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        require_package("to_frame", "pandas", "tables")
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def __repr__(self) -> str:
        return f"History({len(self)} records: {', '.join(self._columns)})"
