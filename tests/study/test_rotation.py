"""A key is replaced by one that it has signed: the study, the ledger and the commitments stay what they were."""

from __future__ import annotations

import json
import shutil
import threading
import tomllib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import tomli_w
from local_sites import GIVE_UP, until
from test_study import seats, tables, together
from test_totals import arranged, stopped_at
from test_verify import wrong
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.network.tls.pinned import context
from dsba.network.tls.site_network import SiteNetwork
from dsba.study import join as joining
from dsba.study import keys
from dsba.study.audit import AUDIT, read_log
from dsba.study.check import check
from dsba.study.file import load
from dsba.study.join import LEDGER, ROTATIONS, leaving, prepared
from dsba.study.ledger import Ledger
from dsba.study.totals import TOTALS_FILE, read_totals
from dsba.study.trial import TRIAL_FILE

__all__ = ["seats", "tables"]  # fixtures


def rotate(seat):
    """The lines that the command prints, as sections of a study file."""
    said = CliRunner().invoke(app, ["study", "rotate", "--site", seat.site, "--key", str(seat.key)])
    assert said.exit_code == 0, said.exception
    return tomllib.loads(said.stdout)["rotations"]


def with_lines(seat, sections):
    """The study file with these sections at its end."""
    file = seat.key.parent / TRIAL_FILE
    added = file.with_name("rotated.toml")
    added.write_text(file.read_text() + "\n" + tomli_w.dumps({"rotations": sections}))
    return load(added)


def section(old, new):
    signature = old.sign(keys.succession(old.certificate, new.certificate))
    return {"certificate": keys.text_of(new.certificate), "signature": signature.hex()}


def test_a_run_goes_on_with_a_replaced_key(tables, tmp_path, monkeypatch):
    """Stopped, replaced twice at one site, and gone on with: one run in the ledger, and everything is verified."""
    seated = arranged(tmp_path, tables)
    stop = stopped_at(monkeypatch, 2)
    together(seated)
    stop.clear()
    before = keys.load(seated[1].key)
    study = with_lines(seated[0], [*rotate(seated[1]), *rotate(seated[1])])
    after = keys.load(seated[1].key)
    assert study.hash == seated[0].study.hash
    assert study.content == seated[0].study.content
    assert after.certificate == study.members[1].certificate != before.certificate
    assert after.commitment(b"rows") == before.commitment(b"rows")
    assert any("The key of bergen was replaced" in line for line in leaving(replace(seated[0], study=study)))
    assert any("The key of bergen was replaced" in one.sentence for one in check(study, None, None, None))

    found, _ = together([replace(seat, study=study) for seat in seated])
    assert {results.model.run.status for results in found} == {"converged"}
    for seat in seated:
        assert wrong(seat.out) == []
        assert len(Ledger(seat.key.with_name(f"{seat.key.name}{LEDGER}")).runs) == 1
    joined = [event for event in read_log(seated[1].out / AUDIT) if event["event"] == "joined"]
    assert [line["fingerprint"] for line in joined] == [
        keys.fingerprint(chain[at]) for chain, at in ((study.chains[1], 0), (study.chains[1], -1))
    ]
    assert joined[0]["data"] == joined[1]["data"]
    rosters = [epoch.begun.roster[1].certificate for epoch in read_totals(seated[0].out / TOTALS_FILE, study)]
    assert rosters == [study.chains[1][0], study.chains[1][2]]


def test_a_folder_without_the_statement_or_with_another_one(tables, tmp_path):
    seated = arranged(tmp_path, tables)
    study = with_lines(seated[0], rotate(seated[1]))
    together([replace(seat, study=study) for seat in seated])
    assert [wrong(seat.out) for seat in seated] == [[], [], []]
    kept = shutil.copytree(seated[1].out, tmp_path / "kept")
    statement = (kept / ROTATIONS).read_bytes()
    said = json.loads(statement)
    signature = said[0]["signature"]
    said[0]["signature"] = signature[:-2] + ("01" if signature.endswith("00") else "00")
    for changed in (json.dumps(said).encode(), statement[:-1], b"[]"):
        (kept / ROTATIONS).write_bytes(changed)
        assert wrong(kept)
    (kept / ROTATIONS).unlink()
    assert any("is not signed by the key of bergen" in sentence for sentence in wrong(kept))


