"""The command ``dsba verify``: what a folder holds is looked at again, by the verifier of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from dsba.cli.lab import Plugins, read_allowed
from dsba.cli.options import Commands, Json, show_findings
from dsba.errors import InputError, require_package
from dsba.types import Finding

verifying = Commands()


Code = Sequence[str] | None  # files of code that may be run
Verifier = Callable[[Path, str | None, Code], Iterator[Finding]]


def _study(path: Path, approved: str | None, allowed: Code) -> Iterator[Finding]:
    require_package("a study", "cryptography", "sites")
    from dsba.study.verify import verify_study

    return verify_study(path, approved)


def _totals(path: Path, approved: str | None, allowed: Code) -> Iterator[Finding]:
    require_package("a study", "cryptography", "sites")
    from dsba.study.verify import verify_totals

    return verify_totals(path, approved)


def _results(path: Path, approved: str | None, allowed: Code) -> Iterator[Finding]:
    from dsba.lab.folder import RUNS, Folder
    from dsba.lab.verify import verify_results

    row = path.is_file() and path.parent.name == RUNS  # a folder of results may itself lie in one that is called so
    folder = Folder(path.parent.parent if row else path)
    return verify_results(folder, read_allowed(folder.config, allowed), path.stem if row else None)


VERIFIERS: dict[str, tuple[str, Verifier]] = {
    "audit.jsonl": ("a site's folder of a study", _study),
    "run.json": ("a site's folder of a study", _study),
    "totals.jsonl": ("a folder that `dsba study totals` wrote", _totals),
    "results.dsba": ("a folder of results", _results),
}
"""By a file that a folder of this kind has: what the kind is called, and who verifies it."""


VERIFY_EXAMPLES = "Example:  `dsba verify run`   `dsba verify results`   `dsba verify results/runs/1f0c.dsba`"


@verifying.command(epilog=VERIFY_EXAMPLES)
def verify(
    path: Annotated[
        Path, typer.Argument(exists=True, help="A site's folder of a study, a copy of its totals, results, or one run.")
    ],
    approved: Annotated[str | None, typer.Option(help="The hash of the study that your site approved.")] = None,
    plugin: Plugins = None,
    plain: Json = False,
) -> None:
    """Verify what a folder holds: that log, totals, study and model belong together and were not changed.

    Of a study, every step and the standard errors are computed again from the totals that all sites have signed. This
    shows nothing about the data behind the totals. Of a comparison, every row is run again and must have the same bits.
    The exit code is 1 if anything is wrong, and 4 if nothing is known to be wrong and something could not be computed
    again.
    """
    path = path.resolve() if path.is_file() else path
    places = (path, path.parent.parent) if path.is_file() else (path,)
    kinds = [verifier for name, (_, verifier) in VERIFIERS.items() if any((place / name).exists() for place in places)]
    if not kinds:
        known = ", ".join(dict.fromkeys(kind for kind, _ in VERIFIERS.values()))
        raise InputError(f"{path} is nothing that can be verified: give {known}.")
    show_findings(kinds[0](path, approved, plugin), plain)
