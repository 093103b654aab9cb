"""After a Cox fit: baseline hazards, predicted survival with intervals, and the test of proportional hazards.

All of it needs the rows again, and none of it is in a saved model: on exact times a baseline shows single rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import gammaincc, ndtri

from dsba.errors import InputError, require_known, unknown_name
from dsba.network import Group, summed
from dsba.tables.design import Design, designed, not_finite_column, odd_outcome
from dsba.tables.evaluation import require_outcome
from dsba.tables.inputs import rows_to_predict
from dsba.tables.models.base import symmetric
from dsba.tables.models.cox import Cox
from dsba.tables.models.scoring import inverse
from dsba.tables.risk_sets import Deaths, Lives, shared_out
from dsba.tables.schema import end_together
from dsba.tables.survival import SCALES
from dsba.tables.terms import SiteTable
from dsba.types import Array

if TYPE_CHECKING:
    import pandas as pd

    from dsba.tables.results import Results

TRANSFORMED: dict[str, Callable[[Array], Array]] = {"identity": lambda time: time, "log": np.log}


class Stratum(NamedTuple):
    """Sums over the shares of events up to each time: w/S0, w/S0^2 and w m/S0."""

    time: Array
    hazard: Array
    variance: Array
    means: Array


@dataclass(frozen=True)
class BaselineHazard:
    """The cumulative baseline hazards of a Cox model, by stratum.

    Parameters
    ----------
    results : Results
        The Cox model.
    centre : numpy.ndarray
        The means of the columns, at which the hazards are taken.
    strata : dict[str, Stratum]
        Times and sums of each stratum; "all" if there are no strata.

    Examples
    --------
    >>> import dsba, pandas as pd
    >>> lives = pd.DataFrame({"days": range(1, 31), "died": [1, 0, 1] * 10, "age": [50, 70, 61, 66, 58] * 6})
    >>> baseline = dsba.fit(lives, "Surv(days, died) ~ age", "cox", strata="none").baseline_hazard(lives)
    >>> len(baseline.strata["all"].time)
    20
    """

    results: Results
    centre: Array
    strata: dict[str, Stratum]

    def survival(
        self, persons: Any, times: Sequence[float], *, site: str | None = None, conf_type: str = "log"
    ) -> pd.DataFrame:
        """Predict the survival of persons at given times, with 95 % intervals.

        Parameters
        ----------
        persons : object
            A frame, a file or the URL of a database: a row for each person, with the columns of the model.
        times : Sequence[float]
            The times.
        site : str or None
            The stratum of the persons in a model stratified by site.
        conf_type : {"log", "log-log"}
            The scale of the intervals.

        Returns
        -------
        pandas.DataFrame
            A row for each person and time: ``survival``, ``cumulative_hazard``, ``std_err``, ``lower`` and ``upper``.

        Raises
        ------
        InputError
            If the site or the scale is not known, or a column is not there.

        Examples
        --------
        >>> baseline.survival(lives.head(1), [10.0, 20.0])["survival"].round(2).tolist()
        [0.75, 0.49]
        """
        import pandas as pd

        require_known("conf_type", conf_type, SCALES)
        if (site or "all") not in self.strata:
            raise unknown_name("site", site, list(self.strata))
        stratum = self.strata[site or "all"]
        name, persons = rows_to_predict(persons, self.results.needed, site)
        scores, _ = self.results.scores(persons, name=name)
        X = self.results.columns_of(persons, name=name) - self.centre
        risk = np.exp(scores - self.centre @ self.results.params.to_numpy())
        at = np.searchsorted(stratum.time, np.asarray(times, np.float64), side="right")
        zero = [np.concatenate([np.zeros((1, *part.shape[1:])), part])[at] for part in stratum[1:]]
        covariance = self.results.cov_params().to_numpy()
        rows = [_predicted(zero, x, r, covariance, conf_type) for x, r in zip(X, risk, strict=True)]
        index = pd.MultiIndex.from_product([persons.index, list(times)], names=["row", "time"])
        names = ["survival", "cumulative_hazard", "std_err", "lower", "upper"]
        return pd.DataFrame(np.concatenate(rows), index=index, columns=names)


def _predicted(zero: Sequence[Array], x: Array, risk: float, covariance: Array, conf_type: str) -> Array:
    hazard, variance, means = zero
    k = means - hazard[:, None] * x
    spread = risk * np.sqrt(variance + ((k @ covariance) * k).sum(axis=1))
    H = risk * hazard
    S, z = np.exp(-H), float(ndtri(0.975))
    if conf_type == "log":
        low, high = np.exp(-H - z * spread), np.minimum(np.exp(-H + z * spread), 1.0)
    else:
        shift = np.exp(z * spread / np.maximum(H, 1e-300))
        low, high = S**shift, S ** (1.0 / shift)
    return np.column_stack([S, H, S * spread, low, high])


def baseline_hazard(results: Results, sites: Sequence[SiteTable], group: Group) -> BaselineHazard:
    """The baseline hazards of the rows that the model was fitted to."""
    cox, designs, centre, z = _prepared(results, sites, group)
    if cox.strata == "site" and group.size > 1:
        raise InputError("the baseline hazard of a site's stratum is the site's own: it is not told to others.")
    strata = {}
    names = [site.name for site in sites] if cox.strata == "site" else ["all"]
    for name, (_, times, deaths) in zip(names, cox.strata_of(designs, z, group), strict=False):
        shares = shared_out(deaths, cox.ties)
        parts = (shares.weight / shares.S0)[:, None] * np.column_stack([1.0 / shares.S0, shares.mean])
        sums = np.zeros((len(times), 1 + parts.shape[1]))
        np.add.at(sums, shares.time, np.column_stack([shares.weight / shares.S0, parts]))
        total = np.cumsum(sums, axis=0)
        strata[name] = Stratum(times, total[:, 0], total[:, 1], total[:, 2:])
    return BaselineHazard(results, centre, strata)


def proportional_hazards(results: Results, sites: Sequence[SiteTable], group: Group, transform: str) -> pd.DataFrame:
    """The score test of coefficients that change with g(time), for each column and for all: R's cox.zph."""
    import pandas as pd

    require_known("transform", transform, TRANSFORMED)
    cox, designs, _, z = _prepared(results, sites, group)
    early = transform == "log" and any((d.y[d.y[:, 1] > 0, 0] <= 0.0).any() for d in designs)
    end_together(group, "an event at the time 0 has no logarithm: use the transform identity." if early else None)
    p, g = len(z), TRANSFORMED[transform]
    own = []
    for n, one in enumerate(cox.strata_of(designs, z, group)):
        whole = cox.strata == "site" or (n == 0 and group.rank == 0)  # what all sites share is taken off once
        own.append(_test_sums_of(cox, one, g, whole))
    total = summed(group, np.array(own))
    score, mean = total[:p], total[p] / total[p + 1]
    I0, I1, I2 = (symmetric(part, p) for part in np.split(total[p + 2 :], 3))
    cross, inner = I1 - mean * I0, I2 - 2.0 * mean * I1 + mean**2 * I0
    left = inner - cross @ inverse(I0, p) @ cross
    chi2 = [*(score**2 / np.diag(left)), float(score @ inverse(left, p) @ score)]
    df = [1] * p + [p]
    tail = [float(gammaincc(d / 2, c / 2)) for d, c in zip(df, chi2, strict=True)]
    return pd.DataFrame({"chi2": chi2, "df": df, "p": tail}, [*results.metadata.names, "GLOBAL"])


