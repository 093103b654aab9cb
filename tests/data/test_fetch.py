"""Downloads from a local server that drops, damages, refuses and redirects."""

from __future__ import annotations

import bz2
import hashlib
import re
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dsba.data import fetch as fetching
from dsba.data import load_libsvm, registry
from dsba.errors import InputError

ROWS = b"".join(b"%d 1:%d 3:0.5\n" % (1 - 2 * (i % 2), i + 1) for i in range(400))
FILE = bz2.compress(ROWS)
UNPINNED = registry.PublicSet("binary/small.bz2", "Small", 400, 3)
ENTRY = replace(UNPINNED, checksum=f"sha256:{hashlib.sha256(FILE).hexdigest()}")


class Server:
    """Serves FILE; ``faults`` names what goes wrong with the first requests, in order."""

    def __init__(self):
        self.requests, self.faults, self.ranges = [], [], True
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append((self.path, self.headers.get("Range")))
                fault = outer.faults.pop(0) if outer.faults else ""
                if fault == "missing":
                    self.send_error(404)
                    return
                if fault.startswith(("http:", "https:", "file:")):
                    self.send_response(302)
                    self.send_header("Location", fault)
                    self.end_headers()
                    return
                body = FILE if fault != "damaged" else FILE[:200] + bytes(100) + FILE[300:]
                start = 0
                if outer.ranges and (wanted := self.headers.get("Range")):
                    start = int(wanted.removeprefix("bytes=").rstrip("-"))
                    self.send_response(206)
                    if fault == "elsewhere":
                        start //= 2
                    self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
                else:
                    self.send_response(200)
                body = body[start:]
                lengths = {"no length": None, "odd length": "many", "huge": str(1 << 40)}
                length = lengths.get(fault, str(len(body)))
                if length is not None:
                    self.send_header("Content-Length", length)
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"


@pytest.fixture
def server(monkeypatch, tmp_path):
    server = Server()
    monkeypatch.setitem(registry.REGISTRY, "small", ENTRY)
    monkeypatch.setenv("DSBA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DSBA_DATA", raising=False)
    monkeypatch.delenv("DSBA_MIRROR", raising=False)
    monkeypatch.setattr(fetching, "LIBSVM", server.address + "/libsvm/")
    yield server
    server.http.shutdown()
    server.http.server_close()


def fetch(**options):
    return fetching.fetch("small", pause=0.0, **options)


def test_a_download_is_found_by_name_and_made_once(server):
    path = fetch()
    assert path.read_bytes() == FILE
    assert load_libsvm("small").X.shape == (400, 3)
    assert fetch() == path
    assert len(server.requests) == 1


def test_an_interrupted_download_goes_on_where_it_stopped(server):
    server.faults = ["cut"]
    assert fetch().read_bytes() == FILE
    assert server.requests[1][1] == f"bytes={len(FILE) // 2}-"


def test_a_server_without_ranges_starts_again(server):
    server.faults, server.ranges = ["cut"], False
    assert fetch().read_bytes() == FILE


def test_the_next_command_resumes_what_an_earlier_one_left(server):
    server.faults = ["cut"] * 3
    with pytest.raises(InputError, match="connection ended"):
        fetch()
    assert not (path_of(server)).exists()
    assert fetch().read_bytes() == FILE
    assert server.requests[-1][1] is not None


def path_of(server):
    from dsba.data import cache

    return cache.folder() / "data" / ENTRY.file


def test_a_corrupted_download_is_fetched_again_and_never_used(server):
    server.faults = ["damaged"]
    assert fetch().read_bytes() == FILE
    assert server.requests[1][1] is None  # from the start: no byte of the damaged one is kept


def test_always_corrupted_leaves_nothing_under_the_name(server):
    server.faults = ["damaged"] * 3
    with pytest.raises(InputError, match="cannot fetch small"):
        fetch()
    assert not path_of(server).exists()


def test_a_wrong_checksum_or_shape_is_refused(server, monkeypatch):
    for wrong in ("sha256:" + "0" * 64, "md5:" + "0" * 32):
        monkeypatch.setitem(registry.REGISTRY, "small", replace(ENTRY, checksum=wrong))
        with pytest.raises(InputError, match=f"its checksum begins .*, wanted {wrong[:20]}"):
            fetch()
    monkeypatch.setitem(registry.REGISTRY, "small", replace(ENTRY, rows=401))
    with pytest.raises(InputError, match="wanted 401 x 3"):
        fetch()


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_a_right_checksum_is_taken(server, monkeypatch, algorithm):
    right = f"{algorithm}:{hashlib.new(algorithm, FILE).hexdigest()}"
    monkeypatch.setitem(registry.REGISTRY, "small", replace(ENTRY, checksum=right))
    assert fetch().read_bytes() == FILE


