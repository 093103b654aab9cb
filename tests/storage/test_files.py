"""Files that are whole or absent, private where they must be, and sealed ones."""

from __future__ import annotations

import io
import mmap
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

from dsba.storage import atomic, sealed


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_mask_is_not_touched_when_files_are_written(tmp_path, monkeypatch):
    """Asking for it changes it for a moment, for all threads."""

    def touched(mask):
        raise AssertionError("the mask was touched")

    monkeypatch.setattr(os, "umask", touched)
    with atomic.replacing(tmp_path / "usual") as stream:
        stream.write(b"x")
    with atomic.replacing(tmp_path / "private", atomic.PRIVATE) as stream:
        stream.write(b"x")
    assert mode(tmp_path / "usual") == atomic.USUAL
    assert mode(tmp_path / "private") == 0o600


@pytest.mark.parametrize(("mask", "wanted"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_mask_of_the_process_is_kept(mask, wanted, tmp_path):
    program = (
        f"import os; os.umask({mask})\n"
        "from pathlib import Path\nfrom dsba.storage.atomic import replacing\n"
        "with replacing(Path('file')) as stream: stream.write(b'x')\n"
        "print(os.umask(0))"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert run.stdout.split() == [str(mask)], run.stderr
    assert mode(tmp_path / "file") == wanted


def test_private_folders(tmp_path):
    tmp_path.chmod(0o755)
    atomic.private_folder(tmp_path / "a" / "b")
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700
    atomic.private_folder(tmp_path)
    assert mode(tmp_path) == 0o755


ARRAYS = {
    "numbers": np.arange(6.0).reshape(2, 3).T,
    "empty": np.empty((0, 3)),
    "text": np.array(["ham", "späm"]),
    "one": np.asarray(3),
    "truth": np.array([True, False]),
    "swapped": np.arange(3, dtype=">i4"),
}


def test_sealed_files_give_back_what_they_got(tmp_path):
    with (tmp_path / "file").open("wb") as stream:
        sealed.write(stream, {"name": "λ", "numbers": [1, 2.5, None]}, ARRAYS)
    facts, arrays = sealed.read(tmp_path / "file")
    assert facts == {"name": "λ", "numbers": [1, 2.5, None]}
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].shape == array.shape
        assert (arrays[name] == array).all()
        assert arrays[name].flags.writeable


def holder(array):
    """Whose memory it is."""
    while isinstance(array, np.ndarray | memoryview):
        array = array.base if isinstance(array, np.ndarray) else array.obj
    return array


def test_a_shared_sealed_file_takes_no_memory_and_is_not_written_to(tmp_path):
    """The arrays lie in the mapped file. What is written to them stays in this process."""
    path, numbers = tmp_path / "data", np.arange(10_000.0)
    with path.open("wb") as stream:
        sealed.write(stream, {"a": 1}, {"numbers": numbers, "none": np.zeros((0, 3)), "odd": np.arange(3, dtype="i1")})
    before = path.read_bytes()
    facts, arrays = sealed.read(path, shared=True)
    assert facts == {"a": 1}
    assert arrays["none"].shape == (0, 3)
    assert arrays["odd"].tolist() == [0, 1, 2]
    assert (arrays["numbers"] == numbers).all()
    assert isinstance(holder(arrays["numbers"]), mmap.mmap)
    arrays["numbers"][:] = 7.0
    assert path.read_bytes() == before
    path.write_bytes(before[:5000] + b"?" + before[5001:])
    with pytest.raises(sealed.DamagedError):
        sealed.read(path, shared=True)


def test_a_sealed_file_keeps_no_objects():
    with pytest.raises(TypeError, match="'things' has dtype object"):
        sealed.write(io.BytesIO(), {}, {"things": np.array([{}], object)})
