"""The names in an experiment that stand for code outside of dsba: of operators, algorithms and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dsba.storage import plugins

CODE = {"problem": "operator", "method": "algorithm"}  # tables, and the key that may name code


def plugins_in(content: Mapping[str, Any]) -> list[str]:
    """The names in an experiment that stand for code outside of dsba, before any of it is loaded."""
    found: list[str] = []
    for table, key in CODE.items():
        entries: Any = content.get(table, ())
        for entry in entries if isinstance(entries, list | tuple) else ():
            name = entry.get(key) if isinstance(entry, Mapping) else None
            found += [name] if isinstance(name, str) and plugins.is_plugin(name) else []
    wanted: Any = content.get("metrics", ())
    for name in wanted if isinstance(wanted, list | tuple) else ():
        found += [name] if isinstance(name, str) and plugins.is_plugin(name) else []
    return list(dict.fromkeys(found))


def renamed(content: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The content with other names for plugins."""
    changed = dict(content)
    for table, key in CODE.items():
        if isinstance(entries := content.get(table), list | tuple):
            changed[table] = [
                {**e, key: names.get(e[key], e[key])} if isinstance(e, Mapping) and isinstance(e.get(key), str) else e
                for e in entries
            ]
    if isinstance(wanted := content.get("metrics"), list | tuple):
        changed["metrics"] = [names.get(one, one) if isinstance(one, str) else one for one in wanted]
    return changed


def beside(name: str, folder: Path) -> str:
    """The plugin's name with the path of its file, which is relative to the folder of the TOML file."""
    where, _, cls = name.rpartition(":")
    return f"{folder / where}:{cls}" if where.endswith(".py") else name
