"""The commands ``dsba study example | policy example | key | rotate | check | join | totals | try``."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsba._system.signals import ending_like_ctrl_c
from dsba.cli.lab import stoppable
from dsba.cli.options import Command, Commands, Json, reading_tables, show_findings, source, with_fit_options
from dsba.cli.train import MARKER, exit_as, write_page
from dsba.data.sources import TableSource
from dsba.engine.run import Status
from dsba.errors import InputError, require_package
from dsba.fitting.spec import FitSpec
from dsba.pages.templates import asset
from dsba.storage.folders import owned

if TYPE_CHECKING:
    from dsba.study.join import Seat

NEEDED = ("websockets", "cryptography", "pandas")

TOTALS_EXAMPLE = "Example:  `dsba study totals run --out for-the-board`, then there `dsba verify for-the-board`"
TRY_EXAMPLES = 'Example:  `dsba study try a.csv b.csv c.csv --formula "y ~ x" --operator logistic --lam 0 --out run`'


class StudyCommand(Command):
    """A command that needs the extra of studies."""

    def invoke(self, ctx: Any) -> Any:
        for package in NEEDED:
            require_package("a study", package, "sites")
        return super().invoke(ctx)


study = Commands(help="One model from data at several institutions, over TLS.", no_args_is_help=True)


StudyFile = Annotated[Path, typer.Argument(help="The study file, the same at all sites.")]
SiteName = Annotated[str, typer.Option(help="The name of this site in the study.")]
PolicyFile = Annotated[
    Path | None, typer.Option(help="The policy of this site; policy.toml beside the key, if there is one.")
]
KeyFile = Annotated[Path | None, typer.Option(help="The key of this site; SITE.pem if not given.")]


@study.command()
def example() -> None:
    """Print a study file with comments."""
    typer.echo(asset("dsba.study", "example.toml"), nl=False)


policy = Commands(help="A site's own policy, stricter than a study or equal.", no_args_is_help=True)
study.add_typer(policy, name="policy")


@policy.command("example")
def policy_example() -> None:
    """Print a policy with comments."""
    typer.echo(asset("dsba.study", "policy.toml"), nl=False)


@study.command(cls=StudyCommand)
def key(
    site: SiteName,
    address: Annotated[str | None, typer.Option(help="host:port where the site listens; else it dials out.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file for the key; SITE.pem if not given.")] = None,
) -> None:
    """Make the key and the certificate of this site, and print its lines for the study file.

    The key stays here, readable by its owner alone; only the printed lines are for others.
    """
    from tomli_w import dumps

    from dsba.study import keys
    from dsba.study.file import NAME, parse_address

    if not NAME.fullmatch(site):
        raise InputError("the name of a site has letters, digits, dots and dashes.")
    if address is not None:
        parse_address(address)
    path = out or Path(f"{site}.pem")
    made = keys.make(site, path)
    typer.echo(dumps({"sites": [keys.site_section(site, address, made.certificate)]}), nl=False)
    typer.echo(f"The key is in {path}: keep it there. The lines above go into the study file.", err=True)


@study.command(cls=StudyCommand)
def rotate(site: SiteName, key: KeyFile = None) -> None:
    """Replace the key of this site by a new one that the old key signs, and print the lines for the study file.

    The hash of the study stays the same, and so do the ledger and the commitment to the data. Every site adds the lines
    at the end of its study file. The old key is gone. If it was copied, make a new study instead: anybody with the old
    key could sign another one.
    """
    from tomli_w import dumps

    from dsba.storage.atomic import write_whole
    from dsba.study import keys

    path = key or Path(f"{site}.pem")
    statement = path.with_name(f"{path.name}.rotation.toml")

    def keep(made: keys.Key, signature: bytes) -> None:
        section = {"certificate": keys.text_of(made.certificate), "signature": signature.hex()}
        write_whole(statement, dumps({"rotations": [section]}).encode())

    keys.rotated(path, site, keep)
    typer.echo(statement.read_text(), nl=False)
    where = f"The lines above, also in {statement}, go to the end of the study file at all sites."
    typer.echo(f"The new key is in {path}. {where}", err=True)


@study.command(cls=StudyCommand)
@reading_tables
def check(
    file: StudyFile,
    site: Annotated[str | None, typer.Option(help="The name of this site, to check its files and lines.")] = None,
    key: KeyFile = None,
    data: Annotated[TableSource | None, source(typer.Option, "The table of this site.")] = None,
    policy: PolicyFile = None,
    plain: Json = False,
) -> None:
    """Check the study before anybody waits: the file, dates, own files, every neighbour and the line to it."""
    from dsba.study.check import check as findings
    from dsba.study.file import load
    from dsba.study.policy import load as load_policy

    if site is None and (key or data or policy) is not None:
        raise InputError("--key, --data and --policy are of one site: give --site as well.")
    key = None if site is None else key or Path(f"{site}.pem")
    own = load_policy(policy, key)
    show_findings(findings(load(file), site, key, data, own), plain)


@study.command(cls=StudyCommand)
@reading_tables
def join(
    file: StudyFile,
    site: SiteName,
    data: Annotated[TableSource, source(typer.Option, "The table of this site; it stays here.")],
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
    policy: PolicyFile = None,
    model: Annotated[Path | None, typer.Option(help="The folder of the model that the study evaluates.")] = None,
) -> None:
    """Take part in a study. The same command goes on with a run that was stopped.

    The exit code is 3 if the model was saved and the fit did not converge.
    """
    from dsba.fitting.codec import MODEL_FILE
    from dsba.study.audit import AUDIT
    from dsba.study.display import StudyDisplay
    from dsba.study.file import load, parse_address
    from dsba.study.join import Seat, about, prepared
    from dsba.study.join import join as take_part
    from dsba.study.policy import load as load_policy

    place = None if listen is None else parse_address(listen)
    key = key or Path(f"{site}.pem")
    own = load_policy(policy, key)
    seat = Seat(load(file), site, key, data, out, patience, allow_rows, place, own, model)
    prepared(seat)
    approval = _approved(seat, approve)
    stopped = "Stopped. The other sites were notified; when all start again they go on from here."
    with owned(out, MARKER), stoppable(stopped):
        with StudyDisplay(sys.stdout.isatty()) as display:
            results = take_part(seat, notify=display.notify, show=display.show, approval=approval)
        run = results.model.run
        if seat.stored is None:
            typer.echo(results.not_converged if run.status is Status.BUDGET else f"{run.status}: {run.message}.")
        page = write_page(results.model, out, about(seat, results.model))
        typer.echo(f"Model: {out / MODEL_FILE}   Page: {page}   Audit log: {out / AUDIT}")
        exit_as(run.status)


def _approved(seat: Seat, approve: str | None) -> dict[str, str]:
    """Say what will leave the site, and ask, unless the hash was approved; who did it, and how."""
    from dsba.study.join import decline, leaving

    for sentence in leaving(seat):
        typer.echo(sentence)
    if approve is None and not sys.stdin.isatty():
        raise InputError(f"Standard input is not a terminal. Pass --approve {seat.study.hash} to approve the study.")
    if approve is None and seat.unfit:  # before a person approves what cannot be
        raise InputError(seat.unfit)
    given = typer.prompt("To join, type the hash of the study") if approve is None else approve
    try:
        seat.study.require_approved(given)
    except InputError:
        other = f"{seat.site} has not approved this study: the hash that was approved there is another one."
        decline(seat, other, typer.echo)
        raise
    return {"who": _user(), "how": "typed at a terminal" if approve is None else "--approve"}


def _user() -> str:
    """The person's name on this computer."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for it
        return str(os.getuid())


