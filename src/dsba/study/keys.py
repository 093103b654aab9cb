"""A site's key and certificate, made at the site; the key never leaves it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dsba.errors import InputError, cannot
from dsba.storage.atomic import PRIVATE, replacing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.x509 import Certificate

YEARS = 2  # a certificate is valid
PERMISSIONS = os.name == "posix"  # elsewhere a file does not say who may read it


class Key(NamedTuple):
    """A site's own key with its certificate."""

    private: Ed25519PrivateKey
    certificate: bytes
    """In DER."""

    def sign(self, message: bytes) -> bytes:
        return self.private.sign(message)

    def commitment(self, message: bytes) -> str:
        """A keyed hash: the same for the same message. Nobody without the key can find the message by trying."""
        secret = self.private.private_bytes_raw()
        return hmac.new(hashlib.sha256(b"dsba commitment" + secret).digest(), message, hashlib.sha256).hexdigest()


def make(site: str, path: Path, *, begins: datetime | None = None, days: int = 365 * YEARS) -> Key:
    """Make key and certificate in one file that its owner alone may read; a file that is there is never replaced."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.x509.oid import NameOID

    _require_permissions()
    if path.exists():
        raise InputError(f"{path} is there already: a key is never replaced; move it away to make another.")
    private = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, site)])
    begins = begins or datetime.now(UTC) - timedelta(hours=1)  # clocks differ
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(private.public_key())
    made = made.serial_number(x509.random_serial_number())
    made = made.not_valid_before(begins).not_valid_after(begins + timedelta(days=days))
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    certificate = made.sign(private, None)
    secret = private.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    with replacing(path, PRIVATE) as file:
        file.write(secret + certificate.public_bytes(forms.Encoding.PEM))
    return Key(private, certificate.public_bytes(forms.Encoding.DER))


def load(path: Path) -> Key:
    """The key of this site; refused if others may read it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

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
    except ValueError:
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise InputError(f"{path} is not a key of dsba study key.")
    if certificate.public_key() != private.public_key():
        raise InputError(f"{path} has a certificate that belongs to another key.")
    return Key(private, certificate.public_bytes(forms.Encoding.DER))


def made_by(certificate: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the key of a certificate made the signature."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = x509.load_der_x509_certificate(certificate).public_key()
    assert isinstance(key, Ed25519PublicKey)  # of all certificates of a study
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _require_permissions() -> None:
    if not PERMISSIONS:
        raise InputError("dsba study needs Linux or macOS: here it cannot be seen who may read the file of a key.")


def parse(text: str) -> Certificate:
    """The certificate of a study file's line."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        certificate = x509.load_der_x509_certificate(base64.b64decode(text, validate=True))
        usable = isinstance(certificate.public_key(), Ed25519PublicKey)
    except Exception:  # the parser raises errors of several kinds
        usable = False
    if not usable:
        raise ValueError("a certificate is the line that `dsba study key` prints, got something else")
    return certificate


def name_of(certificate: Certificate) -> str:
    """The site that a certificate was made for."""
    from cryptography.x509.oid import NameOID

    return ",".join(str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME))


def text_of(certificate: bytes) -> str:
    """A certificate as a study file holds it."""
    return base64.b64encode(certificate).decode()


def fingerprint(certificate: bytes) -> str:
    return hashlib.sha256(certificate).hexdigest()


def site_section(name: str, address: str | None, certificate: bytes) -> dict[str, str]:
    """A site as a study file holds it. A site without an address only dials out."""
    place = {} if address is None else {"address": address}
    return {"name": name, **place, "fingerprint": fingerprint(certificate), "certificate": text_of(certificate)}
