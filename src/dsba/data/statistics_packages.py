"""Tables of Stata, SAS (data sets and transport files) and SPSS. A value that has a label is read as the label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsba.data.hashed_file import HashedFile
from dsba.errors import require_package

if TYPE_CHECKING:
    import pandas as pd

OLD_STATA = (b"\x6e", b"\x6f", b"\x71", b"\x72", b"\x73")  # versions 110 to 115, before the byte order
MARKS: dict[bytes, str] = {
    b"<stata_dta>": "read_dta",
    **{version + order + b"\x01\x00": "read_dta" for version in OLD_STATA for order in (b"\x01", b"\x02")},
    bytes(12) + b"\xc2\xea\x81\x60\xb3\x14\x11\xcf\xbd\x92\x08\x00\x09\xc7\x31\x8c": "read_sas7bdat",
    b"HEADER RECORD*******LIB": "read_xport",
    b"$FL2": "read_sav",
    b"$FL3": "read_sav",
}
"""How a file begins, and the function of pyreadstat for it."""


def recognises(head: bytes) -> bool:
    """Whether a file begins as one of these do."""
    return head.startswith(tuple(MARKS))


def names(file: HashedFile) -> list[Any]:
    """The names of the columns, from the description of the file."""
    return _read(file, metadataonly=True)[1].column_names


def read(file: HashedFile, wanted: list[str]) -> pd.DataFrame:
    """The wanted columns. A value that has a label is the label."""
    found: pd.DataFrame = _read(file, usecols=wanted, formats_as_category=False)[0]
    return file.reading.without_marks(found.replace("", None).infer_objects())


def texts(file: HashedFile, wanted: list[str]) -> pd.DataFrame:
    """The same: a file that knows its types has numbers and texts as they were."""
    return read(file, wanted)


def _read(file: HashedFile, **options: Any) -> Any:
    require_package("reading files of Stata, SAS and SPSS", "pyreadstat", "files")
    import pyreadstat

    file.seek(0)
    begin = file.read(64)
    file.seek(0)
    reader = next(reader for mark, reader in MARKS.items() if begin.startswith(mark))
    if reader in ("read_dta", "read_sav"):  # SAS keeps labels in files of their own
        options["apply_value_formats"] = True
    else:
        options.pop("formats_as_category", None)
    return getattr(pyreadstat, reader)(file, encoding=file.reading.encoding, **options)
