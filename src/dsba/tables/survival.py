"""Kaplan-Meier curves and the log-rank test over sites: counts at times, and nothing else, leave a site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import gammaincc, ndtri

from dsba.errors import InputError, require_known
from dsba.fitting.spec import FitSpec
from dsba.network import Group, Network, Simulator, counted, summed
from dsba.solvers.exact import eliminated
from dsba.tables import plots
from dsba.tables import schema as agreed
from dsba.tables.design import filled_in, odd_outcome, outcome_of
from dsba.tables.expected_cost import cost_of
from dsba.tables.exports import plain_columns
from dsba.tables.formula import parse, quoted
from dsba.tables.inputs import stated_sites
from dsba.tables.models.base import ModelSums
from dsba.tables.risk_sets import GRID_INTERVALS, candidate_ends, grid_numbers, guarded_grid, on_grid
from dsba.tables.terms import SITE, ModelTerms, SiteTable
from dsba.types import Array, Flags, Integers, Level, Notify

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"  # the name of the one curve of a formula without a group
SCALES = ("log", "log-log")
LEVEL = 1e-9  # a share this near to a half is a half


class LogRank(NamedTuple):
    """The test that all groups have one curve.

    Parameters
    ----------
    chi2 : float
        The statistic.
    df : int
        The number of groups minus one.
    p : float
        The p-value.
    observed : tuple[float, ...]
        The events of each group.
    expected : tuple[float, ...]
        The events that each group would have if all had one curve.

    Examples
    --------
    >>> import dsba, pandas as pd
    >>> table = pd.DataFrame({"time": range(1, 13), "died": [1, 1, 0] * 4, "arm": ["new", "old"] * 6})
    >>> dsba.survival_curve(table, "Surv(time, died) ~ arm").test.df
    1
    """

    chi2: float
    df: int
    p: float
    observed: tuple[float, ...]
    expected: tuple[float, ...]


class _Lifetimes(NamedTuple):
    """The rows of one site: times, events and the numbers of their groups."""

    time: Array
    died: Flags
    group: Integers


@dataclass(frozen=True)
class SurvivalCurves:
    """A table for each group, with the names of R's survfit, and the test that all curves are the same.

    Parameters
    ----------
    curves : dict[Level, pandas.DataFrame]
        A curve by group: ``time``, ``n_risk``, ``n_event``, ``n_censor``, ``survival``, ``std_err``, ``lower`` and
        ``upper``. Without groups its name is "all".
    test : LogRank or None
        The log-rank test, if there are groups.
    rounded : bool
        Whether times are rounded up to a grid.
    column : str or None
        What the groups are values of.

    Examples
    --------
    >>> import dsba, pandas as pd
    >>> table = pd.DataFrame({"time": range(1, 13), "died": [1, 1, 0] * 4, "arm": ["new", "old"] * 6})
    >>> found = dsba.survival_curve(table, "Surv(time, died) ~ arm")
    >>> list(found.curves), round(found.test.p, 2)
    (['new', 'old'], 0.79)
    """

    curves: dict[Level, pd.DataFrame]
    test: LogRank | None
    rounded: bool
    column: str | None = None

    def __str__(self) -> str:
        lines, medians = [], self.median()
        for group, curve in self.curves.items():
            name = "All rows" if self.column is None else f"{self.column} = {group}"
            rows, events = int(curve["n_risk"].iloc[0]), int(curve["n_event"].sum())
            middle, low, high = ("not reached" if np.isnan(number) else f"{number:g}" for number in medians.loc[group])
            lines.append(f"{name}: {rows:,} rows, {events:,} events, median {middle} (95 % interval {low} to {high})")
        if self.test is not None:
            lines.append(f"Log-rank test: chi2 = {self.test.chi2:.4g}, df = {self.test.df}, p = {self.test.p:.3g}")
        if self.rounded:
            lines.append(f"Times are rounded up to a grid of {max(map(len, self.curves.values()))} ends.")
        return "\n".join(lines)

    def plain(self) -> dict[str, Any]:
        """Return the curves, the medians and the test in JSON's types.

        Returns
        -------
        dict[str, Any]
            What ``dsba curve --json`` prints. A number that is not known is None.

        Examples
        --------
        >>> sorted(found.plain())
        ['column', 'curves', 'medians', 'rounded', 'test']
        """
        curves = {str(group): plain_columns(curve) for group, curve in self.curves.items()}
        medians = {str(group): plain_columns(row.to_frame().T) for group, row in self.median().iterrows()}
        test = None if self.test is None else self.test._asdict()
        return {"column": self.column, "rounded": self.rounded, "curves": curves, "medians": medians, "test": test}

    def to_frame(self) -> pd.DataFrame:
        """Return all curves below each other.

        Returns
        -------
        pandas.DataFrame
            The rows of the curves, with a column ``group``.

        Examples
        --------
        >>> found.to_frame()["group"].unique().tolist()
        ['new', 'old']
        """
        import pandas as pd

        return pd.concat(self.curves, names=["group"]).reset_index("group").reset_index(drop=True)

    def median(self) -> pd.DataFrame:
        """Return the times at which half have had the event, with 95 % intervals.

        Returns
        -------
        pandas.DataFrame
            ``median``, ``lower`` and ``upper`` by group; NaN if a curve stays above one half.

        Examples
        --------
        >>> found.median()["median"].tolist()
        [7.0, 8.0]
        """
        import pandas as pd

        rows = {
            group: [_crossing(curve["time"], curve[name]) for name in ("survival", "lower", "upper")]
            for group, curve in self.curves.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["median", "lower", "upper"])

    def at_risk(self, times: Sequence[float]) -> pd.DataFrame:
        """Return the numbers at risk just before given times.

        Parameters
        ----------
        times : Sequence[float]
            The times.

        Returns
        -------
        pandas.DataFrame
            A row for each group, and a column for each time.

        Examples
        --------
        >>> found.at_risk([1, 6]).loc["old"].tolist()
        [6, 4]
        """
        import pandas as pd

        rows = {}
        for group, curve in self.curves.items():
            numbers = np.append(curve["n_risk"], 0.0)  # nobody is at risk after the last time
            rows[group] = numbers[np.searchsorted(curve["time"], times)].astype(int)
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(times))

    def plot(self, file: str | Path, times: Sequence[float] | None = None) -> None:
        """Write the curves with 95 % bands.

        Parameters
        ----------
        file : str or Path
            The file. Its suffix is ``.pdf``, ``.svg`` or ``.png``.
        times : Sequence[float] or None
            The times at which the numbers at risk are shown below the curves.

        Raises
        ------
        InputError
            If the suffix is another one.

        Examples
        --------
        >>> found.plot("curves.svg")
        """
        plots.survival(self, file, times)


def survival_curve(
    table: Any, formula: str, *, sites: str | None = None, strata: str | None = None,
    grid: Sequence[float] | None = None, conf_type: str = "log", missing: str = "error",
) -> SurvivalCurves:  # fmt: skip
    """Kaplan-Meier curves, by groups if the formula names a column, and the log-rank test between them.

    Parameters
    ----------
    table : object
        A frame, a file or the URL of a database, or a list or dict of them, as in ``dsba.fit``.
    formula : str
        Such as ``"Surv(time, died) ~ treated"``, or ``"Surv(time, died) ~ 1"`` for one curve.
    sites : str or None
        The column of a single table that names the site of each row.
    strata : str or None
        "site": the test compares groups within sites. None: over all rows.
    grid : Sequence[float] or None
        Times to which others are rounded up, and one more where times are beyond. In one process times are exact
        without it.
    conf_type : str
        The scale of 95 % intervals: "log" or "log-log".
    missing : str
        "error" or "drop".

    Returns
    -------
    SurvivalCurves
        ``.curves`` by group, ``.test``, ``.median()``, ``.at_risk(times)``, ``.to_frame()``, ``.plot(file)``.

    Raises
    ------
    InputError
        If the formula is not one of survival, or the table does not fit it.

    Examples
    --------
    >>> import pandas as pd, dsba
    >>> table = pd.DataFrame({"time": [1, 2, 2, 3, 4, 5], "died": [1, 0, 1, 1, 0, 1]})
    >>> dsba.survival_curve(table, "Surv(time, died) ~ 1").curves["all"]["survival"].round(3).tolist()
    [0.833, 0.667, 0.444, 0.444, 0.0]
    """
    ends = None if grid is None else tuple(grid)
    spec = FitSpec(formula=formula, operator="cox", strata=strata, grid=ends, missing=missing)
    held, spec = stated_sites(table, sites, spec)
    return curves_of(held, spec, Simulator(spec.topology(len(held))), conf_type)


def curves_of(
    sites: Sequence[SiteTable], spec: FitSpec, group: Network, conf_type: str = "log",
    notify: Notify = lambda sentence: None,
) -> SurvivalCurves:  # fmt: skip
    """The same for the sites of this process, together with those of the others.

    ``notify`` gets a sentence about what the curves are expected to cost.
    """
    require_known("conf_type", conf_type, SCALES)
    terms, column = _terms(spec)
    schema = agreed.agree(sites, terms, group, spec.guards)
    levels = (ALL,) if column is None else schema.levels[column]
    notify(_expected(terms, len(levels), spec, group))
    used = [SiteTable(site.name, agreed.usable_rows(site.frame, terms)) for site in sites]
    outcomes, own = [outcome_of(site, schema) for site in used], []
    agreed.end_together(group, odd_outcome(used, outcomes, schema.labels))
    for site, y in zip(used, outcomes, strict=True):
        factor = None if column is None else filled_in(site, schema)[column].cat.codes.to_numpy(np.int64)
        own.append(_Lifetimes(y[:, 0], y[:, 1] > 0, np.zeros(len(y), np.int64) if factor is None else factor))
    ends, exact = _ends(own, len(levels), spec, max(1, schema.limits.rows_per_level), group)
    rounded = [one._replace(time=on_grid(one.time, ends)) for one in own]
    own_counts = np.array([_counts(one, ends, len(levels)).ravel() for one in rounded])
    events, censored = np.array(counted(group, own_counts)).reshape(2, len(levels), -1)
    curves = {level: _curve(ends, events[g], censored[g], conf_type) for g, level in enumerate(levels)}
    test = None
    if len(levels) > 1:
        sums = _test_sums(events, censored)
        if spec.strata == "site":  # each site's own risk sets, on exact times: only sums over all times leave it
            counts = [_counts(one, np.unique(one.time), len(levels)) for one in own]
            sums = summed(group, np.array([_test_sums(*one) for one in counts]))
        test = _tested(sums, len(levels))
    return SurvivalCurves(curves, test, not exact, column)


def _expected(terms: ModelTerms, groups: int, spec: FitSpec, network: Network) -> str:
    """What the curves are expected to cost: the proposed grid, the counts on it, and the sums of a test by site."""
    ends = GRID_INTERVALS if spec.grid is None else len(spec.grid) + 1
    sizes = [1 + 7 * len(terms.columns), 2 * groups, 2 * groups * grid_numbers(ends), 2 * groups * ends]
    own_test = (groups * (groups + 2),) if groups > 1 and spec.strata == "site" else ()
    return cost_of(ModelSums(sizes, (), 1), own_test, groups, network)


def _terms(spec: FitSpec) -> tuple[ModelTerms, str | None]:
    """The terms with the group as a factor, and the column of the group."""
    formula = parse(str(spec.formula))
    if formula.outcome != "survival" or len(formula.columns) > 1 or formula.numbers:
        raise InputError(f"wanted a formula such as 'Surv(time, died) ~ group' or '... ~ 1', got {spec.formula!r}.")
    column = formula.columns[0] if formula.columns else None
    right = "1" if column is None else f"C({quoted(column)})" if column != SITE else SITE
    return ModelTerms.of(replace(spec, formula=f"{formula.left} ~ {right}")), column


def _ends(own: Sequence[_Lifetimes], groups: int, spec: FitSpec, few: int, group: Group) -> tuple[Array, bool]:
    """The times of the counts, and whether they are exact."""
    times = [one.time for one in own]
    if group.size == 1 and spec.grid is None:
        return np.unique(np.concatenate(times)), True
    candidates = candidate_ends(times, group, spec.grid)
    if group.size == 1:
        return candidates, False
    marks = [np.eye(groups, dtype=bool)[one.group] for one in own]
    marks = [np.hstack([here & one.died[:, None], here]) for here, one in zip(marks, own, strict=True)]
    return guarded_grid(times, marks, candidates, few, group), False


def _counts(one: _Lifetimes, ends: Array, groups: int) -> Array:
    """Events and censorings by group and time."""
    counts = np.zeros((2, groups, len(ends)))
    np.add.at(counts, ((~one.died).astype(int), one.group, np.searchsorted(ends, one.time)), 1.0)
    return counts


def _curve(times: Array, events: Array, censored: Array, conf_type: str) -> pd.DataFrame:
    import pandas as pd

    kept = events + censored > 0
    d, c = events[kept].astype(float), censored[kept].astype(float)
    n = np.cumsum((d + c)[::-1])[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        S = np.cumprod(1.0 - d / n)
        spread = np.sqrt(np.cumsum(d / (n * (n - d))))  # of log S
        z = ndtri(0.975)
        if conf_type == "log":
            low, high = S * np.exp(-z * spread), np.minimum(S * np.exp(z * spread), 1.0)
        else:
            shift = z * spread / np.log(S)
            low, high = S ** np.exp(-shift), S ** np.exp(shift)
            low, high = (np.where(S == 1.0, 1.0, side) for side in (low, high))
        error = np.where(S > 0.0, S * spread, np.nan)
    low, high = (np.where(S > 0.0, side, np.nan) for side in (low, high))
    names = ("time", "n_risk", "n_event", "n_censor", "survival", "std_err", "lower", "upper")
    return pd.DataFrame(dict(zip(names, (times[kept], n, d, c, S, error, low, high), strict=True)))


def _test_sums(events: Array, censored: Array) -> Array:
    """Observed and expected events of each group, and the covariance of their differences."""
    d = events.sum(axis=0).astype(float)
    n = np.cumsum((events + censored)[:, ::-1], axis=1)[:, ::-1].astype(float)
    total = n.sum(axis=0)
    share = n / np.maximum(total, 1.0)
    factor = np.where(total > 1.0, d * (total - d) / np.maximum(total - 1.0, 1.0), 0.0)
    variance = np.diag(share @ factor) - (share * factor) @ share.T
    return np.concatenate([events.sum(axis=1), share @ d, variance.ravel()])


def _tested(sums: Array, groups: int) -> LogRank:
    observed, expected, variance = np.split(sums, [groups, 2 * groups])
    V = variance.reshape(groups, groups)
    used = np.flatnonzero(expected > 0.0)[1:]  # the last group follows from the others
    left = (observed - expected)[used]
    solved = eliminated(V[np.ix_(used, used)], left[:, None])
    if solved is None or not len(used):
        raise InputError("the log-rank test needs events at times at which two groups are at risk.")
    chi2, df = float(left @ solved[:, 0]), len(used)
    return LogRank(chi2, df, float(gammaincc(df / 2, chi2 / 2)), tuple(observed.tolist()), tuple(expected.tolist()))


def _crossing(time: Any, share: Any) -> float:
    """When a curve falls below a half; where it lies at a half for a while, the middle of that while."""
    time, share = np.asarray(time), np.asarray(share)
    below = np.flatnonzero(share < 0.5 - LEVEL)
    at = np.flatnonzero(np.abs(share - 0.5) <= LEVEL)
    if at.size:
        return float((time[at[0]] + time[below[0]]) / 2.0) if below.size else float(time[at[0]])
    return float(time[below[0]]) if below.size else np.nan
