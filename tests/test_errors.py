"""Errors: one base above all of them, one sentence each; the system's refusals are errors of the system."""

from __future__ import annotations

import errno
import importlib
import os
import pickle
import pkgutil
import re
import subprocess
import sys

import pytest
from conftest import ROOT, make_problem

import dsba
from dsba.errors import InputError, StorageError, cannot, validation_sentence


def classes():
    for module in pkgutil.walk_packages(dsba.__path__, "dsba."):
        if not module.name.endswith("__main__"):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and value.__module__.startswith("dsba."):
                    yield value


def test_one_base_above_all_errors():
    errors = {cls for cls in classes() if issubclass(cls, BaseException) and not issubclass(cls, Warning)}
    assert len(errors) > 10
    assert {cls.__name__ for cls in errors if not issubclass(cls, dsba.DsbaError)} == set()


def test_the_builtin_kinds_of_errors():
    assert issubclass(dsba.InputError, ValueError)
    assert issubclass(dsba.NetworkError, RuntimeError)
    assert issubclass(dsba.StorageError, OSError)
    assert not issubclass(dsba.StorageError, ValueError)


def test_the_reference_lists_the_errors():
    listed = re.findall(r"^::: dsba\.(?:errors\.)?(\w+Error)$", (ROOT / "docs" / "api.md").read_text(), re.M)
    assert set(listed) == {name for name in vars(dsba.errors) if name.endswith("Error")}
    assert {name for name in dsba.__all__ if name.endswith("Error")} <= set(listed)


def test_a_full_disk_is_no_bad_input(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"^cannot write .*kept: No space left on device\.$") as found:
        dsba.solve(make_problem("ridge"), dsba.Topology.ring(4), max_passes=1, checkpoint=tmp_path / "kept")
    assert not isinstance(found.value, ValueError)
    assert list(tmp_path.iterdir()) == []


def test_what_the_system_refuses_and_what_is_unusable():
    refused = cannot("read x", PermissionError(errno.EACCES, "Permission denied"))
    assert (type(refused), str(refused)) == (StorageError, "cannot read x: Permission denied.")
    assert cannot("read y", refused) is refused
    missing = cannot("read x", FileNotFoundError(errno.ENOENT, "No such file or directory"))
    assert (type(missing), str(missing)) == (InputError, "cannot read x: No such file or directory.")
    unusable = cannot("read x", EOFError(), "it is cut off")
    assert (type(unusable), str(unusable)) == (InputError, "cannot read x: it is cut off.")


def test_a_command_says_what_the_system_refuses(tmp_path):
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "dsba", "reproduce", "--out", str(tmp_path / "file" / "results")]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    assert re.fullmatch(r"Error: cannot write into .*: Not a directory\.\n", ended.stderr)


def test_an_error_keeps_its_key_between_processes():
    error = pickle.loads(pickle.dumps(InputError("'seed' is wrong.", key="seed")))
    assert (str(error), error.key) == ("'seed' is wrong.", "seed")


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"type": "value_error", "msg": "Value error, a.", "ctx": {"error": InputError("a.")}}, "a."),
        ({"type": "value_error", "msg": "Value error, a", "ctx": {"error": ValueError("a")}}, "a."),
        ({"type": "int_type", "msg": "Input should be an integer"}, "Input should be an integer, got 'x'."),
        ({"type": "missing", "msg": "Field required"}, "it is missing."),
    ],
)
def test_the_sentence_of_a_validator(found, sentence):
    assert validation_sentence(found, ", got 'x'") == sentence


def test_the_package_serves_declared_names_only():
    for name in dsba.__all__:
        assert getattr(dsba, name) is not None
    for name in ("fitting", "tables_fit", "importlib_", "FitError", "choose"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
            dsba.__getattr__(name)
