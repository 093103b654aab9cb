"""What commands share: help, completion, JSON, and the options of a fit, made from the fields of ``FitSpec``."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import Field, fields, replace
from functools import partial, wraps
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from dsba import algorithms, operators
from dsba.algorithms.dsba.one_sample import FITTING_FORMS
from dsba.data.sources import Reading, TableSource
from dsba.errors import InputError
from dsba.fitting import spec as fits
from dsba.fitting.codec import strict
from dsba.fitting.disclosure import Guards
from dsba.graph.mixing import MIXINGS
from dsba.graph.topology import GRAPH_FAMILIES
from dsba.types import Finding

LEVELS_FORM = "COLUMN=LEVEL,LEVEL,..."
NOT_RECOMPUTED = 4  # the exit code where nothing is known to be wrong, and something could not be looked at
TABLE_PANEL, READING_PANEL = "Options of tables", "Options of reading"
VALUES: dict[str, Iterable[str]] = {
    "graph": GRAPH_FAMILIES, "mixing": MIXINGS, "operator": operators.names(),
    "algorithm": ["auto", *algorithms.names()], "communication": [*FITTING_FORMS],
    "missing": fits.MISSING_POLICIES, "cov": fits.COVARIANCES, "rare_levels": fits.RARE_POLICIES,
}  # fmt: skip


class _Flags:
    """Help that shows no kind of value beside a flag, because a flag takes none."""

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in found:
            if getattr(one, "is_flag", False):
                one.metavar = ""
        return found


class Command(_Flags, TyperCommand):
    """A command of dsba."""


class CommandGroup(_Flags, TyperGroup):
    """Several commands of dsba."""


class Commands(typer.Typer):
    """Commands with dsba's help."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=CommandGroup, **options)

    def command(self, name: str | None = None, **options: Any) -> Any:
        return super().command(name, **{"cls": Command, **options})


def completing(values: Iterable[str]) -> Callable[[str], list[str]]:
    """For the shell: the values that begin with what was typed."""
    known = list(values)
    return lambda incomplete: [value for value in known if value.startswith(incomplete)]


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def echo_json(content: Any) -> None:
    """Print JSON; a number that is not finite becomes null."""
    typer.echo(json.dumps(strict(content), indent=2, ensure_ascii=False, default=str))


def show_findings(findings: Iterable[Finding], plain: bool) -> None:
    """Print what a check finds, line by line or as JSON; the exit code says whether anything is wrong or open."""
    found = []
    for one in findings:
        found.append(one)
        if not plain:
            typer.echo(("OPEN  " if one.open else "ok    " if one.fine else "WRONG ") + one.sentence)
    wrong, unknown = not all(one.fine for one in found), any(one.open for one in found)
    if plain:
        echo_json({"fine": not (wrong or unknown), "findings": [one._asdict() for one in found]})
    if wrong or unknown:
        raise typer.Exit(1 if wrong else NOT_RECOMPUTED)


def source(kind: Callable[..., Any], help_: str) -> Any:
    """An argument or an option that is a file, or the URL of a database."""
    return kind(help=help_, parser=TableSource, metavar="FILE|URL")


of_tables = partial(typer.Option, rich_help_panel=TABLE_PANEL)
TwoSites = Annotated[bool, of_tables("--allow-two-sites", help="Let two sites take part; nothing is hidden then.")]
NoGuards = Annotated[bool, of_tables("--no-guards", help="Switch off this site's disclosure guards.")]


def keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)


READING_HELP = {
    "encoding": "The encoding of text that is not UTF-8: latin-1, cp1252, utf-16, ...",
    "na_values": "Other marks of missing values, with commas between them, such as -999,unknown.",
    "decimal": "The mark before decimals in text, if it is not found out.",
}
READING_OPTIONS = [
    keyword(name, Annotated[str | None, typer.Option(help=help_, rich_help_panel=READING_PANEL)], None)
    for name, help_ in READING_HELP.items()
]


