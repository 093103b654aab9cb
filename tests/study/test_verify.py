"""`dsba verify` of a site's folder: every change of every line is found."""

from __future__ import annotations

import json
import random
import re
import shutil
from datetime import datetime, timedelta
from itertools import cycle

import numpy as np
import pytest
from test_mutated_members import mutated
from test_study import seats, tables, together
from typer.testing import CliRunner

from dsba._version import __version__
from dsba.cli import app
from dsba.fitting import codec
from dsba.fitting.codec import MODEL_COPY
from dsba.study import keys
from dsba.study.audit import AUDIT, STATE, AuditLog, RunState, digest_of, read_log
from dsba.study.join import STUDY_COPY
from dsba.study.totals import TOTALS_FILE
from dsba.study.verify import verify_study


def wrong(folder, *approved):
    return [finding.sentence for finding in verify_study(folder, *approved) if not finding.fine]


class Jumping(datetime):
    """A clock that jumps by a year, forth and back."""

    days = cycle([0, 365, -365])

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(days=next(cls.days))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A site's folder and its key after a run during which its clock jumped, with what the site approved."""
    folder = tmp_path_factory.mktemp("finished")
    seated = seats.__wrapped__(tables.__wrapped__(folder), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dsba.study.audit.datetime", Jumping)
        found, _ = together(seated)
    assert [results.not_converged for results in found] == [None] * 3
    return seated[1]


@pytest.fixture
def kept(finished, tmp_path):
    return shutil.copytree(finished.out, tmp_path / "kept")


def test_a_folder_as_the_run_left_it(finished, kept):
    assert wrong(kept) == []
    assert wrong(kept, finished.study.hash) == []
    assert "the approved hash is 0000" in wrong(kept, "0000")[0]
    said = CliRunner().invoke(app, ["verify", str(kept)])
    assert (said.exit_code, said.output.count("ok    ")) == (0, 9)
    assert re.search(r"Not looked at: answers.jsonl, checkpoint.*\. Changes of these would not be found", said.output)
    (kept / STATE).unlink()
    assert CliRunner().invoke(app, ["verify", str(kept)]).exit_code == 1


def test_the_log_says_what_was_approved(finished, kept):
    events = read_log(kept / AUDIT)
    joined, study = events[0], finished.study
    times = [event["time"] for event in events]
    assert times != sorted(times)  # no signature and no chain depends on a clock
    assert (joined["event"], joined["formula"], joined["operator"]) == ("joined", study.spec.formula, "logistic")
    assert joined["program"] == f"dsba {__version__}"
    assert joined["study"] == study.digest.hex() == digest_of((kept / STUDY_COPY).read_bytes())
    assert joined["data"] == json.loads((kept / STATE).read_text())["data"]
    assert joined["guards"]["rows"] == 10
    assert joined["own_guards"] == []
    assert joined["approved"] == {"who": "a program", "how": "a call from Python"}
    assert {event["discloses"] for event in events if event["event"] == "sent"} == {"totals"}


CHANGES = {
    "a byte": lambda lines, n: [*lines[:n], _flipped(lines[n], len(lines[n]) // 2), *lines[n + 1 :]],
    "the first byte": lambda lines, n: [*lines[:n], _flipped(lines[n], 0), *lines[n + 1 :]],
    "a digit of the last hash": lambda lines, n: [*lines[:n], _flipped(lines[n], -4), *lines[n + 1 :]],
    "a space": lambda lines, n: [*lines[:n], lines[n].replace(b'": ', b'":  ', 1), *lines[n + 1 :]],
    "a removed line": lambda lines, n: [*lines[:n], *lines[n + 1 :]],
    "a line twice": lambda lines, n: [*lines[: n + 1], *lines[n:]],
    "an added line": lambda lines, n: [*lines[:n], b'{"event": "sent"}\n', *lines[n:]],
    "an empty line": lambda lines, n: [*lines[: n + 1], b"\n", *lines[n + 1 :]],
    "a line moved to the end": lambda lines, n: [*lines[:n], *lines[n + 1 :], lines[n]] if lines[n + 1 :] else [],
    "cut after": lambda lines, n: lines[:n],
    "cut within": lambda lines, n: [*lines[:n], lines[n][: len(lines[n]) // 2]],
    "rehashed without": lambda lines, n: _rehashed([*lines[:n], *lines[n + 1 :]]),
    "rehashed with another time": lambda lines, n: _rehashed(
        [*lines[:n], lines[n].replace(b'"time": "20', b'"time": "19'), *lines[n + 1 :]]
    ),
}


def _flipped(line, at):
    return line[:at] + bytes([line[at] ^ 1]) + line[at + 1 or len(line) :]


def _rehashed(lines):
    """The chain made anew, as somebody without the key can."""
    made, before = [], "0" * 64
    for line in lines:
        made.append(json.dumps({**json.loads(line), "before": before}).encode())
        before = digest_of(made[-1])
    return [line + b"\n" for line in made]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_every_line_is_found(change, kept):
    lines = (kept / AUDIT).read_bytes().splitlines(keepends=True)
    assert len(lines) > 8
    for number in range(len(lines)):
        changed = b"".join(CHANGES[change](lines, number))
        assert changed != b"".join(lines)
        (kept / AUDIT).write_bytes(changed)
        said = wrong(kept)
        assert said, (change, number)
        if not change.startswith("rehashed") and changed:
            (named,) = re.findall(r"audit\.jsonl, line (\d+):", said[0])
            assert int(named) in (number, number + 1, number + 2), (change, number, said)


def test_whatever_a_line_says_is_a_finding_and_no_error(kept):
    """One value of one line is another one, of any type; the chain of the log is made anew half of the time."""
    for seed in range(80):
        rng = random.Random(seed)
        path = kept / rng.choice([AUDIT, TOTALS_FILE, STATE, STUDY_COPY])
        whole = path.read_bytes()
        lines = whole.splitlines(keepends=True)
        number = rng.randrange(len(lines))
        changed = mutated(json.loads(lines[number]), rng)
        lines[number] = json.dumps(changed).encode() + lines[number][len(lines[number].rstrip()) :]
        if path.name == AUDIT and seed % 2 and isinstance(changed, dict):
            lines = _rehashed(lines)
        path.write_bytes(b"".join(lines))
        assert path.read_bytes() == whole or wrong(kept), seed
        path.write_bytes(whole)


LONG = b'"number": 1' + b"0" * 30 + b","
ODD_FILES = {
    "digits of the state": (STATE, lambda text: _capital(text, "signature")),
    "digits of the signatures": (TOTALS_FILE, lambda text: _capital_end(text)),
    "a number of more than 64 bits": (TOTALS_FILE, lambda text: text.replace(b'"number": 0,', LONG)),
    "no object": (STUDY_COPY, lambda text: b"7"),
    "more than a float holds": (STUDY_COPY, lambda text: re.sub(rb'"(lam|tol)":[^,}]+', b'"tol":1' + b"0" * 400, text)),
    "a list for a class": (AUDIT, lambda text: _anew(text.replace(b': "totals", "m', b': [], "m'))),
}  # fmt: skip


def _capital(text, name):
    said = json.loads(text)
    return json.dumps({**said, name: said[name].upper()}).encode()


def _capital_end(text):
    *lines, last = text.splitlines(keepends=True)
    said = json.loads(last)
    said["signed"]["signatures"] = [one.upper() for one in said["signed"]["signatures"]]
    return b"".join((*lines, json.dumps(said).encode(), b"\n"))


def _anew(text):
    return b"".join(_rehashed(text.splitlines(keepends=True)))


@pytest.mark.parametrize("way", ODD_FILES)
def test_another_way_to_write_a_line_is_found(way, kept):
    name, change = ODD_FILES[way]
    before = (kept / name).read_bytes()
    (kept / name).write_bytes(change(before))
    assert (kept / name).read_bytes() != before
    assert wrong(kept)


def test_a_missing_log_and_one_of_another_key(finished, kept, tmp_path):
    lines = [json.loads(line) for line in (kept / AUDIT).read_bytes().splitlines()]
    (kept / AUDIT).unlink()
    assert "does not begin with a site that joined" in wrong(kept)[0]
    other = keys.make("bergen", tmp_path / "other.pem")
    log = AuditLog(kept / AUDIT, other.sign)
    for line in lines[:-1]:
        log.log(line.pop("event"), **{name: value for name, value in line.items() if name not in ("time", "before")})
    end = log.close()
    assert "is not signed by the key of bergen, so the log was written anew" in wrong(kept)[0]
    state, _ = RunState.read(kept)
    state._replace(log=end).write(kept, other.sign)
    assert len(wrong(kept)) == 2


def test_a_log_that_is_cut_at_an_earlier_signed_end(finished, kept):
    """A run that was stopped and went on has two signed ends."""
    first, own = (kept / AUDIT).read_bytes(), keys.load(finished.key)
    log = AuditLog(kept / AUDIT, own.sign)
    log.log("ended", result=json.loads((kept / STATE).read_text())["result"])
    RunState.read(kept)[0]._replace(log=log.close()).write(kept, own.sign)
    assert wrong(kept) == []
    (kept / AUDIT).write_bytes(first)
    assert f"line {len(first.splitlines())}: run.json has another end" in wrong(kept)[0]


def test_state_study_and_model_are_looked_at(finished, kept):
    for name in (STATE, STUDY_COPY):
        whole = (kept / name).read_bytes()
        for at in range(0, len(whole), 7):
            (kept / name).write_bytes(_flipped(whole, at))
            assert wrong(kept), (name, at)
        (kept / name).write_bytes(whole)
    whole = (kept / MODEL_COPY).read_bytes()
    (kept / MODEL_COPY).write_bytes(whole.replace(b"1", b"2", 1))
    assert wrong(kept) == [f"{kept / MODEL_COPY} is not a copy of model.dsba: one of them was changed."]
    (kept / MODEL_COPY).write_bytes(whole)
    model = codec.load(kept)
    model.weights[0, 0] = np.nextafter(model.weights[0, 0], np.inf)
    codec.save(model, kept)
    assert wrong(kept) == [f"the model in {kept} is not the result of the run."]


def test_a_class_above_the_declared_one(finished, kept):
    own = keys.load(finished.key)
    log = AuditLog(kept / AUDIT, own.sign)
    log.log("sent", discloses="iterates", bytes=8)
    log.log("ended", result=json.loads((kept / STATE).read_text())["result"])
    RunState.read(kept)[0]._replace(log=log.close()).write(kept, own.sign)
    assert wrong(kept) == ["the study discloses totals, and iterates were sent."]


def test_only_what_can_be_verified_is(tmp_path):
    said = CliRunner().invoke(app, ["verify", str(tmp_path)])
    assert "is nothing that can be verified: give a site's folder of a study, a folder" in str(said.exception)
