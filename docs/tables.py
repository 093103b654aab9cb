"""`make docs-tables`: the measured tables of the documentation, made from the results files in docs/results.

A page has a table between two comments, `<!-- table NAME -->` and `<!-- end of table -->`. docs/results/NAME.json has
its cells, sentences that were made from its numbers, the command that measured them, its commit and date, and what they
depend on: globs of files, each with a digest of the files' contents, of Python files without comments and docstrings.
Where a content is another one now, the page says that the table is stale.

`python docs/tables.py` writes the pages. `python docs/tables.py --check` writes nothing, and ends with 1 if a table is
stale or a page differs from its results files. A benchmark keeps a new table by `record`.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
import subprocess
import sys
import time
import tokenize
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("benchmarks.md", "installation.md", "rounds.md", "reproduction.md", "which-method.md")
BLOCK = re.compile(r"<!-- table ([a-z0-9-]+) -->\n.*?<!-- end of table -->", re.DOTALL)
STALE = "**Stale:** "


def digest(root: Path, pattern: str) -> str:
    """SHA-256 of the files that a glob finds, by name and content; of Python files by what they do."""
    found = hashlib.sha256()
    for path in sorted(root.glob(pattern)):
        content = code(path.read_text()) if path.suffix == ".py" else path.read_bytes()
        found.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode() + content)
    return found.hexdigest()


@cache
def code(text: str) -> bytes:
    """The lines of a Python file without comments and docstrings, which no number depends on."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = lines[token.start[0] - 1][: token.start[1]]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip()).encode()


def changed(root: Path, table: dict[str, Any]) -> list[str]:
    """The inputs of a table whose contents are not those that it was measured with."""
    return [pattern for pattern, known in table["inputs"].items() if digest(root, pattern) != known]


def read(root: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((root / "docs" / "results" / f"{name}.json").read_text())
    return content


def markdown(root: Path, name: str) -> str:
    """The table with its origin, and what is stale about it."""
    table = read(root, name)
    rows = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    lines = ["|".join(["", *(f" {cell} " if cell else " " for cell in row), ""]) for row in rows]
    origin = f"Measured by `{table['command']}`; numbers of {table['date']}, commit {table['commit'][:10]}."
    old = ", ".join(f"`{pattern}`" for pattern in changed(root, table))
    told = [f"{STALE}changed since the measurement: {old}."] if old else []
    said = [*(f"- {sentence}" for sentence in table["sentences"]), ""] if table.get("sentences") else []
    return "\n".join([f"<!-- table {name} -->", *lines, "", *said, origin, *told, "<!-- end of table -->"])


def made(root: Path, page: str) -> str:
    """The text of a page with its tables as the results files have them."""
    text = (root / "docs" / page).read_text()
    return BLOCK.sub(lambda block: markdown(root, block[1]), text)


def without_stale(text: str) -> str:
    """A page without the lines that depend on what changed since."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(STALE))


def names(root: Path) -> list[str]:
    """The tables on all pages."""
    return [block[1] for page in PAGES for block in BLOCK.finditer((root / "docs" / page).read_text())]


def record(
    name: str, command: str, cells: Iterable[Sequence[str]], inputs: Sequence[str], sentences: Sequence[str] = ()
) -> None:
    """Keep a table that was just measured, its head first, with the commit, the date and its inputs' contents."""
    git = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    columns, *rows = ([*row] for row in cells)
    origin = {"command": command, "date": time.strftime("%Y-%m-%d"), "commit": git.stdout.strip() or "unknown"}
    known = {pattern: digest(ROOT, pattern) for pattern in inputs}
    said = {"sentences": [*sentences]} if sentences else {}
    write(ROOT, name, {**origin, "inputs": known, **said, "columns": columns, "rows": rows})


def write(root: Path, name: str, table: dict[str, Any]) -> None:
    """A results file, with a line for each row."""
    text = json.dumps(table | {"rows": []}, indent=1, ensure_ascii=False)
    rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in table["rows"])
    (root / "docs" / "results" / f"{name}.json").write_text(text.replace('"rows": []', f'"rows": [\n{rows}\n ]') + "\n")


def main(check: bool) -> int:
    if not check:
        for page in PAGES:
            (ROOT / "docs" / page).write_text(made(ROOT, page))
    stale = [name for name in names(ROOT) if changed(ROOT, read(ROOT, name))]
    other = [page for page in PAGES if made(ROOT, page) != (ROOT / "docs" / page).read_text()]
    for name in stale:
        print(f"stale: {name}; measure again with {read(ROOT, name)['command']}")
    for page in other:
        print(f"docs/{page} has other tables than docs/results: run make docs-tables")
    return int(check and bool(stale or other))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
