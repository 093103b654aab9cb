"""Elastic nets by formula: a path of penalties, and cross-validation with folds inside sites.

    -llf/n + lambda (l1_ratio |b|_1 + (1 - l1_ratio)/2 |b|_2^2)

without a penalty on the intercept, b in units of columns divided by their standard deviation. (glmnet divides the
quadratic term of a linear model by the standard deviation of the outcome as well.) Proximal Newton on the summed
information: every process solves the small problem by itself, in the same order of the same operations. All folds go
side by side, so that one sum serves them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from dsba.errors import InputError, as_integer, as_number, as_share, require_known, shortened
from dsba.fitting.spec import FitSpec
from dsba.network import Group, Network, Simulator, counted, summed
from dsba.solvers.exact import dot, lasso, times
from dsba.tables import plots
from dsba.tables.columns import INTERCEPT
from dsba.tables.design import Design, Designs, design_tables
from dsba.tables.disclosure import Folds, ModelWatch, check_design
from dsba.tables.expected_cost import REPLACED, cost_of, design_sums
from dsba.tables.exports import plain_columns
from dsba.tables.inputs import stated_sites
from dsba.tables.models.base import LikelihoodTerms, ModelSums, RowTerms
from dsba.tables.models.glm import Binomial, Glm, QuasiPoisson
from dsba.tables.models.scoring import WITHHELD_HALVINGS
from dsba.tables.scaling import scaled_designs
from dsba.tables.schema import enforce
from dsba.tables.terms import ModelTerms, SiteTable
from dsba.types import Array, Notify

if TYPE_CHECKING:
    import pandas as pd

N_LAMBDAS, SMALLEST = 50, 1e-3
LEAST_L1 = 1e-3  # the share of |b|_1 that the largest lambda is made for, where there is none
MOST_NEWTON = 50
USUAL_NEWTON = {"linear": 1, "logistic": 4, "poisson": 4}  # Newton steps from one lambda to the next
NEAR_ZERO = 1e-13  # of the conditions of a solution, relative to the slope at the null model


@dataclass(frozen=True)
class Gaussian(Glm):
    """l = -(y - u)^2/2."""

    labels: ClassVar[str] = "real"
    link: ClassVar[str | None] = "identity"

    def rows(self, y: Array, u: Array) -> RowTerms:
        ones = np.ones_like(u)
        return RowTerms(-0.5 * (y - u) ** 2, y - u, ones, ones)

    def unit_deviance(self, y: Array, u: Array) -> Array:
        return (y - u) ** 2

    def score_of(self, mean: float) -> float:
        return mean

    def response(self, u: Array) -> Array:
        return u


LOSSES: dict[str, Glm] = {"linear": Gaussian(), "logistic": Binomial(), "poisson": QuasiPoisson()}


@dataclass(frozen=True)
class ElasticNetPath:
    """Coefficients in the columns' own units, a row for each lambda, with the losses of cross-validation.

    Parameters
    ----------
    coefficients : pandas.DataFrame
        A column for each column of the model, the intercept first; the index is lambda.
    l1_ratio : float
        The share of |b|_1 in the penalty.
    cv : pandas.DataFrame or None
        ``mean`` and ``se`` of the loss at each lambda: squared errors, or deviances, per row that was left out.
    sd : tuple[float, ...]
        The standard deviations of the columns, in the order of the coefficients.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dsba
    >>> x = np.arange(20.0)
    >>> table = pd.DataFrame({"x": x, "z": x % 3, "y": 2 * x + x % 2})
    >>> path = dsba.elastic_net(table, "y ~ x + z", lambdas=[1.0, 0.1], folds=4)
    >>> path.coefficients.shape
    (2, 3)
    """

    coefficients: pd.DataFrame
    l1_ratio: float
    cv: pd.DataFrame | None
    sd: tuple[float, ...]

    @property
    def lambda_min(self) -> float:
        """The lambda with the smallest loss."""
        return float(self._validated["mean"].idxmin())

    @property
    def lambda_1se(self) -> float:
        """The largest lambda whose loss is within a standard error of the smallest."""
        best = self._validated.loc[self.lambda_min]
        return float(self._validated.index[self._validated["mean"] <= best["mean"] + best["se"]].max())

    @property
    def _validated(self) -> pd.DataFrame:
        if self.cv is None:
            raise InputError("the path was not cross-validated: give folds.")
        return self.cv

    def __str__(self) -> str:
        lines, shown = [], self.coefficients
        if self.cv is not None:
            chosen = {"lambda.min": self.lambda_min, "lambda.1se": self.lambda_1se}
            lines = [f"{name} = {lam:.6g}: loss {self.cv.loc[lam, 'mean']:.6g}" for name, lam in chosen.items()]
            shown = self.coefficients.loc[[*chosen.values()]].T.set_axis([*chosen], axis=1)
        return "\n".join([*lines, shown.to_string(float_format="{:.6g}".format)])

    def plain(self) -> dict[str, Any]:
        """Return the path in JSON's types.

        Returns
        -------
        dict[str, Any]
            What ``dsba elastic-net --json`` prints. Without folds the last three are None.

        Examples
        --------
        >>> list(path.plain())
        ['l1_ratio', 'lambdas', 'coefficients', 'cv', 'lambda_min', 'lambda_1se']
        """
        path = {"l1_ratio": self.l1_ratio, "lambdas": [*map(float, self.coefficients.index)]}
        path["coefficients"] = plain_columns(self.coefficients)
        if self.cv is None:
            return path | dict.fromkeys(("cv", "lambda_min", "lambda_1se"))
        return path | {"cv": plain_columns(self.cv), "lambda_min": self.lambda_min, "lambda_1se": self.lambda_1se}

    def to_frame(self) -> pd.DataFrame:
        """Return the coefficients at every lambda, beside the cross-validated loss if there are folds.

        Returns
        -------
        pandas.DataFrame
            A row for each lambda.

        Examples
        --------
        >>> path.to_frame().columns.tolist()
        ['Intercept', 'x', 'z', 'loss mean', 'loss se']
        """
        return self.coefficients if self.cv is None else self.coefficients.join(self.cv.add_prefix("loss "))

    def params(self, lam: float | None = None) -> pd.Series:
        """Return the coefficients at one lambda.

        Parameters
        ----------
        lam : float or None
            A lambda of the path. None is ``lambda_min``.

        Returns
        -------
        pandas.Series
            The coefficients by name.

        Raises
        ------
        InputError
            If ``lam`` is None and the path was not cross-validated, or ``lam`` is not on the path.

        Examples
        --------
        >>> print(path.lambda_min, path.params()["x"].round(2))
        0.1 1.99
        """
        wanted = self.lambda_min if lam is None else lam
        if wanted not in self.coefficients.index:
            known = shortened(", ".join(f"{one:g}" for one in self.coefficients.index))
            raise InputError(f"lambda = {wanted!r} is not on the path, which has {known}.")
        return self.coefficients.loc[wanted]

    def plot(self, file: str | Path) -> None:
        """Write the path as a picture, below the cross-validated loss if there are folds.

        Parameters
        ----------
        file : str or Path
            The file. Its suffix is ``.pdf``, ``.svg`` or ``.png``.

        Raises
        ------
        InputError
            If the suffix is another one.

        Examples
        --------
        >>> path.plot("path.svg")
        """
        plots.elastic_net(self, file)


def elastic_net(
    table: Any, formula: str, operator: str = "linear", *, sites: str | None = None, l1_ratio: float = 1.0,
    lambdas: Sequence[float] | None = None, folds: int | None = None, missing: str = "error",
) -> ElasticNetPath:  # fmt: skip
    """A path of elastic nets over sites, with cross-validation if ``folds`` are given.

    Parameters
    ----------
    table : object
        A frame, a file or the URL of a database, or a list or dict of them, as in ``dsba.fit``.
    formula : str
        The model, with an intercept.
    operator : str
        "linear", "logistic" or "poisson".
    sites : str or None
        The column of a single table that names the site of each row.
    l1_ratio : float
        The share of |b|_1 in the penalty: 1 is the lasso.
    lambdas : Sequence[float] or None
        The penalties; otherwise 50 from the smallest that gives no coefficient down to a thousandth of it.
    folds : int or None
        The number of folds. Row i of a site, counted from 0, is in fold i mod ``folds``.
    missing : str
        As in ``dsba.fit``.

    Returns
    -------
    ElasticNetPath
        ``.coefficients``, ``.params(lam)``, ``.cv``, ``.lambda_min``, ``.lambda_1se``, ``.plot(file)``.

    Raises
    ------
    InputError
        If an option is not known, or the table does not fit the formula.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dsba
    >>> x = np.arange(20.0)
    >>> table = pd.DataFrame({"x": x, "z": x % 3, "y": 2 * x})
    >>> path = dsba.elastic_net(table, "y ~ x + z", lambdas=[1.0])
    >>> print(path.params(1.0)["z"])
    0.0
    """
    asked = PathOptions.checked(operator, l1_ratio, lambdas, folds)
    spec = FitSpec(formula=formula, operator=operator, missing=missing)
    held, spec = stated_sites(table, sites, spec)
    return path_of(held, spec, Simulator(spec.topology(len(held))), *asked)


class PathOptions(NamedTuple):
    """What a path is asked for."""

    l1_ratio: float = 1.0
    lambdas: Sequence[float] | None = None
    folds: int | None = None

    @classmethod
    def checked(cls, operator: Any, l1_ratio: float, lambdas: Sequence[float] | None, folds: int | None) -> PathOptions:
        """An error if a path of this operator cannot have these."""
        require_known("operator", operator, LOSSES)
        if folds is not None:
            as_integer("folds", folds, at_least=2)
        if lambdas is not None:
            lambdas = tuple(as_number("lambdas", lam, at_least=0.0) for lam in np.atleast_1d(lambdas).tolist())
            if not lambdas:
                raise InputError("lambdas must have at least one number.")
        return cls(as_share("l1_ratio", l1_ratio), lambdas, folds)


def path_of(
    sites: Sequence[SiteTable], spec: FitSpec, network: Network, ratio: float, lambdas: Sequence[float] | None,
    folds: int | None, notify: Notify = lambda sentence: None,
) -> ElasticNetPath:  # fmt: skip
    """The same for the sites of this process, together with those of the others.

    ``notify`` gets a sentence about what the path is expected to cost.
    """
    import pandas as pd

    terms = ModelTerms.of(spec)
    designs = design_tables(sites, terms, network, spec.guards)
    if designs.names[0] != INTERCEPT:
        raise InputError("an elastic net has an intercept: leave out 0 and - 1 in the formula.")
    model = LOSSES[str(spec.operator)]
    notify(_expected(designs, terms, N_LAMBDAS if lambdas is None else len(lambdas), folds or 0, network))
    scaling, ready, moments = scaled_designs(designs, network)
    parts = [[np.arange(len(d.y)) % (folds or 1) == fold for d in ready] for fold in range(folds or 0)]
    _check(designs, moments, ready, parts, network)
    unit = float(moments[1][len(designs.names)]) if model.labels == "real" else 1.0
    problems = _problems(model, ready, parts, network, unit)
    whole = problems[0]
    if lambdas is None:
        largest = float(np.abs(whole.slope[1:]).max(initial=0.0)) / max(ratio, LEAST_L1)
        if not largest > 0.0:
            raise InputError("no column explains anything of the outcome, and no lambda is the largest: give lambdas.")
        lambdas = np.geomspace(largest, SMALLEST * largest, N_LAMBDAS).tolist()
    lambdas = sorted(lambdas, reverse=True)
    watch = ModelWatch.of(designs, model, ready, (), network)
    paths = _paths(model, problems, lambdas, ratio, watch)
    cv = _validated(model, ready, paths[1:], parts, lambdas, network) if parts else None
    rows = np.array([scaling.unscaled(z) for z in paths[0]])
    frame = pd.DataFrame(rows, index=pd.Index(lambdas, name="lambda"), columns=list(designs.names))
    return ElasticNetPath(frame, ratio, cv, tuple(scaling.sd.tolist()))


def _expected(designs: Designs, terms: ModelTerms, lambdas: int, folds: int, network: Network) -> str:
    """What the path is expected to cost."""
    p, levels = len(designs.names), sum(map(len, designs.schema.levels.values()))
    fits, points = 1 + folds, lambdas * USUAL_NEWTON[str(terms.spec.operator)]
    point = fits * (1 + p + p * (p + 1) // 2)
    sums = ModelSums(
        (folds, fits * (3 + 2 * p), point, fits * (1 + lambdas)), (point,), 1 + points, f"steps and {REPLACED}"
    )
    return cost_of(sums, design_sums(terms, p, levels, fits), levels, network)


def _check(designs: Designs, moments: tuple[Array, Array], ready: Sequence[Design], parts: Folds, group: Group) -> None:
    """Between processes an error where columns, or what a fold adds to the other folds, would show rows."""
    if parts:  # before noise is added to sums over the rows of a fold: it hides one of many rows
        smallest = min(counted(group, np.array([[float(at.sum()) for at in fold] for fold in parts]).T))
        if not smallest:
            empty = f"some of the {len(parts)} folds have no row"
            raise InputError(f"{empty}: no site has so many rows, so take fewer folds.")
        sentence = designs.schema.limits.too_many_parameters(len(designs.names), smallest)
        enforce(group, [sentence and f"in a fold {sentence}"])
    enforce(group, check_design(designs, moments, ready, [d.weight for d in ready], 1.0, group, parts)[1])


class _Problem(NamedTuple):
    """The rows of one fit, those of a fold left out; weights of the penalty; the null model and the slope there."""

    designs: tuple[Design, ...]
    rows: float
    spread: Array
    null: Array
    slope: Array
    unit: float
    """Of scores: the standard deviation of the outcomes of a linear model, else 1."""


def _problems(model: Glm, ready: Sequence[Design], parts: Folds, group: Group, unit: float) -> list[_Problem]:
    """The fit to all rows, and those without each of the folds, with their own standard deviations."""
    without = [[d._replace(weight=d.weight * ~at) for d, at in zip(ready, fold, strict=True)] for fold in parts]
    masked = [ready, *without]
    own = [np.concatenate([_moments(model, designs[n]) for designs in masked]) for n in range(len(ready))]
    totals, p = summed(group, np.array(own)).reshape(len(masked), -1), ready[0].X.shape[1]
    found = list[_Problem]()
    for designs, total in zip(masked, totals, strict=True):
        rows, sums, squares = total[0], total[3 : 3 + p], total[3 + p :]
        null = np.zeros(p)
        null[0] = model.score_of(_mean(model, float(total[1] / total[2]), fold=bool(found)))
        spread = np.sqrt(np.maximum(squares / rows - (sums / rows) ** 2, 0.0))
        spread[0] = 0.0  # the intercept has no penalty
        found.append(_Problem(tuple(designs), float(rows), spread, null, np.zeros(p), unit))
    terms = _terms(model, found, [one.null for one in found], group)
    return [one._replace(slope=known.score / one.rows) for one, known in zip(found, terms, strict=True)]


def _mean(model: Glm, mean: float, fold: bool) -> float:
    """The mean outcome of a fit; an error if no score has it."""
    if model.labels == "real" or 0.0 < mean < (1.0 if model.labels == "binary" else np.inf):
        return mean
    where = "all rows outside of a fold: take fewer folds" if fold else "all rows"
    raise InputError(f"an elastic net needs outcomes that differ, and they are all the same in {where}.")


def _moments(model: Glm, design: Design) -> Array:
    w = design.weight
    return np.concatenate([[w.sum()], model.outcome_sums(design), w @ design.X, w @ design.X**2])


def _terms(
    model: Glm, problems: Sequence[_Problem], points: Sequence[Array], group: Group, held: bool = False
) -> list[LikelihoodTerms]:
    """The terms of several fits, in one sum; ``held``: this process sends nothing of its rows."""
    parts = [[model.site(d, z).flat() for d in one.designs] for one, z in zip(problems, points, strict=True)]
    own = np.hstack(parts)
    total = group.sum(np.full_like(own, np.nan) if held else own).reshape(len(problems), -1)
    return [LikelihoodTerms.of(part, len(points[0])) for part in total]


# Solutions ---------------------------------------------------------------------------------------


def _paths(
    model: Glm, problems: Sequence[_Problem], lambdas: Sequence[float], ratio: float, watch: ModelWatch
) -> list[list[Array]]:
    """For each problem its solution at every lambda, each from the one before."""
    points, paths = [one.null for one in problems], [list[Array]() for _ in problems]
    terms = _terms(model, problems, points, watch.group)
    for lam in lambdas:
        points, terms = _solved(model, problems, points, terms, lam, ratio, watch)
        for path, z in zip(paths, points, strict=True):
            path.append(z)
    return paths


def _solved(
    model: Glm, problems: Sequence[_Problem], points: list[Array], terms: list[LikelihoodTerms], lam: float,
    ratio: float, watch: ModelWatch,
) -> tuple[list[Array], list[LikelihoodTerms]]:  # fmt: skip
    """Proximal Newton of all problems side by side; a step that raises the objective is halved."""
    points, terms, lengths = list(points), list(terms), [1.0] * len(points)
    steps = [_step(one, z, t, lam, ratio) for one, z, t in zip(problems, points, terms, strict=True)]
    for _ in range(MOST_NEWTON):
        near = [NEAR_ZERO * max(one.unit, np.abs(z).max()) for one, z in zip(problems, points, strict=True)]
        open_ones = [k for k, step in enumerate(steps) if np.abs(step).max() > near[k]]
        if not open_ones:
            return points, terms
        trials = [points[k] + lengths[k] * steps[k] for k in open_ones]
        watches = [watch.of_rows(problems[k].designs) for k in open_ones]
        with np.errstate(over="ignore", invalid="ignore"):
            ahead = zip(watches, trials, open_ones, strict=True)
            held = any(one(z, points[k], terms[k]) for one, z, k in ahead)
            found = _terms(model, [problems[k] for k in open_ones], trials, watch.group, held)
        if min(lengths) <= 0.5**WITHHELD_HALVINGS and not all(np.isfinite(here.llf) for here in found):
            next((one for one in watches if one.holds), watches[0]).end()
        for k, z, here in zip(open_ones, trials, found, strict=True):
            one = problems[k]
            before, after = (_objective(one, *at, lam, ratio) for at in ((points[k], terms[k]), (z, here)))
            if not after <= before + 1e-13 * abs(before):
                lengths[k] *= 0.5
                continue
            points[k], terms[k], lengths[k] = z, here, 1.0
            steps[k] = _step(one, z, here, lam, ratio)
    raise InputError(f"the elastic net did not converge at lambda = {lam:g}: leave out small lambdas.")


def _objective(one: _Problem, z: Array, terms: LikelihoodTerms, lam: float, ratio: float) -> float:
    b = one.spread * z
    return -terms.llf / one.rows + lam * (ratio * dot(np.sign(b), b) + 0.5 * (1.0 - ratio) * dot(b, b))


def _step(one: _Problem, z: Array, terms: LikelihoodTerms, lam: float, ratio: float) -> Array:
    """To the minimum of the quadratic model with the penalty."""
    ridge = lam * (1.0 - ratio) * one.spread**2
    H, l1 = terms.observed / one.rows + np.diag(ridge), lam * ratio * one.spread
    pull = terms.score / one.rows + times(terms.observed, z) / one.rows  # H_0 z - gradient: the slope of the model at 0
    return lasso(H, pull, l1, z) - z


# What is shown -----------------------------------------------------------------------------------


def _validated(
    model: Glm, ready: Sequence[Design], paths: Sequence[Sequence[Array]], parts: Folds, lambdas: Sequence[float],
    group: Group,
) -> pd.DataFrame:  # fmt: skip
    """The loss of the rows that were left out, by lambda, with its standard error over the folds."""
    import pandas as pd

    own = np.zeros((len(ready), len(parts), len(lambdas) + 1))
    for k, (fold, path) in enumerate(zip(parts, paths, strict=True)):
        for n, d in enumerate(ready):
            out = d.weight * fold[n]
            own[n, k] = [*(out @ model.unit_deviance(d.y, d.X @ z + d.offset) for z in path), out.sum()]
    total = summed(group, own.reshape(len(ready), -1)).reshape(len(parts), -1)
    rows, losses_per_row = total[:, -1], total[:, :-1] / total[:, -1:]
    mean = rows @ losses_per_row / rows.sum()
    spread = np.sqrt(rows @ (losses_per_row - mean) ** 2 / rows.sum() / (len(parts) - 1))
    return pd.DataFrame({"mean": mean, "se": spread}, index=pd.Index(lambdas, name="lambda"))
