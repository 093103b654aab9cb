"""What is asked of a model after its fit: linear hypotheses, nested models, predictions with intervals.

All of it follows from the coefficients and their covariance. No row is needed, and nothing is asked of the sites.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import chdtrc, fdtrc, ndtr, ndtri, stdtr, stdtrit

from dsba.errors import InputError, shortened
from dsba.types import Array

if TYPE_CHECKING:
    import pandas as pd

SLOPE_STEP = 2.0**-17  # of a score, for the slope of an inverse link: its error is near 1e-11
INDEPENDENT_ROWS = 1e-10  # of a hypothesis in units of standard errors: below, it follows from the others


class Reference(NamedTuple):
    """The distribution that statistics are compared with: Student's t, or the normal one where ``df`` is None."""

    df: Any
    """A number, or one for each statistic; None for the normal distribution."""

    def two_sided(self, statistics: Array) -> Array:
        sizes = -np.abs(statistics)
        return 2.0 * (ndtr(sizes) if self.df is None else stdtr(self.df, sizes))

    def reach(self, alpha: float) -> Any:
        """How many standard errors an interval of level 1 - alpha goes to each side."""
        level = 1.0 - alpha / 2.0
        return ndtri(level) if self.df is None else stdtrit(self.df, level)


class WaldTest(NamedTuple):
    """A test of one or several linear hypotheses at once.

    Parameters
    ----------
    statistic : float
        F if ``df_resid`` is given, else chi squared.
    pvalue : float
        Of the hypotheses that all equations hold.
    df : int
        The number of hypotheses.
    df_resid : float or None
        The degrees of freedom below F.

    Examples
    --------
    >>> import dsba, pandas as pd
    >>> table = pd.DataFrame({"dose": [0, 1, 2, 3] * 9, "effect": [0, 2, 5, 6, 1, 3, 4, 7, 1, 1, 4, 6] * 3})
    >>> dsba.fit(table, "effect ~ dose", "linear").wald_test("dose = 0").df
    1
    """

    statistic: float
    pvalue: float
    df: int
    df_resid: float | None


