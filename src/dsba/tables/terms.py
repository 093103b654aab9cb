"""What a specification makes of tables: its formula, parsed, and the columns that it needs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from dsba import operators
from dsba.errors import InputError, did_you_mean
from dsba.fitting.model import Schema
from dsba.fitting.spec import FOR_ARRAYS, FitSpec
from dsba.tables import models
from dsba.tables.formula import Formula, from_columns, parse
from dsba.tables.models.base import TableModel
from dsba.types import Level

if TYPE_CHECKING:
    import pandas as pd

SITE = "site"  # every formula may name it, as a factor


class SiteTable(NamedTuple):
    """The rows of one node."""

    name: str
    frame: pd.DataFrame


@dataclass(frozen=True)
class ModelTerms:
    """What a specification makes of tables: its formula, parsed, and the columns that it needs."""

    spec: FitSpec
    labels: str
    """What the operator takes: "real", "count", "binary" or "multiclass"."""

    @classmethod
    def of(cls, spec: FitSpec) -> ModelTerms:
        """The terms of a specification that has a formula."""
        if odd := spec.given(FOR_ARRAYS):
            raise InputError(f"{odd[0]} is for arrays and LIBSVM files, and not for tables.")
        outcome = parse(str(spec.formula)).outcome if spec.formula is not None else None
        model = models.of_spec(spec, counts=outcome == "counts")
        labels = operators.get(spec.operator).labels if model is None else model.labels
        if labels == "survival" and outcome != "survival":
            raise InputError("a model of survival needs the outcome Surv(time, event), such as Surv(days, died) ~ age.")
        if outcome == "survival" and labels != "survival":
            raise InputError("the outcome Surv(time, event) is for models of survival: give the operator cox.")
        if outcome == "counts" and labels != "binary":
            raise InputError("the outcome cbind(successes, failures) is for models of two classes, such as logistic.")
        return cls(spec, outcome or labels)

    def __post_init__(self) -> None:
        event = self.spec.event
        if event is not None and self.labels != "binary":
            raise InputError(f"an event is one of two labels, and the outcome has none: got the event {event!r}.")
        if self.formula.left is None:
            raise InputError("the formula has no outcome: write it before ~.")
        if self.of_classes and self.formula.transformed:
            raise InputError(
                f"the outcome must be the name of one column, got {self.formula.left!r}: a model of classes takes them "
                "as the table has them."
            )

    @cached_property
    def formula(self) -> Formula:
        """Nothing but a parsed formula is ever evaluated."""
        return parse(str(self.spec.formula))

    def model(self, classes: Sequence[Level] | None = None) -> TableModel | None:
        """The model, if it is one of ``dsba.tables.models``."""
        return models.of_spec(self.spec, classes, counts=self.labels == "counts")

    @property
    def by_sums(self) -> bool:
        """Whether the model is fitted from sums over the sites alone, and not by a method that sends iterates."""
        spec = self.spec
        newton = spec.algorithm == "newton" or (spec.algorithm == "auto" and not spec.lam)
        return newton or spec.random is not None or self.model() is not None

    @property
    def of_classes(self) -> bool:
        """Whether the outcome is a class, and not a number."""
        return self.labels in ("binary", "multiclass")

    @property
    def extras(self) -> tuple[str, ...]:
        """Columns that are not in the formula. They must be numbers without gaps."""
        return tuple(name for name in (self.spec.weights, self.spec.offset, self.spec.exposure) if name is not None)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column of the tables that is read."""
        clusters = () if self.spec.clusters is None else (self.spec.clusters,)
        return tuple(dict.fromkeys((*self.formula.response, *self.formula.columns, *self.extras, *clusters)))


def stated(spec: FitSpec, headers: Mapping[str, Sequence[str]]) -> FitSpec:
    """The specification with its formula, in the form that sites compare.

    All features are the columns of the first site, in its order; ``headers`` are the columns of each site.
    """
    if spec.formula is not None:
        parsed = parse(spec.formula)
        return replace(spec, formula=str(parsed.expanded(_all_features(spec, headers) if parsed.dotted else ())))
    features = spec.features if spec.features is not None else _all_features(spec, headers)
    formula = str(from_columns(spec.target, features))
    return replace(spec, formula=formula, target=None, features=None, all_features=False)


def _all_features(spec: FitSpec, headers: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    site, first = next(iter(headers.items()))
    for other, header in headers.items():
        if odd := sorted(set(first) ^ set(header)):
            raise InputError(
                f"the column {odd[0]!r} is in only one of the tables {site} and {other}: name the features."
            )
    return tuple(
        name for name in first if name not in (spec.target, spec.weights, spec.offset, spec.exposure, spec.clusters)
    )


def terms_of(schema: Schema) -> ModelTerms:
    """The terms that the sites agreed on."""
    return ModelTerms(schema.spec, schema.labels)


def absent_column(headers: Mapping[str, Sequence[str]], terms: ModelTerms) -> str | None:
    """A sentence about a column that a site does not have; ``headers`` are the columns of each site."""
    own = (*terms.formula.response, *terms.formula.numbers, *terms.extras, terms.spec.clusters)  # no names of sites
    for site, names in headers.items():
        for column in terms.columns:
            if column not in names and (column != SITE or column in own):
                role = "is the outcome" if column in terms.formula.response else "the model needs"
                return f"{site} has no column {column!r}{did_you_mean(column, names, f', which {role}.')}"
    return None


def own_site_column(headers: Mapping[str, Sequence[str]], terms: ModelTerms) -> str | None:
    """A sentence about a table with a column of its own whose name stands for the sites, as in every study."""
    owners = [site for site, names in headers.items() if SITE in names and SITE in terms.formula.columns]
    if not owners:
        return None
    return f"{owners[0]} has a column {SITE!r} of its own, and in a study's formula this is the site's name: rename it."
