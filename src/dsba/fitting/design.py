"""From a site's table to the columns of the model, as all sites agreed on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dsba.errors import InputError
from dsba.fitting.guards import Guards
from dsba.fitting.schema import (
    MERGED_LEVEL,
    MISSING_LEVEL,
    SITE,
    Level,
    Schema,
    Site,
    Wishes,
    agree,
    plain_value,
    share_unless,
    speak,
    usable_rows,
)
from dsba.network import Alone, Group

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]

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
    sites: tuple[str, ...]
    designs: tuple[Design, ...]
    told: tuple[str, ...]
    """The sentences of guards that do not end the fit."""
    rows: int
    """The number of rows of all sites that enter the model."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.designs[0].names


def design_tables(
    sites: Sequence[Site], wishes: Wishes, group: Group | None = None, guards: Guards | None = None
) -> Designs:
    """Agree with all sites, build the columns of the sites here, and check them together with the others'."""
    group, guards = group or Alone(), guards or Guards()
    schema = agree(sites, wishes, group, guards)
    designs = tuple(designed(site, schema) for site in sites)
    own = [[len(design.X), _first_equals(design.X)] for design in designs]
    parameters = len(designs[0].names)
    firsts = Annotated[list[int], Field(min_length=parameters, max_length=parameters)]
    answers = share_unless(group, _not_finite(sites, designs), own, list[tuple[int, firsts]])
    everyone = [site for process in answers for site in process]
    total = sum(rows for rows, _ in everyone)
    told = speak(group, [guards.too_many_parameters(parameters, total)])
    _require_varied(designs, [firsts for _, firsts in everyone], group)
    return Designs(schema, tuple(site.name for site in sites), designs, (*schema.told, *told), total)


def designed(site: Site, schema: Schema, *, outcome: bool = True) -> Design:
    """The design of one table; without ``outcome`` for predictions, where every row stays."""
    wishes = schema.wishes
    frame = usable_rows(site.frame, wishes) if outcome else site.frame
    ready = _ready(Site(site.name, frame), schema)
    matrix = _evaluated(wishes.formula.right, ready)
    gaps = [frame[column].isna().to_numpy(np.float64) for column in schema.indicators]
    names = (*matrix.columns, *(f"{column}[missing]" for column in schema.indicators))
    X = np.column_stack([matrix.to_numpy(np.float64), *gaps])
    y = outcome_of(Site(site.name, ready), schema) if outcome else None
    return Design(names, X, y, _numbers(frame, wishes.weights, 1.0), _offset(frame, wishes))


def _ready(site: Site, schema: Schema) -> pd.DataFrame:
    """The columns of the formula with agreed levels, and with gaps filled as agreed."""
    import pandas as pd

    wishes = schema.wishes
    ready = pd.DataFrame(index=range(len(site.frame)))
    for column in (*wishes.formula.response, *wishes.formula.columns):
        if column not in site.frame.columns:
            values = pd.Series([site.name] * len(site.frame))
        else:
            values = site.frame[column].reset_index(drop=True)
        if column in schema.levels:
            ready[column] = _factor(values, column, site.name, schema)
        elif column in wishes.formula.columns:
            ready[column] = values.to_numpy(np.float64, na_value=np.nan)
            if column in schema.means:
                ready[column] = ready[column].fillna(schema.means[column])
        else:
            ready[column] = values
    return ready


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
    """One side of a formula, which was parsed before, on columns without gaps."""
    try:
        import formulaic
    except ImportError:
        raise InputError("formulas need formulaic: install dsba[tables].") from None
    with np.errstate(all="ignore"):
        return formulaic.Formula(f"~ {side}").get_model_matrix(
            frame, context=FUNCTIONS, output="pandas", na_action="ignore"
        )


def outcome_of(site: Site, schema: Schema) -> npt.NDArray[Any]:
    """Labels of a classification as numbers 0, 1, ...; everything else as it is."""
    formula, frame = schema.wishes.formula, site.frame
    if formula.left is None:
        raise InputError("the formula has no outcome: write it before ~.")
    if schema.classes is not None:
        number = {level: n for n, level in enumerate(schema.classes)}
        codes = [number.get(plain_value(value), -1) for value in frame[formula.response[0]].tolist()]
        if unknown := codes.count(-1):
            raise InputError(f"{unknown} rows of {site.name} have an outcome that the model does not know.")
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
            if bad := int((~np.isfinite(column)).sum()):
                return f"{name} is not a finite number in {bad} rows of {site.name}."
    return None


def _require_varied(designs: Sequence[Design], firsts: Sequence[Sequence[int]], group: Group) -> None:
    """An error if a column other than the intercept is constant over all sites, or if two columns are equal.

    ``firsts`` are the ``_first_equals`` of all sites.
    """
    names = designs[0].names
    for j in _constant_columns(designs, group):
        if names[j] != INTERCEPT:
            raise InputError(f"the column {names[j]} is constant over all sites: leave it out.")
    for j, name in enumerate(names):
        twin = next((i for i in range(j) if all(first[i] == first[j] for first in firsts)), None)
        if twin is not None:
            raise InputError(f"the columns {names[twin]} and {name} are equal at all sites: leave one out.")


def _constant_columns(designs: Sequence[Design], group: Group) -> list[int]:
    """The columns with one value at all sites. Values are compared only where each site has a single one.

    The largest value of any other column would be a value of somebody's row.
    """
    varied = np.zeros(len(designs[0].names))
    filled = [design.X for design in designs if len(design.X)]
    for X in filled:
        varied = np.maximum(varied, (X[0] != X).any(axis=0))
    single = np.flatnonzero(group.largest(varied) == 0.0)
    if not single.size:
        return []
    ends = np.full((2, single.size), np.finfo(np.float64).min)
    for X in filled:
        ends = np.maximum(ends, [X[0, single], -X[0, single]])
    high, low = group.largest(ends.ravel()).reshape(ends.shape)
    return single[high == -low].tolist()


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
            return [Site("all", table.reset_index(drop=True))]
        if sites not in table.columns:
            raise InputError(f"the table has no column {sites!r} to name the sites.")
        if table[sites].isna().any():
            raise InputError(f"the column {sites!r} names the site of each row, and some are missing.")
        groups = table.groupby(table[sites].astype(str), sort=True)
        return [Site(str(name), frame.reset_index(drop=True)) for name, frame in groups]
    if isinstance(table, dict):
        return [Site(str(name), frame.reset_index(drop=True)) for name, frame in table.items()]
    if not isinstance(table, list | tuple) or not all(isinstance(frame, pd.DataFrame) for frame in table) or not table:
        raise InputError("wanted a pandas frame, or a list or dict of frames, one a site.")
    return [Site(f"{SITE}{n}", frame.reset_index(drop=True)) for n, frame in enumerate(table)]


def held_out(labels: npt.NDArray[Any], share: float, seed: int, node: int) -> npt.NDArray[np.bool_]:
    """Which rows of a site are kept for testing: the same share of every class, or of all rows of numbers."""
    rng = np.random.default_rng([seed, node])
    out = np.zeros(len(labels), bool)
    groups = np.unique(labels) if labels.dtype.kind in "iub" else [None]
    for label in groups:
        at = np.arange(len(labels)) if label is None else np.flatnonzero(labels == label)
        out[rng.permutation(at)[: round(share * at.size)]] = True
    return out
