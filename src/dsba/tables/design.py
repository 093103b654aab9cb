"""From a site's table to the columns of the model, as all sites agreed on them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.errors import InputError, noted
from dsba.network import Alone, Group
from dsba.tables.disclosure import Guards
from dsba.tables.formula import quoted, renamed
from dsba.tables.schema import (
    MERGED_LEVEL,
    MISSING_LEVEL,
    SITE,
    Held,
    Level,
    Schema,
    Site,
    Wishes,
    agree,
    end_together,
    held_at,
    plain_value,
    speak,
    usable_rows,
)
from dsba.types import Array

if TYPE_CHECKING:
    import pandas as pd

Flags = npt.NDArray[np.bool_]

WORD = 1 << 40  # random words are below; sums of thousands of them are exact in a float64
FUNCTIONS = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt}
INTERCEPT = "Intercept"


class Design(NamedTuple):
    """The rows of one site as the model sees them."""

    names: tuple[str, ...]
    X: Array
    y: npt.NDArray[Any] | None
    weight: Array
    offset: Array


@dataclass(frozen=True)
class Designs:
    """The designs of the sites here, and what all sites agreed on."""

    schema: Schema
    held: tuple[Held, ...]
    """What the sites here know of their tables."""
    designs: tuple[Design, ...]
    told: tuple[str, ...]
    """The sentences of guards that do not end the fit."""
    rows: int
    """The number of rows of all sites that enter the model."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.designs[0].names


def design_tables(
    sites: Sequence[Site],
    wishes: Wishes,
    group: Group | None = None,
    guards: Guards | None = None,
) -> Designs:
    """Agree with all sites, build the columns of the sites here, and check them together with the others'."""
    group, guards = group or Alone(), guards or Guards()
    schema = agree(sites, wishes, group, guards)
    designs = tuple(designed(site, schema) for site in sites)
    if set(designs[0].names) <= {INTERCEPT}:
        right = wishes.formula.right
        raise InputError(f"the right side {right!r} gives no column besides the intercept: wanted at least one.")
    end_together(group, _not_finite(sites, designs))
    compared = _compared(designs, group)
    if together := _missing_together(schema, designs[0].names, compared):
        gaps = _gap_columns(schema)
        compared = compared.of(np.array([gaps.get(name) not in together for name in designs[0].names]))
        schema = replace(schema, together=together)
        designs = tuple(designed(site, schema) for site in sites)
    told = speak(group, [guards.too_many_parameters(len(designs[0].names), compared.rows)])
    _require_varied(designs, compared, group)
    held = tuple(held_at(site, wishes) for site in sites)
    return Designs(schema, held, designs, (*schema.told, *told), compared.rows)


def designed(site: Site, schema: Schema, *, outcome: bool = True) -> Design:
    """The design of one table; without ``outcome`` for predictions, where every row stays."""
    wishes = schema.wishes
    frame = usable_rows(site.frame, wishes) if outcome else site.frame
    ready = _ready(Site(site.name, frame), schema)
    matrix = _evaluated(wishes.formula.right, ready)
    shared = [name for name, column in _gap_columns(schema).items() if column in schema.together]
    matrix = matrix.drop(columns=shared, errors="ignore")
    gaps = [frame[column].isna().to_numpy(np.float64) for column in schema.indicators]
    names = (*matrix.columns, *(f"{column}[missing]" for column in schema.indicators))
    X = np.column_stack([matrix.to_numpy(np.float64), *gaps])
    y = outcome_of(Site(site.name, ready), schema) if outcome else None
    return Design(names, X, y, _numbers(frame, wishes.weights, 1.0), _offset(frame, wishes))


def _ready(site: Site, schema: Schema) -> pd.DataFrame:
    """The columns of the formula with agreed levels, and with gaps filled as agreed."""
    import pandas as pd

    formula = schema.wishes.formula
    ready = {column: _filled(column, site, schema) for column in (*formula.response, *formula.columns)}
    return pd.DataFrame(ready, index=range(len(site.frame)))


def _filled(column: str, site: Site, schema: Schema) -> Any:
    import pandas as pd

    if column not in site.frame.columns:
        values = pd.Series([site.name] * len(site.frame))
    else:
        values = site.frame[column].reset_index(drop=True)
    if column in schema.levels:
        return _factor(values, column, site.name, schema)
    if column not in schema.wishes.formula.columns:
        return values
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    return np.where(np.isnan(numbers), schema.means.get(column, np.nan), numbers)


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


