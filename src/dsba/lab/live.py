"""The page on localhost while runs go on: its curves grow."""

from __future__ import annotations

import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from dsba.engine.history import History
from dsba.errors import DsbaError, InputError
from dsba.lab.finished import FinishedRuns
from dsba.lab.page import as_json, contents, page


class Live:
    """A server for one experiment under way; ``record`` feeds it."""

    def __init__(self, out: Path, port: int = 0) -> None:
        self.out = out
        self.partial: dict[str, History] = {}
        self.lock = threading.Lock()
        live = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                status, kind, body = live.respond(self.headers.get("Host"), self.path.partition("?")[0])
                self.send_response(status)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass  # the terminal belongs to the progress display

        try:
            self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as error:
            raise InputError(f"cannot serve the page on port {port}: {error.strerror or error}.") from error
        self.server.daemon_threads = True

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/"

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def record(self, id: str, record: dict[str, float]) -> None:
        """A record of a job under way; those of step-size searches are not shown."""
        with self.lock:
            self.partial.setdefault(id, History()).append(record)

    def respond(self, host: str | None, path: str) -> tuple[HTTPStatus, str, bytes]:
        """Status, content type and body for a request."""
        port = self.server.server_address[1]
        if host not in (f"127.0.0.1:{port}", f"localhost:{port}"):  # a foreign site that points its name here
            return HTTPStatus.FORBIDDEN, "text/plain", b"not for you"
        if path not in ("/", "/report.html", "/report.json"):
            return HTTPStatus.NOT_FOUND, "text/plain", b"not here"
        with self.lock:
            partial = {id: History(history.to_dict()) for id, history in self.partial.items()}
        try:
            content = contents(FinishedRuns.load(self.out, partial), live=True)
        except DsbaError as error:  # files that the command has not yet written
            return HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{error} Reload in a moment.".encode()
        if path == "/report.json":
            return HTTPStatus.OK, "application/json", as_json(content).encode()
        return HTTPStatus.OK, "text/html", page(content).encode()
