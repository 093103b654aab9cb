"""From a site's table to the columns of the model, as all sites agreed on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from dsba.errors import InputError, noted
from dsba.fitting.disclosure import Guards, is_steered
from dsba.fitting.model import Schema
from dsba.fitting.spec import FREQUENCY
from dsba.network import Alone, Group, counted, summed
from dsba.tables import schema as agreed
from dsba.tables.columns import INTERCEPT, States, agreed_states, inner_functions, model_columns, numbers, text_of
from dsba.tables.formula import is_derived
from dsba.tables.models.base import Design as Design
from dsba.tables.peaks import require_spread
from dsba.tables.schema import MERGED_LEVEL, MISSING_LEVEL, Held, enforce, plain_value, usable_rows
from dsba.tables.terms import ModelTerms, SiteTable, terms_of
from dsba.types import Array, Flags, Integers, Level

if TYPE_CHECKING:
    import pandas as pd


OUTCOME = "the outcome"
CLASSED = ("binary", "multiclass", "counts")  # outcomes whose offsets are scores of probabilities
LARGEST_OFFSET = 300.0  # squares of its exponential, times rows and columns, are numbers
WORD_RANGE = 1 << 40  # random words are below; sums of thousands of them are exact in a float64


@dataclass(frozen=True)
class Designs:
    """The designs of the sites here, and what all sites agreed on."""

    schema: Schema
    held: tuple[Held, ...]
    """What the sites here know of their tables."""
    designs: tuple[Design, ...]
    notices: tuple[str, ...]
    """The sentences of guards that do not end the fit."""
    rare: tuple[str, ...]
    """Those of them about columns that show single rows."""
    rows: int
    """The number of rows of all sites that enter the model."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.designs[0].names

    @property
    def wide(self) -> list[Array]:
        """Of each site here its columns, and beside them what sums with an outcome or weights have in their place."""
        terms = terms_of(self.schema)
        return [np.column_stack([d.X, *_outcome_columns(d, terms, self.schema.classes)]) for d in self.designs]

    @property
    def wide_names(self) -> list[str]:
        """Those of the columns of ``wide``: an outcome is called as on the left side of the formula."""
        terms, weights = terms_of(self.schema), self.schema.spec.weights
        outcomes = self.wide[0].shape[1] - len(self.names) - (weights is not None)
        return [*self.names, *[str(terms.formula.left)] * outcomes, *([] if weights is None else [weights])]

    @property
    def derived(self) -> list[bool]:
        """Of each column of ``wide`` whether it is a product, or a function that may single out rows."""
        formula, own = terms_of(self.schema).formula, derived_columns(self.schema)
        return own + [formula.sharp and name == str(formula.left) for name in self.wide_names[len(own) :]]


