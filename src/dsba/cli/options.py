"""The options of a fit as those of a command, made from the fields of ``FitSpec``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import Field, fields
from functools import wraps
from typing import Annotated, Any

import typer

from dsba.errors import InputError
from dsba.fitting.disclosure import Guards
from dsba.fitting.spec import FOR_ARRAYS, FOR_TABLES, OPTIONS, FitSpec

LEVELS_FORM = "COLUMN=LEVEL,LEVEL,..."
TABLE_PANEL = "Options of tables"


def _table_flag(name: str, help_: str) -> Any:
    return Annotated[bool, typer.Option(name, help=help_, rich_help_panel=TABLE_PANEL)]


TwoSites = _table_flag("--allow-two-sites", "Let two sites take part; nothing is hidden then.")
NoGuards = _table_flag("--no-guards", "Switch off this site's disclosure guards.")


def with_fit_options(*, tables_only: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a fit, after its arguments; the function gets them as one ``spec``."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = [one for one in inspect.signature(command, eval_str=True).parameters.values() if one.name != "spec"]

        @wraps(command)
        def run(**values: Any) -> None:
            command(**{one.name: values.pop(one.name) for one in own}, spec=_spec(values))

        shown = [one for one in fields(FitSpec) if _is_shown(one.name, tables_only)]
        flags = [_keyword("allow_two_sites", TwoSites, False)]
        flags += [] if tables_only else [_keyword("no_guards", NoGuards, False)]
        options = [*(_option(one, tables_only) for one in shown), *flags]
        run.__signature__ = inspect.Signature([*own[:1], *options, *own[1:]])  # type: ignore[attr-defined]
        return run

    return decorated


def _is_shown(name: str, tables_only: bool) -> bool:
    """Guards have flags, and a penalty is an object."""
    return name not in ("guards", "penalty") and not (tables_only and OPTIONS[name].data == FOR_ARRAYS)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)


def _option(one: Field[Any], tables_only: bool) -> inspect.Parameter:
    about, kind = OPTIONS[one.name], _kind(one)
    names = [f"--{one.name.replace('_', '-')}"] if one.default is False and about.data == FOR_TABLES else []
    more: dict[str, Any] = {"metavar": LEVELS_FORM} if one.name == "levels" else {}
    if about.data == FOR_TABLES and not tables_only:
        more["rich_help_panel"] = TABLE_PANEL
    return _keyword(
        one.name, Annotated[kind, typer.Option(*names, help=about.sentence(tables_only), **more)], one.default
    )


def _kind(one: Field[Any]) -> Any:
    """The type at the command line, where names, numbers or a rule, and levels are texts."""
    if one.name == "levels":
        return list[str] | None
    if one.default is None:
        return float | None if OPTIONS[one.name].usual != (None, None) else str | None
    return type(one.default)


def _spec(values: dict[str, Any]) -> FitSpec:
    guards = guards_of(values.pop("allow_two_sites"), values.pop("no_guards", False))
    return FitSpec(**{n: READERS[n](value) if n in READERS else value for n, value in values.items()}, guards=guards)


def guards_of(two_sites: bool, off: bool) -> Guards:
    return Guards.off() if off else Guards(sites=2) if two_sites else Guards()


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))


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


READERS: dict[str, Callable[[Any], Any]] = {"features": _names, "levels": _ordered_levels, "step_size": _number_or_name}