def _evaluated(side: str, frame: pd.DataFrame) -> pd.DataFrame:
    """One side of a formula, which was parsed before, on columns without gaps.

    formulaic reads names as Python and as its own signs, so that it gets other names for the columns.
    """
    try:
        import formulaic
    except ImportError:
        raise InputError("formulas need formulaic: install dsba[tables].") from None
    stem = _stem(frame)
    names = {column: f"{stem}{n}_" for n, column in enumerate(frame.columns)}
    with np.errstate(all="ignore"):
        matrix = formulaic.Formula(f"~ {renamed(side, names)}").get_model_matrix(
            frame.rename(columns=names), context=FUNCTIONS, output="pandas", na_action="ignore"
        )
    return matrix.set_axis([_own_name(name, stem, frame.columns) for name in matrix.columns], axis=1)


def _stem(frame: pd.DataFrame) -> str:
    """How the other names begin: as no level of a factor has it in its text."""
    factors = [frame[column] for column in frame.columns if frame[column].dtype == "category"]
    levels = [str(level) for factor in factors for level in factor.cat.categories]
    stem = "column_"
    while any(stem in level for level in levels):
        stem += "_"
    return stem


def _own_name(name: str, stem: str, columns: Sequence[str]) -> str:
    """The name of a column of the model, with the table's own names; those within a call are quoted."""

    def own(found: re.Match[str]) -> str:
        column = columns[int(found[2])]
        return quoted(column) if found[1] is None else found[1] + column

    return re.sub(f"(^|:)?{stem}([0-9]+)_", own, name)


def outcome_of(site: Site, schema: Schema) -> npt.NDArray[Any]:
    """Labels of a classification as numbers 0, 1, ...; everything else as it is."""
    formula, frame = schema.wishes.formula, site.frame
    if schema.classes is not None:
        number = {level: n for n, level in enumerate(schema.classes)}
        codes = [number.get(plain_value(value), -1) for value in frame[formula.response[0]].tolist()]
        if unknown := codes.count(-1):
            error = InputError(f"some rows of {site.name} have an outcome that the model does not know.")
            raise noted(error, [f"{unknown} rows of {site.name}"])
        return np.array(codes, np.int64)
    values = frame[list(formula.response)].astype(np.float64)
    return _evaluated(f"0 + {formula.left}", values).to_numpy(np.float64)[:, 0]


def _numbers(frame: pd.DataFrame, column: str | None, otherwise: float) -> Array:
    if column is None:
        return np.full(len(frame), otherwise)
    return frame[column].to_numpy(np.float64)


def _offset(frame: pd.DataFrame, wishes: Wishes) -> Array:
    """The offset column plus the logarithm of the exposure."""
    return _numbers(frame, wishes.offset, 0.0) + np.log(_numbers(frame, wishes.exposure, 1.0))


# Checks of the columns of all sites --------------------------------------------------------------


def _not_finite(sites: Sequence[Site], designs: Sequence[Design]) -> str | None:
    """A sentence about a column that is not finite."""
    for site, design in zip(sites, designs, strict=True):
        columns = [*design.X.T] if design.y is None else [*design.X.T, design.y]
        for name, column in zip((*design.names, "the outcome"), columns, strict=False):
            if not np.isfinite(column).all():
                return f"{name} is not a finite number in some rows of {site.name}."
    return None


class Compared(NamedTuple):
    """What one sum over all sites tells of the columns."""

    rows: int
    varied: Flags  # whether a column has different values at any site
    words: Array  # equal for columns that are equal at every site

    def of(self, kept: Flags) -> Compared:
        """The same of some columns."""
        return Compared(self.rows, self.varied[kept], self.words[kept])


def _compared(designs: Sequence[Design], group: Group) -> Compared:
    """Every site draws random words, equal ones for equal columns, and the sites' words are added.

    The sums tell whether columns are equal at every site, and nothing of a single site. That they are equal by chance
    has a probability of 2^-80 a pair of columns.
    """
    p = len(designs[0].names)
    rng = np.random.default_rng()
    rows = []
    for design in designs:
        words = rng.integers(0, WORD, (p, 2))[_first_equals(design.X)]
        rows.append([len(design.X), *_flagged(_varied(design.X), rng), *words.ravel()])
    total = group.sum(np.array(rows, dtype=np.float64))
    return Compared(int(total[0]), total[1 : 1 + p] > 0.0, total[1 + p :].reshape(p, 2))


def _flagged(flags: Flags, rng: np.random.Generator) -> Array:
    """A random word for every flag that is set, and 0 for the others: a sum tells only whether any site has set one."""
    return np.where(flags, rng.integers(1, WORD, flags.shape), 0).astype(np.float64)


def _varied(X: Array) -> Flags:
    """Which columns have more than one value here."""
    return np.any(X[:1] != X, axis=0) if len(X) else np.zeros(X.shape[1], bool)


