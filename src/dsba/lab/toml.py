"""TOML as text: the line of every key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HEADER = re.compile(r"^\s*(\[\[?)\s*([\w.\"'-]+)\s*\]\]?")
TOML_KEY = re.compile(r"^\s*([\w\"'-]+)\s*=")


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
        elif key := TOML_KEY.match(line):
            lines.setdefault((*table, key[1].strip("\"'")), number)
    return lines


def line_of(place: tuple[Any, ...], lines: Mapping[tuple[Any, ...], int]) -> str:
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return f", line {lines[place[:length]]}"
    return ""
