"""Tables in Parquet files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dsba.data.bounds import most_bytes, require_within
from dsba.data.hashed_file import HashedFile
from dsba.errors import require_package

if TYPE_CHECKING:
    import pandas as pd

PARQUET_MARK = b"PAR1"
UNNAMED_INDEX = re.compile(r"__index_level_\d+__")  # as pandas writes the numbers of rows that were chosen from more
CELL = 8  # bytes of a number, and of the place of a text


def recognises(head: bytes) -> bool:
    """Whether a file begins as Parquet does."""
    return head.startswith(PARQUET_MARK)


def names(file: HashedFile) -> list[Any]:
    """The columns of the file's schema, and an index with a name, which pandas may only describe."""
    require_package("reading Parquet", "pyarrow", "parquet")
    import pyarrow.parquet as pq

    schema = pq.read_schema(file)
    ranges = (index["name"] for index in _index(schema) if isinstance(index, dict) and index.get("name"))
    return [*(name for name in schema.names if not UNNAMED_INDEX.fullmatch(name)), *ranges]


def read(file: HashedFile, wanted: list[str]) -> pd.DataFrame:
    """The wanted columns. Decimal numbers, which are objects to pandas, become floats."""
    import pyarrow.parquet as pq
    import pyarrow.types as types

    frame = texts(file, wanted)
    decimals = {field.name for field in pq.read_schema(file) if types.is_decimal(field.type)}
    return file.reading.without_marks(frame.astype(dict.fromkeys(decimals.intersection(frame), "float64")))


def texts(file: HashedFile, wanted: list[str]) -> pd.DataFrame:
    """The wanted columns as they are, whether pandas had them as columns or as an index."""
    import pandas as pd
    import pyarrow.parquet as pq

    schema = pq.read_schema(file)
    held = set(schema.names)
    columns = [name for name in wanted if name in held]
    index = [name for name in _index(schema) if isinstance(name, str)]
    _require_bounded(file, [schema.field(name) for name in held.intersection([*columns, *index])])
    frame = pd.read_parquet(file, columns=columns)
    return frame.reset_index(drop=set(frame.index.names).isdisjoint(wanted))


def _index(schema: Any) -> list[Any]:
    """The index that pandas described: names of columns that it reads in any case, and ranges."""
    return (schema.pandas_metadata or {}).get("index_columns", [])


def _require_bounded(file: HashedFile, fields: list[Any]) -> None:
    """An error if these columns unpack to more than the file may.

    Repeated values take almost no space in the file. So the rows are counted, and their texts as the file has them:
    each different one once, with its number of rows. The sizes that the file declares are not asked for, because
    pyarrow 26 ends the process where they are damaged.
    """
    import pyarrow.parquet as pq

    most = most_bytes(file.size)
    texts = [field.name for field in fields if _is_text(field.type)]
    content = pq.ParquetFile(file, read_dictionary=texts)
    size = content.metadata.num_rows * sum(_width(field.type) for field in fields)
    require_within(file.name, size, most)
    for batch in content.iter_batches(columns=texts) if texts else ():
        size += sum(map(_text_bytes, batch.columns))
        require_within(file.name, size, most)


def _is_text(kind: Any) -> bool:
    """Whether the values have different lengths."""
    import pyarrow.types as types

    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_dictionary)
    return any(test(kind) for test in tests)


def _width(kind: Any) -> int:
    """The bytes of a value in a column, or those that say where it is."""
    try:
        return max(CELL, kind.bit_width // 8)
    except ValueError:
        return CELL


def _text_bytes(column: Any) -> int:
    """The bytes of a column of texts, if each row has its own."""
    import pyarrow.compute as pc

    return pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0
