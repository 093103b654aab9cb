"""The test vectors of docs/test-vectors.md: this program makes them, and reads them back; masks also by another way.

``python tests/network/test_vectors.py`` writes the block of the page anew.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from dsba.network.exact_sum import WideIntegers, integers, numbers
from dsba.network.tls import frames
from dsba.network.tls.masks import Masks, mask_stream
from dsba.network.tls.transcript import Answered, Transcript
from dsba.storage import sealed

PAGE = Path(__file__).parents[2] / "docs" / "test-vectors.md"
BLOCK = re.compile(r"(?<=```json\n).*?(?=```)", re.DOTALL)
FRAMES = {
    "a whole message": (0x1122334455667788, frames.Frame(3, False, 5, 4, b"dsba")),
    "a message that goes on": (7, frames.Frame(1, True, 0, 0, bytes(range(8)))),
    "an acknowledgement": (7, frames.Frame(0, False, 0, 9, b"")),
}
FACTS, ARRAYS = {"format": "example", "sites": 3}, {"weights": np.array([[1.0, -0.5]]), "rows": np.array([60, 80, 70])}
PARTS, EXPONENT = ([0.25, -3.0], [1.5, 2.0], [-0.75, 1e-9]), -100
STUDY, HISTORY = bytes(range(32)), hashlib.sha256(b"history").digest()
PRIVATE = [bytes([n]) * 32 for n in (1, 2, 3)]


def secrets():
    """What each pair of sites agrees on, from fixed private keys."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    keys = [X25519PrivateKey.from_private_bytes(one) for one in PRIVATE]
    return {(a, b): keys[a].exchange(keys[b].public_key()) for a in range(3) for b in range(3) if a != b}


def masked(agreed):
    """Each site's masked part of the first sum after ``HISTORY``."""
    own = [{b: agreed[a, b] for b in range(3) if a != b} for a in range(3)]
    parts = [integers(np.array([part]), EXPONENT) for part in PARTS]
    return [Masks(n, own[n], STUDY, Transcript(HISTORY)).hide(parts[n]).to_bytes() for n in range(3)]


def made():
    stream, agreed = io.BytesIO(), secrets()
    sealed.write(stream, FACTS, ARRAYS)
    line = Answered(0, "information", np.array([0.5]).tobytes(), b"", 32, EXPONENT, added(masked(agreed)))
    return {
        "frames": {
            name: {"tag": tag, **one._asdict(), "payload": one.payload.hex(), "bytes": frames.encode(tag, one).hex()}
            for name, (tag, one) in FRAMES.items()
        },
        "sealed file": {
            "facts": FACTS, "arrays": {name: array.tolist() for name, array in ARRAYS.items()},
            "bytes": stream.getvalue().hex(),
        },
        "masks": {
            "study": STUDY.hex(), "history": HISTORY.hex(), "number": 0, "exponent": EXPONENT,
            "private keys": [one.hex() for one in PRIVATE],
            "secrets": {f"{a}-{b}": secret.hex() for (a, b), secret in agreed.items() if a < b},
            "streams": {
                f"{a}-{b}": mask_stream(secret, STUDY, HISTORY, 0, 32).hex()
                for (a, b), secret in agreed.items() if a < b
            },
            "parts": [list(part) for part in PARTS], "masked": [part.hex() for part in masked(agreed)],
            "total": added(masked(agreed)).hex(),
        },
        "history": {"before": HISTORY.hex(), "answered": line.to_record(), "after": line.after(HISTORY).hex()},
    }  # fmt: skip


def added(parts):
    total = WideIntegers.from_bytes(parts[0])
    for part in parts[1:]:
        total = total.plus(WideIntegers.from_bytes(part))
    return total.to_bytes()


def shown():
    return json.loads(BLOCK.search(PAGE.read_text())[0])


def test_this_program_makes_them():
    assert made() == shown()


