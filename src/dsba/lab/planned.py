"""What a plan is made of: things with identifiers, and jobs among them.

An identifier is made of the content that a job computes from, and of nothing else: the bytes of the data, the sources
of plugins, the settings. So a finished job is known again after methods, data or seeds were added around it, and is not
mistaken for one with other data, other code or other settings.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsba.errors import DsbaError
from dsba.lab.folder import Folder

Watch = Callable[[dict[str, float]], object]  # sees every record; a true answer stops the run


class Interrupted(DsbaError):
    """A job was stopped on request; its checkpoint is on disk."""


@dataclass(frozen=True, eq=False)
class Planned(ABC):
    """Something with an identifier, which is made once, when the plan is made. Equal identifiers are the same thing."""

    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", identifier(*self.content()))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @abstractmethod
    def content(self) -> tuple[list[str], Any]:
        """Readable words, and all that the result depends on."""


@dataclass(frozen=True, eq=False)
class Job(Planned):
    """Something to do, in any process. Its result is one file."""

    @property
    @abstractmethod
    def title(self) -> str: ...

    @property
    def needs(self) -> tuple[Job, ...]:
        """The jobs that come before this one."""
        return ()

    @abstractmethod
    def perform(self, folder: Folder, watch: Watch) -> None:
        """Do the job and write its result."""

    @abstractmethod
    def files(self, folder: Folder) -> list[Path]:
        """The result, and what the job keeps while it is unfinished."""

    def is_done(self, folder: Folder) -> bool:
        return self.files(folder)[0].exists()


def identifier(words: list[str], content: Any) -> str:
    """Readable words, and a fingerprint of the words and of the content, which makes it unique."""
    readable = "-".join(re.sub(r"-[0-9a-f]{16}$", "", word) for word in words)  # fingerprints in words: once is enough
    text = json.dumps([words, content], sort_keys=True)
    fingerprint = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{re.sub(r'[^a-z0-9.]+', '-', readable.lower())[:120]}-{fingerprint}"