@dataclass(frozen=True)
class LinearTests:
    """Linear combinations of coefficients, each with its own test.

    Parameters
    ----------
    names : tuple[str, ...]
        The hypotheses as texts.
    effect : numpy.ndarray
        The combinations minus the values that the hypotheses give them.
    sd : numpy.ndarray
        Their standard errors.
    reference : Reference
        The distribution of the statistics.

    Examples
    --------
    >>> import dsba, pandas as pd
    >>> table = pd.DataFrame({"dose": [0, 1, 2, 3] * 9, "effect": [0, 2, 5, 6, 1, 3, 4, 7, 1, 1, 4, 6] * 3})
    >>> tests = dsba.fit(table, "effect ~ dose", "linear").t_test(["dose = 2", "10*dose"])
    >>> tests.effect.round(2).tolist()
    [-0.07, 19.33]
    """

    names: tuple[str, ...]
    effect: Array
    sd: Array
    reference: Reference

    @property
    def statistic(self) -> Array:
        """The combinations divided by their standard errors."""
        return self.effect / self.sd

    @property
    def pvalue(self) -> Array:
        """The two-sided p-values."""
        return self.reference.two_sided(self.statistic)

    def conf_int(self, alpha: float = 0.05) -> Array:
        """Return the confidence intervals of the combinations.

        Parameters
        ----------
        alpha : float
            One minus the level of the intervals.

        Returns
        -------
        numpy.ndarray
            A row of two bounds for each combination.

        Examples
        --------
        >>> tests.conf_int().shape
        (2, 2)
        """
        reach = self.reference.reach(alpha) * self.sd
        return np.column_stack([self.effect - reach, self.effect + reach])

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the tests as a table with the names of statsmodels.

        Parameters
        ----------
        alpha : float
            One minus the level of the intervals.

        Returns
        -------
        pandas.DataFrame
            A row for each combination.

        Examples
        --------
        >>> list(tests.summary_frame())
        ['coef', 'std err', 't', 'P>|t|', 'Conf. Int. Low', 'Conf. Int. Upp.']
        """
        import pandas as pd

        letter = "z" if self.reference.df is None else "t"
        low, high = self.conf_int(alpha).T
        columns = {"coef": self.effect, "std err": self.sd, letter: self.statistic, f"P>|{letter}|": self.pvalue}
        return pd.DataFrame({**columns, "Conf. Int. Low": low, "Conf. Int. Upp.": high}, list(self.names))

    def __str__(self) -> str:
        return self.summary_frame().to_string()


def linear_tests(given: Any, params: Array, covariance: Array, names: Sequence[str], df: int | None) -> LinearTests:
    """Every hypothesis by itself."""
    R, q, texts = hypotheses(given, names)
    return LinearTests(texts, R @ params - q, np.sqrt(np.einsum("ij,jk,ik->i", R, covariance, R)), Reference(df))


def wald(R: Array, q: Array, params: Array, covariance: Array, df_resid: float | None) -> WaldTest:
    """All hypotheses R b = q together."""
    off, spread = R @ params - q, R @ covariance @ R.T
    scale = np.sqrt(np.diag(spread))
    if not (scale > 0.0).all() or np.linalg.eigvalsh(spread / np.outer(scale, scale))[0] < INDEPENDENT_ROWS:
        raise InputError("the hypotheses depend on each other: leave out those that follow from others.")
    squares, df = float(off @ np.linalg.solve(spread, off)), len(R)
    if df_resid is None:
        return WaldTest(squares, float(chdtrc(df, squares)), df, None)
    return WaldTest(squares / df, float(fdtrc(df, df_resid, squares / df)), df, df_resid)


class Fitted(NamedTuple):
    """What a comparison of two models needs of each."""

    llf: float
    parameters: int
    data: Any
    """What must be the same in both: outcome, rows and family."""


def likelihood_ratio(larger: Fitted, smaller: Fitted) -> tuple[float, float, int]:
    """The statistic, its p-value and its degrees of freedom, as in statsmodels. The models must be nested."""
    if larger.data != smaller.data:
        raise InputError("the two models must have the same outcome, rows, operator, weights, offset, strata and ties.")
    df = larger.parameters - smaller.parameters
    statistic = 2.0 * (larger.llf - smaller.llf)
    if df <= 0 or statistic < -1e-8 * (1.0 + abs(larger.llf)):
        raise InputError(f"the other model must be smaller and nested, got {smaller.parameters} coefficients beside "
                         f"{larger.parameters}.")  # fmt: skip
    return statistic, float(chdtrc(df, max(statistic, 0.0))), df


# Predictions -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prediction:
    """Predicted means of rows, with standard errors and intervals.

    Parameters
    ----------
    linear : numpy.ndarray
        The scores x'b + offset.
    linear_se : numpy.ndarray
        The standard errors of the scores.
    mean : Callable
        The mean responses of scores; it rises with the score.
    reference : Reference
        The distribution of the intervals.
    scale : float or None
        The variance of an outcome, if the model is linear.
    index : object
        The index of the table.

    Examples
    --------
    >>> import dsba, pandas as pd
    >>> table = pd.DataFrame({"dose": [0, 1, 2, 3] * 9, "effect": [0, 2, 5, 6, 1, 3, 4, 7, 1, 1, 4, 6] * 3})
    >>> predicted = dsba.fit(table, "effect ~ dose", "linear").get_prediction(table.head(2))
    >>> predicted.predicted_mean.round(2).tolist()
    [0.43, 2.37]
    """

    linear: Array
    linear_se: Array
    mean: Callable[[Array], Array]
    reference: Reference
    scale: float | None
    index: Any

    @property
    def predicted_mean(self) -> Array:
        """The mean responses."""
        return self.mean(self.linear)

    @property
    def se_mean(self) -> Array:
        """The standard errors of the means, by the delta method."""
        if self.scale is not None:
            return self.linear_se
        slope = self.mean(self.linear + SLOPE_STEP) - self.mean(self.linear - SLOPE_STEP)
        return self.linear_se * slope / (2.0 * SLOPE_STEP)

    def conf_int(self, alpha: float = 0.05) -> Array:
        """Return the confidence intervals of the means: the inverse link of the intervals of the scores.

        Parameters
        ----------
        alpha : float
            One minus the level of the intervals.

        Returns
        -------
        numpy.ndarray
            A row of two bounds for each row of the table.

        Examples
        --------
        >>> predicted.conf_int().round(2).tolist()
        [[0.07, 0.79], [2.13, 2.6]]
        """
        reach = self.reference.reach(alpha) * self.linear_se
        return np.column_stack([self.mean(self.linear - reach), self.mean(self.linear + reach)])

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the predictions as a table with the names of statsmodels.

        Parameters
        ----------
        alpha : float
            One minus the level of the intervals.

        Returns
        -------
        pandas.DataFrame
            Means with standard errors and intervals. A linear model has intervals of new outcomes also.

        Examples
        --------
        >>> list(predicted.summary_frame())
        ['mean', 'mean_se', 'mean_ci_lower', 'mean_ci_upper', 'obs_ci_lower', 'obs_ci_upper']
        """
        import pandas as pd

        low, high = self.conf_int(alpha).T
        columns = {"mean": self.predicted_mean, "mean_se": self.se_mean, "mean_ci_lower": low, "mean_ci_upper": high}
        if self.scale is not None:
            reach = self.reference.reach(alpha) * np.sqrt(self.linear_se**2 + self.scale)
            columns |= {"obs_ci_lower": self.linear - reach, "obs_ci_upper": self.linear + reach}
        return pd.DataFrame(columns, self.index)