def design_tables(
    sites: Sequence[SiteTable], terms: ModelTerms, group: Group | None = None, guards: Guards | None = None,
    states: States | None = None,
) -> Designs:  # fmt: skip
    """Agree with all sites, build the columns of the sites here, and check them together with the others'.

    ``states`` are those of functions, if they are known.
    """
    group, guards = group or Alone(), guards or Guards()
    schema = agreed.agree(sites, terms, group, guards)
    usable = [SiteTable(site.name, usable_rows(site.frame, terms)) for site in sites]
    ready = [filled_in(site, schema) for site in usable]
    limits, named = schema.limits, [site.name for site in sites]
    few = max(1, limits.rows_per_level)
    peaks = require_spread(*parts_of_functions(usable, schema), named, limits, group)
    states = states or agreed_states(terms.formula.terms, ready, group, few, alone=len(schema.parts) == 1)
    schema = replace(schema, states=dict(states))
    designs = tuple(designed(site, schema) for site in sites)
    model = terms.model(schema.classes)
    if not designs[0].names and (model is None or model.intercept or schema.labels == "survival"):
        raise InputError(f"the right side {terms.formula.right!r} gives the model no column: wanted at least one.")
    weighted = [] if terms.spec.weights is None else zip(named, designs, strict=True)
    heavy = [limits.few_weighted(site) for site, design in weighted if is_steered(design.weight, few)]
    odd = not_finite_column(sites, designs) or odd_outcome(sites, [d.y for d in designs], terms.labels)
    odd = odd or _huge_offset(sites, designs, terms)
    agreed.end_together(group, odd or (heavy[0] if heavy and group.size > 1 else None))
    held = tuple(agreed.held_at(site, terms) for site in sites)
    found = Designs(schema, held, designs, (), (), 0)
    sharp = np.flatnonzero(found.derived)  # before any count of these columns alone: many would spell a value
    require_spread([found.wide_names[j] for j in sharp], [X[:, sharp] for X in found.wide], named, limits, group)
    watched = _watched(designs, terms)
    compared = _compared(designs, watched, few, group)
    words = dict(zip(designs[0].names, compared.words, strict=True))
    if together := _missing_together(schema, words):
        schema = replace(schema, together=together)
        designs = tuple(designed(site, schema) for site in sites)
    names = designs[0].names
    notices = enforce(group, [guards.too_many_parameters(len(names), compared.rows)])
    differ = _differing(watched, compared, few, group)
    _require_varied({name: words[name] for name in names}, differ)
    explained = terms.labels in ("real", "positive") and not (terms.spec.offset or terms.spec.exposure)
    if explained and differ.get(OUTCOME) == 0:
        raise InputError(f"the outcome {terms.formula.left!r} is constant over all sites: there is nothing to explain.")
    rare = enforce(group, [guards.rare_values(what, rows) for what, rows in differ.items()]) if differ else ()
    rare = (*heavy, *peaks, *rare)
    return Designs(schema, held, designs, (*schema.notices, *notices, *rare), rare, compared.rows)


def designed(site: SiteTable, schema: Schema, *, outcome: bool = True) -> Design:
    """The design of one table; without ``outcome`` for predictions, where every row stays."""
    terms = terms_of(schema)
    frame = usable_rows(site.frame, terms) if outcome else site.frame
    ready = filled_in(SiteTable(site.name, frame), schema)
    matrix = model_columns(terms.formula.terms, ready, schema.states)
    kept = _kept_columns(matrix.names, schema)
    gaps = [frame[column].isna().to_numpy(np.float64) for column in schema.indicators]
    names = (*(matrix.names[j] for j in kept), *(f"{column}[missing]" for column in schema.indicators))
    X = np.column_stack([matrix.X[:, kept], *gaps])
    y = outcome_of(SiteTable(site.name, frame), schema) if outcome else np.full(len(frame), np.nan)
    offset = _numbers(frame, terms.spec.offset, 0.0) + np.log(_numbers(frame, terms.spec.exposure, 1.0))
    cluster = None
    if outcome and terms.spec.clusters is not None:
        cluster = np.unique(frame[terms.spec.clusters].astype(str), return_inverse=True)[1]
    repeated = terms.spec.weight_kind == FREQUENCY
    return Design(names, X, y, _numbers(frame, terms.spec.weights, 1.0), offset, cluster, repeated)


def _kept_columns(names: Sequence[str], schema: Schema) -> list[int]:
    """The places of the columns without those that tell what another column tells already.

    A model with a level of its own has no intercept. Its factors are coded as with one.
    """
    model = terms_of(schema).model(schema.classes)
    levelled = model is not None and not model.intercept
    shared = {name for name, column in _gap_columns(schema).items() if column in schema.together}
    return [j for j, name in enumerate(names) if name not in shared and not (levelled and name == INTERCEPT)]


def derived_columns(schema: Schema) -> list[bool]:
    """Of each column of the model whether it is a product, or a function that may single out rows."""
    found = {text_of(term) for term in terms_of(schema).formula.terms if is_derived(term)}
    return [text in found for text in column_terms(schema)]


def parts_of_functions(sites: Sequence[SiteTable], schema: Schema) -> tuple[list[str], list[Array]]:
    """The parts of functions, of both sides of the formula, that may single out rows of the sites here."""
    formula = terms_of(schema).formula
    frames = [filled_in(one, schema).assign(**{c: one.frame[c].to_numpy() for c in formula.response}) for one in sites]
    return inner_functions(formula, frames)


