"""An experiment from a TOML file or a dictionary. An error names the file, the line and the key."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dsba.errors import InputError, StorageError, cannot, shortened, validation_sentence
from dsba.graph.link import Link
from dsba.lab.sections import Active, Bursts, Data, NetworkSpec, Problems, Section, Stop, Tune
from dsba.lab.spec import Experiment, plugins_in, renamed
from dsba.storage import plugins

HEADER = re.compile(r"^\s*(\[\[?)\s*([\w.\"'-]+)\s*\]\]?")
UNION_MEMBER = re.compile(r"(float|str)$|literal\[|tuple\[|constrained")
TOML_KEY = re.compile(r"^\s*([\w\"'-]+)\s*=")
Allow = Callable[[list[str]], None]  # sees the plugins that an experiment names, and raises if one must not be loaded


def read(source: str | Path | Mapping[str, Any] | Experiment, allow: Allow | None = None) -> Experiment:
    """An experiment from a TOML file, a dictionary of the same form, or as it is."""
    if isinstance(source, Experiment):
        return source
    if isinstance(source, Mapping):
        return _validated(dict(source), "the experiment", {})
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise cannot(f"read the experiment {path}", error, "it is not UTF-8 text") from error
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not TOML, or a number of thousands of digits
        raise InputError(f"{path} is not TOML: {shortened(error)}.") from error
    files = [name for name in plugins_in(content) if plugins.code_of(name).endswith(".py")]
    content = renamed(content, {name: str(path.parent / name) for name in files})  # relative to the experiment's file
    if allow is not None:
        allow(plugins_in(content))
    return _validated(content, str(path), _line_numbers(text))


def _validated(content: dict[str, Any], where: str, lines: Mapping[tuple[Any, ...], int]) -> Experiment:
    try:
        return Experiment.model_validate(content)
    except ValidationError as error:
        errors = error.errors()  # a misspelt key often causes a missing one: name the misspelling
        first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
        # pydantic names the member of a union that failed, and a file has no such key
        place: tuple[Any, ...] = tuple(part for part in first["loc"] if not UNION_MEMBER.match(str(part)))
        if first["type"] == "value_error" and isinstance(first["input"], dict):  # raised for a whole table
            named = getattr(first["ctx"]["error"], "key", None)
            place += (named,) if named in first["input"] else ()
        key = ".".join(map(str, place))
        sentence = validation_sentence(first, f", got {_shown(first['input'])}")
        if first["type"] == "extra_forbidden":
            sentence = f"unknown key; known here: {', '.join(_keys_at(place))}."
        line = next((f", line {lines[p]}" for n in range(len(place), 0, -1) if (p := place[:n]) in lines), "")
        raise InputError(f"{where}{line}: {key + ': ' if key else ''}{sentence}") from None
    except StorageError as error:
        raise StorageError(f"{where}: {error}") from None


def _shown(given: Any) -> str:
    """What was given, for a message. Only plain values are shown: anything larger may be data."""
    if type(given) in (str, bool, int, float, type(None)):
        return shortened(repr(given), 60)
    if isinstance(given, Mapping):
        return shortened(f"a table with the keys {', '.join(map(str, given))}", 60)
    if isinstance(given, list | tuple):
        return f"a list of {len(given)} entries"
    kind = f"an object of type {type(given).__name__}"
    return f"an array of shape {given.shape}" if getattr(given, "shape", ()) else kind


def _keys_at(place: tuple[Any, ...]) -> list[str]:
    if len(place) > 1 and place[0] == "link":
        return [field.name for field in fields(Link)]
    sections: dict[str, type[Section]] = {
        "stop": Stop, "tune": Tune, "data": Data, "problem": Problems, "network": NetworkSpec,
        "bursts": Bursts, "active": Active,
    }  # fmt: skip
    place = place[2:] if place[2:3] in (("bursts",), ("active",)) else place  # tables inside of tables
    known = sections.get(str(place[0]), Experiment) if len(place) > 1 else Experiment
    return list(known.model_fields)


def _line_numbers(text: str) -> dict[tuple[Any, ...], int]:
    """The line of every table and key of a TOML text, by its place: ("method", 1, "algorithm") -> 12."""
    lines: dict[tuple[Any, ...], int] = {}
    table: tuple[Any, ...] = ()
    counts = Counter[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := HEADER.match(line):
            name = header[2].strip("\"'")
            table = (name, counts[name]) if header[1] == "[[" else (name,)
            counts[name] += 1
            lines.setdefault(table, number)
            lines.setdefault((name,), number)
        elif key := TOML_KEY.match(line):
            lines.setdefault((*table, key[1].strip("\"'")), number)
    return lines
