"""TOML as text: the line of every key, and tables written down."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

HEADER = re.compile(r"^\s*(\[\[?)\s*([\w.\"'-]+)\s*\]\]?")
KEY = re.compile(r"^\s*([\w\"'-]+)\s*=")


def line_numbers(text: str) -> dict[tuple[Any, ...], int]:
    """The line of every table and key of a TOML text, by its place: ("method", 1, "algorithm") -> 12."""
    lines: dict[tuple[Any, ...], int] = {}
    counts: dict[str, int] = {}
    table: tuple[Any, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := HEADER.match(line):
            name = header[2].strip("\"'")
            table = (name,)
            if header[1] == "[[":
                table = (name, counts.get(name, 0))
                counts[name] = counts.get(name, 0) + 1
            lines.setdefault(table, number)
            lines.setdefault((name,), number)
        elif key := KEY.match(line):
            lines.setdefault((*table, key[1].strip("\"'")), number)
    return lines


def line_of(place: tuple[Any, ...], lines: Mapping[tuple[Any, ...], int]) -> str:
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return f", line {lines[place[:length]]}"
    return ""


def written(content: Mapping[str, Any]) -> list[str]:
    """The lines of a file: plain values first, then the tables."""
    plain = {k: v for k, v in content.items() if not isinstance(v, dict) and not _is_tables(v)}
    lines = _assignments(plain)
    for key, value in content.items():
        for table in value if _is_tables(value) else [value] if isinstance(value, dict) else []:
            lines += ["", f"[[{key}]]" if _is_tables(value) else f"[{key}]", *_assignments(table)]
    return lines


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _assignments(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in table.items() if value not in ("", [])]


def _value(value: Any) -> str:
    """A value in TOML: JSON's strings, numbers, booleans and lists are TOML's, too."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
