"""The readers that are soaked, each with a corpus of good inputs and a rule for what it may accept.

An input is a few files by name, one of which is mutated. A reader gives a value that can be compared, or refuses with
an `InputError`. What it accepts must be right:

- with a digest: the value is that of the input before it was mutated;
- text: the value is that of an independent reader, written here without the project's code;
- forged (a right digest over mutated numbers): anything is right, if only it ends.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import math
import random
import re
import struct
import tempfile
import tomllib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from conftest import make_data, make_problem
from tests.soak import table_readers as tables

import dsba
from dsba.algorithms.dsba.node import hold_round
from dsba.data import cache, libsvm
from dsba.engine import checkpoint
from dsba.engine.run import Status
from dsba.errors import InputError
from dsba.fitting import FitSpec, FittedModel, codec
from dsba.fitting.measures import LastRecord
from dsba.fitting.model import FitRun
from dsba.lab import ExperimentResults
from dsba.lab import run as run_experiment
from dsba.lab.example import EXAMPLE
from dsba.lab.reading import read as read_experiment
from dsba.network import MessageSimulator
from dsba.network.messages.levels import Compression
from dsba.network.messages.wire import Header, pack, unpack, unpack_row
from dsba.network.tls.frames import Frame, FrameError, encode
from dsba.network.tls.link import SiteLink
from dsba.pages.templates import asset
from dsba.storage import sealed
from dsba.study.file import parse as parse_study

Input = dict[str, bytes]


@dataclass(frozen=True)
class Reader:
    """``read`` reads the files in a folder. ``inputs`` are those of a full soak."""

    name: str
    inputs: int
    corpus: Callable[[], list[Input]]
    read: Callable[[Path], Any]
    independent: Callable[[Path], Any] | None = None  # of text; without one, the value before the mutation is right
    forge: Callable[[bytes, random.Random], bytes] | None = None  # of forged inputs, instead of the usual mutations
    waits_for: str = ""  # what is known to be missing elsewhere; then findings are shown and do not fail


def digest(*parts: Any) -> str:
    """A value to compare, of arrays and small things."""
    made = hashlib.sha256()
    for part in parts:
        made.update(
            f"{part.dtype}{part.shape}".encode() + part.tobytes()
            if isinstance(part, np.ndarray)
            else repr(part).encode()
        )
    return made.hexdigest()


# LIBSVM -------------------------------------------------------------------------------------------

FLOAT = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
INTEGER = re.compile(rb"[+-]?[0-9]{1,4300}")
TEXTS = [
    b"+1 1:0.5 3:2\n\n# a remark\n-1 2:1e-3 4:-7 # why not\n+1\n",
    b"1 qid:7 1:2 # doc_12 qid 3\n-1 qid:7 2:3\n",
    b"0 0:1 7:-.5\r\n1 3:1E5\r\n2.5 1:+4 2:5.\r\n",
    b"".join(b"%d 1:%d 3:0.5 %d:1\n" % (1 - 2 * (i % 2), i + 1, 5 + i) for i in range(40)),
]


def _packed(pack: Callable[[bytes], bytes]) -> Callable[[], list[Input]]:
    return lambda: [{"file": pack(text)} for text in TEXTS]


def read_libsvm(folder: Path) -> str:
    X, y = dsba.load_libsvm(folder / "file", cache=False)
    return digest(X.shape, X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data, y)


def read_libsvm_strictly(folder: Path) -> str:
    """The slow twin alone; the usual way asks it only where the fast parser stumbles."""
    with patch.object(libsvm, "_parse_fast", libsvm._parse_strictly):
        X, y = dsba.load_libsvm(folder / "file", cache=False)
    if not y.size:
        raise InputError("no row")
    return digest(X.shape, X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data, y)


def plain_libsvm(folder: Path) -> str:
    data = (folder / "file").read_bytes()
    text = bz2.decompress(data) if data[:3] == b"BZh" else gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    labels, values, indices, ends = [], [], [], [0]
    for line in text.split(b"\n"):
        words = line.split(b"#")[0].split()
        if not words:
            continue
        labels.append(_plain_float(words[0]))
        entries = words[2:] if len(words) > 1 and words[1][:4] == b"qid:" else words[1:]
        pairs = [entry.split(b":") for entry in entries]
        indices += [_plain_integer(index) for index, _ in pairs]
        values += [_plain_float(value) for _, value in pairs]
        ends.append(len(values))
        if (np.diff(np.array(indices[ends[-2] :], object)) <= 0).any():
            raise ValueError("not increasing")
    base = 0 if 0 in indices else 1
    width = max(indices) + 1 - base
    columns = np.array([index - base for index in indices], np.int64)
    return digest((len(labels), width), np.array(ends), columns, np.array(values, float), np.array(labels, float))


def _plain_float(word: bytes) -> float:
    if not FLOAT.fullmatch(word) or not math.isfinite(float(word)):
        raise ValueError("no number")
    return float(word)


def _plain_integer(word: bytes) -> int:
    if not INTEGER.fullmatch(word) or int(word) < 0:
        raise ValueError("no index")
    return int(word)


# Parsed copies ------------------------------------------------------------------------------------

SOURCE = TEXTS[3]


def parsed_corpus() -> list[Input]:
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        source.write_bytes(SOURCE)
        stream = io.BytesIO()
        X, y = dsba.load_libsvm(source, zero_based=True, cache=False)
    arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "y": y}
    sealed.write(stream, {"format": cache.PARSED_FORMAT, "source": hashlib.sha256(SOURCE).hexdigest()}, arrays)
    return [{"file": stream.getvalue()}]


def read_parsed(folder: Path) -> str:
    found = cache.opened(folder / "file", hashlib.sha256(SOURCE).hexdigest())
    if found is None:
        raise InputError("no entry")
    return digest(found.X.shape, found.X.indptr, found.X.indices, found.X.data, found.y)


# Edge lists ---------------------------------------------------------------------------------------


def edge_corpus() -> list[Input]:
    lists = (b"0 1\n1 2\n2 0\n", b"# a ring\n0 1\n\n1 2 # here\n2 3\n3 0\n", b"0\t5\n5 1\r\n1 2\n2 3\n3 4\n4 0\n")
    return [{"file": text} for text in lists]


def read_edges(folder: Path) -> Any:
    topology = dsba.Topology.from_edges(folder / "file")
    return topology.n_nodes, sorted(tuple(map(int, sorted(edge))) for edge in topology.edges)


def plain_edges(folder: Path) -> Any:
    """Loops from a node to itself mean nothing in a graph, and bytes that are no text may stand in remarks."""
    lines = (folder / "file").read_text(encoding="utf-8", errors="replace").splitlines()
    rows = [words for line in lines if (words := line.split("#")[0].split())]
    pairs = [[_plain_integer(word.encode()) for word in words] for words in rows]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("no edge")
    return 1 + max(map(max, pairs)), sorted({tuple(sorted(pair)) for pair in pairs if pair[0] != pair[1]})


# Experiments --------------------------------------------------------------------------------------


def read_toml(folder: Path) -> Any:
    experiment = read_experiment(folder / "file")
    kept = experiment.model_dump(mode="json", by_alias=True)
    content = tomllib.loads((folder / "file").read_text(encoding="utf-8"))
    return all(name in kept and _holds(kept[name], value) for name, value in content.items())


def _holds(kept: Any, said: Any) -> bool:
    """Everything that the file says is in what was understood, with its value."""
    if isinstance(said, dict):
        return isinstance(kept, dict) and all(
            name in kept and _holds(kept[name], value) for name, value in said.items()
        )
    if isinstance(said, list):
        return len(kept) == len(said) and all(map(_holds, kept, said))
    if isinstance(kept, float) and isinstance(said, int):  # the nearest number that there is
        return kept == float(said)
    return kept == said or kept == [said] or str(kept) == str(said)


# Sealed and other files of runs -------------------------------------------------------------------


def _solved(folder: Path, form: str = "lazy") -> dsba.Problem:
    problem = make_problem("ridge")
    dsba.solve(problem, dsba.Topology.ring(4), max_passes=3, form=form, checkpoint=folder / "file")
    return problem


def checkpoint_corpus() -> list[Input]:
    inputs = []
    for form in ("lazy", "dense"):
        with tempfile.TemporaryDirectory() as scratch:
            _solved(Path(scratch), form)
            inputs.append({"file": (Path(scratch) / "file").read_bytes()})
    return inputs


def read_checkpoint(folder: Path) -> str:
    return digest(*(part for pair in sorted(checkpoint.load(folder / "file", {}).items()) for part in pair))


def go_on(folder: Path) -> None:
    """A resumed run, with whatever numbers are in the checkpoint."""
    form = "lazy" if b"state.stamp" in (folder / "file").read_bytes() else "dense"
    dsba.solve(make_problem("ridge"), dsba.Topology.ring(4), max_passes=4, form=form, checkpoint=folder / "file")


ODD_WORDS = [struct.pack("<q", number) for number in (-1, 0, 1, 7, 1000, 2**31, 2**62, -(2**63))]
ODD_WORDS += [struct.pack("<d", number) for number in (math.nan, math.inf, -1.0, 1e300, 5e-324)]


def forge(data: bytes, rng: random.Random) -> bytes:
    """One to three numbers of the arrays are others, under a right digest."""
    start = sealed.START + int.from_bytes(data[len(sealed.MAGIC) : sealed.START], "little")
    body = bytearray(data[: -sealed.DIGEST_BYTES])
    for _ in range(rng.randint(1, 3)):
        at = start + 8 * rng.randrange((len(body) - start) // 8)
        body[at : at + 8] = rng.choice(ODD_WORDS)
    return bytes(body) + hashlib.sha256(body).digest()


def model_corpus() -> list[Input]:
    y = make_data("logistic")[1]
    counts = {"nodes": 4, "samples": len(y), "features": 12, "processes": 1, "masked": False}
    run = FitRun(
        "binary", "sign", "logit", "dsba", None, Status.CONVERGED, "", **counts, figures=LastRecord(), versions={}
    )
    model = FittedModel(np.ones((1, 12)), np.zeros(1), np.ones((4, 12)), np.unique(y), FitSpec(), run)
    with tempfile.TemporaryDirectory() as scratch:
        codec.save(model, Path(scratch))
        return [{path.name: path.read_bytes() for path in Path(scratch).iterdir()}]


def read_model(folder: Path) -> str:
    model = codec.load(folder)
    return digest(model.weights, model.intercepts, model.Z, model.classes, model.predict(np.eye(12)))


def results_corpus() -> list[Input]:
    content = {
        "stop": {"max_passes": 3},
        "data": [{"name": "breast-cancer"}],
        "problem": [{"operator": "ridge", "lam": 0.01}],
        "network": [{"graph": "ring", "n_nodes": 4}],
        "method": [{"algorithm": "extra", "step_size": "auto"}],
    }
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "results"
        run_experiment(content, root, workers=1)
        files = [path for path in sorted(root.rglob("*")) if path.suffix in (".toml", ".dsba")]
        return [{str(path.relative_to(root)): path.read_bytes() for path in files}]


def read_results(folder: Path) -> str:
    results = ExperimentResults.load(folder)
    histories = {id: history.to_dict() for id, history in results.histories.items()}
    return digest(
        histories, results.outcomes, results.environment, results.summary(), results.winners(), results.tuning()
    )


# Frames -------------------------------------------------------------------------------------------

_NODES: list[Any] = []


def _node() -> Any:
    """A node under way that awaits a frame of node 1, and the frame."""
    if not _NODES:
        problem, topology = make_problem(n_nodes=5), dsba.Topology.ring(5)
        net = MessageSimulator(topology)
        algorithm = dsba.DSBA(form="dense", communication="cached").resolved(problem, topology)
        state = algorithm.init(problem, net, np.zeros(problem.dim))
        for t in range(7):
            hold_round(net, state.nodes)
            for node in state.nodes:
                node.step(t % 4)
        _NODES.append(state.nodes)
    return _NODES[0]


def frame_corpus() -> list[Input]:
    return [{"file": _node()[1].outbox()[0]}]


def read_frame(folder: Path) -> str:
    node = _node()[0]
    header = Header(node.common.session, 1, 0, node.round)
    due = node.common.routing.due(1, 0, node.round)
    return digest([entry.raw for entry in unpack((folder / "file").read_bytes(), header, due, node.common.bounds)])


ROW_HEADER = Header(session=7, sender=1, receiver=0, round=9)


def row_corpus() -> list[Input]:
    """A compressed row of 5 levels, one of 129, and a row that goes as it is."""
    v, known, u = np.random.default_rng(0).normal(size=60), np.zeros(60), np.full(60, 0.5)
    codes = [Compression(half).coded(1, v, known, u, 1.0).entry for half in (2, 64, 128)]
    return [{"file": pack(ROW_HEADER, [code])} for code in codes]


def read_row(folder: Path) -> list[float]:
    """The numbers that a frame stands for."""
    found = unpack_row((folder / "file").read_bytes(), ROW_HEADER, 4, 60)
    return (found.scale * found.levels if found.row is None else found.row).tolist()


def plain_row(folder: Path) -> list[float]:
    """By the docstring of the wire format alone."""
    data = (folder / "file").read_bytes()
    head = struct.unpack_from("<BBHHHIIII", data)
    if head != (0xDB, 1, 1, 0, 1, 7, 9, len(data) - 24, zlib.crc32(data[24:], zlib.crc32(data[:20]))):
        raise ValueError("no frame of this round")
    if data[24:26] == b"\x04\x01":  # a dense row of node 1
        return np.frombuffer(data[26:], "<f8", 60).tolist()
    count, scale = struct.unpack_from("<xBf", data, 24)
    digits = {3: 5, 5: 3, 9: 2}.get(count, 1)
    levels = [byte // count**i % count for byte in zlib.decompress(data[30:], wbits=-15) for i in range(digits)]
    return [scale * (level - count // 2) for level in levels[:60]]


SITE_TAG = 0x0123456789ABCDEF


def site_frame_corpus() -> list[Input]:
    payloads = [b"", b"answer", bytes(range(256)) * 16]
    frames = [
        Frame(kind, last, 0, 0, data)
        for kind, last, data in zip((1, 2, 3), (False, True, False), payloads, strict=True)
    ]
    return [{"file": encode(SITE_TAG, frame)} for frame in frames]


def read_site_frame(folder: Path) -> str:
    """As a link reads it: the frame that is due, or a reason why not."""
    link = SiteLink(1, "site1")
    link.meet(b"nonce", b"study")
    link.tag = SITE_TAG
    try:
        link.take((folder / "file").read_bytes())
    except FrameError as error:
        raise InputError(str(error)) from None
    found = [[kind, [inbox.get() for _ in range(inbox.qsize())]] for kind, inbox in link.inbox.items()]
    return digest(found, link.parts, link.received)


def plain_site_frame(folder: Path) -> str:
    """By the docstring of the frames alone. A splice of two frames may be the other one, and then counts."""
    data = (folder / "file").read_bytes()
    magic, version, kind, tag, number, seen, crc = struct.unpack_from("<2sBBQQQI", data)
    payload, goes_on, kind = data[32:], kind >= 128, kind % 128
    sums = zlib.crc32(payload, zlib.crc32(data[:28]))
    if (magic, version, tag, number, seen, crc) != (b"DS", 1, SITE_TAG, 0, 0, sums) or kind > 3:
        raise ValueError("no frame")
    whole = [[k, [payload] if k == kind and kind and not goes_on else []] for k in range(4)]
    return digest(whole, [payload] if goes_on else [], int(kind > 0))


def study_corpus() -> list[dict[str, bytes]]:
    return [{"file": asset("dsba.study", "example.toml").encode()}]


def read_study(folder: Path) -> bool:
    parse_study((folder / "file").read_bytes(), "file")
    return True


READERS = {
    reader.name: reader
    for reader in [
        Reader("libsvm", 250_000, _packed(bytes), read_libsvm, plain_libsvm),
        Reader("libsvm-strict", 100_000, _packed(bytes), read_libsvm_strictly, plain_libsvm),
        Reader("libsvm-gz", 50_000, _packed(gzip.compress), read_libsvm, plain_libsvm),
        Reader("libsvm-bz2", 50_000, _packed(bz2.compress), read_libsvm, plain_libsvm),
        Reader("parsed", 60_000, parsed_corpus, read_parsed),
        Reader("edges", 150_000, edge_corpus, read_edges, plain_edges),
        Reader(
            "experiments",
            100_000,
            lambda: [{"file": EXAMPLE.encode()}],
            read_toml,
            lambda folder: True,
        ),
        Reader("checkpoints", 100_000, checkpoint_corpus, read_checkpoint),
        Reader("forged-checkpoints", 5_000, checkpoint_corpus, go_on, forge=forge),
        Reader("models", 100_000, model_corpus, read_model),
        Reader("results", 50_000, results_corpus, read_results),
        Reader("frames", 200_000, frame_corpus, read_frame),
        Reader("row-frames", 100_000, row_corpus, read_row, plain_row),
        Reader("tables", 50_000, tables.table_corpus, tables.read_columns, tables.plain_columns),
        Reader("tables-sniffed", 20_000, tables.sniffed_corpus, tables.read_sniffed, lambda folder: True),
        Reader("told-by-sites", 20_000, tables.told_corpus, tables.read_told, lambda folder: True),
        Reader("formulas", 100_000, tables.formula_corpus, tables.read_formula, lambda folder: True),
        Reader("test-sets", 20_000, tables.evaluation_corpus, tables.read_test, tables.plain_test),
        Reader("site-frames", 100_000, site_frame_corpus, read_site_frame, plain_site_frame),
        Reader("studies", 20_000, study_corpus, read_study, lambda folder: True),
    ]
}