def column_terms(schema: Schema) -> tuple[str, ...]:
    """The text of the term of every column of the model; "" for the intercept."""
    import pandas as pd

    formula = terms_of(schema).formula
    empty = pd.DataFrame({column: np.zeros(0) for column in formula.columns})
    matrix = model_columns(formula.terms, filled_in(SiteTable("", empty), schema), schema.states)
    own = [matrix.terms[j] for j in _kept_columns(matrix.names, schema)]
    return (*own, *(f"{column}[missing]" for column in schema.indicators))


def filled_in(site: SiteTable, schema: Schema) -> pd.DataFrame:
    """The columns of the formula's right side with agreed levels, and with gaps filled as agreed."""
    import pandas as pd

    frame, ready = site.frame.reset_index(drop=True), {}
    for column in terms_of(schema).formula.columns:
        if column in schema.levels:
            ready[column] = _factor(frame.get(column, pd.Series([site.name] * len(frame))), column, site.name, schema)
        else:
            numbers = frame[column].to_numpy(np.float64, na_value=np.nan)
            ready[column] = np.where(np.isnan(numbers), schema.means.get(column, np.nan), numbers)
    return pd.DataFrame(ready, index=frame.index)


def _factor(values: pd.Series, column: str, site: str, schema: Schema) -> pd.Categorical:
    """The column with the levels that all sites agreed on."""
    import pandas as pd

    levels, merged = schema.levels[column], schema.merged.get(column, ())
    known: dict[Level, Level] = {level: level for level in levels} | dict.fromkeys(merged, MERGED_LEVEL)
    named = [None if pd.isna(value) else plain_value(value) for value in values.tolist()]
    if unknown := sum(value is not None and value not in known for value in named):
        raise InputError(f"{unknown} rows of {site} have a level of {column!r} that the model does not know.")
    gap = MISSING_LEVEL if MISSING_LEVEL in levels else None
    return pd.Categorical([gap if value is None else known[value] for value in named], categories=list(levels))


def outcome_of(site: SiteTable, schema: Schema) -> Array:
    """Labels of a classification as numbers 0, 1, ...; everything else as it is."""
    formula, frame = terms_of(schema).formula, site.frame
    if schema.classes is not None:
        number = {level: n for n, level in enumerate(schema.classes)}
        codes = [number.get(plain_value(value), -1) for value in frame[formula.response[0]].tolist()]
        if unknown := codes.count(-1):
            error = InputError(f"some rows of {site.name} have an outcome that the model does not know.")
            raise noted(error, [f"{unknown} rows of {site.name}"])
        return np.array(codes, np.float64)
    values = frame[list(formula.response)].astype(np.float64)
    columns = [numbers(one, values) for one in formula.outcomes]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def _outcome_columns(design: Design, terms: ModelTerms, classes: Sequence[Level] | None) -> list[Array]:
    """The columns that outcomes and offsets are in a gradient: of classes all but the first, of times the events.

    The weights are the last: sums with and without them differ by rows whose weights differ from the rest.
    """
    y, o = design.y, design.offset
    weights = [] if terms.spec.weights is None else [design.weight]
    if terms.labels == "real":
        return [y - o, *weights]
    with np.errstate(over="ignore"):
        means = expit(o) if terms.labels in CLASSED else np.exp(o)
    found = [y] if y.ndim == 1 else [y[:, 1]] if terms.labels == "survival" else list(y.T)
    if terms.labels == "multiclass":
        found = [(y == code).astype(np.float64) for code in range(1, len(classes or ()))]
    return [*found, *([means] if terms.spec.offset or terms.spec.exposure else []), *weights]


def _numbers(frame: pd.DataFrame, column: str | None, otherwise: float) -> Array:
    return np.full(len(frame), otherwise) if column is None else frame[column].to_numpy(np.float64)


# Checks of the columns of all sites --------------------------------------------------------------


def not_finite_column(sites: Sequence[SiteTable], designs: Sequence[Design]) -> str | None:
    """A sentence about a column that is not finite."""
    for site, design in zip(sites, designs, strict=True):
        for name, column in zip((*design.names, "the outcome"), [*design.X.T, design.y], strict=True):
            if not np.isfinite(column).all():
                return f"{name} is not a finite number in some rows of {site.name}{_why_not_finite(name)}"
    return None


