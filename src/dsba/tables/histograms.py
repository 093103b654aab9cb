"""Histograms over all sites. The bins follow from the pooled quartiles.

None has 1 to k - 1 rows, in all or without the rows of one site.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dsba.network import Group, counted
from dsba.tables.exports import figures
from dsba.tables.quantiles import large_groups
from dsba.types import Array

BINS_OF_QUARTILES = 4  # at most as many between the first and the third quartile
BINS_REACH = 1.5  # times the distance of these quartiles: what lies further out has a bin without an end
FINEST = 1e-300  # between the quartiles: the ends of bins are numbers with all their digits
PICTURE = (160.0, 40.0)  # width and height


class HistogramBin(NamedTuple):
    """The rows with low <= x < high; an end is None where the bin has none."""

    low: float | None
    high: float | None
    rows: int


def pooled_histogram(
    values: Sequence[Array], quartiles: Sequence[float], group: Group, few: int
) -> tuple[HistogramBin, ...] | None:
    """The histogram of a column that has a part at each site here. Bins of too few rows join their neighbours.

    None where the quartiles are equal.
    """
    edges = bin_edges(quartiles[0], quartiles[-1])
    if edges is None:
        return None
    bounds = np.array([-np.inf, *edges, np.inf])
    own = np.array([np.diff(np.searchsorted(np.sort(x), bounds)) for x in values])
    counts = counted(group, own.astype(np.float64))
    ends = [None, *edges, None]
    groups = _safe_groups(large_groups(counts, few), np.array(counts), own, group, few)
    return tuple(HistogramBin(ends[first], ends[last + 1], sum(counts[first : last + 1])) for first, last in groups)


def _safe_groups(
    groups: list[tuple[int, int]], counts: Array, own: Array, group: Group, few: int
) -> list[tuple[int, int]]:
    """Groups joined until none has 1 to few - 1 rows without those of a site. Each site says which of them have."""
    while len(groups) > 1:
        rest = np.array([(counts - own)[:, first : last + 1].sum(axis=1) for first, last in groups]).T
        thin = counted(group, ((rest > 0) & (rest < few)).astype(np.float64))
        if not any(thin):
            break
        at = min(next(k for k, sites in enumerate(thin) if sites), len(groups) - 2)
        groups = [*groups[:at], (groups[at][0], groups[at + 1][1]), *groups[at + 2 :]]
    return groups


def bin_edges(low: float, high: float) -> list[float] | None:
    """Multiples of a round number, from below the first quartile to above the third."""
    between = high - low
    if not FINEST < between < 1.0 / FINEST:
        return None
    width = 10.0 ** math.floor(math.log10(between / BINS_OF_QUARTILES))
    width *= next(factor for factor in (1, 2, 5, 10) if factor * width * BINS_OF_QUARTILES >= between * (1 - 1e-12))
    first, last = math.floor((low - BINS_REACH * between) / width), math.ceil((high + BINS_REACH * between) / width)
    edges = [width * k for k in range(first, last + 1)]
    return edges if all(b > a for a, b in pairwise(edges)) else None


def bars(name: str, bins: Sequence[HistogramBin]) -> str:
    """A small picture. The area of a bar is its share of the rows; a bin without an end is as wide as its neighbour."""
    inner = [edge for one in bins for edge in (one.low, one.high) if edge is not None]
    width = (max(inner) - min(inner)) / max(len(bins), 1) or 1.0
    lows = [min(inner) - width if one.low is None else one.low for one in bins]
    highs = [max(inner) + width if one.high is None else one.high for one in bins]
    across = PICTURE[0] / (max(highs) - min(lows))
    up = [one.rows / (b - a) for one, a, b in zip(bins, lows, highs, strict=True)]
    shapes = "".join(
        f'<rect x="{(a - lows[0]) * across:.1f}" y="{PICTURE[1] * (1 - h / max(up)):.1f}" '
        f'width="{(b - a) * across:.1f}" height="{PICTURE[1] * h / max(up):.1f}"/>'
        for a, b, h in zip(lows, highs, up, strict=True)
    )
    label, size = html.escape(f"Histogram of {name}"), "{:g} {:g}".format(*PICTURE)
    below, above = "below " * (bins[0].low is None), " and above" * (bins[-1].high is None)
    ends = f"{below}{figures(min(inner))} to {figures(max(inner))}{above}"
    about = f'viewBox="0 0 {size}" width="160" height="40" role="img" aria-label="{label}" fill="#0072b2"'
    picture = f"<svg {about}>{shapes}</svg>"
    return f"<figure>{picture}<figcaption>{html.escape(name)}: {ends}</figcaption></figure>"
