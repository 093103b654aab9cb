"""The history of a run: every field counts, and the record gives every T again."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import dsba
from dsba.network import exact_sum
from dsba.network.tls.transcript import DAMAGED_LINE, Answered, Newcomer, Transcript, beginning, packed, replayed

SITE = Newcomer("aarhus", b"certificate", b"k" * 32, b"n" * 32, "data", "policy", b"s" * 64)
OTHER = SITE._replace(name="bergen", nonce=b"m" * 32)
LINE = Answered(0, "information", np.arange(3.0).tobytes(), b"scales", 48, -90, bytes(range(32)))


def test_one_hash_computed_by_hand():
    """A second implementation of the formula in the docstring."""
    fields = [b"\1" * 32, (0).to_bytes(8, "little"), b"information", LINE.at, b"scales", (48).to_bytes(8, "little")]

    def prefixed(parts):
        return b"".join(len(part).to_bytes(8, "little") + part for part in parts)

    whole = prefixed([b"dsba question", prefixed(fields), (-90).to_bytes(8, "little", signed=True), LINE.answer])
    assert LINE.after(b"\1" * 32) == hashlib.sha256(whole).digest()


def test_every_field_of_the_beginning_counts():
    found = {beginning(b"study", "dsba 1", 1, [SITE, OTHER])}
    found |= {beginning(b"studie", "dsba 1", 1, [SITE, OTHER]), beginning(b"study", "dsba 2", 1, [SITE, OTHER])}
    found |= {beginning(b"study", "dsba 1", 2, [SITE, OTHER]), beginning(b"study", "dsba 1", 1, [OTHER, SITE])}
    for name, value in SITE._asdict().items():
        changed = SITE._replace(**{name: value + ("x" if isinstance(value, str) else b"x")})
        found.add(beginning(b"study", "dsba 1", 1, [changed, OTHER]))
    assert len(found) == 5 + len(SITE)


def test_every_field_of_an_answer_counts():
    found = {LINE.after(b"\1" * 32), LINE.after(b"\2" * 32), LINE._replace(exponent=None).after(b"\1" * 32)}
    for name, value in LINE._asdict().items():
        more = {int: lambda v: v + 1, str: lambda v: v + "s", bytes: lambda v: v + b"\0"}[type(value)](value)
        found.add(LINE._replace(**{name: more}).after(b"\1" * 32))
    assert len(found) == 3 + len(LINE)


def test_no_two_lists_of_fields_have_the_same_bytes():
    lists = [(), (b"",), (b"", b""), (b"a", b"b"), (b"ab",), (b"", b"ab"), (packed(b"a", b"b"),)]
    assert len({packed(*fields) for fields in lists}) == len(lists)


def test_a_record_gives_every_history_again():
    kept = []
    transcript = Transcript(b"\0" * 32, kept.append)
    seen = []
    for number in range(4):
        question = transcript.ask("sum", b"", b"", 32)
        assert (question.number, question.before) == (number, transcript.history)
        total = exact_sum.integers(np.array([[1.0, -2.5]]), -100)
        transcript.answered(-100, total.to_bytes())
        seen.append(transcript.history)
    again = [Answered.from_record(line.to_record()) for line in kept]
    assert again == kept
    assert [replayed(b"\0" * 32, again[: n + 1]) for n in range(4)] == seen
    assert again[0].totals.tolist() == [1.0, -2.5]
    with pytest.raises(dsba.InputError, match="question 2 where 1 is due"):
        replayed(b"\0" * 32, [again[0], *again[2:]])


@pytest.mark.parametrize("name", LINE._fields)
@pytest.mark.parametrize("wrong", [None, "xyz", [1], 1.5, True])
def test_a_damaged_line_is_refused(name, wrong):
    if (name, wrong) in (("exponent", None), ("kind", "xyz")):
        return
    with pytest.raises(DAMAGED_LINE):
        Answered.from_record({**LINE.to_record(), name: wrong})
    with pytest.raises(DAMAGED_LINE):
        Answered.from_record({key: value for key, value in LINE.to_record().items() if key != name})


def test_one_question_at_a_time():
    transcript = Transcript(b"\0" * 32)
    with pytest.raises(AssertionError):
        transcript.answered(None, b"")
    transcript.ask("share")
    with pytest.raises(AssertionError):
        transcript.ask("share")
