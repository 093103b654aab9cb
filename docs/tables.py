"""`make docs-tables`: the measured tables of the documentation, made from the results files in docs/results.

A page has a table between two comments, `<!-- table NAME -->` and `<!-- end of table -->`. docs/results/NAME.json has
its cells, sentences that were made from its numbers, the command that measured them, its commit and date, and what they
depend on (docs/inputs.py): the starts, and for each file a digest of what they reach in it, "unknown" where it was not
kept. Where that is something else now, the page says that the table is stale.

`python -m docs.tables` writes the pages. `python -m docs.tables --check` writes nothing, and ends with 1 if a table is
stale or a page differs from its results files. A benchmark keeps a new table by `record`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from docs.inputs import Tree

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("benchmarks.md", "installation.md", "rounds.md", "reproduction.md", "which-method.md")
BLOCK = re.compile(r"<!-- table ([a-z0-9-]+) -->\n.*?<!-- end of table -->", re.DOTALL)
STALE = "**Stale:** "
FEW = 3  # files that a page names


def changed(tree: Tree, table: dict[str, Any]) -> list[str]:
    """The files in which what a table depends on is not what it was measured with."""
    known, now = table["inputs"], tree.digests(table["starts"])
    return sorted(path for path in known.keys() | now.keys() if known.get(path) != now.get(path))


def read(root: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((root / "docs" / "results" / f"{name}.json").read_text())
    return content


def markdown(tree: Tree, name: str) -> str:
    """The table with its origin, and what is stale about it."""
    table = read(tree.root, name)
    rows = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    lines = ["|".join(["", *(f" {cell} " if cell else " " for cell in row), ""]) for row in rows]
    origin = f"Measured by `{table['command']}`; numbers of {table['date']}, commit {table['commit'][:10]}."
    told = [f"{STALE}changed since the measurement: {named(old)}."] if (old := changed(tree, table)) else []
    said = [*(f"- {sentence}" for sentence in table["sentences"]), ""] if table.get("sentences") else []
    return "\n".join([f"<!-- table {name} -->", *lines, "", *said, origin, *told, "<!-- end of table -->"])


def named(paths: Sequence[str]) -> str:
    """The first files, and how many there are beyond them."""
    more = f" and {len(paths) - FEW} more files" if len(paths) > FEW else ""
    return ", ".join(f"`{path}`" for path in paths[:FEW]) + more


def made(tree: Tree, page: str) -> str:
    """The text of a page with its tables as the results files have them."""
    text = (tree.root / "docs" / page).read_text()
    return BLOCK.sub(lambda block: markdown(tree, block[1]), text)


def without_stale(text: str) -> str:
    """A page without the lines that depend on what changed since."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(STALE))


def names(root: Path) -> list[str]:
    """The tables on all pages."""
    return [block[1] for page in PAGES for block in BLOCK.finditer((root / "docs" / page).read_text())]


def record(
    name: str, command: str, cells: Iterable[Sequence[str]], starts: Sequence[str], sentences: Sequence[str] = ()
) -> None:
    """Keep a table that was just measured, its head first, with the commit, the date and its inputs' contents."""
    git = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    columns, *rows = ([*row] for row in cells)
    origin = {"command": command, "date": time.strftime("%Y-%m-%d"), "commit": git.stdout.strip() or "unknown"}
    said = {"sentences": [*sentences]} if sentences else {}
    write(
        ROOT,
        name,
        {**origin, "starts": [*starts], "inputs": Tree(ROOT).digests(starts), **said, "columns": columns, "rows": rows},
    )


def write(root: Path, name: str, table: dict[str, Any]) -> None:
    """A results file, with a line for each row."""
    text = json.dumps(table | {"rows": []}, indent=1, ensure_ascii=False)
    rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in table["rows"])
    (root / "docs" / "results" / f"{name}.json").write_text(text.replace('"rows": []', f'"rows": [\n{rows}\n ]') + "\n")


def main(check: bool) -> int:
    tree = Tree(ROOT)
    if not check:
        for page in PAGES:
            (ROOT / "docs" / page).write_text(made(tree, page))
    stale = [name for name in names(ROOT) if changed(tree, read(ROOT, name))]
    other = [page for page in PAGES if made(tree, page) != (ROOT / "docs" / page).read_text()]
    for name in stale:
        print(f"stale: {name}; measure again with {read(ROOT, name)['command']}")
    for page in other:
        print(f"docs/{page} has other tables than docs/results: run make docs-tables")
    return int(check and bool(stale or other))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
