"""The command ``dsba verify``: what a folder holds is looked at again, by the verifier of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from dsba.cli.options import Commands, Json, echo_json
from dsba.errors import InputError, require_package
from dsba.types import Finding

verifying = Commands()

Verifier = Callable[[Path, str | None], Iterator[Finding]]


def _study(path: Path, approved: str | None) -> Iterator[Finding]:
    require_package("a study", "cryptography", "sites")
    from dsba.study.verify import verify_study

    return verify_study(path, approved)


def _totals(path: Path, approved: str | None) -> Iterator[Finding]:
    require_package("a study", "cryptography", "sites")
    from dsba.study.verify import verify_totals

    return verify_totals(path, approved)


def _results(path: Path, approved: str | None) -> Iterator[Finding]:
    from dsba.lab.verify import verify_results

    return verify_results(path, approved)


VERIFIERS: dict[str, tuple[str, Verifier]] = {
    "audit.jsonl": ("a site's folder of a study", _study),
    "run.json": ("a site's folder of a study", _study),
    "totals.jsonl": ("a folder that `dsba study totals` wrote", _totals),
    "results.dsba": ("a folder of results", _results),
}
"""By a file that a folder of this kind has: what the kind is called, and who verifies it."""


NOT_RECOMPUTED = 4  # the exit code where nothing is known to be wrong, and something could not be looked at
VERIFY_EXAMPLES = "Example:  `dsba verify run`   `dsba verify run --approved 1f0c-...`"


@verifying.command(epilog=VERIFY_EXAMPLES)
def verify(
    path: Annotated[Path, typer.Argument(help="A site's folder of a study, a copy of its totals, or results.")],
    approved: Annotated[str | None, typer.Option(help="The hash of the study that your site approved.")] = None,
    plain: Json = False,
) -> None:
    """Verify what a folder holds: that log, totals, study and model belong together and were not changed.

    Of a study, every step and the standard errors are computed again from the totals that all sites have signed. This
    shows nothing about the data behind the totals. Of a comparison, every row is run again and must have the same bits.
    The exit code is 1 if anything is wrong, and 4 if nothing is known to be wrong and something could not be computed
    again.
    """
    kinds = [verifier for name, (_, verifier) in VERIFIERS.items() if (path / name).exists()]
    if not kinds:
        known = ", ".join(dict.fromkeys(kind for kind, _ in VERIFIERS.values()))
        raise InputError(f"{path} is nothing that can be verified: give {known}.")
    findings = []
    for finding in kinds[0](path, approved):
        findings.append(finding)
        if not plain:
            typer.echo(_mark(finding) + finding.sentence)
    wrong, unknown = (any(marks) for marks in zip(*((not one.fine, one.open) for one in findings), strict=True))
    if plain:
        fine = not (wrong or unknown)
        echo_json({"fine": fine, "findings": [finding._asdict() for finding in findings]})
    if wrong or unknown:
        raise typer.Exit(1 if wrong else NOT_RECOMPUTED)


def _mark(finding: Finding) -> str:
    if finding.open:
        return "OPEN  "
    return "ok    " if finding.fine else "WRONG "