def _why_not_finite(name: str) -> str:
    """What may be the cause, by the functions in the name of a column."""
    if "bs(" in name:
        return ": are there values beyond its boundary?"
    return ": are there numbers that are not positive, or codes for missing?" if "log" in name else "."


def _huge_offset(sites: Sequence[SiteTable], designs: Sequence[Design], terms: ModelTerms) -> str | None:
    """A sentence about offsets that are no logarithms. A linear model may have any."""
    for site, design in zip(sites, designs, strict=True):
        if terms.labels != "real" and (abs(design.offset) > LARGEST_OFFSET).any():
            far = f"the column {terms.extras[-1]!r} gives offsets beyond {LARGEST_OFFSET:g} at {site.name}"
            return f"{far}, whose exponentials are too large for sums: amounts of time or people are an exposure."
    return None


def odd_outcome(sites: Sequence[SiteTable], outcomes: Sequence[Array], labels: str) -> str | None:
    """A sentence about outcomes that the model cannot have."""
    for site, y in zip(sites, outcomes, strict=True):
        if labels == "positive" and not (y > 0.0).all():
            return f"the outcome must be above 0, and at {site.name} it is not in some rows."
        if labels in ("counts", "survival") and not (y >= 0.0).all():
            return f"the outcome has a negative time or count in some rows of {site.name}."
        if labels == "survival" and not np.isin(y[:, 1], (0.0, 1.0)).all():
            return f"the event of Surv(time, event) must be 0 or 1, and is not in some rows of {site.name}."
    return None


class Compared(NamedTuple):
    """What one sum over all sites tells of the columns."""

    rows: int
    large: bool  # whether any process has at least 2 ``few`` rows
    varied: Flags  # of ``_watched`` columns: whether at least ``few`` rows of any process differ from its usual value
    words: Array  # equal for columns that are equal at every site


def _compared(designs: Sequence[Design], watched: Watched, few: int, group: Group) -> Compared:
    """Every site draws random words, equal ones for equal columns, and the sites' words are added.

    The sums tell whether columns are equal at every site, and nothing of a single site. That they are equal by chance
    has a probability of 2^-80 a pair of columns.
    """
    p, rng = len(designs[0].names), np.random.default_rng()
    words = [rng.integers(0, WORD_RANGE, (p, 2))[_first_equals(design.X)] for design in designs]
    flags = np.append(_others(watched.X, _usual(watched.X, few)) >= few, len(watched.X) >= 2 * few)
    # A random word for every flag that is set, and 0 for the others: a sum tells only whether any site has set one.
    flagged = np.where(flags, rng.integers(1, WORD_RANGE, flags.shape), 0)
    own = np.concatenate([np.sum(words, axis=0).ravel(), [len(watched.X)], flagged]).astype(np.float64)
    found, rows, any_set = np.split(summed(group, own[None, :]), [2 * p, 2 * p + 1])
    return Compared(int(rows[0]), any_set[-1] > 0.0, any_set[:-1] > 0.0, found.reshape(p, 2))


