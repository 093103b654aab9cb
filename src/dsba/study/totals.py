"""The record of a run at one site: ``totals.jsonl``, with the exact totals of every question and what the sites signed.

A line is JSON with one of these keys: "begun" (who took part, and how T_0 came about), "answered" (one question with
its answer) or "signed" (the signatures of all sites under the last question, and so under the history T of all
questions before). ``network/tls/transcript.py`` describes the fields. "after" is T after the line, so that a changed
line is named. Every site has the same lines from the same epoch on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from dsba.errors import InputError
from dsba.network.tls.protocol import made_by, signed_part
from dsba.network.tls.transcript import DAMAGED_LINE, Answered, Begun, Question, Recorded, Signed, replayed, unpack
from dsba.study.audit import reopened, whole_lines
from dsba.study.file import Study

TOTALS_FILE = "totals.jsonl"
LINES: dict[str, type[Recorded]] = {"begun": Begun, "answered": Answered, "signed": Signed}


class TotalsFile:
    """The record, while a run goes on; a run that goes on later adds to it."""

    def __init__(self, path: Path, study: Study) -> None:
        self._study, self._history = study, b""
        kept, self._file = reopened(path)
        self.summed = _epochs_with_totals(kept)

    def keep(self, line: Recorded) -> None:
        (name,) = (name for name, kind in LINES.items() if isinstance(line, kind))
        self._history = _after(line, self._history, self._study)
        self._file.write(json.dumps({name: line.to_record(), "after": self._history.hex()}).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class EpochRecord(NamedTuple):
    """What is kept of one epoch."""

    begun: Begun
    answers: tuple[Answered, ...]
    signed: Signed | None
    """None where the run did not come to its end."""
    line: int
    """The number of the first line in the file."""

    @property
    def results(self) -> list[bytes]:
        """What the sites said at the end, as JSON: the hash of the result."""
        return unpack(self.answers[-1].answer)

    def require_signed(self, study: Study) -> None:
        """An error unless all sites have signed how the epoch began and, where the run ended, all of its answers."""
        for rank, site in enumerate(self.begun.roster):
            if not made_by(site.certificate, site.signature, site.agreed(study.digest, self.begun.epoch, rank)):
                odd = f"{site.name} has not signed that it took part: line {self.line} of the record was changed."
                raise InputError(odd)
        if self.signed is None:
            return
        before = replayed(self.begun.history(study.digest), self.answers[:-1])
        question = Question(before, *self.answers[-1][:-2])
        for rank, (site, part) in enumerate(zip(self.begun.roster, self.results, strict=True)):
            if not made_by(site.certificate, self.signed.signatures[rank], signed_part(question, rank, part)):
                raise InputError(
                    f"{study.members[rank].name} has signed other answers than those of the record: one of the "
                    f"lines {self.line} to {self.line + len(self.answers) + 1} was changed, and those after it were "
                    "written anew."
                )


def read_totals(path: Path, study: Study) -> list[EpochRecord]:
    """The epochs of a record, in order; an error if a line is damaged or does not belong there."""
    lines, history = [], b""
    for number, text in enumerate(whole_lines(path, torn=False), start=1):
        line, history = _parsed(path, number, text, history, study)
        lines.append(line)
    starts = [place for place, line in enumerate(lines) if isinstance(line, Begun)]
    if starts[:1] != [0]:
        raise InputError(f"{path} does not begin with the beginning of a run: lines are missing.")
    bounds = list(pairwise([*starts, len(lines)]))
    epochs = [_epoch(lines[a:b], study, a + 1) for a, b in bounds]
    for (a, b), epoch in zip(bounds, epochs, strict=True):
        if epoch is None or (epoch.signed and b < len(lines)) or lines[a] in lines[:a]:
            raise InputError(
                f"{path}, line {a + 1}: from here on the lines have an order that no run writes. Lines were added, "
                "removed or moved."
            )
    return [epoch for epoch in epochs if epoch]


def _epochs_with_totals(lines: Sequence[bytes]) -> int:
    """In how many of the epochs of a record something was summed; a line that is damaged is left to `dsba verify`."""
    epochs, new = 0, False
    for line in lines:
        total = b'"exponent": null' not in line and line.startswith(b'{"answered": ')
        epochs, new = epochs + (new and total), line.startswith(b'{"begun": ') or (new and not total)
    return epochs


def _parsed(path: Path, number: int, text: bytes, history: bytes, study: Study) -> tuple[Recorded, bytes]:
    """A line, and T after it; ``history`` is T before it."""
    with suppress(*DAMAGED_LINE, RecursionError):
        (name, record), (_, after) = json.loads(text).items()
        line = LINES[name].from_record(record)
        found = _after(line, history, study)
        if json.dumps({name: line.to_record(), "after": found.hex()}).encode() == text and found.hex() == after:
            return line, found
    raise InputError(f"{path}, line {number}: the record was changed here, or a line is missing before it.")


def _after(line: Recorded, history: bytes, study: Study) -> bytes:
    """T after a line, from the T before it."""
    if isinstance(line, Begun):
        return line.history(study.digest)
    return line.after(history) if isinstance(line, Answered) else history


def _epoch(lines: Sequence[Recorded], study: Study, number: int) -> EpochRecord | None:
    """None if the lines are not those of one epoch of this study."""
    begun, *rest = lines
    signed = rest.pop() if len(rest) > 1 and isinstance(rest[-1], Signed) else None
    answers = tuple(line for line in rest if isinstance(line, Answered))
    if not isinstance(begun, Begun) or len(answers) < len(rest):
        return None
    epoch = EpochRecord(begun, answers, signed if isinstance(signed, Signed) else None, number)
    same = [one.name for one in begun.roster] == [member.name for member in study.members]
    same = same and all(one.certificate in chain for one, chain in zip(begun.roster, study.chains, strict=True))
    whole = epoch.signed is None or len(epoch.signed.signatures) == len(epoch.results) == len(study.members)
    return epoch if same and whole else None
