"""Meta-analysis of sites' own estimates: fixed effects, and random effects by DerSimonian-Laird, REML or ML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaincc, ndtr, ndtri, stdtrit

from dsba.errors import InputError, require_known
from dsba.tables import plots
from dsba.types import Array

if TYPE_CHECKING:
    import pandas as pd

METHODS = ("fixed", "DL", "REML", "ML")
MOST_POOLED = 1e50  # of estimates and standard errors, and 1 divided by the smallest: their powers stay numbers
LAST_TAU = 1e-14  # relative width of the bracket of tau^2


@dataclass(frozen=True)
class MetaAnalysis:
    """The common estimate, and how much the sites differ; names as in R's metafor.

    Parameters
    ----------
    method : str
        "fixed", "DL", "REML" or "ML".
    sites : tuple[str, ...]
        The names of the sites.
    estimates : tuple[float, ...]
        The estimates of the sites.
    errors : tuple[float, ...]
        Their standard errors.
    estimate : float
        The common effect.
    se : float
        Its standard error.
    tau2 : float
        The variance between sites.
    Q : float
        The statistic of the test that all sites have one effect.
    I2 : float
        The share of the variance that is between sites, in percent.
    H2 : float
        The total variance divided by the variance within sites.
    weights : tuple[float, ...]
        The weights of the sites, in percent.

    Examples
    --------
    >>> import dsba
    >>> found = dsba.meta({"north": (0.2, 0.1), "south": (0.5, 0.2), "west": (0.3, 0.1)}, "DL")
    >>> round(found.I2, 2), round(found.Q_p, 2)
    (0.0, 0.39)
    """

    method: str
    sites: tuple[str, ...]
    estimates: tuple[float, ...]
    errors: tuple[float, ...]
    estimate: float
    se: float
    tau2: float
    Q: float
    I2: float
    H2: float
    weights: tuple[float, ...]

    @property
    def z(self) -> float:
        """The common effect divided by its standard error."""
        return self.estimate / self.se

    @property
    def p(self) -> float:
        """The two-sided p-value of the common effect."""
        return float(2.0 * ndtr(-abs(self.z)))

    @property
    def Q_p(self) -> float:
        """The p-value of Q: that all sites have one effect."""
        return float(gammaincc((len(self.sites) - 1) / 2.0, self.Q / 2.0))

    def conf_int(self, alpha: float = 0.05) -> tuple[float, float]:
        """Return the confidence interval of the common effect.

        Parameters
        ----------
        alpha : float
            One minus the level of the interval.

        Returns
        -------
        tuple[float, float]
            The two bounds.

        Examples
        --------
        >>> [round(bound, 3) for bound in found.conf_int()]
        [0.147, 0.408]
        """
        reach = float(ndtri(1.0 - alpha / 2.0)) * self.se
        return self.estimate - reach, self.estimate + reach

    def prediction(self, alpha: float = 0.05) -> tuple[float, float]:
        """Return the interval in which the effect of another site is expected.

        It is that of Higgins, Thompson and Spiegelhalter, with Student's t of k - 2 degrees of freedom for k sites.

        Parameters
        ----------
        alpha : float
            One minus the level of the interval.

        Returns
        -------
        tuple[float, float]
            The two bounds.

        Raises
        ------
        InputError
            If there are fewer than three sites.

        Examples
        --------
        >>> [round(bound, 2) for bound in found.prediction()]
        [-0.57, 1.12]
        """
        if len(self.sites) < 3:
            raise InputError("a prediction interval needs at least three sites.")
        reach = float(stdtrit(len(self.sites) - 2, 1.0 - alpha / 2.0)) * math.sqrt(self.tau2 + self.se**2)
        return self.estimate - reach, self.estimate + reach

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers of a forest plot: the sites and the common effect, with 95 % intervals.

        Returns
        -------
        pandas.DataFrame
            A row for each site, and the row ``all``.

        Examples
        --------
        >>> list(found.to_frame().index)
        ['north', 'south', 'west', 'all']
        """
        import pandas as pd

        values = np.array([*self.estimates, self.estimate])
        errors = np.array([*self.errors, self.se])
        columns = {"estimate": values, "se": errors, "lower": values - ndtri(0.975) * errors}
        columns |= {"upper": values + ndtri(0.975) * errors, "weight": np.array([*self.weights, 100.0])}
        return pd.DataFrame(columns, [*self.sites, "all"])

    def forest(self, file: str | Path, label: str = "effect", ratios: bool = False) -> None:
        """Write a forest plot.

        Parameters
        ----------
        file : str or Path
            The file. Its suffix is ``.pdf``, ``.svg`` or ``.png``.
        label : str
            The title of the axis.
        ratios : bool
            Whether the estimates are logarithms, of which exp is shown.

        Raises
        ------
        InputError
            If the suffix is another one.

        Examples
        --------
        >>> found.forest("effects.svg")
        """
        plots.meta_forest(self, label, file, ratios)


