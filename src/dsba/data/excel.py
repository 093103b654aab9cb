"""Tables in Excel workbooks (.xlsx) of one sheet, whose first row has the names of the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from dsba.data.bounds import most_bytes, require_within
from dsba.data.hashed_file import HashedFile
from dsba.data.text_tables import MISSING_MARKS
from dsba.errors import InputError, require_package

if TYPE_CHECKING:
    import pandas as pd

ZIP_MARK, WORKBOOK_PARTS = b"PK\x03\x04", (b"[Content_Types].xml", b"xl/", b"docProps/", b"_rels/")


def recognises(head: bytes) -> bool:
    """Whether a file is a packed folder that begins with a part of a workbook."""
    return head.startswith(ZIP_MARK) and head[30:].startswith(WORKBOOK_PARTS)


def names(file: HashedFile) -> list[Any]:
    """The cells of the first row."""
    require_package("reading Excel workbooks", "openpyxl", "files")
    import openpyxl

    with ZipFile(file) as packed:
        require_within(file.name, sum(part.file_size for part in packed.infolist()), most_bytes(file.size))
    book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    if len(book.sheetnames) != 1:
        raise InputError(f"{file.name} has {len(book.sheetnames)} sheets: save the one with the table by itself.")
    return list(next(book.worksheets[0].iter_rows(values_only=True), ()))


def read(file: HashedFile, wanted: list[str]) -> pd.DataFrame:
    """The wanted columns; a formula counts as its value when the workbook was saved."""
    import pandas as pd

    marks = [*MISSING_MARKS, *file.reading.na_values]
    frame = pd.read_excel(file, engine="openpyxl", usecols=wanted, na_values=marks, keep_default_na=False)
    return file.reading.without_marks(frame)  # pandas looks for no mark among whole numbers


def texts(file: HashedFile, wanted: list[str]) -> pd.DataFrame:
    """The wanted columns, of the same rows; pandas would read a text such as 007 as a number."""
    import pandas as pd

    cells = pd.read_excel(file, engine="openpyxl", usecols=wanted, dtype=object, na_filter=False).infer_objects()
    return cells.astype({name: str for name in cells if cells[name].dtype == object})
