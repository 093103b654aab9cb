"""Public data sets by name: where they come from, and what shape a whole file has.

The first three are the paper's. A download is taken for whole when its checksum is the registered one, it
decompresses, parses, and has the rows and columns published with it. LIBSVM publishes no checksums: these are the
ones that others recorded in public code after downloading from it, MD5 where nobody took a SHA-256. Those of a9a,
w8a, mushrooms and news20 were compared with files at hand. A file without one is listed only if it is compressed:
bzip2 keeps a checksum of every block, which tells damage, though not one whole file from another.

Sets with more than two classes are binarised by experiments: the first half of the classes in increasing
order against the rest (`dsba.data.binarise`), unless the experiment says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
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


REGISTRY: dict[str, PublicSet] = {
    "news20.binary": PublicSet("binary/news20.binary.bz2", "News20-binary", 19_996, 1_355_191),
    "rcv1_train.binary": PublicSet(
        "binary/rcv1_train.binary.bz2",
        "RCV1",
        20_242,
        47_236,
        test="rcv1_test.binary",
        checksum="md5:1aeda848408e621468c0fe6944d9382f",
    ),
    "sector.scale": PublicSet("multiclass/sector/sector.scale.bz2", "Sector", 6_412, 55_197, 105, "sector.t.scale"),
    "rcv1_test.binary": PublicSet(
        "binary/rcv1_test.binary.bz2",
        "RCV1, test",
        677_399,
        47_236,
        checksum="md5:d6e3ab397758fb5c036d9cced52aedae",
    ),
    "sector.t.scale": PublicSet("multiclass/sector/sector.t.scale.bz2", "Sector, test", 3_207, 55_197, 105),
    "news20": PublicSet(
        "multiclass/news20.bz2",
        "News20",
        15_935,
        62_061,
        20,
        "news20.t",
        checksum="sha256:8c79851f6f5fdc5540a0d04a5ab728353c42d26b84e73f93bda301c06c15ffe9",
    ),
    "news20.t": PublicSet("multiclass/news20.t.bz2", "News20, test", 3_993, 62_060, 20),
    "a9a": PublicSet(
        "binary/a9a",
        "a9a",
        32_561,
        123,
        test="a9a.t",
        checksum="sha256:f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
    ),
    "a9a.t": PublicSet(
        "binary/a9a.t",
        "a9a, test",
        16_281,
        122,
        checksum="sha256:1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
    ),
    "w8a": PublicSet(
        "binary/w8a",
        "w8a",
        49_749,
        300,
        test="w8a.t",
        checksum="sha256:6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2",
    ),
    "w8a.t": PublicSet("binary/w8a.t", "w8a, test", 14_951, 300, checksum="md5:938543adbdc198246247d5d2015f01e8"),
    "ijcnn1.tr": PublicSet(
        "binary/ijcnn1.tr.bz2",
        "ijcnn1",
        35_000,
        22,
        test="ijcnn1.t",
        checksum="md5:9889c2e9d957dca5304ed2d285f1be6d",
    ),
    "ijcnn1": PublicSet(
        "binary/ijcnn1.bz2", "ijcnn1", 49_990, 22, test="ijcnn1.t", checksum="md5:c3e9162f8e38e0b6c0e02d313a59de2b"
    ),
    "ijcnn1.t": PublicSet(
        "binary/ijcnn1.t.bz2", "ijcnn1, test", 91_701, 22, checksum="md5:66433ab8089acee9e56dc61ac89a2fe2"
    ),
    "covtype.libsvm.binary.scale": PublicSet(
        "binary/covtype.libsvm.binary.scale.bz2",
        "covtype.binary (scaled)",
        581_012,
        54,
        checksum="md5:d95f45e15c284005c2c7a4c82e4be102",
    ),
    "mushrooms": PublicSet(
        "binary/mushrooms",
        "mushrooms",
        8_124,
        112,
        checksum="sha256:f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538",
    ),
    "real-sim": PublicSet(
        "binary/real-sim.bz2",
        "real-sim",
        72_309,
        20_958,
        checksum="sha256:7cd52374f55ce62e803ef33ca1c44689427c23d481eff64026f8ba9f53b8cc27",
    ),
    "gisette_scale": PublicSet(
        "binary/gisette_scale.bz2",
        "gisette (scaled)",
        6_000,
        5_000,
        test="gisette_scale.t",
        checksum="md5:8a8caa1628c98dafec8d5d7bfa67c20b",
    ),
    "gisette_scale.t": PublicSet("binary/gisette_scale.t.bz2", "gisette (scaled), test", 1_000, 5_000),
}
EMBEDDED_TITLES = {"breast-cancer": "breast cancer (real)", "synthetic-text": "text-like (synthetic)"}


def get(name: str) -> PublicSet:
    if name not in REGISTRY:
        raise unknown_name("data set", name, [*REGISTRY, *EMBEDDED])
    return REGISTRY[name]


def title(name: str) -> str:
    """What figures call a data set: the registry's title, or the file's own name."""
    return EMBEDDED_TITLES.get(name) or (REGISTRY[name].title if name in REGISTRY else Path(name).name)