def meta(
    estimates: Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]], method: str = "REML"
) -> MetaAnalysis:
    """One effect from the estimates of several sites.

    Parameters
    ----------
    estimates : Mapping[str, tuple[float, float]] or Sequence[tuple[float, float]]
        An estimate and its standard error for each site, by name or as a list.
    method : str
        "fixed", or how the variance between sites is estimated: "DL", "REML" or "ML".

    Returns
    -------
    MetaAnalysis
        ``.estimate``, ``.se``, ``.conf_int()``, ``.tau2``, ``.I2``, ``.Q``, ``.Q_p``, ``.prediction()``,
        ``.to_frame()``, ``.forest(file)``.

    Raises
    ------
    InputError
        If there are fewer than two sites, or a standard error is not a number above 0.

    Examples
    --------
    >>> import dsba
    >>> found = dsba.meta({"north": (0.2, 0.1), "south": (0.5, 0.2), "west": (0.3, 0.1)}, "fixed")
    >>> round(found.estimate, 3), round(found.se, 3)
    (0.278, 0.067)
    """
    require_known("method", method, METHODS)
    several = estimates if np.iterable(estimates) else ()
    named: dict[str, Any] = {f"site{n}": one for n, one in enumerate(several)}
    named = dict(estimates) if isinstance(estimates, Mapping) else named
    if len(named) < 2:
        raise InputError(f"a meta-analysis needs at least two sites, got {len(named)}.")
    try:
        y, se = np.array([[float(estimate), float(error)] for estimate, error in named.values()]).T
    except (TypeError, ValueError):
        raise InputError("each site must have two numbers: an estimate and its standard error.") from None
    if not (np.isfinite(y).all() and np.isfinite(se).all() and (se > 0.0).all()):
        raise InputError("each site must have a finite estimate and a standard error above 0.")
    if max(np.abs(y).max(), se.max()) > MOST_POOLED or se.min() < 1.0 / MOST_POOLED:
        raise InputError("estimates above 1e50, and standard errors above 1e50 or below 1e-50, have no meta-analysis.")
    return _analysed(method, tuple(map(str, named)), y, se)