def test_registered_checksums_are_whole():
    """A digit lost would refuse every download; without one, the file has to have checksums of its own."""
    for name, entry in registry.REGISTRY.items():
        if entry.checksum is None:
            assert entry.file.endswith(".bz2"), name
        else:
            assert re.fullmatch("sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", entry.checksum), name


def test_mirrors_come_first_and_the_source_last(server, monkeypatch):
    server.faults = ["missing", "missing"]
    monkeypatch.setenv("DSBA_MIRROR", server.address + "/environment")
    assert fetch(mirrors=[server.address + "/given/"]).read_bytes() == FILE
    tried = [path for path, _ in server.requests]
    assert tried == ["/given/binary/small.bz2", "/environment/binary/small.bz2", "/libsvm/binary/small.bz2"]


def test_unreachable_says_so_in_one_sentence(server):
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(InputError, match="cannot fetch small: http://127"):
        fetch()


def test_a_range_that_begins_elsewhere_is_not_appended(server):
    server.faults = ["cut", "elsewhere"]
    assert fetch().read_bytes() == FILE


@pytest.mark.parametrize("mirror", ["file:///etc", "ftp://127.0.0.1", "/etc", "http://", "http://[", "nonsense"])
def test_a_mirror_that_is_no_web_address(server, mirror):
    server.faults = ["missing"]
    with pytest.raises(InputError, match="a mirror must be an http or https address") as error:
        fetch(mirrors=[mirror])
    assert mirror.rstrip("/") in str(error.value)


@pytest.mark.parametrize("fault", ["odd length", "huge"])
def test_a_length_that_cannot_be(server, fault):
    server.faults = [fault] * 3
    with pytest.raises(InputError, match=r"Content-Length is no number|larger than 1073741824 bytes"):
        fetch()
    assert not path_of(server).exists()


def test_a_download_without_end_is_cut_off(server, monkeypatch):
    """No length is said, so only counting helps; nothing of it stays."""
    monkeypatch.setattr(fetching, "LARGEST_DOWNLOAD", 100)
    server.faults = ["no length"]
    with pytest.raises(InputError, match="larger than 100 bytes"):
        fetch()
    assert list(path_of(server).parent.iterdir()) == []
    assert len(server.requests) == 1


def test_without_a_checksum_only_https_will_do(server, monkeypatch):
    """Not by the way of a redirection either."""
    monkeypatch.setitem(registry.REGISTRY, "small", UNPINNED)
    with pytest.raises(InputError, match="over https only"):
        fetch()
    assert server.requests == []
    monkeypatch.setattr(fetching, "_require_safe", only_the_last_step(fetching._require_safe))
    server.faults = [server.address + "/else"]
    with pytest.raises(InputError, match="over https only"):
        fetch()


def only_the_last_step(real):
    """As if the first address were an https one."""
    asked = []

    def check(address, entry):
        asked.append(address)
        if len(asked) > 1:
            real(address, entry)

    return check


def test_a_redirection_to_a_file_is_refused(server):
    server.faults = ["file:///etc/passwd"] * 3
    with pytest.raises(InputError, match="cannot fetch small"):
        fetch()


def test_a_link_in_the_way_is_not_followed(server, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    folder = path_of(server).parent
    folder.mkdir(parents=True)
    (folder / f".part-{ENTRY.file}").symlink_to(victim)
    assert fetch().read_bytes() == FILE
    assert victim.read_bytes() == b"mine"
    assert not path_of(server).is_symlink()


def test_an_unknown_name_suggests_a_near_one(server):
    with pytest.raises(InputError, match=r"did you mean 'news20\.binary'"):
        fetching.fetch("news20.binry")


def test_the_command_fetches(server):
    from typer.testing import CliRunner

    from dsba.cli.data import data_app

    done = CliRunner().invoke(data_app, ["fetch", "small"])
    assert done.exit_code == 0, done.output
    assert str(path_of(server)) in done.output.replace("\n", "")
