"""What an analysis of tables is expected to move, told before it begins: rounds, and bytes into the busiest site.

Every model declares the sums that it makes (``TableModel.sums``). A sum is two questions, for its scale and for its
numbers. A question takes 2 D rounds, up the graph's tree of depth D and down again. How many bytes sums bring into the
busiest site depends on how they travel, and the network knows it (``bytes_of_sums``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dsba.fitting.spec import FitSpec
from dsba.graph.topology import Topology
from dsba.network import Alone, Network
from dsba.tables.columns import INTERCEPT, agreed_states, inner_functions, model_columns
from dsba.tables.evaluation import GROUPS
from dsba.tables.formula import is_derived
from dsba.tables.mixed import RANDOM_TELLS, random_intercept_sums
from dsba.tables.models.base import ModelSums
from dsba.tables.peaks import peak_sums
from dsba.tables.risk_sets import grid_numbers
from dsba.tables.terms import SITE, ModelTerms
from dsba.types import Level

SITE_ANSWERS = 11  # questions that every site answers for itself: options, names, complaints
SHARED_BYTES, LEVEL_BYTES = 1000, 16  # in the answers of one site, and in them of one level
STATE_SUMS = {"center": 2, "cap": 10, "scale": 2, "poly": 5}  # of a function of a column
QUANTILE_SUMS, QUANTILE_BINS = 8, 64  # those of splines: the rows, and 42 bits in parts of 6
NOISY_SUMS = 3  # before X'VX: one, and two where columns that nearly depend on others are replaced once
REPLACED = "1 replacement of dependent columns"
INVENTED_ROWS = 64


def _size(count: int) -> str:
    return f"{math.ceil(count / 1e5) / 10:.1f} MB" if count >= 1e6 else f"{math.ceil(count / 1e3)} kB"


class Way(NamedTuple):
    """How sums travel where there is no network yet: the graph, and the bytes that sums bring into the busiest site."""

    topology: Topology
    bytes_of_sums: Callable[[Sequence[int]], int]


def cost_of(sums: ModelSums, extra: Iterable[int], levels: int, way: Way | Network) -> str:
    """Rounds and bytes into the busiest site: those of sums, and of what sites tell before, with ``levels`` of factors.

    The iteration takes no more than so many points.
    """
    sizes, n = [*extra, *sums.before, *(sums.points * list(sums.point))], way.topology.n_nodes
    answers = n * (SHARED_BYTES + LEVEL_BYTES * levels)
    rounds = 2 * way.topology.graph.tree.depth * (SITE_ANSWERS + 2 * len(sizes))
    moved = _size((way.bytes_of_sums(sizes) + answers) * (n > 1))
    enough = f", if {sums.points - 1} {sums.unit} are enough" if sums.points > 1 else ""
    return f"Expected: at most {rounds * (n > 1)} rounds and {moved} into the busiest site{enough}."


def expected_cost(
    terms: ModelTerms, names: Sequence[str], levels: Mapping[str, Sequence[Level]], classes: Sequence[Level] | None,
    way: Way | Network,
) -> str:  # fmt: skip
    """Of a fit of columns with these names; ``levels`` are those of all factors."""
    spec, model = terms.spec, terms.model(classes)
    p = q = len(names)
    sums = ModelSums((), (1 + p + p * (p + 1) // 2,))
    if model is not None:
        q = len(model.names(names, classes))
        sums = model.sums(q + model.nuisance, spec)
    elif spec.random:
        sums = random_intercept_sums(p)
    count = sum(map(len, levels.values())) + len(classes or ())
    sums = sums._replace(unit=f"{sums.unit} and {REPLACED}")
    return cost_of(sums, [*design_sums(terms, p, count), *_inference_sums(spec, sums, q)], count, way)


def told_besides(terms: ModelTerms) -> list[str]:
    """What the sums of a fit tell beside those that all models make, as a sentence."""
    spec, model = terms.spec, terms.model()
    told = model.tells() if model is not None else RANDOM_TELLS if spec.random else None
    return [] if told is None else [f"As sums over all sites, of the model {spec.operator}: {told}."]


def design_sums(terms: ModelTerms, p: int, levels: int, fits: int = 1) -> list[int]:
    """The numbers in the sums before so many fits: rows, gaps, levels, means, and the checks of p columns."""
    c, beside = len(terms.columns), p + 3
    sizes = [2 + 8 * c, 2 * levels + 2, 3 * p + 2 * c + 4, 6 * (c + 1), p + 4, 2 * p + 2, 6 + levels, p * (p + 1) // 2]
    sizes += [beside * (beside + 1) // 2 + beside * fits] * NOISY_SUMS * fits
    if terms.spec.missing in ("mean", "indicator"):
        sizes.append(2 * c)
    stateful = {one.text: one.state for term in terms.formula.terms for one in term if one.state is not None}
    splines = any(state not in STATE_SUMS for state in stateful.values())
    longest = max((STATE_SUMS.get(state, QUANTILE_SUMS) for state in stateful.values()), default=0)
    sizes += [2 * len(stateful) + QUANTILE_BINS * p * splines] * longest  # all functions in the same sums
    if names := inner_functions(terms.formula, [])[0]:
        sizes += peak_sums(len(names))
    return sizes + (peak_sums(p) if terms.formula.sharp or any(map(is_derived, terms.formula.terms)) else [])


def _inference_sums(spec: FitSpec, sums: ModelSums, q: int) -> list[int]:
    """Deviances; for robust errors a matrix, and leverages; with an offset the null model."""
    sizes = [10 + 2 * grid_numbers(GROUPS)]
    if spec.cov != "classical":
        sizes += [1 + q + q * (q + 1) // 2, 3 * q + 3]
    if spec.offset or spec.exposure:
        sizes += [6] * sums.points
    return sizes


def column_names(terms: ModelTerms, columns: Mapping[str, str | Sequence[Level]], sites: Sequence[str]) -> list[str]:
    """The names of the columns of a model, from types and levels alone: an invented table is made into a design."""
    import pandas as pd

    made = {}
    for n, column in enumerate(terms.formula.columns):
        levels = sites if column == SITE and column not in columns else columns[column]
        if isinstance(levels, str):
            made[column] = np.linspace(1.0, 2.0 + n, INVENTED_ROWS)
        else:
            made[column] = pd.Categorical(np.resize(np.array(levels, object), INVENTED_ROWS), categories=list(levels))
    frame = pd.DataFrame(made, index=range(INVENTED_ROWS))
    states = agreed_states(terms.formula.terms, [frame], Alone(), 1, alone=True)
    model = terms.model()
    names = model_columns(terms.formula.terms, frame, states).names
    gaps = [name for name, levels in columns.items() if levels == "number" and terms.spec.missing == "indicator"]
    return [*(name for name in names if name != INTERCEPT or model is None or model.intercept), *gaps]
