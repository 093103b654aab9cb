"""What a site keeps for itself of a run, signed with its key: the audit log, and the state of the run."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from dsba.errors import InputError
from dsba.storage.atomic import PRIVATE, write_whole

STATE, AUDIT = "run.json", "audit.jsonl"
NO_LINE = "0" * 64  # stands for the line before the first
TOGETHER = 1000  # messages that may share lines, one for each class
SIGNED = "signed"  # the event of a log's last line
LOG_SIGNATURE, STATE_SIGNATURE = b"dsba audit log ", b"dsba run state "  # so that one is never taken for the other

Sign = Callable[[bytes], bytes]


class AuditLog:
    """JSON lines, each with the hash of the line before: a line that is changed, added or removed breaks the chain.

    ``log(event, **details)`` may be called by several threads. Messages that follow each other become one line for each
    class, with their number and their bytes. ``close`` signs the end.
    """

    def __init__(self, path: Path, sign: Sign) -> None:
        self._lock, self._sign = threading.Lock(), sign
        self._sent: dict[str, tuple[int, int]] = {}  # by class, messages and bytes that will share a line
        kept, self._file = reopened(path)
        self._before = digest_of(kept[-1]) if kept else NO_LINE
        self._lines = len(kept)

    def log(self, event: str, **details: Any) -> None:
        with self._lock:
            if event == "sent":
                messages, total = self._sent.get(details["discloses"], (0, 0))
                self._sent[details["discloses"]] = messages + 1, total + details["bytes"]
            if event != "sent" or sum(messages for messages, _ in self._sent.values()) >= TOGETHER:
                self._flush()
            if event != "sent":
                self._write(event, details)

    def close(self) -> str:
        """Sign the end; its hash."""
        with self._lock:
            self._flush()
            self._write(SIGNED, {"lines": self._lines + 1}, signed=True)
            self._file.close()
            return self._before

    def _flush(self) -> None:
        for discloses, (messages, total) in self._sent.items():
            self._write("sent", {"discloses": discloses, "messages": messages, "bytes": total})
        self._sent = {}

    def _write(self, event: str, details: dict[str, Any], signed: bool = False) -> None:
        if self._file.closed:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        content = {"time": now, "event": event, **details, "before": self._before}
        line = json.dumps(content).encode()
        if signed:
            line = json.dumps({**content, "signature": self._sign(LOG_SIGNATURE + line).hex()}).encode()
        self._before, self._lines = digest_of(line), self._lines + 1
        self._file.write(line + b"\n")
        self._file.flush()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The events of an audit log whose chain is whole; an error names the first line that does not fit."""
    before, events = NO_LINE, []
    for number, line in enumerate(whole_lines(path, torn=False), start=1):
        try:
            event = json.loads(line)
            fits = event["before"] == before and json.dumps(event).encode() == line
        except (ValueError, TypeError, KeyError, RecursionError):
            fits = False
        if not fits:
            raise InputError(
                f"{path}, line {number}: this line does not follow from the line before. One of the two was changed, "
                "or a line is missing between them."
            )
        before = digest_of(line)
        events.append(event)
    return events


def log_end(path: Path, events: list[dict[str, Any]]) -> tuple[str, bytes, bytes]:
    """The hash of the last line of a log with these events, what is signed there, and the signature; or an error."""
    last = dict(events[-1]) if events else {}
    try:
        signature = bytes.fromhex(last.pop("signature"))
    except (KeyError, TypeError, ValueError):
        signature = b""
    if last.get("event") != SIGNED or last.get("lines") != len(events):
        raise InputError(
            f"{path}, line {len(events)}: this is no signed end. The program was killed, or lines were removed or "
            "added."
        )
    return digest_of(json.dumps(events[-1]).encode()), LOG_SIGNATURE + json.dumps(last).encode(), signature


def whole_lines(path: Path, torn: bool = True) -> list[bytes]:
    """The lines of the log. A last line that was not finished is left out, or an error if it may not be ``torn``."""
    *lines, rest = path.read_bytes().split(b"\n") if path.exists() else [b""]
    if rest and not torn:
        raise InputError(f"{path}, line {len(lines) + 1}: the audit log is cut off here.")
    return lines


def reopened(path: Path) -> tuple[list[bytes], BinaryIO]:
    """The lines of a file, without one that a kill left torn, and the file to add to."""
    kept = whole_lines(path)
    write_whole(path, b"".join(line + b"\n" for line in kept), PRIVATE)
    return kept, path.open("ab")


def digest_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


class RunState(NamedTuple):
    """How far a site's run is; the file is signed, so that a log cut at an earlier signed end is found."""

    study: str
    data: str
    """The commitment to the data."""
    result: str | None = None
    """The hash of the result, once all sites have it."""
    log: str | None = None
    """The hash of the log's last line; None while the run goes on."""

    @property
    def content(self) -> bytes:
        """What is signed."""
        return STATE_SIGNATURE + json.dumps(self._asdict()).encode()

    def write(self, folder: Path, sign: Sign) -> None:
        write_whole(folder / STATE, self._with(sign(self.content)), PRIVATE)

    def _with(self, signature: bytes) -> bytes:
        return json.dumps({**self._asdict(), "signature": signature.hex()}).encode()

    @classmethod
    def read(cls, folder: Path) -> tuple[RunState, bytes]:
        """The state and its signature, which is not checked here; an error if the file is damaged."""
        try:
            whole = (folder / STATE).read_bytes()
            said = json.loads(whole)
            signature = bytes.fromhex(said.pop("signature"))
            state = cls(**said)
            if not all(isinstance(value, str | None) for value in state) or state._with(signature) != whole:
                raise TypeError
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise InputError(f"{folder / STATE} is damaged: give another folder, or move this one away.") from None
        return state, signature
