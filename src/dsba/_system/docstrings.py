"""Docstrings of objects that share parameters: an entry is written once and shown wherever the parameter is."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

PARAMETERS = "Parameters\n----------\n"
SECTION = re.compile(r"\n\n(?=[A-Z]\w+\n-{3,}\n)")


def add_parameters(target: Callable[..., Any], entries: Mapping[str, str], example: str = "") -> None:
    """Add entries to the Parameters section, which follows the signature, and an example at the end."""
    known = {**entries, **parameters(target.__doc__)}
    section = PARAMETERS + "\n".join(known[name] for name in inspect.signature(target).parameters if name in known)
    parts = SECTION.split(inspect.cleandoc(target.__doc__ or ""))
    text, *others = [part for part in parts if not part.startswith(PARAMETERS)]
    examples = [f"Examples\n--------\n{example}"] if example else []
    target.__doc__ = "\n\n".join([text, section, *others, *examples]) + "\n"


def inherit_parameters(cls: type, example: str = "") -> None:
    """Complete the Parameters section of a class by the entries of its bases."""
    entries: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        entries |= parameters(base.__dict__.get("__doc__"))
    add_parameters(cls, entries, example)


def parameters(doc: str | None) -> dict[str, str]:
    """The entries of a Parameters section by the names of the parameters."""
    section = inspect.cleandoc(doc or "").partition(PARAMETERS)[2].partition("\n\n")[0]
    return {entry.partition(" :")[0]: entry for entry in re.split(r"\n(?=\S)", section) if entry}
