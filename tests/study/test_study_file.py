"""The study file and its hash, and the keys of sites."""

from __future__ import annotations

import os
import stat
from base64 import encodebytes

import pandas as pd
import pytest
import tomli_w
from cryptography.hazmat.primitives import serialization
from test_study import NAMES
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.fitting import FitSpec
from dsba.pages.templates import asset
from dsba.study import keys
from dsba.study.file import parse
from dsba.study.trial import arrange

# The file ------------------------------------------------------------------------------------------


def test_the_example_is_a_study_and_its_hash_is_of_the_content():
    text = CliRunner().invoke(app, ["study", "example"]).output
    study = parse(text.encode(), "example")
    assert text == asset("dsba.study", "example.toml")
    bare = "\n".join(line.split("  #")[0] for line in text.splitlines() if not line.startswith("#"))
    assert bare != text
    assert parse(bare.encode(), "bare").hash == study.hash
    turned = dict(reversed(study.model_dump(exclude_none=True).items()))
    assert parse(tomli_w.dumps(turned).encode(), "turned").hash == study.hash
    study.require_approved(study.hash.upper().replace("-", " "))


def test_a_trial_keeps_names_and_levels_with_control_characters(tmp_path):
    files = [tmp_path / f"{name}.csv" for name in NAMES]
    for file in files:
        pd.DataFrame({"y": [0, 1], "a\x7fb": ["\x7f", "\x01"]}).to_csv(file, index=False)
    study = arrange(files, FitSpec(formula="y ~ C(`a\x7fb`)", weights=None), tmp_path / "study", name="\x7f")
    assert (study.name, study.levels["a\x7fb"]) == ("\x7f", ("\x01", "\x7f"))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"readmission"', '"other"', None),
        ("lam = 0.0", "lam = 0.1", None),
        ("aarhus.example.org:8443", "aarhus.example.org:8444", None),
        ('sex = ["F", "M"]', 'sex = ["F", "M", "X"]', None),
        ('operator = "logistic"', 'operator = "mine.py:Loss"', "unknown operator 'mine.py:Loss'"),
        ('algorithm = "newton"', 'algorithm = "mine.py:Method"', "unknown algorithm 'mine.py:Method'"),
        ("C(sex)", "C(sex) + crp", "the column 'crp' is not described under"),
        ("C(sex)", "exit(1)", "formula"),
        ('sex = ["F", "M"]', 'sex = "number"', "the column 'sex' is a factor or a label: list all its levels"),
        ('age = "number"', 'age = "text"', 'must be "number" or a list of levels'),
        ('name = "readmission"', 'nome = "readmission"', "the key name is missing|the key nome is not known"),
        ('"aarhus.example.org:8443"', '"aarhus"', "must be host:port"),
        ('["cork", "aarhus"]', '["cork", "delft"]', "the graph names 'delft', which is not a site"),
        ('["bergen", "cork"], ["cork", "aarhus"]', '["bergen", "aarhus"]', "the graph leaves sites out"),
        ('fingerprint = "', 'fingerprint = "0', "the fingerprint of aarhus is not that of its certificate"),
        ('address = "aarhus.example.org:8443"\n', "", "aarhus and cork are neighbours and both only dial out"),
        ("aarhus.example.org:8443", "aarhus..example.org:8443", "an address must be host:port"),
        ("aarhus.example.org:8443", f"{'a' * 64}.example.org:8443", "an address must be host:port"),
        ("aarhus.example.org:8443", f"{'a' * 63}.example.org.:8443", None),
        ("[columns]", "[columns", "is no TOML file"),
        ("[columns]", f"x = {'9' * 5_000}\n[columns]", "is no TOML file"),
    ],
)
def test_every_change_is_another_study_or_none(old, new, sentence):
    text = asset("dsba.study", "example.toml")
    assert old in text
    changed = text.replace(old, new, 1).encode()
    if sentence is None:
        assert parse(changed, "changed").hash != parse(text.encode(), "text").hash
        return
    with pytest.raises(dsba.InputError, match=sentence):
        parse(changed, "changed")


def test_a_key_is_made_at_the_site_and_stays_there(tmp_path):
    path = tmp_path / "cork.pem"
    words = ["study", "key", "--site", "cork", "--address", "cork.example.org:443", "--out", str(path)]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "PRIVATE" not in said.output
    assert 'address = "cork.example.org:443"' in said.output
    assert keys.fingerprint(keys.load(path).certificate) in said.output
    again = CliRunner().invoke(app, words)
    assert "a key is never replaced" in str(again.exception)
    os.chmod(path, 0o640)
    with pytest.raises(dsba.InputError, match="others may read the key"):
        keys.load(path)


def test_a_key_of_another_kind_is_refused(tmp_path):
    """Encrypted by its owner, of a kind that the library does not know, or with a damaged certificate."""
    path = tmp_path / "cork.pem"
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    made = keys.make("cork", path)
    encrypted, (own, _, certificate) = made.private.private_bytes(*form), path.read_bytes().partition(CERTIFICATE)
    unknown = pem(b"PRIVATE KEY", bytes.fromhex("302e020100300506032b657204220420") + bytes(32))
    damaged = pem(b"CERTIFICATE", made.certificate.replace(ED25519, b"+er"))
    for content in (encrypted + CERTIFICATE + certificate, unknown + CERTIFICATE + certificate, own + damaged):
        path.write_bytes(content)
        with pytest.raises(dsba.InputError, match="is not a key of dsba study key"):
            keys.load(path)


CERTIFICATE, ED25519 = b"-----BEGIN CERTIFICATE-----\n", bytes.fromhex("2b6570")  # how the first begins, and its kind


def pem(kind, content):
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (kind, encodebytes(content), kind)


def test_without_permissions_of_files_there_is_no_key(tmp_path, monkeypatch):
    """As on Windows."""
    monkeypatch.setattr(keys, "PERMISSIONS", False)
    for use in (keys.load, lambda path: keys.make("cork", path)):
        with pytest.raises(dsba.InputError, match="dsba study needs Linux or macOS"):
            use(tmp_path / "cork.pem")
    assert not list(tmp_path.iterdir())