def _missing_together(schema: Schema, names: Sequence[str], compared: Compared) -> dict[str, str]:
    """The columns that are missing in the same rows as an earlier column, at all sites; and that column."""
    gaps = _gap_columns(schema)
    first: dict[bytes, str] = {}
    found = [(gaps[name], word.tobytes()) for name, word in zip(names, compared.words, strict=True) if name in gaps]
    twins = {column: first.setdefault(word, column) for column, word in found}
    return {column: twin for column, twin in twins.items() if twin != column}


def _gap_columns(schema: Schema) -> dict[str, str]:
    """The columns of the model that say where a column of the table is missing, and that column."""
    gaps = {f"{column}[missing]": column for column in schema.indicators}
    for column, levels in schema.levels.items():
        if MISSING_LEVEL in levels:
            gaps |= {f"{name}[T.{MISSING_LEVEL}]": column for name in (column, f"C({quoted(column)})")}
    return gaps


def _require_varied(designs: Sequence[Design], compared: Compared, group: Group) -> None:
    """An error if a column other than the intercept is constant over all sites, or if two columns are equal."""
    names = designs[0].names
    for j in _constant_columns(designs, compared.varied, group):
        raise InputError(f"the column {names[j]} is constant over all sites: leave it out.")
    first: dict[bytes, str] = {}
    for name, word in zip(names, compared.words, strict=True):
        if (twin := first.setdefault(word.tobytes(), name)) != name:
            raise InputError(f"the columns {twin} and {name} are equal at all sites: leave one out.")


def _constant_columns(designs: Sequence[Design], varied: Flags, group: Group) -> list[int]:
    """The columns with one value at all sites, without the intercept's.

    Only columns that have a single value at every site are asked for. The two halves of its 64 bits are added over the
    sites with rows. If all sites have the same value, each half is the total divided by their number.
    """
    names, rng = designs[0].names, np.random.default_rng()
    single = [j for j, name in enumerate(names) if not varied[j] and name != INTERCEPT]
    if not single:
        return []
    filled = np.array([[float(len(design.X) > 0)] for design in designs])
    halves = np.zeros((len(designs), 2 * len(single)))
    for n, design in enumerate(designs):
        if len(design.X):
            halves[n] = (design.X[0, single] + 0.0).view(np.uint32)  # -0.0 becomes 0.0
    count, *totals = group.sum(np.hstack([filled, halves]))
    other = (filled * (count * halves != totals)).reshape(len(designs), -1, 2).any(axis=2)
    return [j for j, differs in zip(single, group.sum(_flagged(other, rng)), strict=True) if not differs]


def _first_equals(X: Array) -> list[int]:
    """Of every column, the number of the first column that is equal to it here."""
    seen: dict[bytes, int] = {}
    return [seen.setdefault((column + 0.0).tobytes(), j) for j, column in enumerate(X.T)]


# Tables of one process ---------------------------------------------------------------------------


def as_sites(table: Any, sites: str | None = None) -> list[Site]:
    """Sites from a frame and the column that names them, or from a list or mapping of frames, one a site."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        if sites is None:
            return [_site("all", table)]
        if sites not in table.columns:
            raise InputError(f"the table has no column {sites!r} to name the sites.")
        if table[sites].isna().any():
            raise InputError(f"the column {sites!r} names the site of each row, and some are missing.")
        groups = table.groupby(table[sites].astype(str), sort=True)
        return [_site(str(name), frame) for name, frame in groups]
    frames = table if isinstance(table, dict) else dict(enumerate(table)) if isinstance(table, list | tuple) else {}
    if not frames or not all(isinstance(frame, pd.DataFrame) for frame in frames.values()):
        raise InputError("wanted a pandas frame, or a list or dict of frames, one a site.")
    return [_site(str(name) if table is frames else f"{SITE}{name}", frame) for name, frame in frames.items()]


def _site(name: str, frame: pd.DataFrame) -> Site:
    """A site's rows, with names of columns that are text and differ."""
    if repeated := [str(column) for column in frame.columns[frame.columns.map(str).duplicated()]]:
        raise InputError(f"the table of {name} has several columns {repeated[0]!r}.")
    return Site(name, frame.reset_index(drop=True).rename(columns=str))


def held_out(labels: npt.NDArray[Any], share: float, seed: int, node: int) -> npt.NDArray[np.bool_]:
    """Which rows of a site are kept for testing: the same share of every class, or of all rows of numbers."""
    rng = np.random.default_rng([seed, node])
    out = np.zeros(len(labels), bool)
    groups = np.unique(labels) if labels.dtype.kind in "iub" else [None]
    for label in groups:
        at = np.arange(len(labels)) if label is None else np.flatnonzero(labels == label)
        out[rng.permutation(at)[: round(share * at.size)]] = True
    return out