@study.command(epilog=TOTALS_EXAMPLE, cls=StudyCommand)
def totals(
    folder: Annotated[Path, typer.Argument(help="This site's folder of a run that has ended.")],
    out: Annotated[Path, typer.Option(help="A new folder for the study, the model and the totals.")],
) -> None:
    """Copy what others need to verify a run: the study, the model and the exact totals, without the audit log.

    Refused unless the policies of all sites allow it (totals_may_leave = true), which all sites signed at the start.
    """
    from dsba.study.verify import copy_totals

    copy_totals(folder, out)
    typer.echo(f"Copied to {out}. Everybody who has it can run: dsba verify {out}")


@study.command("try", epilog=TRY_EXAMPLES, cls=StudyCommand)
@with_fit_options(tables_only=True)
def try_(
    files: Annotated[list[TableSource], source(typer.Argument, "Tables, one for each site.")],
    spec: FitSpec,
    out: Annotated[Path, typer.Option(help="Folder for the model, and for the study with its keys.")] = Path("run"),
) -> None:
    """A whole study on this machine: a key, a process and a folder for every site, and TLS between them."""
    from dsba.study.trial import TRIAL_FILE, TRIAL_FOLDER, Trial, arrange

    with owned(out, MARKER), ending_like_ctrl_c():
        folder = out / TRIAL_FOLDER
        agreed = arrange(files, spec, folder)
        typer.echo(f"Study: {folder / TRIAL_FILE}, hash {agreed.hash}")
        results = Trial(agreed, files, folder).run(typer.echo)
        results.save(out)
        typer.echo(f"Model of {len(files)} sites: {out}   Page: {write_page(results.model, out)}")
        exit_as(results.model.run.status)