# Hypotheses --------------------------------------------------------------------------------------


def hypotheses(given: Any, names: Sequence[str]) -> tuple[Array, Array, tuple[str, ...]]:
    """The matrix R and the values q of hypotheses R b = q, and their texts.

    ``given`` is a text such as ``"age = 0.02, sex[T.M] = treated"``, a list of such texts, or the matrix R.
    """
    if isinstance(given, str):
        given = [given]
    texts = list(given) if isinstance(given, Sequence) or np.ndim(given) == 1 else []  # a frame is a matrix
    if texts and all(isinstance(one, str) for one in texts):
        found = [row for text in texts for row in _Constraints(text, names).rows()]
        lines = np.array([line for _, line in found])
        return lines[:, :-1], -lines[:, -1], tuple(text for text, _ in found)
    try:
        R = np.atleast_2d(np.asarray(given, np.float64))
    except (TypeError, ValueError):
        R = np.zeros((0, 0))
    if R.ndim != 2 or R.shape[1] != len(names) or not np.isfinite(R).all():
        raise InputError(f"hypotheses are texts, or a matrix with {len(names)} columns of finite numbers.")
    return R, np.zeros(len(R)), tuple(f"c{n}" for n in range(len(R)))


class _Constraints:
    """Linear equations of names as data. A line has a factor for each name, and then a constant."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self.text, self.names, self.at = text, list(names), 0
        known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        number = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
        self.token = re.compile(rf"\s*(?:(?P<name>{known})|(?P<number>{number})|(?P<sign>[-+*/=,()]))")

    def rows(self) -> list[tuple[str, Array]]:
        """Each equation with its text; a combination without = is compared with 0."""
        found = []
        while True:
            begin, line = self.at, self.sum()
            if self.take("="):
                line = line - self.sum()
            if not line[:-1].any():
                raise self.wanted("a coefficient")
            found.append((self.text[begin : self.at].strip(), line))
            if not self.take(","):
                break
        if self.text[self.at :].strip():
            raise self.wanted("an equation")
        return found

    def sum(self) -> Array:
        line = -self.product() if self.take("-") else self.product()
        while sign := self.take("+", "-"):
            line = line + self.product() if sign == "+" else line - self.product()
        return line

    def product(self) -> Array:
        line = self.factor()
        while sign := self.take("*", "/"):
            other = self.factor()
            if sign == "*" and other[:-1].any():
                line, other = other, line
            if other[:-1].any() or (sign == "/" and not other[-1]):
                raise self.wanted("a linear equation")
            line = line * other[-1] if sign == "*" else line / other[-1]
        return line

    def factor(self) -> Array:
        if self.take("("):
            line = self.sum()
            if not self.take(")"):
                raise self.wanted("')'")
            return line
        found, line = self.token.match(self.text, self.at), np.zeros(len(self.names) + 1)
        if found is None or found.lastgroup == "sign":
            raise self.wanted("the name of a coefficient or a number")
        self.at = found.end()
        if found.lastgroup == "name":
            line[self.names.index(found["name"])] = 1.0
        else:
            line[-1] = float(found["number"])
        return line

    def take(self, *signs: str) -> str | None:
        found = self.token.match(self.text, self.at)
        if found is None or found["sign"] not in signs:
            return None
        self.at = found.end()
        return found["sign"]

    def wanted(self, what: str) -> InputError:
        known = shortened(", ".join(self.names))
        return InputError(f"hypothesis, character {self.at + 1}: wanted {what}; the coefficients are {known}.")
