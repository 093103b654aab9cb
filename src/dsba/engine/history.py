"""The one format in which measurements are kept: columns of numbers, one entry a record point."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dsba.errors import require_package
from dsba.types import Array


class History:
    """Columns of numbers, one entry per record point. ``history["gap"]`` is an array."""

    def __init__(self, columns: Mapping[str, npt.ArrayLike] | None = None) -> None:
        self._columns: dict[str, list[float]] = {
            name: [float(v) for v in np.asarray(values).ravel()] for name, values in (columns or {}).items()
        }

    def append(self, record: Mapping[str, float]) -> None:
        """Add one record; every record of a history has the same columns."""
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
        """The newest record."""
        return {name: values[-1] for name, values in self._columns.items()}

    def to_dict(self) -> dict[str, Array]:
        return {name: self[name] for name in self._columns}

    def to_frame(self) -> Any:
        """A pandas DataFrame (pandas is an optional dependency)."""
        require_package("to_frame", "pandas", "tables")
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def __repr__(self) -> str:
        return f"History({len(self)} records: {', '.join(self._columns)})"
