"""What measured tables start from, for `docs.tables.record`; docs/inputs.py follows it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from docs.inputs import Tree
from docs.tables import ROOT

import dsba

AUTO = "auto"


def starts(*code: str, methods: Iterable[str] = (), losses: Iterable[str] = ("logistic",)) -> list[str]:
    """The modules of a benchmark, and the classes of the methods and losses that it names; of "auto" the planner."""
    names = set(methods)
    chosen = [dsba.algorithms.REGISTRY[name] for name in sorted(names - {AUTO})]
    chosen += [dsba.operators.REGISTRY[name] for name in sorted(set(losses))]
    classes = (f"{one.__module__}:{one.__qualname__}" for one in chosen)
    return [*code, *classes, *(["dsba.algorithms.planner:plan"] if AUTO in names else [])]


def code_of(starts: Iterable[str]) -> str:
    """A name of all code that these starts reach: what was measured with other code is measured again."""
    return hashlib.sha256(json.dumps(Tree(ROOT).digests(starts)).encode()).hexdigest()[:12]
