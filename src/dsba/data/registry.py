"""Public data sets by name: where they come from, and what shape a whole file has.

The first three are the paper's. LIBSVM publishes no checksums; a download is taken for whole when it
decompresses (bzip2 checks every block), parses, and has the rows and columns published with it. Where
``sha256`` is given, it must agree as well.

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
class Entry:
    """A file of the registry. ``classes`` above 2 means that experiments binarise it."""

    path: str  # below LIBSVM's folder, or below a mirror's
    title: str
    rows: int
    columns: int
    classes: int = 2
    test: str | None = None  # the entry of the test set
    sha256: str | None = None

    @property
    def file(self) -> str:
        return self.path.rpartition("/")[2]


REGISTRY: dict[str, Entry] = {
    "news20.binary": Entry("binary/news20.binary.bz2", "News20-binary", 19_996, 1_355_191),
    "rcv1_train.binary": Entry("binary/rcv1_train.binary.bz2", "RCV1", 20_242, 47_236, test="rcv1_test.binary"),
    "sector.scale": Entry("multiclass/sector/sector.scale.bz2", "Sector", 6_412, 55_197, 105, "sector.t.scale"),
    "rcv1_test.binary": Entry("binary/rcv1_test.binary.bz2", "RCV1, test", 677_399, 47_236),
    "sector.t.scale": Entry("multiclass/sector/sector.t.scale.bz2", "Sector, test", 3_207, 55_197, 105),
    "news20": Entry("multiclass/news20.bz2", "News20", 15_935, 62_061, 20, "news20.t"),
    "news20.t": Entry("multiclass/news20.t.bz2", "News20, test", 3_993, 62_060, 20),
    "a9a": Entry("binary/a9a", "a9a", 32_561, 123, test="a9a.t"),
    "a9a.t": Entry("binary/a9a.t", "a9a, test", 16_281, 122),
    "w8a": Entry("binary/w8a", "w8a", 49_749, 300, test="w8a.t"),
    "w8a.t": Entry("binary/w8a.t", "w8a, test", 14_951, 300),
    "ijcnn1.tr": Entry("binary/ijcnn1.tr.bz2", "ijcnn1", 35_000, 22, test="ijcnn1.t"),
    "ijcnn1": Entry("binary/ijcnn1.bz2", "ijcnn1", 49_990, 22, test="ijcnn1.t"),
    "ijcnn1.t": Entry("binary/ijcnn1.t.bz2", "ijcnn1, test", 91_701, 22),
    "covtype.libsvm.binary.scale": Entry(
        "binary/covtype.libsvm.binary.scale.bz2", "covtype.binary (scaled)", 581_012, 54
    ),
    "mushrooms": Entry("binary/mushrooms", "mushrooms", 8_124, 112),
    "phishing": Entry("binary/phishing", "phishing", 11_055, 68),
    "real-sim": Entry("binary/real-sim.bz2", "real-sim", 72_309, 20_958),
    "gisette_scale": Entry("binary/gisette_scale.bz2", "gisette (scaled)", 6_000, 5_000, test="gisette_scale.t"),
    "gisette_scale.t": Entry("binary/gisette_scale.t.bz2", "gisette (scaled), test", 1_000, 5_000),
}
EMBEDDED_TITLES = {"breast-cancer": "breast cancer (real)", "synthetic-text": "text-like (synthetic)"}


def get(name: str) -> Entry:
    if name not in REGISTRY:
        raise unknown_name("data set", name, [*REGISTRY, *EMBEDDED])
    return REGISTRY[name]


def title(name: str) -> str:
    """What figures call a data set: the registry's title, or the file's own name."""
    return EMBEDDED_TITLES.get(name) or (REGISTRY[name].title if name in REGISTRY else Path(name).name)
