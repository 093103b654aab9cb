"""The content that results depend on besides settings: the bytes of the data, the sources of user-defined code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsba import data as datasets
from dsba.data import registry
from dsba.data.libsvm import find_file
from dsba.errors import InputError, cannot
from dsba.lab.objects import digest_of_rows
from dsba.lab.sections import Data
from dsba.lab.spec import Experiment
from dsba.storage import fingerprint, plugins

TEST_ENDINGS = {".trn": ".tst", ".tr": ".t", "": ".t"}


@dataclass(frozen=True)
class Sources:
    """SHA-256 of every data set and every plugin that an experiment names, by name."""

    data: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, experiment: Experiment) -> Sources:
        return cls(_data_digests(experiment), {name: plugins.digest(name) for name in experiment.plugins})

    def require_unchanged(self, experiment: Experiment) -> None:
        """An error if a data set is not the one that the plan was made for."""
        now = _data_digests(experiment)
        for name, digest in self.data.items():
            require_digest(name, digest, now.get(name, ""))

    def code_of(self, thing: Any) -> str:
        """The digest of a plugin or of a user-defined object; empty for what is dsba's."""
        return self.code.get(thing, "") if isinstance(thing, str) else fingerprint.digest_of(thing)


def _data_digests(experiment: Experiment) -> dict[str, str]:
    found = {data.name: data.rows.digest if data.rows else data_digest(data.name) for data in experiment.data}
    for data in experiment.data if needs_test_set(experiment) else ():
        if name := test_set(data):
            found[name] = data.test_rows.digest if data.test_rows else data_digest(name)
    return found


def require_digest(name: str, wanted: str, found: str) -> None:
    if found != wanted:
        raise InputError(f"{name} has changed since the comparison began: start it again.")


def needs_test_set(experiment: Experiment) -> bool:
    """Whether anything is measured on a test set."""
    wanted, problems = experiment.metrics, experiment.problem
    on_test = any(not isinstance(m, str) or plugins.is_plugin(m) or m.startswith("test_") for m in wanted)
    return on_test or any(problem.build().ranks for problem in problems)


def data_digest(name: str) -> str:
    """The digest of the file's bytes. An embedded set has no file; its digest is that of its arrays."""
    if name in datasets.EMBEDDED:
        return digest_of_rows(*datasets.load(name))
    path = find_file(name, embedded=datasets.EMBEDDED)
    try:
        with Path(path).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise cannot(f"read {path}", error) from error


def locate(data: Data) -> None:
    """An error if a data set is not here; it says where it was looked for, and how to get it."""
    for name in filter(None, (None if data.rows else data.name, data.test)):
        if name in datasets.EMBEDDED:
            continue
        try:
            find_file(name, embedded=datasets.EMBEDDED)
        except InputError as error:
            if name not in registry.REGISTRY:
                raise
            raise InputError(f"{name} is not here: `dsba data fetch {name}` gets it ({error}).") from error


def test_set(data: Data) -> str | None:
    """The name of the test set: the one given, the registry's, or the file beside it; if it is there."""
    if data.test_rows is not None:
        return f"{data.name} (test)"
    if data.test is not None or data.rows is not None or data.name in datasets.EMBEDDED:
        return data.test
    known = registry.REGISTRY.get(data.name)
    stem, _, end = data.name.rpartition(".")
    ending = TEST_ENDINGS.get("." + end)
    guesses = [known.test if known else None, stem + ending if stem and ending else data.name + TEST_ENDINGS[""]]
    for guess in filter(None, guesses):
        with suppress(InputError):
            find_file(guess)
            return guess
    return None
