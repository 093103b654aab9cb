"""A site's key and certificate, made at the site; the key never leaves it.

A key is replaced by one that it has signed itself (``rotated``). The secret of the commitments goes on, so that the
ledger and the commitment to the data stay what they were.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID

from dsba.errors import InputError, cannot
from dsba.network.tls.protocol import made_by, public_key
from dsba.network.tls.transcript import hashed
from dsba.storage.atomic import PRIVATE, write_whole

YEARS = 2  # a certificate is valid, and not longer
OLDEST = timedelta(days=365 * YEARS)
CLOCKS = timedelta(hours=1)  # by which they may differ
COMMITMENT = "-----{} DSBA COMMITMENT-----\n"  # the block of a key's file with the secret of an earlier key
PERMISSIONS = os.name == "posix"  # elsewhere a file does not say who may read it


class Key(NamedTuple):
    """A site's own key with its certificate."""

    private: Ed25519PrivateKey
    certificate: bytes
    """In DER."""
    secret: bytes
    """Of the commitments. It stays where the key is replaced."""

    def sign(self, message: bytes) -> bytes:
        return self.private.sign(message)

    def commitment(self, message: bytes) -> str:
        """A keyed hash: the same for the same message. Nobody without the key can find the message by trying."""
        return hmac.new(self.secret, message, hashlib.sha256).hexdigest()


def make(site: str, path: Path, *, begins: datetime | None = None, days: int = OLDEST.days) -> Key:
    """Make key and certificate in one file that its owner alone may read; a file that is there is never replaced."""
    _require_permissions()
    if path.exists():
        raise InputError(f"{path} is there already: a key is never replaced; move it away to make another.")
    made, content = _made(site, begins, days)
    write_whole(path, content, PRIVATE)
    return made


def rotated(path: Path, site: str, keep: Callable[[Key, bytes], object]) -> None:
    """Replace a key by one that it signs. ``keep`` gets the new key and the signature, before the file is replaced."""
    old = load(path)
    certificate = parse(text_of(old.certificate))
    if name_of(certificate) != site:
        raise InputError(f"{path} is not the key of {site}.")
    if datetime.now(UTC) > certificate.not_valid_after_utc:
        raise InputError(
            f"the key {path} has expired, and signs no other one: make a new key, which changes the study."
        )
    made, content = _made(site, None, OLDEST.days)
    keep(made, old.sign(succession(old.certificate, made.certificate)))
    block = f"{COMMITMENT.format('BEGIN')}{base64.encodebytes(old.secret).decode()}{COMMITMENT.format('END')}"
    write_whole(path, content + block.encode(), PRIVATE)


def succession(old: bytes, new: bytes) -> bytes:
    """What the key of a certificate signs to be replaced by that of another one."""
    return hashed("dsba rotation", old, new)


def complaint_of_successor(chain: Sequence[bytes], new: bytes, signature: bytes) -> str | None:
    """Why the last of a site's certificates is not replaced by a new one, as the end of a sentence."""
    signers = [old for old in chain if made_by(old, signature, succession(old, new))]
    if not signers:
        return "its old key has not signed the new one"
    if signers != [chain[-1]]:
        return "the key that signed the new one was replaced already, and signs nothing more"
    before, after = parse(text_of(chain[-1])), parse(text_of(new))
    if not before.not_valid_before_utc - CLOCKS <= after.not_valid_before_utc <= before.not_valid_after_utc:
        return "the old key was not valid when it was made"
    return None


def _made(site: str, begins: datetime | None, days: int) -> tuple[Key, bytes]:
    """A new key, and the content of its file."""
    private = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, site)])
    begins = begins or datetime.now(UTC) - CLOCKS
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(private.public_key())
    made = made.serial_number(x509.random_serial_number())
    made = made.not_valid_before(begins).not_valid_after(begins + timedelta(days=days))
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    certificate = made.sign(private, None)
    pem = private.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    made_key = Key(private, certificate.public_bytes(forms.Encoding.DER), _secret(private, b""))
    return made_key, pem + certificate.public_bytes(forms.Encoding.PEM)


def _secret(private: Ed25519PrivateKey, content: bytes) -> bytes:
    """Of the commitments: that of the first key of the site, which the file of a later one holds."""
    begins, ends = (COMMITMENT.format(word).encode() for word in ("BEGIN", "END"))
    _, found, rest = content.partition(begins)
    if found:
        return base64.b64decode(rest.partition(ends)[0])
    return hashlib.sha256(b"dsba commitment" + private.private_bytes_raw()).digest()


def load(path: Path) -> Key:
    """The key of this site; refused if others may read it."""
    _require_permissions()
    try:
        data = path.read_bytes()
        mode = os.stat(path).st_mode
    except OSError as error:
        raise cannot(f"read the key {path} (dsba study key makes one)", error) from None
    if mode & 0o077:
        raise InputError(f"others may read the key {path}: chmod 600 it, or make a new one if it was copied.")
    try:
        private = forms.load_pem_private_key(data, None)
        certificate = x509.load_pem_x509_certificate(data)
        certified = certificate.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it is encrypted
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise InputError(f"{path} is not a key of dsba study key.")
    if certified != private.public_key():
        raise InputError(f"{path} has a certificate that belongs to another key.")
    return Key(private, certificate.public_bytes(forms.Encoding.DER), _secret(private, data))


def _require_permissions() -> None:
    if not PERMISSIONS:
        raise InputError("dsba study needs Linux or macOS: here it cannot be seen who may read the file of a key.")


def parse(text: str) -> x509.Certificate:
    """The certificate of a study file's line."""
    with suppress(Exception):  # the parser raises errors of several kinds
        certificate = x509.load_der_x509_certificate(base64.b64decode(text, validate=True))
        if isinstance(certificate.public_key(), Ed25519PublicKey):
            return certificate
    raise ValueError("a certificate is the line that `dsba study key` prints, got something else")


def name_of(certificate: x509.Certificate) -> str:
    """The site that a certificate was made for."""
    return ",".join(str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME))


def text_of(certificate: bytes) -> str:
    """A certificate as a study file holds it."""
    return base64.b64encode(certificate).decode()


def public_bytes(certificate: bytes) -> bytes:
    """The public key of a certificate."""
    return public_key(certificate).public_bytes_raw()


def fingerprint(certificate: bytes) -> str:
    return hashlib.sha256(certificate).hexdigest()


def site_section(name: str, address: str | None, certificate: bytes) -> dict[str, str]:
    """A site as a study file holds it. A site without an address only dials out."""
    place = {} if address is None else {"address": address}
    return {"name": name, **place, "fingerprint": fingerprint(certificate), "certificate": text_of(certificate)}
