"""What a site keeps for itself of a run: the audit log."""

from __future__ import annotations

import hashlib
import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dsba.errors import InputError
from dsba.storage.atomic import PRIVATE, replacing

NO_LINE = "0" * 64  # stands for the line before the first
TOGETHER = 1000  # messages that may share a line


class AuditLog:
    """JSON lines, each with the hash of the line before: a line that is changed, added or removed breaks the chain.

    ``log(event, **facts)`` may be called by several threads. Messages of the same class that follow each other become
    one line with their number and their bytes.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._sent: dict[str, Any] = {}  # messages that will share a line
        kept, self._before = _whole_lines(path), NO_LINE
        for line in kept:
            self._before = _digest(line)
        with replacing(path, PRIVATE) as file:  # without a line that a kill left torn
            file.write(b"".join(line + b"\n" for line in kept))
        self._file = path.open("ab")

    def log(self, event: str, **facts: Any) -> None:
        with self._lock:
            sent, discloses = self._sent, facts.get("discloses")
            if event != "sent" or sent.get("discloses") != discloses or sent["messages"] >= TOGETHER:
                self._flush()
                sent = {"messages": 0, "bytes": 0}
            if event != "sent":
                self._write(event, facts)
                return
            messages, total = sent["messages"] + 1, sent["bytes"] + facts["bytes"]
            self._sent = {"discloses": discloses, "messages": messages, "bytes": total}

    def close(self) -> None:
        with self._lock:
            self._flush()
            self._file.close()

    def _flush(self) -> None:
        if self._sent:
            self._write("sent", self._sent)
        self._sent = {}

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