def _test_sums_of(cox: Cox, stratum: tuple[Lives, Array, Deaths], g: Callable[[Array], Array], whole: bool) -> Array:
    """The slope by coefficients that change with g, the sum of g over events, and the information times 1, g, g^2."""
    lives, times, deaths = stratum
    shares, X = shared_out(deaths, cox.ties), lives.design.X
    values = g(times)[shares.time][:, None] ** np.arange(3)
    h, events = lives.hazards(times, shares, values), lives.design.weight * lives.died
    at = events * np.where(lives.died, g(np.maximum(lives.time, 1e-300)), 0.0)
    score = at @ X
    matrices = [X.T @ (X * (lives.risk * h[:, k])[:, None]) for k in range(3)]
    if whole:
        weights = shares.weight[:, None] * values
        score = score - weights[:, 1] @ shares.mean
        matrices = [M - shares.mean.T @ (shares.mean * weights[:, k, None]) for k, M in enumerate(matrices)]
    upper = np.triu_indices(X.shape[1])
    return np.concatenate([score, [at.sum(), events.sum()], *(M[upper] for M in matrices)])


def _prepared(results: Results, sites: Sequence[SiteTable], group: Group) -> tuple[Cox, list[Design], Array, Array]:
    """The model with its times, the rows around their means, and the coefficients."""
    spec = results.model.spec
    if results.schema.labels != "survival":
        raise InputError("only a Cox model has hazards.")
    for site in sites:
        require_outcome(results, site)
    raw = [designed(site, results.schema) for site in sites]
    end_together(group, not_finite_column(sites, raw) or odd_outcome(sites, [d.y for d in raw], "survival"))
    rows, events, *totals = summed(group, np.array([[len(d.y), d.y[:, 1].sum(), *d.X.sum(axis=0)] for d in raw]))
    if not events:
        raise InputError("no row of the table has an event: give the rows that the model was fitted to.")
    centre = np.array(totals) / rows
    designs = [design._replace(X=design.X - centre) for design in raw]
    few = max(1, results.schema.limits.rows_per_level)
    cox = Cox(spec.ties, str(spec.strata)).prepared(designs, spec.grid, few, group)
    return cox, designs, centre, results.params.to_numpy()
