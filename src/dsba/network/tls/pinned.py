"""Connections between two sites: WebSocket over TLS 1.3, with both certificates pinned.

A site trusts the certificates of the study and nothing else: no authority, no name, no revocation list. Every failure
becomes one sentence that says what to do, at both ends as far as the protocol lets a sentence through.
"""

from __future__ import annotations

import hashlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from dsba.errors import DsbaError, InputError
from dsba.network.tls.frames import MOST_FRAME_BYTES

if TYPE_CHECKING:
    from websockets.sync.connection import Connection as _Connection
else:
    _Connection = object  # websockets is an extra, and is imported where a connection is made

HANDSHAKE = 10.0  # seconds for everything before the first frame
STALLED = 30.0  # seconds that a socket may take none of our bytes
KEPT_ALIVE: dict[str, Any] = {"ping_interval": 5.0, "ping_timeout": 15.0, "close_timeout": 1.0}  # seconds
SEND_BUFFER = 1 << 20  # bytes: what is under way must fit, so that sending never waits for the other side's reading
TLS_RECORD = 0x16  # the first byte of a TLS handshake
OPEN, SWITCHED, CLOSED_BY_BOTH = 1, 101, 1000  # of websockets' states, of HTTP, and of WebSocket
MESSAGE_GOES_ON, MESSAGE_TEXT, MESSAGE_BYTES = MESSAGES = (0, 1, 2)  # of WebSocket's frames (RFC 6455)

CERTIFICATES = {
    9: "its certificate is not valid yet: look at the clocks of both sites.",
    10: "its certificate has expired: it needs a new one (dsba study key), which changes the study.",
}
OTHER_CERTIFICATE = (
    "it shows another certificate than the one in the study. Its key was replaced (dsba study rotate) and the lines "
    "are missing here, or something in between ends TLS: a reverse proxy or TLS inspection must let this port through."
)
ALERTS = {  # by the ends of OpenSSL's reasons
    "CERTIFICATE_EXPIRED": "it says that the certificate of this site has expired: make a new one (dsba study key).",
    "CERTIFICATE_REQUIRED": "it wants a certificate, and none was sent.",
    "BAD_CERTIFICATE": "it does not accept the certificate of this site: is it valid yet, by its clock?",
    "UNKNOWN_CA": "it does not know the certificate of this site: compare the study files (dsba study check).",
    "PROTOCOL_VERSION": "it accepts no version of TLS that was offered: TLS 1.3 is wanted.",
    "HANDSHAKE_FAILURE": "it found no common way to encrypt: TLS 1.3 is wanted.",
}
TLS_REASONS = {
    "WRONG_VERSION_NUMBER": "it answers in plain text and not with TLS: a wrong port, or a proxy in between.",
    "HTTP_REQUEST": "it speaks plain text and not TLS.",
    "UNSUPPORTED_PROTOCOL": "it offers no TLS 1.3: something older, or a proxy in between.",
    "NO_PROTOCOLS_AVAILABLE": "it offers no TLS 1.3: something older, or a proxy in between.",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it sent no certificate: a stranger, or a proxy that ends TLS here.",
}
PLAIN_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n"
    b"This port speaks TLS 1.3 with the certificates of a study (dsba study), and plain text came.\n"
)

quiet = logging.getLogger("dsba.sites")
quiet.addHandler(logging.NullHandler())
quiet.propagate = False


class Member(NamedTuple):
    """A site of a study, as the others must know it."""

    name: str
    address: tuple[str, int] | None
    """Where it listens; None is a site that only dials out."""
    certificate: bytes
    """In DER: it and no other is this site."""

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.certificate).hexdigest()


class Refusal(StrEnum):
    """What is wrong where a connection does not come about; it goes over the wire beside the sentence."""

    LINE = "line"  # no connection with the right certificates
    MESSAGE = "message"  # damaged, or not one of dsba
    PROGRAM = "program"
    STUDY = "study"
    SITE = "site"  # another name, or not a neighbour
    DATA = "data"  # changed since the run began
    ABSENT = "absent"  # the site takes no part