def reading_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of reading; every source that it gets then has them."""
    own = inspect.signature(command, eval_str=True).parameters.values()

    @wraps(command)
    def run(**values: Any) -> None:
        command(**_with_reading(values))

    run.__signature__ = inspect.Signature([*own, *READING_OPTIONS])  # type: ignore[attr-defined]
    return run


def _with_reading(values: dict[str, Any]) -> dict[str, Any]:
    """The values without the options of reading, which every source among them has."""
    encoding, marks, decimal = (values.pop(name) for name in READING_HELP)
    reading = Reading(encoding, _names(marks) or (), decimal)
    return {name: _read_so(value, reading) for name, value in values.items()}


def _read_so(value: Any, reading: Reading) -> Any:
    if isinstance(value, list | tuple):
        return [_read_so(one, reading) for one in value]
    return replace(value, reading=reading) if isinstance(value, TableSource) else value


def with_fit_options(*, tables_only: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a fit, after its arguments, and those of reading; it gets the first as ``spec``."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = [one for one in inspect.signature(command, eval_str=True).parameters.values() if one.name != "spec"]

        @wraps(command)
        def run(**values: Any) -> None:
            values = _with_reading(values)
            command(**{one.name: values.pop(one.name) for one in own}, spec=_spec(values))

        # guards have flags, and a penalty is an object
        shown = [one for one in fields(fits.FitSpec) if one.name not in ("guards", "penalty")]
        shown = [one for one in shown if not (tables_only and fits.OPTIONS[one.name].data == fits.FOR_ARRAYS)]
        options = [*(_option(one, tables_only) for one in shown), keyword("allow_two_sites", TwoSites, False)]
        options += [] if tables_only else [keyword("no_guards", NoGuards, False)]
        run.__signature__ = inspect.Signature([*own[:1], *options, *own[1:], *READING_OPTIONS])  # type: ignore[attr-defined]
        return run

    return decorated


def _option(one: Field[Any], tables_only: bool) -> inspect.Parameter:
    about = fits.OPTIONS[one.name]
    names = [f"--{one.name.replace('_', '-')}"] if one.default is False and about.data == fits.FOR_TABLES else []
    more: dict[str, Any] = {"metavar": LEVELS_FORM} if one.name == "levels" else {}
    if about.data == fits.FOR_TABLES and not tables_only:
        more["rich_help_panel"] = TABLE_PANEL
    if one.name in VALUES:
        more["autocompletion"] = completing(VALUES[one.name])
    option = typer.Option(*names, help=about.sentence(tables_only), **more)
    return keyword(one.name, Annotated[_kind(one), option], one.default)


def _kind(one: Field[Any]) -> Any:
    """The type at the command line, where names, numbers or a rule, and levels are texts."""
    if one.name == "levels":
        return list[str] | None
    if one.default is None:
        return float | None if fits.OPTIONS[one.name].usual != (None, None) else str | None
    return type(one.default)


def _spec(values: dict[str, Any]) -> fits.FitSpec:
    guards = guards_of(values.pop("allow_two_sites"), values.pop("no_guards", False))
    given = {name: READERS[name](value) if name in READERS else value for name, value in values.items()}
    return fits.FitSpec(**given, guards=guards)


def guards_of(two_sites: bool, off: bool) -> Guards:
    return Guards.off() if off else Guards(sites=2) if two_sites else Guards()


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))


def numbers_of(option: str, text: str | None) -> tuple[float, ...] | None:
    """The numbers of an option."""
    try:
        return None if text is None else tuple(map(float, text.split(",")))
    except ValueError:
        raise InputError(f"--{option} must be numbers with commas between them, got {text!r}.") from None


def _number_or_name(text: str) -> float | str:
    with suppress(ValueError):
        return float(text)
    return text


def _ordered_levels(given: list[str] | None) -> dict[str, list[str]]:
    """The levels by column of texts such as sex=m,f."""
    found = {}
    for text in given or []:
        column, equals, levels = text.partition("=")
        if not equals:
            raise InputError(f"--levels must be {LEVELS_FORM}, got {text!r}.")
        found[column.strip()] = [level.strip() for level in levels.split(",")]
    return found


READERS: dict[str, Callable[[Any], Any]] = {
    "features": _names, "grid": partial(numbers_of, "grid"), "levels": _ordered_levels, "step_size": _number_or_name,
}  # fmt: skip
