"""Public data sets by name (``assets/public_sets.toml``): where they come from, and what shape a whole file has.

The first three are the paper's. A download is taken for whole when its checksum is the registered one, it
decompresses, parses, and has the rows and columns published with it. LIBSVM publishes no checksums: these are the
ones that others recorded in public code after downloading from it, MD5 where nobody took a SHA-256. Those of a9a,
w8a, mushrooms and news20 were compared with files at hand. A file without one is listed only if it is compressed:
bzip2 keeps a checksum of every block, which tells damage, though not one whole file from another.

Sets with more than two classes are binarised by experiments: the first half of the classes in increasing
order against the rest (`dsba.data.binarise`), unless the experiment says otherwise.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from dsba.data.embedded import EMBEDDED
from dsba.errors import unknown_name

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"


@dataclass(frozen=True)
class PublicSet:
    """A file of the registry. ``classes`` above 2 means that experiments binarise it."""

    path: str  # below LIBSVM's folder, or below a mirror's
    title: str
    rows: int
    columns: int
    classes: int = 2
    test: str | None = None  # the entry of the test set
    checksum: str | None = None  # "sha256:" or "md5:" and its hexadecimal digits

    @property
    def file(self) -> str:
        return self.path.rpartition("/")[2]


_LISTED = tomllib.loads((files("dsba.data") / "assets" / "public_sets.toml").read_text(encoding="utf-8"))
REGISTRY: dict[str, PublicSet] = {name: PublicSet(**entry) for name, entry in _LISTED.items()}
EMBEDDED_TITLES = {"breast-cancer": "breast cancer (real)", "synthetic-text": "text-like (synthetic)"}


def get(name: str) -> PublicSet:
    if name not in REGISTRY:
        raise unknown_name("data set", name, [*REGISTRY, *EMBEDDED])
    return REGISTRY[name]


def title(name: str) -> str:
    """What figures call a data set: the registry's title, or the file's own name."""
    return EMBEDDED_TITLES.get(name) or (REGISTRY[name].title if name in REGISTRY else Path(name).name)
