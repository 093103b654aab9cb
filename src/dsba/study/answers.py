"""The file with what a site has answered in a run: ``answers.jsonl``. A line is on disk before an answer leaves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from dsba.errors import InputError
from dsba.network.tls.answers import Answers, Line
from dsba.study.audit import reopened
from dsba.study.keys import Key
from dsba.study.policy import Policy

ANSWERS_FILE = "answers.jsonl"


class AnswersFile:
    """The file, while a run goes on; a run that goes on later adds to it."""

    def __init__(self, path: Path, key: Key, policy: Policy) -> None:
        kept, self._file = reopened(path)
        limits: dict[str, Any] = {"starts": policy.starts, "points": policy.points, "told": policy.told}
        try:
            self.answers = Answers(key.commitment, self._write, map(json.loads, kept), **limits)
        except (ValueError, TypeError, KeyError, RecursionError):
            self.close()
            raise InputError(f"{path} is damaged: the run cannot go on without knowing what was answered.") from None

    def require_epochs(self, summed: int) -> None:
        """An error if sums were answered in more epochs than the file knows."""
        if self.answers.epochs < summed:
            raise InputError(
                f"{self._file.name} lacks starts of this run, in which sums were answered: it was removed, or an older "
                "copy was put in its place. The run cannot go on without knowing what was answered: begin another run."
            )

    def _write(self, line: Line) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
