"""What a measured table depends on: the definitions that its benchmark can reach, by what they do.

A table names what it starts from: modules ("benchmarks.rounds"), classes and functions
("dsba.algorithms.rivals.extra:EXTRA"), and files that are no code ("pyproject.toml"). From there every name that a
definition uses is followed. A method of a class counts once its class is used, and an attribute of its name. Where a
name of a user's text decides (methods, losses, the planner, models, flaws of links, formats of files), only what the
table names is followed.
"""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

TOP = ""  # the statements of a module that define nothing
MAIN = "__main__"  # what a module does as a program
# What a text, a file's ending or the kind of a graph chooses: entered from a table's own list, and from each other.
BY_NAME = (
    "dsba.algorithms.dsba", "dsba.algorithms.rivals", "dsba.algorithms.newton", "dsba.operators.auc",
    "dsba.operators.losses", "dsba.operators.response", "dsba.operators.scaled_huber", "dsba.operators.softmax",
    "dsba.data.databases", "dsba.data.excel", "dsba.data.parquet", "dsba.data.statistics_packages",
    "dsba.graph.directed", "dsba.network.imperfect", "dsba.network.messages.compression", "dsba.tables.mixed",
    "dsba.tables.models.classes", "dsba.tables.models.cox", "dsba.tables.models.glm",
    "dsba.tables.models.negative_binomial",
)  # fmt: skip
PLANNING = ("dsba.algorithms.planner", "dsba.algorithms.costs")  # what "auto" chooses; it enters what it chooses from
# Never entered: lists of what has a name, and code that keeps, shows and refuses. No number comes from it.
LISTS = ("dsba.algorithms", "dsba.operators")  # the packages' own files
LEFT_OUT = (
    "benchmarks.depends", "dsba._system", "dsba._version", "dsba.cli", "dsba.engine.checkpoint",
    "dsba.engine.progress", "dsba.errors", "dsba.fitting.disclosure", "dsba.kernels.cache", "dsba.kernels.internals",
    "dsba.lab.display", "dsba.lab.environment", "dsba.lab.executors", "dsba.lab.figures", "dsba.lab.folder",
    "dsba.lab.latex", "dsba.lab.live", "dsba.lab.page", "dsba.lab.split_picture", "dsba.operators.compiled",
    "dsba.operators.consistency", "dsba.pages", "dsba.storage", "dsba.tables.page",
    "dsba.types",
)  # fmt: skip
# What draws, beside what counts.
DRAWN = {("dsba.lab.results", f"ExperimentResults.{name}") for name in ("figures", "map", "panel", "plot", "sweep")}
Place = tuple[str, str]  # a module, and in it a name, a class's method ("Class.method"), TOP or MAIN
Uses = tuple[frozenset[str], frozenset[str]]  # dotted names, and attributes


def within(module: str, packages: Iterable[str]) -> bool:
    return any(module == one or module.startswith(f"{one}.") for one in packages)


def may_enter(source: str, target: str) -> bool:
    """Whether a name of one module is followed into another one."""
    if source == target:
        return True
    if target in LISTS or within(target, LEFT_OUT):
        return False
    if within(target, PLANNING):
        return within(source, PLANNING)
    return not within(target, BY_NAME) or within(source, (*BY_NAME, *PLANNING))


@dataclass
class Module:
    """A file: its definitions by name, what they use, and what its imports call others."""

    path: Path
    lines: list[str]  # without comments and docstrings
    imports: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    uses: dict[str, Uses] = field(default_factory=dict)
    methods: dict[str, list[str]] = field(default_factory=dict)  # of a class
    texts: dict[str, str] = field(default_factory=dict)

    def define(self, name: str, node: ast.stmt) -> None:
        self.definitions.setdefault(name, []).append(node)
        names, attributes = self.uses.get(name, (frozenset(), frozenset()))
        found = [*expressions(node)]
        self.uses[name] = (
            names | {*filter(None, map(dotted, found))},
            attributes | {*filter(None, map(attribute, found))},
        )

    def text(self, name: str) -> str:
        """The lines of a definition; those of a class are without its methods."""
        if name not in self.texts:
            found = []
            for node in self.definitions[name]:
                others = {line for part in methods(node) for line in span(part)}
                found += [self.lines[line - 1] for line in span(node) if line not in others]
            self.texts[name] = "\n".join(line for line in found if line.strip())
        return self.texts[name]


def span(node: ast.stmt) -> range:
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
    return range(first, (node.end_lineno or first) + 1)


def methods(node: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    body = node.body if isinstance(node, ast.ClassDef) else []
    return [part for part in body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]


def expressions(node: ast.AST) -> Iterator[ast.AST]:
    """All parts of a definition but its annotations and, of a class, its methods."""
    left_out = methods(node)
    for name, value in ast.iter_fields(node):
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST) and name not in ("annotation", "returns") and part not in left_out:
                yield part
                yield from expressions(part)


def dotted(part: ast.AST) -> str | None:
    """A name, or a chain of attributes that begins with one."""
    if isinstance(part, ast.Attribute):
        before = dotted(part.value)
        return before and f"{before}.{part.attr}"
    return part.id if isinstance(part, ast.Name) else None


