"""The content that results depend on besides settings: the bytes of the data, the sources of one's own code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dsba import data as datasets
from dsba import operators, plugins
from dsba.data import registry
from dsba.data.libsvm import find_file
from dsba.errors import InputError
from dsba.experiments.spec import Data, Experiment

TEST_ENDINGS = {".trn": ".tst", ".tr": ".t", "": ".t"}


@dataclass(frozen=True)
class Sources:
    """SHA-256 of every data set and every plugin that an experiment names, by name."""

    data: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, experiment: Experiment) -> Sources:
        ranks = any(operators.get(problem.operator).ranks for problem in experiment.problem)
        names = [name for d in experiment.data for name in (d.name, test_set(d) if ranks else None) if name]
        return cls(
            {name: data_digest(name) for name in dict.fromkeys(names)},
            {name: plugins.digest(name) for name in experiment.plugins},
        )


def data_digest(name: str) -> str:
    """Of the file's bytes; of an embedded set, which has no file, of its arrays."""
    if name in datasets.EMBEDDED:
        X, y = datasets.load(name)
        found = hashlib.sha256(f"{X.shape}".encode())
        for array in (X.data, X.indices.astype("<i8"), X.indptr.astype("<i8"), y):
            found.update(array.tobytes())
        return found.hexdigest()
    path = find_file(name, embedded=datasets.EMBEDDED)
    try:
        with Path(path).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error


def locate(data: Data) -> None:
    """An error if a data set is not here; it says where it was looked for, and how to get it."""
    for name in filter(None, (data.name, data.test)):
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
    if data.test is not None or data.name in datasets.EMBEDDED:
        return data.test
    known = registry.REGISTRY.get(data.name)
    stem, _, end = data.name.rpartition(".")
    ending = TEST_ENDINGS.get("." + end)
    guesses = [known.test if known else None, stem + ending if stem and ending else data.name + TEST_ENDINGS[""]]
    for guess in filter(None, guesses):
        try:
            find_file(guess)
        except InputError:
            continue
        return guess
    return None