class RefusedError(DsbaError):
    """A connection that does not come about. The message is the sentence for the people at this end."""

    def __init__(self, sentence: str, kind: Refusal = Refusal.LINE) -> None:
        super().__init__(sentence)
        self.kind = kind


def context(own: Path, members: Sequence[Member], *, server: bool) -> ssl.SSLContext:
    """TLS 1.3 only; ``own`` has the key and the certificate of this site, and the members' are all that is trusted."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = made.maximum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False  # the certificate itself is compared
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST | ssl.VERIFY_X509_PARTIAL_CHAIN
    if server:
        made.num_tickets = 0
    for member in members:
        made.load_verify_locations(cadata=member.certificate)
    try:
        made.load_cert_chain(own, password=lambda: b"")
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"{own} is not the key and the certificate of a site: {error.strerror or error}.") from None
    return made


def explained(error: BaseException) -> str:
    """Why a connection failed, as the end of a sentence."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return CERTIFICATES.get(error.verify_code, OTHER_CERTIFICATE)
    if isinstance(error, ssl.SSLError):
        openssl = error.reason or ""
        alert = next((text for name, text in ALERTS.items() if "ALERT" in openssl and openssl.endswith(name)), None)
        return alert or TLS_REASONS.get(openssl, f"TLS failed ({openssl or error}).")
    if isinstance(error, socket.gaierror):
        return "its name is not known here: look at the address in the study."
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there: has the site started, and is the port open?"
    if isinstance(error, TimeoutError):
        return f"it gave no answer within {HANDSHAKE:g} seconds: a firewall, or a port of something else."
    return f"the connection broke ({error})." if str(error) else "the connection broke."


# Reading ----------------------------------------------------------------------------------------------