def attribute(part: ast.AST) -> str | None:
    """The name of an attribute, or a text that may be one: ``getattr`` takes it."""
    if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.isidentifier():
        return part.value
    return part.attr if isinstance(part, ast.Attribute) else None


def plain(text: str, tree: ast.Module) -> list[str]:
    """The lines of a Python file, empty where there are only comments and docstrings, which no number depends on."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = lines[token.start[0] - 1][: token.start[1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines[node.lineno - 1 : node.end_lineno] = [""] * len(span(node))
    return [line.rstrip() for line in lines]


@cache
def parsed(path: Path, text: str) -> Module:
    tree = ast.parse(text)
    found = Module(path, plain(text, tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                first = one.name.partition(".")[0]
                found.imports[one.asname or first] = one.name if one.asname else first
        elif isinstance(node, ast.ImportFrom):
            found.imports.update({one.asname or one.name: f"{node.module}.{one.name}" for one in node.names})
    for node in tree.body:
        for name in names_of(node):
            found.define(name, node)
        for part in methods(node):
            assert isinstance(node, ast.ClassDef)
            found.define(f"{node.name}.{part.name}", part)
            found.methods.setdefault(node.name, []).append(part.name)
    return found


def names_of(node: ast.stmt) -> list[str]:
    """What a statement of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return []
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return []
    if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
        return [MAIN]
    targets = {ast.Assign: "targets", ast.AnnAssign: "target"}.get(type(node))
    found = [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    return found if targets and found else [TOP]


class Tree:
    """The code of the package and of the benchmarks below a folder, each file read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._modules: dict[str, Module | None] = {}
        self._next: dict[Place, set[Place]] = {}

    def module(self, name: str) -> Module | None:
        """The module of this name; None for libraries."""
        if name not in self._modules:
            package, *rest = name.split(".")
            base = {"dsba": self.root / "src" / "dsba", "benchmarks": self.root / "benchmarks"}.get(package)
            paths = [base.joinpath(*rest[:-1], f"{rest[-1]}.py")] if base and rest else []
            paths += [base.joinpath(*rest, "__init__.py")] if base else []
            path = next(filter(Path.is_file, paths), None)
            self._modules[name] = path and parsed(path.relative_to(self.root), path.read_text())
        return self._modules[name]

    def begun(self, start: str) -> list[Place]:
        """What a start names."""
        name, _, what = start.partition(":")
        module = self.module(name)
        if module is None or (what and what not in module.definitions):
            raise ValueError(f"a table starts from {start!r}, and there is no such code.")
        return [(name, one) for one in ([what] if what else module.definitions)]

    def next(self, place: Place) -> set[Place]:
        """The definitions that a definition uses by their names, and the statements of its module."""
        if place not in self._next:
            name, what = place
            module = self.module(name)
            assert module is not None
            found = {(name, TOP)} if TOP in module.definitions else set()
            for one in module.uses[what][0]:
                target = self._place(name, module, one)
                if target and may_enter(name, target[0]):
                    found.add(target)
            self._next[place] = found
        return self._next[place]

    def _place(self, name: str, module: Module, chain: str) -> Place | None:
        """Where a name, or a chain of attributes of modules, is defined."""
        first, _, rest = chain.partition(".")
        if first in module.definitions:
            return name, first
        return self._imported(f"{module.imports[first]}.{rest}".rstrip(".")) if first in module.imports else None

    def _imported(self, full: str) -> Place | None:
        parts = full.split(".")
        for count in range(len(parts), 0, -1):
            name = ".".join(parts[:count])
            if module := self.module(name):
                if count < len(parts):
                    return self._place(name, module, ".".join(parts[count:]))
                return (name, TOP) if TOP in module.definitions else None
        return None

    def reached(self, starts: Iterable[str]) -> set[Place]:
        """What the starts use, and what that uses."""
        new = {place for start in starts for place in self.begun(start)}
        found, attributes = set[Place](), set[str]()
        while new:
            while new:
                name, what = place = new.pop()
                found.add(place)
                module = self.module(name)
                assert module is not None
                attributes |= module.uses[what][1]
                new |= self.next(place) - found
            new = set(self._methods(found, attributes)) - found - DRAWN
        return found

    def _methods(self, found: set[Place], attributes: set[str]) -> Iterator[Place]:
        """The methods of classes that are used, by the attributes that are used."""
        for name, owner in found:
            module = self.module(name)
            for method in module.methods.get(owner, ()) if module else ():
                if method in attributes or method.startswith("__"):
                    yield name, f"{owner}.{method}"

    def digests(self, starts: Iterable[str]) -> dict[str, str]:
        """SHA-256 of what a table depends on, by file."""
        files = {start: (self.root / start).read_bytes() for start in starts if (self.root / start).is_file()}
        texts: dict[str, list[str]] = {}
        for name, what in sorted(self.reached(start for start in starts if start not in files)):
            if module := self.module(name):
                texts.setdefault(module.path.as_posix(), []).append(f"{what}\n{module.text(what)}")
        files |= {path: "\0".join(parts).encode() for path, parts in texts.items()}
        return {path: hashlib.sha256(content).hexdigest() for path, content in sorted(files.items())}
