"""Tables in Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsba.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

MARK = b"PAR1"


def recognises(head: bytes) -> bool:
    """Whether a file begins as Parquet does."""
    return head.startswith(MARK)


def names(path: Path) -> list[Any]:
    """The columns of the file's schema."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError("reading Parquet needs pyarrow: install dsba[tables].") from None
    return list(pq.read_schema(path).names)


def read(path: Path, wanted: list[str]) -> pd.DataFrame:
    """The wanted columns."""
    import pandas as pd

    return pd.read_parquet(path, columns=wanted).reset_index(drop=True)
