"""User-defined losses and algorithms, by name: "my_loss.py:Absolute" or "my_package.losses:Absolute".

A file becomes a module under a name of its own, so that it cannot take the place of another module. Modules beside it
may be imported; they come after everything that is installed. ``sources`` gives the text of all of them, which is
what a result made with the plugin depends on. A process loads a plugin once and refuses it after an edit, because
results would carry the digest of code that did not make them.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

from dsba.errors import InputError, shortened
from dsba.storage.fingerprint import INSTALLED

PREFIX = "dsba_plugin_"

_loaded: dict[Path, dict[Path, bytes]] = {}  # the sources of every plugin when it was loaded


def is_plugin(name: str) -> bool:
    """Whether a name stands for code outside of dsba."""
    return ":" in name


def code_of(name: str) -> str:
    """The file or module that a name "file.py:Class" or "module:Class" would load."""
    return name.rpartition(":")[0]


def load_class(text: str, base: type, kind: str) -> Any:
    """The class that a text "file.py:Name" or "module:Name" stands for, which must be a ``base``."""
    module, found = _found(text, kind)
    if not (isinstance(found, type) and issubclass(found, base)):
        own = [c for c, one in vars(module).items() if isinstance(one, type) and issubclass(one, base) and one != base]
        raise _other(text, kind, found, f"a subclass of dsba's {base.__name__}", own)
    return found


def load_function(text: str, kind: str) -> Any:
    """The function that a text "file.py:name" or "module:name" stands for."""
    module, found = _found(text, kind)
    if not callable(found):
        own = [f for f, one in vars(module).items() if isfunction(one) and one.__module__ == module.__name__]
        raise _other(text, kind, found, "a function", own)
    return found


def _other(text: str, kind: str, found: Any, wanted: str, own: Sequence[str]) -> InputError:
    """The error if a plugin's name stands for nothing or for something else; its file has its ``own``."""
    missing = f"cannot be loaded: there is no {text.rpartition(':')[2]}"
    mistake = missing if found is None else f"must be {wanted}, got {shortened(repr(found))}"
    return InputError(f"{kind} {text!r} {mistake}; the file has {', '.join(own) or 'none'}.")


def _found(text: str, kind: str) -> tuple[ModuleType, Any]:
    """The module of a text "file.py:Name" or "module:Name", and what has the name there."""
    where, _, name = text.rpartition(":")
    if where.startswith(".") and not where.endswith(".py"):
        raise InputError(f"{kind} {text!r} cannot be loaded: a module's name begins with no dot.")
    try:
        module = _module(where)
    except FileNotFoundError:
        raise InputError(f"{kind} {text!r}: there is no file {where}.") from None
    except (ImportError, SyntaxError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{kind} {text!r} cannot be loaded: {error}.") from error
    return module, getattr(module, name, None)


def _module(where: str) -> ModuleType:
    """The module of a file or of that name. One that fails leaves nothing behind, so that it can be mended."""
    path, before = _file(where), set(sys.modules)
    texts = {} if path is None else _texts(path)
    _require_unchanged(path, texts)
    try:
        module = _from_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except BaseException:
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "") in texts:
                del sys.modules[name]
        raise
    if path is not None:
        _loaded[path] = texts
    return module


def loaded_sources() -> dict[Path, dict[Path, bytes]]:
    """The sources of every plugin that this process has loaded, by the plugin's file."""
    return dict(_loaded)


def expect(loaded: dict[Path, dict[Path, bytes]]) -> None:
    """From now on only these sources of plugins are taken: a worker runs the code that its parent planned with."""
    _loaded.update(loaded)


def _require_unchanged(path: Path | None, texts: dict[Path, bytes]) -> None:
    """An error if a source of the plugin changed after this process had loaded it, for this plugin or another."""
    known = {file: text for plugin in _loaded.values() for file, text in plugin.items()}
    then = _loaded[path] if path in _loaded else {file: known.get(file, text) for file, text in texts.items()}
    for file in sorted(then.keys() | texts.keys()):
        if then.get(file) != texts.get(file):
            raise InputError(f"{file} has changed since this process loaded it: restart Python to use it as it is now.")


def _from_file(path: Path) -> ModuleType:
    """The file as a module, run once a process however often it is named."""
    path = path.resolve(strict=True)
    for known in list(sys.modules.values()):
        if getattr(known, "__file__", None) == str(path):
            return known
    name = f"{PREFIX}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    _require_own_neighbours(path)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # last: a file beside the plugin hides nothing that is installed
    sys.modules[name] = module  # before it runs: dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _require_own_neighbours(path: Path) -> None:
    """An error where a module that the file would import from its folder is loaded from elsewhere already."""
    for neighbour in _neighbours(path, path.parent):
        parts = neighbour.relative_to(path.parent).with_suffix("").parts
        loaded = sys.modules.get(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        if loaded is not None and getattr(loaded, "__file__", None) != str(neighbour):
            raise InputError(f"{path} imports {neighbour.name} beside it, but another module of that name is loaded.")


# Sources -------------------------------------------------------------------------------------------


def sources(name: str) -> dict[str, bytes]:
    """The text of the plugin and of what it imports beside it, by path relative to the plugin's folder."""
    path = _file(code_of(name))
    if path is None:
        raise InputError(f"{name!r}: there is no file {code_of(name)}.")
    root = path.parent if path.name != "__init__.py" else path.parent.parent
    return {str(file.relative_to(root)): text for file, text in _texts(path).items()}


def digest(name: str) -> str:
    """SHA-256 of the plugin's sources and its class."""
    found = hashlib.sha256(name.rpartition(":")[2].encode())
    for path, text in sources(name).items():
        found.update(f"\0{path}\0{len(text)}\0".encode() + text)
    return found.hexdigest()


def _file(where: str) -> Path | None:
    """The file of a plugin: the one named, or that of the module or its package; None where there is none."""
    if not where.endswith(".py"):
        try:  # the top package only: finding a submodule would run its parents
            spec = importlib.util.find_spec(where.partition(".")[0])
        except (ImportError, ValueError):
            return None
        where = (spec and spec.origin) or ""
    path = Path(where).resolve()
    return path if path.is_file() else None


def _texts(path: Path) -> dict[Path, bytes]:
    """The file and every file that it imports, directly or not, from its own folder, with their texts."""
    found, waiting = dict[Path, bytes](), [path]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = file.read_bytes()
        package = file.parent.rglob("*.py") if file.name == "__init__.py" else ()
        waiting += [*package, *_neighbours(file, path.parent)]
    return dict(sorted(found.items()))


def _neighbours(path: Path, folder: Path) -> Iterator[Path]:
    """The files in the plugin's folder that the import statements of a file name."""
    for top in _imported(path.read_bytes()):
        files = [file for file in (folder / f"{top}.py", folder / top / "__init__.py") if file.is_file()]
        for file in files or (folder / top).rglob("*.py"):  # a folder without __init__.py is a package, too
            if not _is_installed(top, file):
                yield file.resolve()


@lru_cache(maxsize=1024)
def _imported(text: bytes) -> tuple[str, ...]:
    """The first names of the modules that a source imports."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()  # loading it will say so
    names: list[str] = []
    for node in ast.walk(tree):
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
    return tuple(name.partition(".")[0] for name in names)


def _is_installed(name: str, beside: Path) -> bool:
    """Whether the module is an installed one, or an import finds one elsewhere before it looks beside the plugin."""
    if name in sys.stdlib_module_names or not INSTALLED.isdisjoint(beside.parts):
        return True
    spec = importlib.machinery.PathFinder.find_spec(name)
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() != beside.resolve()
