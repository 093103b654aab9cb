"""The record of a run at one site: ``totals.jsonl``, with the exact totals of every question and what the sites signed.

A line is JSON with one key: "begun" (who took part, and how T_0 came about), "answered" (one question with its answer)
or "signed" (the signatures of all sites under the last question, and so under the history T of all questions before).
``network/tls/transcript.py`` describes the fields. Every site has the same lines from the same epoch on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from dsba.errors import InputError
from dsba.network.tls.protocol import is_signed, public_key, signed_part
from dsba.network.tls.transcript import Answered, Begun, Question, Recorded, Signed, replayed, unpack
from dsba.study.audit import reopened, whole_lines
from dsba.study.file import Study

TOTALS_FILE = "totals.jsonl"
LINES: dict[str, type[Begun] | type[Answered] | type[Signed]] = {
    "begun": Begun, "answered": Answered, "signed": Signed,
}  # fmt: skip


class TotalsFile:
    """The record, while a run goes on; a run that goes on later adds to it."""

    def __init__(self, path: Path) -> None:
        _, self._file = reopened(path)

    def keep(self, line: Recorded) -> None:
        (name,) = (name for name, kind in LINES.items() if isinstance(line, kind))
        self._file.write(json.dumps({name: line.to_record()}).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class EpochRecord(NamedTuple):
    """What is kept of one epoch."""

    begun: Begun
    answers: tuple[Answered, ...]
    signed: Signed | None
    """None where the run did not come to its end."""

    def history(self, study: Study, answers: int | None = None) -> bytes:
        """T after so many answers; None is all."""
        return replayed(self.begun.history(study.digest), self.answers[:answers])

    @property
    def results(self) -> list[bytes]:
        """What the sites said at the end, as JSON: the hash of the result."""
        return unpack(self.answers[-1].answer)

    def require_signed(self, study: Study) -> None:
        """An error unless all sites have signed how the epoch began and, where the run ended, all of its answers."""
        everyone = [public_key(member.certificate) for member in study.members]
        for rank, site in enumerate(self.begun.roster):
            if not is_signed(everyone[rank], site.agreed(study.digest, self.begun.epoch, rank), site.signature):
                raise InputError(f"{site.name} has not signed that it took part: the record was changed.")
        if self.signed is None:
            return
        question = Question(self.history(study, -1), *self.answers[-1][:-2])
        for rank, part in enumerate(self.results):
            if not is_signed(everyone[rank], signed_part(question, rank, part), self.signed.signatures[rank]):
                raise InputError(
                    f"{study.members[rank].name} has signed other answers than those of the record: a total, another "
                    "answer or the order of the questions was changed."
                )


def read_totals(path: Path, study: Study) -> list[EpochRecord]:
    """The epochs of a record, in order; an error if a line is damaged or does not belong there."""
    lines = [_parsed(path, number, text) for number, text in enumerate(whole_lines(path, torn=False), start=1)]
    starts = [place for place, line in enumerate(lines) if isinstance(line, Begun)]
    if starts[:1] != [0]:
        raise InputError(f"{path} does not begin with the beginning of a run: lines are missing.")
    epochs = [_epoch(lines[a:b], study) for a, b in pairwise([*starts, len(lines)])]
    again = len({line for line in lines if isinstance(line, Begun)}) < len(starts)
    if again or None in epochs or any(epoch.signed for epoch in epochs[:-1] if epoch):
        raise InputError(f"{path} has lines in an order that no run writes: lines were added, removed or moved.")
    return [epoch for epoch in epochs if epoch]


def _parsed(path: Path, number: int, text: bytes) -> Recorded:
    try:
        ((name, record),) = json.loads(text).items()
        if json.dumps({name: record}).encode() == text:
            return LINES[name].from_record(record)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InputError):
        pass
    raise InputError(f"{path}, line {number}: the record was changed here.")


def _epoch(lines: Sequence[Recorded], study: Study) -> EpochRecord | None:
    """None if the lines are not those of one epoch of this study."""
    begun, *rest = lines
    signed = rest.pop() if len(rest) > 1 and isinstance(rest[-1], Signed) else None
    answers = tuple(line for line in rest if isinstance(line, Answered))
    if not isinstance(begun, Begun) or len(answers) < len(rest):
        return None
    epoch = EpochRecord(begun, answers, signed if isinstance(signed, Signed) else None)
    same = [(one.name, one.certificate) for one in begun.roster] == [(m.name, m.certificate) for m in study.members]
    whole = epoch.signed is None or len(epoch.signed.signatures) == len(epoch.results) == len(study.members)
    return epoch if same and whole else None