def test_neighbours_without_the_statement_refuse_the_new_key(seats, monkeypatch):
    old = seats[0].study
    study = with_lines(seats[0], rotate(seats[1]))
    with pytest.raises(dsba.InputError, match="is not the key of bergen in the study"):
        prepared(seats[1])
    prepared(replace(seats[1], study=study))
    assert keys.load(seats[1].key).certificate not in {member.certificate for member in old.members}
    for server in (True, False):  # OpenSSL reads the file with its third block
        assert context(seats[1].key, study.members, server=server)
    nets, ends = [], []

    def made(*given, **options):
        nets.append(SiteNetwork(*given, **options))
        return nets[-1]

    monkeypatch.setattr(joining, "SiteNetwork", made)
    waiting = [replace(seat, study=study if seat is seats[1] else old, patience=GIVE_UP) for seat in seats]
    thread = threading.Thread(target=lambda: ends.append(together(waiting)))
    thread.start()
    said = lambda: [line for net in list(nets) for line in list(net.lines.last_said.values())]  # noqa: E731
    until(lambda: any("another certificate" in line or "not know the certificate" in line for line in said()), said)
    until(lambda: len(nets) == 3)
    for net in nets:
        net.patience = 0.1
    thread.join()
    ((found, told),) = ends
    assert all(isinstance(end, dsba.NetworkError) for end in found)
    assert not any("connected" in line and "bergen" in line for line in told[0] + told[2])


def test_what_is_no_rotation_is_refused(seats, tmp_path):
    """Forged, expired, reused, twice replaced, too old, of another site."""
    old, cork = keys.load(seats[1].key), keys.load(seats[2].key)
    now = datetime.now(UTC)

    def made(name="bergen", **options):
        return keys.make(name, tmp_path / f"{len(list(tmp_path.iterdir()))}.pem", **options)

    new, other = made(), made()
    right = section(old, new)
    refused = {
        "its old key has not signed the new one": [
            [section(cork, new)],
            [section(new, new)],
            [{**right, "signature": section(old, other)["signature"]}],
            [{**right, "certificate": keys.text_of(other.certificate)}],
            [section(old, made("cork"))],
            [right, section(cork, other)],
        ],
        "was replaced already": [[right, section(old, other)], [right, right]],
        "the new key was used before": [[right, section(new, old)]],
        "the old key was not valid when it was made": [
            [section(old, made(begins=now + timedelta(days=800)))],
            [section(old, made(begins=now - timedelta(days=3)))],
        ],
        "got something else": [[{**right, "certificate": "AAAA"}]],
        "unknown site": [[section(old, made("delft"))]],
    }
    for sentence, attempts in refused.items():
        for sections in attempts:
            with pytest.raises(dsba.InputError, match=sentence):
                with_lines(seats[0], sections)
    assert with_lines(seats[0], [right]).members[1].certificate == new.certificate
    with pytest.raises(dsba.InputError, match="the certificate of bergen is valid for more than 730 days"):
        prepared(replace(seats[0], study=with_lines(seats[0], [section(old, made(days=731))])))
    ended = with_lines(seats[0], [section(old, made(days=0))])
    said = [one.sentence for one in check(ended, None, None, None) if not one.fine]
    assert any("the certificate of bergen expired" in sentence for sentence in said)


def test_an_expired_key_and_one_of_another_site_sign_nothing(tmp_path):
    ended = keys.make("bergen", tmp_path / "ended.pem", begins=datetime.now(UTC) - timedelta(days=9), days=2)
    words = ["study", "rotate", "--key", str(tmp_path / "ended.pem"), "--site"]
    assert "has expired, and signs no other one" in str(CliRunner().invoke(app, [*words, "bergen"]).exception)
    assert "is not the key of cork" in str(CliRunner().invoke(app, [*words, "cork"]).exception)
    assert keys.load(tmp_path / "ended.pem").certificate == ended.certificate
    assert len(list(tmp_path.iterdir())) == 1


def test_a_key_that_ends_soon_is_told(tmp_path, seats):
    made = keys.make("bergen", tmp_path / "soon.pem", days=9)
    soon = with_lines(seats[0], [section(keys.load(seats[1].key), made)])
    assert any("`dsba study rotate` replaces the key" in one.sentence for one in check(soon, None, None, None))
