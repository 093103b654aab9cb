"""One process that reads many mutated inputs: `python -m tests.soak.worker READER FIRST LAST CORPUS FAILURES`.

It answers one letter for each input, on its standard output, so that whoever started it knows at every moment how far
it came. Its memory is bounded, and so is the time for an input.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # conftest sits there

from tests.soak.mutate import mutated
from tests.soak.readers import READERS, Reader

from dsba.errors import InputError, NetworkError

SECONDS = 10.0  # for one input
MEMORY = 1 << 30  # bytes beyond what the process has when it begins
ACCEPTED, REFUSED, CRASH, HANG, OUT_OF_MEMORY, CHANGED = "arehmc"


class HangError(BaseException):
    """An input has taken too long."""


def load_corpus(folder: Path) -> list[dict[str, bytes]]:
    """Seeds are folders, and their files may be in folders again."""
    seeds = sorted(path for path in folder.iterdir() if path.is_dir())
    return [{str(f.relative_to(s)): f.read_bytes() for f in sorted(s.rglob("*")) if f.is_file()} for s in seeds]


def case(reader: Reader, corpus: list[dict[str, bytes]], number: int) -> tuple[int, str, bytes]:
    """Input ``number``: which seed, which of its files, and the bytes that this file has instead."""
    rng = random.Random(f"{reader.name} {number}")
    seed = rng.randrange(len(corpus))
    name = rng.choice(sorted(corpus[seed]))
    others = [files[name] for files in corpus if name in files]
    good = corpus[seed][name]
    return seed, name, mutated(good, others, rng) if reader.forge is None else reader.forge(good, rng)


class Judge:
    """Reads inputs and says what became of them."""

    def __init__(self, reader: Reader, corpus: list[dict[str, bytes]], scratch: Path) -> None:
        self.reader, self.corpus = reader, corpus
        self.folders = [scratch / str(number) for number in range(len(corpus))]
        for folder, files in zip(self.folders, corpus, strict=True):
            for name, data in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)
        self.wanted = [reader.read(folder) for folder in self.folders]

    def verdict(self, number: int) -> tuple[str, str]:
        """The letter of an input, and why."""
        seed, name, data = case(self.reader, self.corpus, number)
        path = self.folders[seed] / name
        path.write_bytes(data)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            return self._judged(seed, self.reader.read(self.folders[seed]))
        except (InputError, NetworkError) as error:
            return REFUSED, str(error)
        except HangError:
            return HANG, f"no end after {SECONDS:g} seconds"
        except MemoryError:
            return OUT_OF_MEMORY, "too much memory"
        except Exception as error:
            return CRASH, f"{type(error).__name__}: {error}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            path.write_bytes(self.corpus[seed][name])

    def _judged(self, seed: int, got: Any) -> tuple[str, str]:
        if self.reader.forge is not None:
            return ACCEPTED, ""
        wanted = self.wanted[seed]
        if self.reader.independent is not None:
            try:
                wanted = self.reader.independent(self.folders[seed])
            except Exception as error:
                return CHANGED, f"the independent reader refuses it: {type(error).__name__}: {error}"
        return (ACCEPTED, "") if got == wanted else (CHANGED, "another value than wanted")


def _too_long(signum: int, frame: Any) -> None:
    raise HangError


def main(name: str, first: int, last: int, corpus: Path, failures: Path) -> None:
    answers = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what readers print is no answer
    signal.signal(signal.SIGALRM, _too_long)
    with tempfile.TemporaryDirectory() as scratch:
        judge = Judge(READERS[name], load_corpus(corpus), Path(scratch))
        pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for number in range(first, last):
            letter, why = judge.verdict(number)
            if letter not in (ACCEPTED, REFUSED):
                keep_failure(judge.reader, judge.corpus, number, letter, why, failures)
            os.write(answers, letter.encode())


def keep_failure(
    reader: Reader, corpus: list[dict[str, bytes]], number: int, letter: str, why: str, failures: Path
) -> None:
    """The mutated file and the reason, for whoever repairs it."""
    _, name, data = case(reader, corpus, number)
    failures.mkdir(parents=True, exist_ok=True)
    (failures / f"{reader.name}-{number}").write_bytes(data)
    facts = {"reader": reader.name, "number": number, "file": name, "letter": letter, "why": why[:500]}
    with (failures / "failures.jsonl").open("a") as log:
        log.write(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), Path(sys.argv[5]))
