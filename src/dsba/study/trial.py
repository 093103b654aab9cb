"""A whole study on one machine: real processes, real keys, loopback. For demonstrations and tests."""

from __future__ import annotations

import itertools
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import tomli_w

from dsba.data.sources import TableSource
from dsba.data.table_files import open_table
from dsba.errors import InputError
from dsba.fitting.not_converged import EXIT_CODE
from dsba.fitting.spec import FitSpec
from dsba.storage.atomic import write_whole
from dsba.study import keys
from dsba.study.file import Study, load, model_of, section_of
from dsba.study.join import result_hash
from dsba.tables.inputs import distinct
from dsba.tables.results import Results
from dsba.tables.schema import MOST_LEVELS, in_order, kind_of, plain, require_levelled, unlisted
from dsba.tables.terms import SITE, ModelTerms, absent_column, own_site_column, stated
from dsba.types import Level

TRIAL_FOLDER, TRIAL_FILE = "study", "study.toml"
DEADLINE = 3600.0  # seconds for all processes together
SAVED_CODES = (0, EXIT_CODE)  # exit codes of sites that have saved the model
GRACE = 10.0  # seconds for the others to hear that one has failed
PORT_RANGE = range(20000, 32000)  # below the ports that a system gives to lines that are dialled
PORTS = itertools.cycle(random.Random().sample(PORT_RANGE, len(PORT_RANGE)))


def arrange(files: Sequence[Path | TableSource], spec: FitSpec, folder: Path, **study: Any) -> Study:
    """Keys for all sites and a study file in ``folder``; sites are named after their files, levels are found there.

    The file has labels and levels in the order that the event and the levels of ``spec`` ask for. ``study`` are other
    keys of the file.
    """
    names = distinct([TableSource.of(file).site for file in files])
    if len(names) < 2:
        raise InputError("a study has at least two sites: give a file for each.")
    if complaint := spec.guards.too_few_sites(len(names)):
        raise InputError(complaint)
    model_of(section_of(spec))  # before anything is read: nothing is left of what is refused
    spec, columns = described(dict(zip(names, files, strict=True)), spec)
    section = section_of(replace(spec, event=None))  # the columns have the order
    wanted = {"graph": spec.graph, "mixing": spec.mixing, **study, "columns": columns}
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / TRIAL_FILE).exists():
        return _found(folder / TRIAL_FILE, names, {**wanted, "model": model_of(section), "guards": spec.guards})
    sites = []
    for name, port in zip(names, free_ports(len(names)), strict=True):
        key = keys.make(name, folder / f"{name}.pem")
        sites.append(keys.site_section(name, f"127.0.0.1:{port}", key.certificate))
    ends = (datetime.now(UTC) + timedelta(days=30)).date()
    content = {"name": "trial", "ends": ends, **wanted, "model": section, "guards": asdict(spec.guards), "sites": sites}
    write_whole(folder / TRIAL_FILE, tomli_w.dumps(content).encode())
    return load(folder / TRIAL_FILE)


def _found(file: Path, names: list[str], wanted: Mapping[str, Any]) -> Study:
    """The study of an earlier trial, which goes on; an error if another one was asked for."""
    before = load(file)
    same = [site.name for site in before.sites] == names
    if not same or any(getattr(before, key) != value for key, value in wanted.items()):
        raise InputError(f"{file} is of another trial: give another folder, or move this one away.")
    return before


def described(
    files: Mapping[str, Path | TableSource], spec: FitSpec
) -> tuple[FitSpec, dict[str, str | tuple[Level, ...]]]:
    """The specification with its formula, and its columns: "number", or all levels in the files, in order."""
    tables = {name: open_table(file) for name, file in files.items()}
    headers = {name: table.names for name, table in tables.items()}
    spec = stated(spec, headers)
    terms = ModelTerms.of(spec)
    if complaint := absent_column(headers, terms) or own_site_column(headers, terms):
        raise InputError(complaint)
    if SITE in spec.levels:
        raise InputError(f"levels are given for {SITE!r}, and the sites of a study are in sorted order.")
    wanted = [column for column in terms.columns if column != SITE]
    frames = [table.read(wanted, codes=terms.formula.factors) for table in tables.values()]
    kinds = {column: _kind([kind_of(frame[column]) for frame in frames]) for column in wanted}
    labels = terms.formula.response if terms.of_classes else ()
    levelled = [c for c in wanted if c in (*labels, *terms.formula.factors) or kinds[c] == "text"]
    require_levelled(terms, levelled, kinds)
    own = {column: [plain(frame[column]) for frame in frames] for column in levelled}
    for column, found in own.items():
        if (count := len(set().union(*found))) > MOST_LEVELS * len(frames):
            raise InputError(f"the column {column!r} has {count} levels: it looks like an identifier.")
    if complaint := unlisted(own, list(files), terms, kinds):
        raise InputError(complaint)
    columns = {c: tuple(in_order(c, own[c], terms, kinds[c])) if c in own else "number" for c in wanted}
    return spec, columns


