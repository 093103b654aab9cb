"""Sealed files: metadata and arrays in one file, closed by a SHA-256 of every byte before it.

::

    magic, 8 bytes | length of the header, u64 | header, JSON | arrays, one after the other | SHA-256, 32 bytes

All numbers are little-endian. The header is ``{"facts": {...}, "arrays": [[name, dtype, shape], ...]}``. A file in
which any byte was changed is refused. The digest is no signature: a program that can write the file can seal it. So
its reader must still check the content. Nothing in a sealed file runs when it is read.

Reading takes about twice the memory of the file. ``shared`` reading takes none of its own: the arrays lie in the
mapped file, so that processes which read the same file share its memory until they write to it. It is for files that
are replaced and never changed in place.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from mmap import ACCESS_COPY, mmap
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dsba.errors import DsbaError
from dsba.types import Arrays

MAGIC = b"dsba\x00\x01\r\n"
DIGEST_BYTES = hashlib.sha256().digest_size
START = len(MAGIC) + 8  # where the header begins
CACHE_LINE = 64  # bytes of a cache line
PLAIN = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U[1-9][0-9]{0,5}")  # the dtypes that may be kept


class DamagedError(DsbaError, ValueError):
    """A file is cut, changed, or not a sealed file. The message says which; the caller makes a sentence of it."""


def write(stream: IO[bytes], metadata: Mapping[str, Any], arrays: Mapping[str, npt.ArrayLike]) -> None:
    """Seal metadata (of JSON's types) and arrays (of numbers, truth values or text)."""
    kept = {name: _plain(name, array) for name, array in arrays.items()}
    layout = [[name, array.dtype.str, list(array.shape)] for name, array in kept.items()]
    header = json.dumps({"facts": metadata, "arrays": layout}).encode()
    header += b" " * (-(START + len(header)) % CACHE_LINE)  # so that the arrays begin at a cache line
    digest = hashlib.sha256()
    for part in (MAGIC, len(header).to_bytes(8, "little"), header, *(_bytes(array) for array in kept.values())):
        digest.update(part)
        stream.write(part)
    stream.write(digest.digest())


def read(path: Path, shared: bool = False) -> tuple[dict[str, Any], Arrays]:
    """The metadata and arrays of a whole sealed file; anything else raises ``DamagedError``."""
    with path.open("rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise DamagedError("it is no sealed file")
        stream.seek(0)
        content = memoryview(mmap(stream.fileno(), 0, access=ACCESS_COPY) if shared else stream.read())
    body, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    if len(content) < START + DIGEST_BYTES or hashlib.sha256(body).digest() != digest:
        raise DamagedError("it is damaged or cut off")
    end = START + int.from_bytes(content[len(MAGIC) : START], "little")
    try:
        header = json.loads(bytes(body[START:end]))
        metadata, layout = header["facts"], header["arrays"]
        arrays = _arrays(layout, body[end:])
        if not isinstance(metadata, dict):
            raise TypeError("metadata that are no table")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DamagedError("its header does not describe its content") from error
    return metadata, arrays


def _arrays(layout: list[Any], content: memoryview) -> Arrays:
    arrays: Arrays = {}
    at = 0
    for name, dtype, shape in layout:
        if not isinstance(name, str) or name in arrays or not PLAIN.fullmatch(dtype):
            raise ValueError("no name or type of an array")
        if len(shape) > 32 or any(type(length) is not int or length < 0 for length in shape):
            raise ValueError("no shape")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size > len(content) - at:
            raise ValueError("an array is longer than the file")
        found = np.frombuffer(content, dtype, math.prod(shape), at) if size else np.empty(0, dtype)
        keep = found.flags.writeable and found.flags.aligned  # a mapped file
        arrays[name] = (found if keep else found.copy()).reshape(shape)
        at += size
    if at != len(content):
        raise ValueError("bytes that belong to no array")
    return arrays


def _plain(name: str, array: npt.ArrayLike) -> npt.NDArray[Any]:
    array = np.asarray(array)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if not PLAIN.fullmatch(array.dtype.str):
        raise TypeError(f"array {name!r} has dtype {array.dtype}, which a sealed file does not keep")
    return array


def _bytes(array: npt.NDArray[Any]) -> memoryview | bytes:
    """The array's bytes, without a copy where they lie in order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""
