"""A site's own policy: what it asks for, whatever a study says. Stricter than a study or equal, never looser."""

from __future__ import annotations

import json
import tomllib
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, PlainValidator, ValidationError, model_validator

from dsba.data.table_files import Table
from dsba.errors import InputError, cannot, shortened, unknown_name
from dsba.fitting.disclosure import SHARES, Guards
from dsba.network.contract import DISCLOSURE_CLASSES, ITERATES, ROWS_OF_DATA, SITE_TOTALS, TOTALS
from dsba.network.tls.answers import MOST_POINTS, MOST_STARTS, MOST_TOLD
from dsba.study.file import PositiveCount, Study, StudySection, first_error, named_guards

POLICY_FILE = "policy.toml"  # beside the site's key


class Policy(StudySection):
    """What one site asks for."""

    guards: Annotated[Guards, PlainValidator(named_guards)] = Field(default_factory=Guards.off)
    """Numbers that are stricter than the study's hold instead of these."""
    columns: tuple[str, ...] | None = None
    """The columns that a study may name; None allows all."""
    operators: tuple[str, ...] | None = None
    """The kinds of model that a study may fit; None allows all."""
    discloses: tuple[str, ...] = (TOTALS, ITERATES, ROWS_OF_DATA)
    """The disclosure classes that a study's method may have. With "site totals" the site shows figures of its rows."""
    runs_a_month: PositiveCount | None = None
    """How many runs may begin in a month, of all studies together."""
    row_id: str | None = None
    """The column by which the ledger knows a row. It is read here and never sent."""
    close_runs: bool = False
    """Whether a run may use all but a few of the rows of an earlier run."""
    starts: PositiveCount = MOST_STARTS
    """How often a run that did not end may begin, the first time included."""
    points: PositiveCount = MOST_POINTS
    """At how many points a run may sum an information matrix, over all its starts."""
    told: Annotated[float, Field(gt=0.0)] = MOST_TOLD
    """How many numbers a run may tell in these matrices, as a share of the cells of the other sites' rows."""
    totals_may_leave: bool = False
    """Whether the exact totals of a run may be copied out of the folders of sites (``dsba study totals``)."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if odd := [name for name in self.discloses if name not in DISCLOSURE_CLASSES]:
            raise unknown_name("disclosure class", odd[0], DISCLOSURE_CLASSES)
        return self

    def for_study(self, study: Study) -> Guards:
        """The numbers that hold at this site."""
        return Guards.strictest([study.guards, self.guards])

    def terms(self, study: Study) -> str:
        """What the other sites are told of the policy, and what the history of a run begins with."""
        held = asdict(self.for_study(study))
        return json.dumps({"guards": held, "totals_may_leave": self.totals_may_leave}, sort_keys=True)

    def complaint(self, study: Study, discloses: str) -> str | None:
        """Why the site does not take part in the study."""
        if self.columns is not None and (odd := sorted(set(study.columns) - set(self.columns))):
            return f"the policy of this site does not allow the column {odd[0]!r}."
        if self.operators is not None and study.spec.operator not in self.operators:
            return f"the policy of this site does not allow {study.spec.operator} models."
        if discloses not in self.discloses:
            return f"the policy of this site does not allow methods that disclose {discloses}."
        return None

    def require_row_id(self, table: Table) -> None:
        """An error unless the table has the column by which the ledger knows a row."""
        if self.row_id is not None and self.row_id not in table.names:
            raise InputError(f"{table.path} has no column {self.row_id!r}, which the policy names.")

    def hides_figures(self, site: str) -> str | None:
        """Why the site does not show a model or a description of its own rows; None if it does."""
        if SITE_TOTALS in self.discloses:
            return None
        return f"the policy of {site} does not allow {SITE_TOTALS}, so that it shows no figures of its own rows."

    def numbers(self, study: Study) -> list[str]:
        """The guards that hold at this site, and whose they are, as lines for people."""
        held = self.for_study(study)
        return [_number(one.name, study.guards, held) for one in fields(Guards)]


def _number(name: str, theirs: Guards, held: Guards) -> str:
    number = getattr(held, name)
    whose = "the study's" if number == getattr(theirs, name) else "this site's own"
    off = number >= 1.0 if name in SHARES else number <= 1
    return f"{name.replace('_', ' ')}: {number:g} ({whose}){', which guards nothing' if off else ''}"


def may_leave(terms: str) -> bool:
    """Whether a site that was told of by ``Policy.terms`` lets totals leave the sites."""
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        return json.loads(terms)["totals_may_leave"] is True
    return False


def load(path: Path | None, key: Path | None = None) -> Policy:
    """The policy in a file, or in the one beside the site's key; without one the study's numbers hold."""
    if path is None and key is not None and (key.parent / POLICY_FILE).exists():
        path = key.parent / POLICY_FILE
    if path is None:
        return Policy()
    try:
        return Policy.model_validate(tomllib.loads(path.read_text()))
    except OSError as error:
        raise cannot(f"read the policy {path}", error) from None
    except ValidationError as error:
        raise InputError(f"{path}: {first_error(error)}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a TOML file: {shortened(error)}.") from None