def test_frames_and_sealed_files_are_read_back(tmp_path):
    for one in shown()["frames"].values():
        found = frames.decode(bytes.fromhex(one["bytes"]), one["tag"])
        assert found._asdict() == {name: one[name] for name in found._fields} | {
            "payload": bytes.fromhex(one["payload"])
        }
        with pytest.raises(frames.FrameError, match="earlier run"):
            frames.decode(bytes.fromhex(one["bytes"]), one["tag"] + 1)
    (tmp_path / "file").write_bytes(bytes.fromhex(shown()["sealed file"]["bytes"]))
    facts, arrays = sealed.read(tmp_path / "file")
    assert facts == shown()["sealed file"]["facts"]
    assert {name: array.tolist() for name, array in arrays.items()} == shown()["sealed file"]["arrays"]


def rotated(value, places):
    return (value << places | value >> 32 - places) & 0xFFFFFFFF


def chacha20(key, length):
    """RFC 8439 with a counter and a nonce of zero, in plain Python."""
    out = b""
    for counter in range(-(-length // 64)):
        first = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), counter, 0, 0, 0]
        x = list(first)
        columns = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
        diagonals = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
        for a, b, c, d in (columns + diagonals) * 10:
            for p, q, r, places in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[p] = (x[p] + x[q]) & 0xFFFFFFFF
                x[r] = rotated(x[r] ^ x[p], places)
        out += struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(x, first, strict=True)))
    return out[:length]


def test_masks_by_hmac_and_plain_python():
    """HKDF (RFC 5869) and ChaCha20 without a library, integers of Python: the same streams, parts and total."""
    said = shown()["masks"]
    info = b"dsba mask" + bytes.fromhex(said["history"]) + said["number"].to_bytes(8, "little")
    streams = {}
    for pair, secret in said["secrets"].items():
        key = hmac.digest(bytes.fromhex(said["study"]), bytes.fromhex(secret), "sha256")
        key = hmac.digest(key, info + b"\x01", "sha256")
        streams[pair] = chacha20(key, 32)
        assert streams[pair].hex() == said["streams"][pair]
    width = len(said["parts"][0])

    def wide(data):
        high, low = np.frombuffer(data, "<u8").reshape(2, -1).tolist()
        return [(h << 64) + lo for h, lo in zip(high, low, strict=True)]

    for n, part in enumerate(said["parts"]):
        own = [int(value * 2.0 ** -said["exponent"]) for value in part]
        for pair, stream in streams.items():
            a, b = map(int, pair.split("-"))
            sign = (n == a) - (n == b)
            own = [value + sign * mask for value, mask in zip(own, wide(stream), strict=True)]
        assert [value % 2**128 for value in own] == wide(bytes.fromhex(said["masked"][n]))
    total = [sum(wide(bytes.fromhex(part))[j] for part in said["masked"]) % 2**128 for j in range(width)]
    assert total == wide(bytes.fromhex(said["total"]))
    found = numbers(WideIntegers.from_bytes(bytes.fromhex(said["total"])), said["exponent"])
    np.testing.assert_array_equal(found, [1.0, 1e-9 - 1.0])


def test_the_history_is_a_chain_of_hashes():
    said = shown()["history"]
    line = said["answered"]
    packed = lambda *parts: b"".join(struct.pack("<q", len(part)) + part for part in parts)  # noqa: E731
    texts = [struct.pack("<q", line["number"]), line["kind"].encode(), bytes.fromhex(line["at"])]
    fields = [bytes.fromhex(said["before"]), *texts, bytes.fromhex(line["scales"]), struct.pack("<q", line["length"])]
    answer = struct.pack("<q", line["exponent"]), bytes.fromhex(line["answer"])
    whole = packed(b"dsba question", packed(*fields), *answer)
    assert hashlib.sha256(whole).hexdigest() == said["after"]


if __name__ == "__main__":
    text = json.dumps(made(), indent=1) + "\n"
    PAGE.write_text(BLOCK.sub(lambda found: text, PAGE.read_text()))