def _usual(X: Array, few: int) -> Array:
    """The most frequent value of every column here, unless at least ``few`` rows differ from it, and from any other.

    If fewer than half of the rows differ from it, it is the median.
    """
    n = len(X)
    if n >= 2 * few:
        return np.partition(X, n // 2, axis=0)[n // 2]
    return np.array([max(column, key=column.count, default=0.0) for column in X.T.tolist()])


def _others(X: Array, values: Array) -> Integers:
    """How many rows of every column here have another value than this one."""
    return np.count_nonzero(values != X, axis=0)


def _missing_together(schema: Schema, words: Mapping[str, Array]) -> dict[str, str]:
    """The columns that are missing in the same rows as an earlier column, at all sites; and that column."""
    gaps = _gap_columns(schema)
    return _twins({gaps[name]: word for name, word in words.items() if name in gaps})


def _twins(words: Mapping[str, Array]) -> dict[str, str]:
    """The names whose word is also that of an earlier name, and the first of these."""
    first: dict[bytes, str] = {}
    found = {name: first.setdefault(word.tobytes(), name) for name, word in words.items()}
    return {name: twin for name, twin in found.items() if twin != name}


def _gap_columns(schema: Schema) -> dict[str, str]:
    """The columns of the model that say where a column of the table is missing, and that column."""
    gaps = {f"{column}[missing]": column for column in schema.indicators}
    for column, levels in schema.levels.items():
        if MISSING_LEVEL in levels:
            factors = {one.text for term in terms_of(schema).formula.terms for one in term if one.column == column}
            gaps |= {f"{name}[T.{MISSING_LEVEL}]": column for name in (column, *factors)}
    return gaps


def _require_varied(words: Mapping[str, Array], differ: Mapping[str, int]) -> None:
    """An error if a column other than the intercept is constant over all sites, or if two columns are equal."""
    for name in words:
        if differ.get(_called(name)) == 0:
            raise InputError(f"the column {name} is constant over all sites: leave it out.")
    for name, twin in _twins(words).items():
        raise InputError(f"the columns {twin} and {name} are equal at all sites: leave one out.")


class Watched(NamedTuple):
    """The columns of which no few rows may stand out, with the rows of all sites here."""

    names: tuple[str, ...]
    X: Array


def _watched(designs: Sequence[Design], terms: ModelTerms) -> Watched:
    """All columns of the model but the intercept's; the outcome; weights and offsets, if there are any."""
    outcomes = 1 if designs[0].y.ndim == 1 else designs[0].y.shape[1]
    every = [(_called(name), name != INTERCEPT) for name in designs[0].names] + [(OUTCOME, True)] * outcomes
    every.append(("the column of weights", terms.spec.weights is not None))
    every.append(("the offset", bool(terms.spec.offset or terms.spec.exposure)))
    X = np.concatenate([np.column_stack([d.X, d.y, d.weight, d.offset]) for d in designs])
    wanted = [kept for _, kept in every]
    return Watched(tuple(name for name, kept in every if kept), X[:, wanted] + 0.0)


def _called(column: str) -> str:
    return f"the column {column}"


def _differing(watched: Watched, compared: Compared, few: int, group: Group) -> dict[str, int]:
    """How many pooled rows differ from the rest, of every column where fewer than ``few`` do at each process.

    Each process has a usual value. If fewer than ``few`` pooled rows differ from one value, it is the usual one at all
    processes with at least 2 ``few`` rows. These add the two halves of its 64 bits, and the mean is the value that all
    compare their rows with. If their values are not the same, at least ``few`` rows differ from whatever it is.
    """
    asked = np.flatnonzero(~compared.varied)
    if not asked.size:
        return {}
    X = watched.X[:, asked]
    asks = float(len(X) >= 2 * few if compared.large else len(X) > 0)
    halves = asks * np.ascontiguousarray(_usual(X, few)).view(np.uint32)
    count, *totals = counted(group, np.array([[asks, *halves]]))
    usual = np.array([total // max(count, 1) % 2**32 for total in totals], np.uint32).view(np.float64)
    differ = counted(group, np.minimum(_others(X, usual), few)[None, :].astype(np.float64))
    return {watched.names[j]: rows for j, rows in zip(asked, differ, strict=True)}


def _first_equals(X: Array) -> list[int]:
    """Of every column, the number of the first column that is equal to it here."""
    seen: dict[bytes, int] = {}
    return [seen.setdefault((column + 0.0).tobytes(), j) for j, column in enumerate(X.T)]


def held_out(labels: npt.NDArray[Any], share: float, seed: int, node: int) -> Flags:
    """Which rows of a site are kept for testing: the same share of every class, or of all rows of numbers."""
    rng = np.random.default_rng([seed, node])
    out = np.zeros(len(labels), bool)
    strata = labels if labels.dtype.kind in "iub" else np.zeros(len(labels))
    for label in np.unique(strata):
        at = np.flatnonzero(strata == label)
        out[rng.permutation(at)[: round(share * at.size)]] = True
    return out
