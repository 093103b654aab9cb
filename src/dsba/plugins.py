"""Losses and algorithms of one's own, by name: "my_loss.py:Absolute" or "my_package.losses:Absolute".

A file becomes a module under a name of its own, so that it cannot take the place of another module. Modules beside it
may be imported; they come after everything that is installed. ``sources`` gives the text of all of them, which is
what a result made with the plugin depends on.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from dsba.errors import InputError

PREFIX = "dsba_plugin_"


def is_plugin(name: str) -> bool:
    """Whether a name stands for code outside of dsba."""
    return ":" in name


def code_of(name: str) -> str:
    """The file or module that a name "file.py:Class" or "module:Class" would load."""
    return name.rpartition(":")[0]


def load_class(text: str, base: type, kind: str) -> Any:
    """The class that a text "file.py:Name" or "module:Name" stands for, which must be a ``base``."""
    found = _load(text, kind)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise InputError(f"{kind} {text!r} must be a subclass of dsba's {base.__name__}, got {found!r}.")
    return found


def load_function(text: str, kind: str) -> Any:
    """The function that a text "file.py:name" or "module:name" stands for."""
    found = _load(text, kind)
    if not callable(found):
        raise InputError(f"{kind} {text!r} must be a function, got {found!r}.")
    return found


def _load(text: str, kind: str) -> Any:
    """What a text "file.py:Name" or "module:Name" stands for."""
    where, _, name = text.rpartition(":")
    if where.startswith(".") and not where.endswith(".py"):
        raise InputError(f"{kind} {text!r} cannot be loaded: a module's name begins with no dot.")
    try:
        module = _from_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
        return getattr(module, name)
    except FileNotFoundError:
        raise InputError(f"{kind} {text!r}: there is no file {where}.") from None
    except (AttributeError, ImportError, SyntaxError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{kind} {text!r} cannot be loaded: {error}.") from error


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
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _require_own_neighbours(path: Path) -> None:
    """An error where a module that the file would import from its folder is loaded from elsewhere already."""
    for neighbour in _neighbours(path):
        loaded = sys.modules.get(neighbour.parent.name if neighbour.name == "__init__.py" else neighbour.stem)
        if loaded is not None and getattr(loaded, "__file__", None) != str(neighbour):
            raise InputError(f"{path} imports {neighbour.name} beside it, but another module of that name is loaded.")


# Sources -------------------------------------------------------------------------------------------


def sources(name: str) -> dict[str, bytes]:
    """The text of the plugin and of what it imports beside it, by path relative to the plugin's folder."""
    where = code_of(name)
    path = Path(where).resolve() if where.endswith(".py") else _module_file(where)
    if path is None or not path.is_file():
        raise InputError(f"{name!r}: there is no file {where}.")
    root = path.parent if path.name != "__init__.py" else path.parent.parent
    return {str(file.relative_to(root)): file.read_bytes() for file in sorted(_closure(path))}


def digest(name: str) -> str:
    """SHA-256 of the plugin's sources and its class."""
    found = hashlib.sha256(name.rpartition(":")[2].encode())
    for path, text in sources(name).items():
        found.update(f"\0{path}\0{len(text)}\0".encode() + text)
    return found.hexdigest()


def _module_file(module: str) -> Path | None:
    """The file of an installed module; of a package's module, the package."""
    top = module.partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)  # the top package only: finding a submodule would run its parents
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None


def _closure(path: Path) -> set[Path]:
    """The file and every file that it imports, directly or not, from its own folder."""
    found, waiting = set[Path](), [path.resolve()]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        package = file.parent.rglob("*.py") if file.name == "__init__.py" else ()
        waiting += [*package, *_neighbours(file)]
    return found


def _neighbours(path: Path) -> Iterator[Path]:
    """The modules beside a file that its import statements name."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return  # loading it will say so
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        for top in (name.partition(".")[0] for name in names):
            for file in (path.parent / f"{top}.py", path.parent / top / "__init__.py"):
                if file.is_file() and not _is_installed(top, file):
                    yield file.resolve()


def _is_installed(name: str, beside: Path) -> bool:
    """Whether an import finds a module elsewhere before it looks beside the plugin."""
    if name in sys.stdlib_module_names:
        return True
    spec = importlib.machinery.PathFinder.find_spec(name)
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() != beside.resolve()
