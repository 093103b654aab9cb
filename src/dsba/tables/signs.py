"""Signs of trouble in columns of numbers. A site finds them in its own rows; they name a column and a site, no value.

A site knows the sums over all sites and its own, hence the mean and the standard deviation of all others. They are
taken of logarithms, or of asinh(x) where some number is not positive: units are factors, and no square overflows. Of
columns that have two values only, such as 0 and 1, the sites know the mean lower and the mean higher one of all others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dsba.fitting.disclosure import Guards
from dsba.fitting.model import Schema
from dsba.network import Alone, Group, summed
from dsba.tables.schema import folded, kind_of, numbers_with_marks, plain, plain_value
from dsba.tables.terms import SiteTable
from dsba.types import Array, Level

if TYPE_CHECKING:
    import pandas as pd

FEWEST_ROWS = 10  # of a site, for its middle half to say something
UNLIKELY = 1e-3  # the chance that all rows of a level are of one site, if sites do not differ
VARIED = 5  # different values beside an extreme one, without which it is no spike
FEWEST_BESIDE_NINES = 2  # where it is 9, 99, -999, ..., as in 0, 1 and 9
MOST_CODES = 3  # codes for missing of one column, such as -997, -998 and -999
UNIT_REACH = 1.25  # standard deviations: if one other site has another unit, the mean of all others is at most 1 away
CODES = 3  # numbers about the two values of a column
LARGEST_CODE = 1e6
SMALLEST_UNIT = float(np.log(1.2))  # of logarithms: numbers that differ by less have no other unit


def signs_of(
    sites: Sequence[SiteTable], columns: Mapping[str, Sequence[Array]], levels: Mapping[str, Sequence[Level]],
    group: Group, few: int,
) -> list[str]:  # fmt: skip
    """What looks wrong at the sites here, by one sum over all sites.

    ``columns`` has the numbers of each site here, ``levels`` those of all sites; ``few`` is a minimum count.
    """
    known = {column: [x[np.isfinite(x)] for x in values] for column, values in columns.items()}
    spikes = {column: [_spike(x, few) for x in values] for column, values in known.items()}
    rest = {c: [_varied(x[~np.isin(x, s)], few) for x, s in zip(values, spikes[c], strict=True)]
            for c, values in known.items()}  # fmt: skip
    held = [{column: _rows_of_levels(site.frame[column]) for column in levels} for site in sites]
    codes = {column: [_codes(x, few) for x in values] for column, values in rest.items()}
    own = [[n for c, x in rest.items() for n in (*codes[c][k], *_sums(x[k]))] for k in range(len(sites))]
    names = [(column, str(level)) for column, several in levels.items() for level in several]
    here = [[float(level in one[column]) for column, level in names] for one in held]
    sizes = [[float(len(site.frame))] for site in sites]
    *total, rows = summed(group, np.hstack([np.array(own), np.array(here), np.array(sizes)]))
    alone = {name for name, count in zip(names, total[len(own[0]) :], strict=True) if count == 1.0}
    signs = []
    for k, site in enumerate(sites):
        others = np.split(np.array(total[: len(own[k])]) - own[k], max(len(rest), 1))
        for column, sums in zip(rest, others, strict=False):
            if len(spikes[column][k]):
                odd = f"an extreme value of {column!r} is repeated at {site.name}, far from all others"
                signs.append(f"{odd}: a code for missing?")
            if _another_coding(codes[column][k], sums[:CODES].tolist()):
                odd = f"the two values of {column!r} at {site.name} are not those of most other sites"
                signs.append(f"{odd}: another coding?")
            elif _another_unit(rest[column][k], sums[CODES:], few):
                odd = f"the middle half of {column!r} at {site.name} lies outside that of all other sites"
                signs.append(f"{odd}: another unit?")
        for column in levels:
            own_levels = {level: n for level, n in held[k][column].items() if (column, level) in alone}
            shared = {*map(str, levels[column])} - {*own_levels}
            signs += strange_levels(column, site.name, own_levels, len(site.frame) / rows, shared)
    return signs


def _rows_of_levels(values: pd.Series) -> dict[Level, float]:
    return {str(plain_value(level)): float(n) for level, n in values.value_counts().items() if n}


def strange_levels(
    column: str, site: str, own: Mapping[Level, float], share: float, others: Collection[Level]
) -> list[str]:  # fmt: skip
    """What is said of levels that only this site has; ``own`` has their rows, ``others`` are levels of other sites.

    A level counts if all its rows would hardly be of one site by chance, where the site has this share of all rows.
    """
    strange = [str(level) for level, n in own.items() if share**n <= UNLIKELY]
    alike = {folded(level) for level in strange} & {folded(str(level)) for level in others}
    many, which = ("1 level", "it differs") if len(strange) == 1 else (f"{len(strange)} levels", "some differ")
    spelling = f"; {which} from levels of other sites by case or spaces only" if alike else ""
    return [f"the column {column!r} has {many} at {site} that no other site has{spelling}."] if strange else []


def codes_for_missing(rows: SiteTable, schema: Schema) -> list[str]:
    """What looks wrong in rows to predict: repeated extreme values in columns of numbers."""
    numbers = [c for c in rows.frame if schema.kinds.get(c) == "number" and kind_of(rows.frame[c]) == "number"]
    values = {column: [rows.frame[column].to_numpy(np.float64, na_value=np.nan)] for column in numbers}
    return signs_of([rows], values, {}, Alone(), Guards().rows_per_level)


def marked_numbers(sites: Sequence[SiteTable], columns: Sequence[str]) -> list[str]:
    """Columns of text at the sites here that would be numbers but for a few cells; nothing is summed."""
    return [
        f"the column {column!r} of {site.name} is text, and all but a few of its values are numbers: are the others "
        "marks of missing values (--na-values)?"
        for site in sites
        for column in columns
        if kind_of(site.frame[column]) == "text" and numbers_with_marks(plain(site.frame[column]))
    ]


def _varied(x: Array, few: int) -> Array:
    """No row of a column that is the same in all but few: their sum would be these rows, in a model or not."""
    return x if len(x) and np.count_nonzero(x != np.median(x)) >= few else x[:0]


def _codes(x: Array, few: int) -> list[float]:
    """One, and the two values of a column that has no others, each in enough rows; or zeros."""
    low, high = float(x.min(initial=np.inf)), float(x.max(initial=-np.inf))
    rows = [np.count_nonzero(x == value) for value in (low, high)]
    coded = low < high and sum(rows) == len(x) and min(rows) >= max(few, 2) and max(-low, high) <= LARGEST_CODE
    return [1.0, low, high] if coded else [0.0] * CODES


def _another_coding(own: Sequence[float], others: Sequence[float]) -> bool:
    """Whether the two values of a site are further from the mean ones of others than half of their distance."""
    (coded, low, high), (sites, lows, highs) = own, others
    off = max(abs(low * sites - lows), abs(high * sites - highs))
    return bool(coded and sites) and off > 0.5 * min((high - low) * sites, highs - lows)


def _sums(x: Array) -> list[float]:
    """Rows, whether some are not positive, and sums and squares of asinh and, if all are, of logarithms."""
    odd = not (x > 0.0).all()  # the logarithms of a few would be theirs
    curved, logs = np.arcsinh(x), np.log(x[:0] if odd else x)
    return [len(x), float(odd), curved.sum(), (curved**2).sum(), logs.sum(), (logs**2).sum()]


def _another_unit(own: Array, others: Array, few: int) -> bool:
    rows, odd, *sums = others.tolist()
    if min(rows, len(own)) < max(few, FEWEST_ROWS) or len(np.unique(own)) < CODES:
        return False
    positive = not odd and bool((own > 0.0).all())
    total, squares = sums[2:] if positive else sums[:2]
    mean = total / rows
    reach = max(UNIT_REACH * np.sqrt(max(squares / rows - mean**2, 0.0)), SMALLEST_UNIT)
    low, high = np.quantile(np.log(own) if positive else np.arcsinh(own), [0.25, 0.75])
    return bool(high < mean - reach or low > mean + reach)


def _spike(x: Array, few: int) -> Array:
    """The smallest or largest values, if one is repeated and they are further from the others than these are apart."""
    for values in (np.unique(x), np.unique(x)[::-1]):
        for count in range(1, min(MOST_CODES, len(values) - FEWEST_BESIDE_NINES) + 1):
            codes, rest = values[:count], values[count:]
            nines = all({*f"{abs(code):.12g}"} == {"9"} for code in codes)
            repeated = max(np.count_nonzero(x == code) for code in codes) >= max(few, 2)
            enough = len(rest) >= (FEWEST_BESIDE_NINES if nines else VARIED)
            if repeated and enough and np.abs(rest - codes[-1]).min() > np.ptp(rest):
                return codes
    return x[:0]
