"""Mutated inputs for all readers: batches in worker processes, counted in a file, so that a soak can be resumed."""

from __future__ import annotations

import hashlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # conftest sits there

from conftest import ROOT
from tests.soak.readers import READERS, Reader
from tests.soak.worker import ACCEPTED, CHANGED, CRASH, HANG, OUT_OF_MEMORY, REFUSED, SECONDS, keep_failure, load_corpus

from dsba.storage.atomic import replacing

BATCH = 5000
START_SECONDS = 300.0  # until the first answer: kernels may have to be compiled
NAMES = {
    ACCEPTED: "accepted", REFUSED: "refused",
    CRASH: "crashes", HANG: "hangs", OUT_OF_MEMORY: "memory", CHANGED: "changed",
}  # fmt: skip
BAD = (CRASH, HANG, OUT_OF_MEMORY, CHANGED)


def sources() -> str:
    """A digest of the code: what other code has read proves nothing for this one."""
    made = hashlib.sha256()
    for path in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests" / "soak").glob("*.py")]):
        made.update(path.read_bytes())
    return made.hexdigest()


class Ledger:
    """What was counted so far, in a file of ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.lock = folder, folder / "state.json", threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self.content: dict[str, dict[str, object]] = {"sources": sources(), "done": {}}
        if self.path.exists() and (found := json.loads(self.path.read_text()))["sources"] == self.content["sources"]:
            self.content = found

    def has(self, key: str) -> bool:
        return key in self.content["done"]

    def add(self, key: str, counts: Counter[str] | dict[str, int]) -> None:
        with self.lock:
            self.content["done"][key] = dict(counts)
            with replacing(self.path) as stream:
                stream.write(json.dumps(self.content).encode())

    def total(self, name: str) -> Counter[str]:
        """Over all batches of a reader, or rounds of kills."""
        found: Counter[str] = Counter()
        for key, counts in self.content["done"].items():
            if key.split(" ")[0] == name:
                found.update(counts)
        return found


def corpus_of(reader: Reader, folder: Path) -> Path:
    """The corpus on disk; made once, as some of it contains times."""
    place = folder / "corpus" / reader.name
    if not place.exists():
        making = folder / "corpus" / f".{reader.name}"
        for number, files in enumerate(reader.corpus()):
            for name, data in files.items():
                (making / str(number) / name).parent.mkdir(parents=True, exist_ok=True)
                (making / str(number) / name).write_bytes(data)
        os.replace(making, place)
    return place


def read_batch(reader: Reader, first: int, last: int, corpus: Path, failures: Path) -> Counter[str]:
    """The answers to inputs ``first`` to ``last``; a worker that dies or falls silent is replaced by another."""
    counts: Counter[str] = Counter()
    while first < last:
        for letter in _answers(reader, first, last, corpus, failures):
            counts[letter] += 1
            first += 1
        if first < last:  # the worker ended in the middle of an input
            counts[CRASH] += 1
            keep_failure(reader, load_corpus(corpus), first, CRASH, "the process died or fell silent", failures)
            first += 1
    return counts


def _answers(reader: Reader, first: int, last: int, corpus: Path, failures: Path) -> Iterator[str]:
    command = [
        sys.executable,
        "-m",
        "tests.soak.worker",
        reader.name,
        str(first),
        str(last),
        str(corpus),
        str(failures),
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        patience = START_SECONDS
        try:
            while select.select([worker.stdout], [], [], patience)[0]:
                letters = os.read(worker.stdout.fileno(), 4096).decode()
                if not letters:
                    break
                yield from letters
                patience = 2 * SECONDS
        finally:
            worker.kill()
            said = worker.stderr.read().decode(errors="replace").strip().splitlines()
        if patience == START_SECONDS:
            raise RuntimeError(f"the worker for {reader.name} did not begin: {' '.join(said[-3:])}")


def soak_inputs(ledger: Ledger, names: list[str], share: float, workers: int) -> None:
    """Every reader's inputs, as far as they are not counted yet."""
    todo = []
    for name in names:
        reader = READERS[name]
        corpus, inputs = corpus_of(reader, ledger.folder), max(1, round(share * reader.inputs))
        for first in range(0, inputs, BATCH):
            todo.append((reader, first, min(first + BATCH, inputs), corpus, ledger.folder / "failures"))

    def work(batch: tuple[Reader, int, int, Path, Path]) -> None:
        key = f"{batch[0].name} {batch[1]}-{batch[2]}"
        if not ledger.has(key):
            begun = time.monotonic()
            counts = read_batch(*batch)
            ledger.add(
                key,
                {NAMES[letter]: count for letter, count in counts.items()}
                | {"milliseconds": round(1000 * (time.monotonic() - begun))},
            )

    with ThreadPoolExecutor(workers) as pool:
        for done, _ in enumerate(pool.map(work, todo), start=1):
            print(f"\r{done} of {len(todo)} batches", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