@dataclass(frozen=True)
class SiteEstimates:
    """The same model at each site alone.

    Parameters
    ----------
    estimates : dict[str, dict[str, tuple[float, float]]]
        For each site, by name, the coefficients and their standard errors.
    failed : dict[str, str]
        Sites without estimates, and why: their rows do not determine the model, or they do not show it.
    ratio : str or None
        What exp of a coefficient is called.

    Examples
    --------
    >>> import dsba, pandas as pd
    >>> table = pd.DataFrame({"dose": [0, 1, 2, 3] * 9, "effect": [0, 2, 5, 6, 1, 3, 4, 7, 1, 1, 4, 6] * 3})
    >>> table["ward"] = ["east"] * 10 + ["north"] * 12 + ["west"] * 14
    >>> own = dsba.fit(table, "effect ~ dose", "linear", sites="ward").by_site(table, sites="ward")
    >>> sorted(own.estimates), own.failed
    (['east', 'north', 'west'], {})
    """

    estimates: dict[str, dict[str, tuple[float, float]]]
    failed: dict[str, str]
    ratio: str | None = None

    @classmethod
    def joined(cls, several: Sequence[SiteEstimates]) -> SiteEstimates:
        """Join the estimates of several processes.

        Parameters
        ----------
        several : Sequence[SiteEstimates]
            The estimates, by process.

        Returns
        -------
        SiteEstimates
            The estimates of all sites.

        Raises
        ------
        InputError
            If two processes have a site of the same name.

        Examples
        --------
        >>> type(own).joined([own]) == own
        True
        """
        names = [name for one in several for name in (*one.estimates, *one.failed)]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(f"two processes sent estimates of the site {twice[0]!r}.")
        estimates = {site: own for one in several for site, own in one.estimates.items()}
        failed = {site: why for one in several for site, why in one.failed.items()}
        return cls(estimates, failed, next((one.ratio for one in several if one.ratio), None))

    def plain(self) -> dict[str, Any]:
        """Return the estimates in JSON's types.

        Returns
        -------
        dict[str, Any]
            The fields by name.

        Examples
        --------
        >>> list(own.plain())
        ['estimates', 'failed', 'ratio']
        """
        return asdict(self)

    @property
    def params(self) -> pd.DataFrame:
        """The coefficients, a row for each site."""
        return self._frame(0)

    @property
    def bse(self) -> pd.DataFrame:
        """The standard errors, a row for each site."""
        return self._frame(1)

    def _frame(self, place: int) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(
            {site: {name: pair[place] for name, pair in own.items()} for site, own in self.estimates.items()}
        ).T

    def pairs(self, name: str) -> dict[str, tuple[float, float]]:
        """Return the estimate and standard error of one coefficient, for each site that has it.

        Parameters
        ----------
        name : str
            The coefficient.

        Returns
        -------
        dict[str, tuple[float, float]]
            What ``dsba.meta`` takes.

        Examples
        --------
        >>> round(own.pairs("dose")["north"][0], 2)
        1.93
        """
        return {site: own[name] for site, own in self.estimates.items() if name in own}

    def sentences(self) -> list[str]:
        """Return how much the sites differ in each coefficient, and which sites are not among them.

        Returns
        -------
        list[str]
            A sentence for each coefficient, and for each site without estimates.

        Examples
        --------
        >>> len(own.sentences())
        2
        """
        lines = []
        for name in dict.fromkeys(name for own in self.estimates.values() for name in own):
            if len(pairs := self.pairs(name)) > 1:
                found = meta(pairs)
                common = f"{found.estimate:.4g} (standard error {found.se:.4g}), I2 = {found.I2:.0f} %"
                lines.append(f"By site: {name} of {len(pairs)} sites: {common}.")
        return lines + [f"By site: {site} has no estimates: {why}" for site, why in self.failed.items()]

    def meta(self, name: str, method: str = "REML") -> MetaAnalysis:
        """Return the meta-analysis of one coefficient.

        Parameters
        ----------
        name : str
            The coefficient.
        method : str
            As in ``dsba.meta``.

        Returns
        -------
        MetaAnalysis
            The common effect, and whether the sites differ.

        Raises
        ------
        InputError
            If fewer than two sites have the coefficient.

        Examples
        --------
        >>> print(own.meta("dose").tau2)
        0.0
        """
        return meta(self.pairs(name), method)

    def forest(self, name: str, file: str | Path, method: str = "REML") -> None:
        """Write a forest plot of one coefficient, or ratio, at each site, and of its meta-analysis.

        Parameters
        ----------
        name : str
            The coefficient.
        file : str or Path
            The file. Its suffix is ``.pdf``, ``.svg`` or ``.png``.
        method : str
            As in ``dsba.meta``.

        Raises
        ------
        InputError
            If fewer than two sites have the coefficient, or the suffix is another one.

        Examples
        --------
        >>> own.forest("dose", "dose.svg")
        """
        self.meta(name, method).forest(file, f"{self.ratio or 'coefficient'} of {name}", self.ratio is not None)


def _analysed(method: str, sites: tuple[str, ...], y: Array, se: Array) -> MetaAnalysis:
    v, k = se**2, len(y)
    w = 1.0 / v
    Q = float(w @ (y - w @ y / w.sum()) ** 2)
    typical = (k - 1) * w.sum() / (w.sum() ** 2 - w @ w)
    tau2 = 0.0
    if method == "DL":
        tau2 = max(0.0, (Q - (k - 1)) / (w.sum() - w @ w / w.sum()))
    elif method != "fixed":
        tau2 = _likely_tau2(y, v, restricted=method == "REML")
    weights = 1.0 / (v + tau2)
    estimate, error = float(weights @ y / weights.sum()), float(1.0 / math.sqrt(weights.sum()))
    I2, H2 = 100.0 * tau2 / (tau2 + typical), 1.0 + tau2 / typical
    if method == "fixed":
        I2, H2 = 100.0 * max(0.0, (Q - (k - 1)) / Q) if Q > 0.0 else 0.0, Q / (k - 1)
    shares = 100.0 * weights / weights.sum()
    return MetaAnalysis(
        method, sites, tuple(y.tolist()), tuple(se.tolist()), estimate, error, float(tau2), Q, float(I2), float(H2),
        tuple(shares.tolist()),
    )  # fmt: skip


def _likely_tau2(y: Array, v: Array, restricted: bool) -> float:
    """The variance between sites at which the slope of the likelihood changes its sign; 0 if it falls everywhere."""

    def slope(tau2: float) -> float:
        w = 1.0 / (v + tau2)
        left = y - w @ y / w.sum()
        return float(w**2 @ left**2 - w.sum() + restricted * (w @ w) / w.sum())

    low, high = 0.0, 1e-6 * float(v.min() + (y.max() - y.min()) ** 2)
    while slope(high) > 0.0:
        low, high = high, 4.0 * high
    if low == 0.0 and slope(0.0) <= 0.0:
        return 0.0
    while high - low > LAST_TAU * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if slope(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)
