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
    """The columns of the file's schema, and an index of numbers in a row, which pandas only describes."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError("reading Parquet needs pyarrow: install dsba[tables].") from None
    schema = pq.read_schema(path)
    described = (schema.pandas_metadata or {}).get("index_columns", [])
    return [*schema.names, *(index["name"] for index in described if isinstance(index, dict) and index.get("name"))]


def read(path: Path, wanted: list[str]) -> pd.DataFrame:
    """The wanted columns, whether pandas had them as columns or as an index."""
    import pandas as pd
    import pyarrow.parquet as pq

    held = pq.read_schema(path).names
    frame = pd.read_parquet(path, columns=[name for name in wanted if name in held])
    return frame.reset_index(drop=set(frame.index.names).isdisjoint(wanted))


texts = read  # a file that knows its types has numbers and texts as they were