class Hearing(_Connection):
    """A connection whose messages, once both have greeted, are handled by the thread that reads the socket.

    A queue and a second thread in between would cost half as much again as a round of messages itself.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._each: Callable[[str | bytes], object] | None = None
        self._trouble: Exception | None = None
        self._turn, self._over = threading.Lock(), threading.Event()
        super().__init__(*arguments, **options)

    def hear(self, each: Callable[[str | bytes], object]) -> None:
        """``each(message)`` for every message, until the connection ends; what it raises ends the hearing."""
        with self._turn:
            with suppress(TimeoutError):  # what came before; nothing can come while it is our turn
                while True:
                    each(self.recv(0))
            self._each = each
        self._over.wait()
        if self._trouble is not None:
            raise self._trouble

    def push(self, message: str | bytes) -> None:
        """Send a message. Unlike ``send`` this never waits for the thread that reads, which may wait for us."""
        with self.protocol_mutex:
            if self.protocol.state != OPEN:
                raise ConnectionError("the connection is closed")
            if isinstance(message, str):
                self.protocol.send_text(message.encode())
            else:
                self.protocol.send_binary(message)
            try:
                self.send_data()
            except Exception:
                with suppress(OSError):
                    self.socket.shutdown(socket.SHUT_RDWR)  # the thread that reads finds it out and closes
                raise

    def process_event(self, event: Any) -> None:
        with self._turn:
            if self._each is None or event.opcode not in MESSAGES:
                super().process_event(event)
            elif self._trouble is None:
                self._handle(self._each, event)

    def _handle(self, each: Callable[[str | bytes], object], event: Any) -> None:
        try:
            if not event.fin or event.opcode == MESSAGE_GOES_ON:
                raise ValueError("it came in pieces")
            data = bytes(event.data)
            each(data.decode() if event.opcode == MESSAGE_TEXT else data)
        except Exception as error:
            self._trouble = error
            self._over.set()

    def recv_events(self) -> None:
        try:
            super().recv_events()
        finally:
            self._over.set()


# Dialling ---------------------------------------------------------------------------------------------


@contextmanager
def dialled(to: Member, using: ssl.SSLContext) -> Iterator[Hearing]:
    """A connection to a member, whose certificate was compared; it is closed at the end."""
    assert to.address is not None
    host, port = to.address
    nowhere = f"no connection to {to.name} at {host}:{port}"
    with ExitStack() as stack:
        try:
            made = stack.enter_context(_connect(to.name, host, port, using))
            stack.callback(made.close_socket)
            _settle(made.socket)
            certificate = made.socket.getpeercert(binary_form=True)
        except Exception as error:  # whatever websockets makes of a line that breaks
            raise RefusedError(f"{nowhere}: {explained(error)}") from error
        if certificate != to.certificate:
            raise RefusedError(f"{nowhere}: it shows another site's certificate.")
        yield made


def _connect(name: str, host: str, port: int, using: ssl.SSLContext) -> Any:
    failures: list[BaseException | None] = []
    from websockets.sync.client import ClientConnection, connect

    class Telling(Hearing, ClientConnection):
        """Raises TLS's alert where the other side refuses after our handshake: reading and writing fail together."""

        def set_connection_exc(self, exc: BaseException | None) -> None:
            failures.append(exc)
            super().set_connection_exc(exc)

        def handshake(self, *arguments: Any, **options: Any) -> None:
            try:
                super().handshake(*arguments, **options)
            except Exception:
                self.recv_events_thread.join(HANDSHAKE)
                if broken := [one for one in failures if isinstance(one, OSError)]:
                    raise max(broken, key=lambda one: "ALERT" in str(getattr(one, "reason", ""))) from None
                raise

    direct: dict[str, Any] = {"proxy": None} if host in ("localhost", "::1") or host.startswith("127.") else {}
    return connect(
        f"wss://{f'[{host}]' if ':' in host else host}:{port}/", ssl=using, server_hostname=name, compression=None,
        open_timeout=HANDSHAKE, max_size=MOST_FRAME_BYTES, max_queue=None, logger=quiet, create_connection=Telling,
        **KEPT_ALIVE, **direct,
    )  # fmt: skip


def _settle(sock: socket.socket) -> None:
    """For the life of a connection: a side that takes no bytes for a while is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    sock.settimeout(STALLED)


# Answering --------------------------------------------------------------------------------------------


def opened(
    secured: ssl.SSLSocket, rank: int, members: Sequence[Member], closed: threading.Event, deadline: float
) -> Hearing:
    """The connection of a member that dialled, once TLS is there; a RefusedError if it opens no WebSocket.

    ``closed`` is set when this site answers no more.
    """
    from websockets.server import ServerProtocol
    from websockets.sync.server import ServerConnection

    class Answering(Hearing, ServerConnection):
        """The same at the side that answers."""

    with ExitStack() as failing:
        failing.callback(secured.close)
        protocol = ServerProtocol(max_size=MOST_FRAME_BYTES, logger=quiet)
        nothing = f"{members[rank].name} opened no WebSocket"
        try:
            _settle(secured)  # the side that dialled may have closed it already
            made = Answering(secured, protocol, SimpleNamespace(socket_closed=closed), max_queue=None, **KEPT_ALIVE)
            failing.callback(made.close_socket)
            made.handshake(timeout=max(0.0, deadline - time.monotonic()))
        except Exception as error:
            raise RefusedError(f"{nothing}: {explained(error)}") from error
        if made.response is None or made.response.status_code != SWITCHED:  # it may have said all and closed by now
            raise RefusedError(f"{nothing}.")
        made.start_keepalive()
        failing.pop_all()
    return made


def member_of(certificate: bytes | None, members: Sequence[Member]) -> int:
    """Whose certificate it is."""
    for rank, member in enumerate(members):
        if certificate == member.certificate:
            return rank
    raise RefusedError("it shows a certificate that is not in the study.")
