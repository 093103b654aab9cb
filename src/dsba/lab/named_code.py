"""The names in an experiment that stand for code outside of dsba: of operators, algorithms and metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dsba.storage import plugins

CODE = {"problem": "operator", "method": "algorithm"}  # tables, and the key that may name code


def plugins_in(content: Mapping[str, Any]) -> list[str]:
    """The names in an experiment that stand for code outside of dsba, before any of it is loaded."""
    found: dict[str, str] = {}
    _each_name(content, lambda name: found.setdefault(name, name))
    return list(filter(plugins.is_plugin, found))


def renamed(content: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The content with other names for plugins."""
    return _each_name(content, lambda name: names.get(name, name))


def _each_name(content: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """The content with other names in the places that may name code."""
    changed = dict(content)
    for table, key in CODE.items():
        if isinstance(entries := content.get(table), list | tuple):
            changed[table] = [
                {**e, key: change(e[key])} if isinstance(e, Mapping) and isinstance(e.get(key), str) else e
                for e in entries
            ]
    if isinstance(wanted := content.get("metrics"), list | tuple):
        changed["metrics"] = [change(one) if isinstance(one, str) else one for one in wanted]
    return changed


def beside(name: str, folder: Path) -> str:
    """The plugin's name with the path of its file, which is relative to the folder of the TOML file."""
    where, _, cls = name.rpartition(":")
    return f"{folder / where}:{cls}" if where.endswith(".py") else name
