"""What the sites agreed on, as a table for people: columns, types, levels, labels, rows and missing values.

Counts are those of all sites together, and those of the sites of this process, which nobody else is told.
"""

from __future__ import annotations

from collections.abc import Sequence

from dsba.fitting.model import Schema
from dsba.fitting.spec import FREQUENCY, PRECISION, SAMPLING
from dsba.tables.columns import references_of
from dsba.tables.design import Designs
from dsba.tables.terms import SITE, terms_of
from dsba.types import Level

SHOWN_LEVELS = 8
MISSING_WORDS = {
    "error": "A missing value would end the fit.",
    "drop": "Rows with a missing value are left out.",
    "mean": "Missing numbers become the pooled mean of their column. Standard errors are then too small.",
    "indicator": "Missing numbers become the pooled mean, and a column of the model says where.",
}
WEIGHT_WORDS = {
    PRECISION: "A row counts once, and the weights {column} say how precise its outcome is.",
    FREQUENCY: "A row counts as often as {column} says.",
    SAMPLING: "A row counts once, and stands for {column} others: errors are robust, and there is no likelihood.",
}


def report(designs: Designs) -> list[str]:
    """The lines of the table, and a sentence for every guard that only speaks."""
    schema = designs.schema
    columns = [("column", "type", "missing", "levels")]
    terms = terms_of(schema)
    firsts = references_of(terms.formula.terms, schema.levels, designs.names)
    named = [name for name in terms.columns if name != SITE or name in schema.levels]
    columns += [_column(name, schema, firsts.get(name)) for name in named]
    missing = sum(schema.missing.values())
    rows = [("site", "rows", "missing")]
    rows += [(site.site, f"{site.rows}", f"{sum(site.missing.values())}") for site in designs.held]
    rows.append(("sum", f"{schema.rows}", f"{missing}"))
    together = schema.together.items()
    return [
        f"{len(schema.parts)} sites agree on the columns of the model:",
        *_aligned(columns),
        "",
        *_aligned(rows),
        "",
        *([MISSING_WORDS[schema.spec.missing]] if missing else []),
        *([WEIGHT_WORDS[schema.spec.weight_kind].format(column=schema.spec.weights)] if schema.spec.weights else []),
        *schema.odd_levels,
        *(f"{column} is missing where {other} is: one column of the model for both." for column, other in together),
        f"No column is constant, and no two are equal. {designs.rows} rows enter the model.",
        *guard_sentences(schema, designs.notices),
    ]


def guard_sentences(schema: Schema, notices: Sequence[str]) -> list[str]:
    """What guards did not refuse, and which guards are loosened."""
    refused = [f"Between owners this would be refused: {sentence}" for sentence in notices]
    return refused + [f"{part.site} {part.guards.loosened}." for part in schema.parts if part.guards.loosened]


def _column(name: str, schema: Schema, reference: Level | None) -> tuple[str, str, str, str]:
    levels = _levels(name, schema) + ("" if reference is None else f" ({reference} is the reference)")
    return name, schema.kinds.get(name, "factor"), f"{schema.missing[name]}", levels


def _levels(name: str, schema: Schema) -> str:
    if schema.classes is not None and name in terms_of(schema).formula.response:
        event = f" ({schema.classes[1]} is the event)" if len(schema.classes) == 2 else ""
        return ", ".join(map(str, schema.classes)) + event
    levels = schema.levels.get(name, ())
    more = f", ... ({len(levels)} levels)" if len(levels) > SHOWN_LEVELS else ""
    merged = f" ({len(schema.merged[name])} rare ones merged)" if schema.merged.get(name) else ""
    return ", ".join(map(str, levels[:SHOWN_LEVELS])) + more + merged


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width: the counts to the right, the rest to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def cell(text: str, heading: str, width: int) -> str:
        return text.rjust(width) if heading in ("rows", "missing") else text.ljust(width)

    return ["  ".join(["", *map(cell, row, rows[0], widths)]).rstrip() for row in rows]
