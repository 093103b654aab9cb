"""An experiment from a TOML file or a dictionary. An error names the file, the line and the key."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dsba.errors import InputError, StorageError, cannot, shortened, validation_sentence
from dsba.graph.link import Link
from dsba.lab.named_code import beside, plugins_in, renamed
from dsba.lab.sections import Data, NetworkSpec, Problems, Section, Stop, Tune
from dsba.lab.spec import Experiment
from dsba.lab.toml import line_numbers, line_of

Allow = Callable[[list[str]], None]  # sees the plugins that an experiment names, and raises if one must not be loaded


def read(source: str | Path | Mapping[str, Any] | Experiment, allow: Allow | None = None) -> Experiment:
    """An experiment from a TOML file, a dictionary of the same form, or as it is."""
    if isinstance(source, Experiment):
        return source
    if isinstance(source, Mapping):
        return _validated(dict(source), "the experiment", lambda place: "")
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise cannot(f"read the experiment {path}", error, "it is not UTF-8 text") from error
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not TOML, or a number of thousands of digits
        raise InputError(f"{path} is not TOML: {shortened(error)}.") from error
    content = renamed(content, {name: beside(name, path.parent) for name in plugins_in(content)})
    if allow is not None:
        allow(plugins_in(content))
    lines = line_numbers(text)
    return _validated(content, str(path), lambda place: line_of(place, lines))


def _validated(content: dict[str, Any], where: str, line_of: Any) -> Experiment:
    try:
        return Experiment.model_validate(content)
    except ValidationError as error:
        first = _most_telling(error.errors())
        place = tuple(part for part in first["loc"] if not _is_type_name(part))
        if first["type"] == "value_error" and isinstance(first["input"], dict):  # raised for a whole table
            named = getattr(first["ctx"]["error"], "key", None)
            place += (named,) if named in first["input"] else ()
        key = ".".join(map(str, place))
        sentence = validation_sentence(first, f", got {_shown(first['input'])}")
        if first["type"] == "extra_forbidden":
            sentence = f"unknown key; known here: {', '.join(_keys_at(place))}."
        raise InputError(f"{where}{line_of(place)}: {key + ': ' if key else ''}{sentence}") from None
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


def _most_telling(errors: Sequence[Any]) -> Any:
    """A misspelt key often causes a missing one: name the misspelling."""
    return next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])


def _is_type_name(part: Any) -> bool:
    """Pydantic names the member of a union that failed; a file has no such key."""
    return isinstance(part, str) and (
        part in ("float", "str") or part.startswith(("literal[", "tuple[", "constrained"))
    )


def _keys_at(place: tuple[Any, ...]) -> list[str]:
    sections: dict[str, type[Section]] = {
        "stop": Stop, "tune": Tune, "data": Data, "problem": Problems, "network": NetworkSpec,
    }  # fmt: skip
    if len(place) > 1 and place[0] == "link":
        return [field.name for field in fields(Link)]
    return list(sections.get(str(place[0]), Experiment).model_fields if len(place) > 1 else Experiment.model_fields)