def _kind(kinds: Sequence[str]) -> str:
    """What a column holds in any of the files; text before others, as one text makes it a factor."""
    return "text" if "text" in kinds else next((kind for kind in kinds if kind != "empty"), "empty")


def free_ports(count: int) -> list[int]:
    """Ports on which nothing listens. None of them was given before in this process."""
    tried = itertools.islice(PORTS, len(PORT_RANGE))
    if len(found := list(itertools.islice(filter(_is_free, tried), count))) < count:
        raise InputError(f"{count} free ports were not found between {PORT_RANGE.start} and {PORT_RANGE.stop}.")
    return found


def _is_free(port: int) -> bool:
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


class Trial:
    """The sites' processes, each with a folder of its own."""

    def __init__(
        self, study: Study, files: Sequence[Path | TableSource], folder: Path, options: Sequence[str] = ()
    ) -> None:
        self.study, self.folder, self.options = study, folder, options
        self.files = [TableSource.of(file) for file in files]
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def out(self, rank: int) -> Path:
        return self.folder / self.study.sites[rank].name

    def command(self, rank: int) -> list[str]:
        """What is typed at a site to join."""
        name = self.study.sites[rank].name
        command = [sys.executable, "-m", "dsba", "study", "join", str(self.folder / TRIAL_FILE), "--site", name]
        command += ["--data", *self.files[rank].words(), "--key", str(self.folder / f"{name}.pem")]
        return [*command, "--out", str(self.out(rank)), "--approve", self.study.hash, *self.options]

    def start(self, rank: int) -> subprocess.Popen[bytes]:
        null, pipe = subprocess.DEVNULL, subprocess.PIPE
        started = subprocess.Popen(self.command(rank), stdin=null, stdout=pipe, stderr=subprocess.STDOUT)
        self.processes[rank] = started
        return started

    def stop(self) -> None:
        for process in self.processes.values():
            with suppress(OSError):
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, notify: Callable[[str], object]) -> Results:
        """Start all sites, pass on what they say, and give the model that all of them have."""
        readers = []
        try:
            for rank, site in enumerate(self.study.sites):
                stream = self.start(rank).stdout
                assert stream is not None
                readers.append(threading.Thread(target=_pass_on, args=(stream, site.name, notify)))
                readers[-1].start()
            self._wait()
        finally:
            self.stop()
            for reader in readers:
                reader.join()
        failed = [rank for rank, process in self.processes.items() if process.returncode not in SAVED_CODES]
        if failed:
            raise InputError(f"{self.study.sites[failed[0]].name} did not end well: what it said is above.")
        return self._results()

    def _wait(self) -> None:
        """Wait until all have ended, or until one has failed and the others have had time to hear of it."""
        deadline = time.monotonic() + DEADLINE
        while any(process.poll() is None for process in self.processes.values()):
            if any(process.poll() not in (None, *SAVED_CODES) for process in self.processes.values()):
                deadline = min(deadline, time.monotonic() + GRACE)
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)

    def _results(self) -> Results:
        everyone = [Results.load(self.out(rank)) for rank in range(len(self.study.sites))]
        if len({result_hash(results.model) for results in everyone}) > 1:
            raise InputError("the sites ended with different models: report this.")
        return everyone[0]


def _pass_on(stream: IO[bytes], name: str, notify: Callable[[str], object]) -> None:
    for line in stream:
        notify(f"{name}: {line.decode(errors='replace').rstrip()}")
