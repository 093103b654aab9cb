"""The commands ``dsba study example | key | check | join | try``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dsba._system.signals import ending_like_ctrl_c
from dsba.cli.options import with_fit_options
from dsba.cli.train import MARKER, write_page  # the folder is read by the commands that read what `dsba train` wrote
from dsba.engine.run import Status
from dsba.errors import InputError
from dsba.fitting.not_converged import EXIT_CODE
from dsba.fitting.spec import FitSpec
from dsba.storage.folders import owned

if TYPE_CHECKING:
    from dsba.study.join import Seat
    from dsba.tables.results import Results

NEEDED = ("websockets", "cryptography", "pandas", "formulaic")

TRY_EXAMPLES = 'Example:  `dsba study try a.csv b.csv c.csv --formula "y ~ x" --operator logistic --lam 0 --out run`'

study = typer.Typer(help="One model from data at several institutions, over TLS.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(study, name="study")


StudyFile = Annotated[Path, typer.Argument(help="The study file, the same at all sites.")]
SiteName = Annotated[str, typer.Option(help="The name of this site in the study.")]
KeyFile = Annotated[Path | None, typer.Option(help="The key of this site; SITE.pem if not given.")]


@study.command()
def example() -> None:
    """Print a study file with comments."""
    from dsba.study.example import example as text

    typer.echo(text(), nl=False)


@study.command()
def key(
    site: SiteName,
    address: Annotated[str | None, typer.Option(help="host:port where the site listens; else it dials out.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file for the key; SITE.pem if not given.")] = None,
) -> None:
    """Make the key and the certificate of this site, and print its lines for the study file.

    The key stays here, readable by its owner alone; only the printed lines are for others.
    """
    _require_extra()
    from dsba.study import keys
    from dsba.study.example import entry
    from dsba.study.file import NAME, parse_address

    if not NAME.fullmatch(site):
        raise InputError("the name of a site has letters, digits, dots and dashes.")
    if address is not None:
        parse_address(address)
    path = out or Path(f"{site}.pem")
    made = keys.make(site, path)
    typer.echo(entry(site, address, keys.fingerprint(made.certificate), keys.text_of(made.certificate)), nl=False)
    typer.echo(f"The key is in {path}: keep it there. The lines above go into the study file.", err=True)


@study.command()
def check(
    file: StudyFile,
    site: Annotated[str | None, typer.Option(help="The name of this site, to check its files and lines.")] = None,
    key: KeyFile = None,
    data: Annotated[Path | None, typer.Option(help="The table of this site.")] = None,
) -> None:
    """Check the study before anybody waits: the file, dates, own files, every neighbour and the line to it."""
    _require_extra()
    from dsba.study.check import check as findings
    from dsba.study.file import load

    failed = False
    for finding in findings(load(file), site, None if site is None else key or Path(f"{site}.pem"), data):
        failed |= not finding.fine
        typer.echo(("ok    " if finding.fine else "WRONG ") + finding.sentence)
    if failed:
        raise typer.Exit(1)


@study.command()
def join(
    file: StudyFile,
    site: SiteName,
    data: Annotated[Path, typer.Option(help="The table of this site; it stays here.")],
    key: KeyFile = None,
    out: Annotated[Path, typer.Option(help="Folder for the model and the audit log.")] = Path("run"),
    approve: Annotated[str | None, typer.Option(help="The hash of the study, instead of the question.")] = None,
    patience: Annotated[float, typer.Option(help="Seconds to wait for a site that is not there.")] = 1800.0,
    listen: Annotated[
        str | None, typer.Option(help="host:port to listen at, if a port is forwarded there from the study's address.")
    ] = None,
    allow_rows: Annotated[
        bool, typer.Option("--allow-rows", help="Let rows of the data leave this site, if the study's method does so.")
    ] = False,
) -> None:
    """Take part in a study. The same command goes on with a run that was stopped.

    The exit code is 3 if the model was saved and the fit did not converge.
    """
    _require_extra()
    from dsba.study.file import load, parse_address
    from dsba.study.join import Seat, prepared

    place = None if listen is None else parse_address(listen)
    seat = Seat(load(file), site, key or Path(f"{site}.pem"), data, out, patience, allow_rows, place)
    prepared(seat)
    _approved(seat, approve)
    with owned(out, MARKER), ending_like_ctrl_c():
        try:
            _joined(seat)
        except KeyboardInterrupt:
            typer.echo("Stopped. The other sites have been told; when all start again they go on from here.", err=True)
            raise typer.Exit(130) from None


def _approved(seat: Seat, approve: str | None) -> None:
    """Say what will leave the site, and ask, unless the hash was approved."""
    from dsba.study.join import decline, leaving

    for sentence in leaving(seat):
        typer.echo(sentence)
    if approve is None and not sys.stdin.isatty():
        raise InputError(f"nobody is here to be asked: approve the study with --approve {seat.study.hash}.")
    given = typer.prompt("To join, type the hash of the study") if approve is None else approve
    try:
        seat.study.require_approved(given)
    except InputError:
        decline(seat, typer.echo)
        raise


def _joined(seat: Seat) -> None:
    from dsba.fitting.codec import MODEL_FILE
    from dsba.study.display import StudyDisplay
    from dsba.study.join import AUDIT
    from dsba.study.join import join as take_part

    with StudyDisplay(sys.stdout.isatty()) as display:
        results = take_part(seat, tell=display.tell, show=display.show)
    run = results.model.run
    typer.echo(results.unfinished if run.status is Status.BUDGET else f"{run.status}: {run.message}.")
    page = write_page(results.model, seat.out)
    typer.echo(f"Model: {seat.out / MODEL_FILE}   Page: {page}   Audit log: {seat.out / AUDIT}")
    if run.status is Status.INTERRUPTED:
        raise typer.Exit(130)
    _end_as(results)


def _end_as(results: Results) -> None:
    """A model that did not converge has an exit code of its own."""
    if results.unfinished:
        raise typer.Exit(EXIT_CODE)


@study.command("try", epilog=TRY_EXAMPLES)
@with_fit_options(tables_only=True)
def try_(
    files: Annotated[list[Path], typer.Argument(help="Tables, one for each site.")],
    spec: FitSpec,
    out: Annotated[Path, typer.Option(help="Folder for the model, and for the study with its keys.")] = Path("run"),
) -> None:
    """A whole study on this machine: a key, a process and a folder for every site, and TLS between them."""
    _require_extra()
    from dsba.study.trial import TRIAL_FILE, TRIAL_FOLDER, Trial, arrange

    with owned(out, MARKER), ending_like_ctrl_c():
        folder = out / TRIAL_FOLDER
        agreed = arrange(files, spec, folder)
        typer.echo(f"Study: {folder / TRIAL_FILE}, hash {agreed.hash}")
        results = Trial(agreed, files, folder).run(typer.echo)
        results.save(out)
        typer.echo(f"Model of {len(files)} sites: {out}   Page: {write_page(results.model, out)}")
        _end_as(results)


def _require_extra() -> None:
    from importlib.util import find_spec

    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise InputError(f"studies need {missing[0]}: install dsba[sites].")
