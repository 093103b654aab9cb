"""What a site keeps for itself: the audit log of a run, and the ledger of all runs with its data."""

from __future__ import annotations

import hashlib
import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from dsba.errors import InputError
from dsba.storage.atomic import PRIVATE, replacing

NO_LINE = "0" * 64  # stands for the line before the first
TOGETHER = 1000  # messages that may share a line


class Sent(NamedTuple):
    """Messages that share a line."""

    discloses: str
    messages: int
    bytes: int


class AuditLog:
    """JSON lines, each with the hash of the line before: a line that is changed, added or removed breaks the chain.

    ``log(event, **facts)`` may be called by several threads. Messages of the same class that follow each other become
    one line with their number and their bytes.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._sent = Sent("", 0, 0)
        kept, self._before = _whole_lines(path), NO_LINE
        for line in kept:
            self._before = _digest(line)
        with replacing(path, PRIVATE) as file:  # without a line that a kill left torn
            file.write(b"".join(line + b"\n" for line in kept))
        self._file = path.open("ab")

    def log(self, event: str, **facts: Any) -> None:
        with self._lock:
            if event == "sent" and self._added(facts):
                return
            self._flush()
            if event == "sent":
                self._sent = Sent(facts["discloses"], 1, facts["bytes"])
            else:
                self._write(event, facts)

    def close(self) -> None:
        with self._lock:
            self._flush()
            self._file.close()

    def _added(self, facts: dict[str, Any]) -> bool:
        """Whether a message joined those before it."""
        discloses, messages, total = self._sent
        if facts["discloses"] != discloses or messages >= TOGETHER:
            return False
        self._sent = Sent(discloses, messages + 1, total + facts["bytes"])
        return True

    def _flush(self) -> None:
        if self._sent.messages:
            self._write("sent", self._sent._asdict())
        self._sent = Sent("", 0, 0)

    def _write(self, event: str, facts: dict[str, Any]) -> None:
        if self._file.closed:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, **facts, "before": self._before}).encode()
        self._before = _digest(line)
        self._file.write(line + b"\n")
        self._file.flush()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The events of an audit log whose chain is whole; an error names the first line that does not fit."""
    before, events = NO_LINE, []
    for number, line in enumerate(_whole_lines(path), start=1):
        try:
            event = json.loads(line)
            fits = event["before"] == before
        except (ValueError, TypeError, KeyError, RecursionError):
            fits = False
        if not fits:
            raise InputError(f"{path}, line {number}: the audit log was changed here, or a line is missing before it.")
        before = _digest(line)
        events.append(event)
    return events


def _whole_lines(path: Path) -> list[bytes]:
    """The lines of the log, without a last line that was not finished."""
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


class Ledger:
    """All runs of a site, by data set: a file beside its key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.runs: list[dict[str, str]] = json.loads(path.read_text()) if path.exists() else []
            if not all(isinstance(run["data"], str) for run in self.runs):
                raise TypeError
        except (OSError, ValueError, TypeError, KeyError):
            raise InputError(f"the ledger {path} is damaged: no run begins before somebody has looked at it.") from None

    def add(self, study: str, data: str, most: int) -> None:
        """Count a run that begins; an error if there were ``most`` already with this data set."""
        before = sum(run["data"] == data for run in self.runs)
        if before >= most:
            raise InputError(
                f"this data set has been in {before} runs, and the study allows {most}: every further run tells more "
                f"about it. The ledger is {self.path}."
            )
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.runs.append({"time": now, "study": study, "data": data})
        with replacing(self.path, PRIVATE) as file:
            file.write(json.dumps(self.runs, indent=1).encode())
