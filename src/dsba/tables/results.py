"""A fitted table model, with the names that people know from statsmodels."""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dsba.engine.run import Status
from dsba.errors import InputError, cannot, did_you_mean, require_known
from dsba.fitting import codec, not_converged
from dsba.fitting.measures import Measures, ThetaFigures, VarianceFigures
from dsba.fitting.model import FittedModel, Inference, Schema, TableMetadata
from dsba.fitting.spec import PRECISION, plain_of
from dsba.network import Alone
from dsba.operators import decide, link_of
from dsba.tables import exports, plots, tests
from dsba.tables.clustered import few_sites
from dsba.tables.columns import INTERCEPT, references_of
from dsba.tables.design import Design, column_terms, designed
from dsba.tables.formula import Formula
from dsba.tables.inputs import as_sites, rows_to_predict
from dsba.tables.schema import MISSING_LEVEL, kind_of, plain_value
from dsba.tables.summary import Summary
from dsba.tables.terms import SITE, ModelTerms, SiteTable, terms_of
from dsba.tables.tests import LinearTests, Prediction, Reference, WaldTest
from dsba.types import Array, Flags, Level

if TYPE_CHECKING:
    import pandas as pd

    from dsba.tables.evaluation import Evaluation
    from dsba.tables.hazards import BaselineHazard
    from dsba.tables.meta import SiteEstimates
    from dsba.tables.models.base import TableModel


RESTRICTED = "the likelihood of a random intercept is restricted (REML) and not to be compared: use wald_test."
WITHOUT_LIKELIHOOD = "quasi-models and sampling weights have no likelihood"
FILLED = "Missing numbers became means, as if they were measured: standard errors are too small."
RATIOS = {"logit": "odds ratio", "log": "rate ratio"}
PLAIN_FIGURES = (
    "deviance", "aic", "bic", "llf", "llnull", "null_deviance", "pearson_chi2", "scale", "df_model", "df_resid",
    "converged",
)  # fmt: skip
SUMMARY_COLUMNS = ("coef", "std err", "{statistic}", "P>|{statistic}|", "[0.025", "0.975]")
PLAIN_COLUMNS = ("coef", "se", "z", "p", "low", "high")


@dataclass(frozen=True, repr=False)
class Results:
    """A fitted model of a table: coefficients of named columns in their own units, and their standard errors.

    The names are those of statsmodels. The examples of the methods continue the example of the class. Methods that need
    standard errors raise ``InputError`` after a fit that has none, such as a fit with a penalty.

    Parameters
    ----------
    model : FittedModel
        The model as it is stored.

    Raises
    ------
    InputError
        If the model was not trained on a table with column names.

    Examples
    --------
    >>> import dsba, pandas as pd
    >>> table = pd.DataFrame({"dose": [0, 1, 2, 3] * 9, "sex": ["f", "m", "m"] * 12})
    >>> table["falls"] = [0, 1, 2, 5, 1, 1, 4, 6, 2, 2, 3, 8] * 3
    >>> table["ward"] = ["east"] * 10 + ["north"] * 12 + ["west"] * 14
    >>> results = dsba.fit(table, "falls ~ dose + sex", "poisson", sites="ward")
    >>> results.nobs, list(results.params.index)
    (36, ['Intercept', 'dose', 'sex[T.m]'])
    """

    model: FittedModel

    def __repr__(self) -> str:
        return f"<{self.headline()}>"

    @cached_property
    def metadata(self) -> TableMetadata:
        """The names of the columns, the schema and the inference, as they are stored."""
        if self.model.table is None:
            raise InputError("this model was not trained on a table with column names: use `dsba predict`.")
        return self.model.table

    @property
    def schema(self) -> Schema:
        """The columns as all sites agreed on them: kinds, levels, and the states of functions."""
        return self.metadata.schema

    @cached_property
    def formula(self) -> Formula:
        """The formula, parsed."""
        return terms_of(self.schema).formula

    @classmethod
    def load(cls, folder: str | Path) -> Results:
        """Read the model that ``save`` or ``dsba train`` wrote.

        Parameters
        ----------
        folder : str or Path
            The folder of the model.

        Returns
        -------
        Results
            The model, with the bits it was saved with.

        Raises
        ------
        InputError
            If there is no model, the file is damaged, or the model is not one of a table.

        Examples
        --------
        >>> results.save("falls-model")
        >>> type(results).load("falls-model").digest() == results.digest()
        True
        """
        results = cls(codec.load(Path(folder)))
        names, found = results.metadata.names, results.metadata.inference
        shapes = {len(names)} if found is None else {len(names), len(found.covariance), *map(len, found.covariance)}
        if len(names) != results.model.n_features + (INTERCEPT in names) or len(shapes) > 1:
            raise InputError(f"the model in {folder} is damaged: its names do not fit its coefficients.")
        return results

    def save(self, folder: str | Path) -> None:
        """Write ``model.dsba``, and ``model.json`` as a copy for people, into a folder.

        Parameters
        ----------
        folder : str or Path
            The folder. It is made if it does not exist.

        Raises
        ------
        StorageError
            If the files cannot be written.

        Examples
        --------
        >>> results.save("falls-model")
        """
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot(f"write into {folder}", error) from error
        codec.save(self.model, Path(folder))

    def digest(self) -> str:
        """Return a fingerprint of the model: the same on every network, and after the model was read from its file.

        Returns
        -------
        str
            A SHA-256 hash in hexadecimal digits.

        Examples
        --------
        >>> len(results.digest())
        64
        """
        known = [repr(self.model.spec.operator), codec.table_content(replace(self.metadata, rounds=0))]
        return hashlib.sha256(json.dumps(known).encode() + self._coefficients.tobytes()).hexdigest()

    def tested(self, measures: Measures) -> Results:
        """Return the same results with the measures of held-out rows.

        Parameters
        ----------
        measures : Measures
            The measures, such as those of ``Evaluation.pooled``.

        Returns
        -------
        Results
            Results whose ``test`` has the measures.

        Examples
        --------
        >>> results.tested(results.evaluate(table, sites="ward").pooled).test.rows
        36
        """
        return Results(replace(self.model, table=replace(self.metadata, test=measures)))

    # Coefficients --------------------------------------------------------------------------------

    @cached_property
    def _coefficients(self) -> Array:
        weights = iter(self.model.weights[0])
        return np.array([self.model.intercepts[0] if name == INTERCEPT else next(weights) for name in self._names])

    @property
    def params(self) -> pd.Series:
        """The coefficients, by the names of the columns."""
        return self._series(self._coefficients)

    def cov_params(self) -> pd.DataFrame:
        """Return the covariance of the coefficients.

        Returns
        -------
        pandas.DataFrame
            A symmetric table with a row and a column for each coefficient.

        Raises
        ------
        InputError
            If the model has no standard errors.

        Examples
        --------
        >>> print(round(results.cov_params().loc["dose", "dose"], 4))
        0.0109
        """
        return self._frame(self._covariance, self._names)

    @property
    def bse(self) -> pd.Series:
        """The standard errors of the coefficients."""
        return self._series(self._errors)

    @property
    def tvalues(self) -> pd.Series:
        """The coefficients divided by their standard errors."""
        return self._series(self._coefficients / self._errors)

    @property
    def pvalues(self) -> pd.Series:
        """The two-sided p-values of the hypotheses that a coefficient is zero."""
        return self._series(self._reference.two_sided(self._coefficients / self._errors))

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the confidence intervals of the coefficients.

        Parameters
        ----------
        alpha : float
            One minus the level: 0.05 gives 95 % intervals.

        Returns
        -------
        pandas.DataFrame
            The lower bounds in column 0, and the upper bounds in column 1.

        Raises
        ------
        InputError
            If the model has no standard errors.

        Examples
        --------
        >>> results.conf_int().loc["dose"].round(2).tolist()
        [0.48, 0.89]
        """
        reach = self._reference.reach(alpha) * self._errors
        return self._frame({0: self._coefficients - reach, 1: self._coefficients + reach})

    def ratios(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return odds, rate or hazard ratios: exp of the coefficients, with intervals.

        Parameters
        ----------
        alpha : float
            One minus the level of the intervals.

        Returns
        -------
        pandas.DataFrame
            A row for each coefficient, with the ratio and, if there are standard errors, ``low`` and ``high``.

        Raises
        ------
        InputError
            If the coefficients of the model are not logarithms of odds, rates or hazards.

        Examples
        --------
        >>> results.ratios().loc["dose"].round(2).to_dict()
        {'rate ratio': 1.98, 'low': 1.61, 'high': 2.43}
        """
        if self.ratio is None:
            raise InputError("the coefficients of this model are no logarithms of odds, rates or hazards.")
        columns = {self.ratio: self._coefficients}
        if self.metadata.inference is not None:
            columns["low"], columns["high"] = self.conf_int(alpha).to_numpy().T
        with np.errstate(over="ignore"):
            return np.exp(self._frame(columns))

    @property
    def ratio(self) -> str | None:
        """The name of exp of a coefficient, such as "odds ratio"; None if it has none."""
        return RATIOS.get(str(self.model.run.link)) if self._table_model is None else self._table_model.ratio

    @cached_property
    def _table_model(self) -> TableModel | None:
        return terms_of(self.schema).model(self.schema.classes)

    # The whole model -----------------------------------------------------------------------------

    @property
    def nobs(self) -> int:
        """The number of rows of all sites that the model was fitted to; the sum of weights that are frequencies."""
        return self.model.run.samples

    @property
    def rounds(self) -> int:
        """The rounds of communication: agreement, fit and inference, without the check with noise between processes."""
        return self.metadata.rounds

    @property
    def deviance(self) -> float:
        """The deviance."""
        return self._inference.deviance

    @property
    def null_deviance(self) -> float:
        """The deviance of the model that is an intercept alone."""
        return self._inference.null_deviance

    @property
    def llf(self) -> float | None:
        """The log-likelihood; None for quasi-models and sampling weights, which have none."""
        return self._inference.llf

    @property
    def llnull(self) -> float | None:
        """The log-likelihood of the model that is an intercept alone; None where ``llf`` is."""
        return self._inference.llnull

    @property
    def df_resid(self) -> int:
        """The number of rows minus the number of coefficients."""
        return self._inference.df_resid

    @property
    def scale(self) -> float:
        """The variance or dispersion if the model estimates one, else 1."""
        return self._inference.scale

    @property
    def pearson_chi2(self) -> float | None:
        """The sum of squared residuals, each divided by its variance."""
        return self._inference.pearson_chi2

    @property
    def df_model(self) -> int:
        """The number of coefficients of terms: without intercepts and cuts."""
        return sum(map(len, self._terms.values()))

    @property
    def converged(self) -> bool:
        """Whether the fit converged."""
        return self.model.run.status is Status.CONVERGED

    def vif(self) -> pd.Series:
        """Return the variance inflation factors of the columns, without the intercept.

        Returns
        -------
        pandas.Series
            A factor for each column: 1 for a column that is not correlated with the others.

        Raises
        ------
        InputError
            If the model has no standard errors.

        Examples
        --------
        >>> results.vif().round(3).to_dict()
        {'dose': 1.0, 'sex[T.m]': 1.0}
        """
        found = self._series(np.array(self._inference.vif))
        return found[found > 0.0]

    # Tests ---------------------------------------------------------------------------------------

    def t_test(self, hypothesis: Any) -> LinearTests:
        """Test linear combinations of coefficients one by one.

        Parameters
        ----------
        hypothesis : str, list[str] or array-like
            A text such as ``"stage[T.IV] - stage[T.II]"`` or ``"10*age = 1"``, a list of such texts, or a matrix with a
            column for each coefficient. A text without ``=`` is compared with 0.

        Returns
        -------
        LinearTests
            The combinations with standard errors, p-values, ``conf_int`` and ``summary_frame``.

        Raises
        ------
        InputError
            If a text is not a linear equation of coefficients, or the model has no standard errors.

        Examples
        --------
        >>> print(results.t_test("2*dose = 1").pvalue.round(3))
        [0.081]
        """
        return tests.linear_tests(hypothesis, self._coefficients, self._covariance, self._names, self._combined.df)

    def wald_test(self, hypothesis: Any, use_f: bool | None = None) -> WaldTest:
        """Test linear hypotheses together.

        Parameters
        ----------
        hypothesis : str, list[str] or array-like
            One or several hypotheses, such as ``"age = 0.02, C(sex)[T.M] = treated"``, as in ``t_test``.
        use_f : bool or None
            True compares with the F distribution, False with chi squared. None takes F where the p-values of the
            coefficients are those of Student's t.

        Returns
        -------
        WaldTest
            The statistic, its p-value and its degrees of freedom.

        Raises
        ------
        InputError
            If a hypothesis follows from the others, or is not a linear equation of coefficients.

        Examples
        --------
        >>> found = results.wald_test("dose = 0.5, sex[T.m] = 0")
        >>> round(found.statistic, 3), round(found.pvalue, 3), found.df
        (3.208, 0.201, 2)
        """
        R, q, _ = tests.hypotheses(hypothesis, self._names)
        return self._wald(R, q, use_f)

    def wald_test_terms(self, use_f: bool | None = None) -> pd.DataFrame:
        """Test every term of the formula: that all its coefficients are 0.

        Parameters
        ----------
        use_f : bool or None
            As in ``wald_test``.

        Returns
        -------
        pandas.DataFrame
            A row for each term, with statistic, p-value and degrees of freedom.

        Raises
        ------
        InputError
            If the model has no standard errors.

        Examples
        --------
        >>> results.wald_test_terms()["pvalue"].astype(float).round(3).to_dict()
        {'dose': 0.0, 'sex': 0.679}
        """
        import pandas as pd

        R = np.eye(len(self._names))
        rows = {term: self._wald(R[at], np.zeros(len(at)), use_f) for term, at in self._terms.items()}
        return pd.DataFrame.from_dict(rows, orient="index", columns=WaldTest._fields)

    def compare_lr_test(self, restricted: Results) -> tuple[float, float, int]:
        """Test this model against a smaller one of the same rows, by the likelihood ratio.

        Parameters
        ----------
        restricted : Results
            The smaller model. Its columns must be contained in those of this one.

        Returns
        -------
        tuple[float, float, int]
            The statistic, its p-value and its degrees of freedom.

        Raises
        ------
        InputError
            If the two models differ in outcome, rows or operator, the other one is not smaller, or the likelihood is a
            restricted one, as with a random intercept.

        Examples
        --------
        >>> smaller = dsba.fit(table, "falls ~ dose", "poisson", sites="ward")
        >>> statistic, pvalue, df = results.compare_lr_test(smaller)
        >>> round(pvalue, 3), df
        (0.677, 1)
        """
        return tests.likelihood_ratio(self._fitted, restricted._fitted)

    def get_prediction(self, table: Any, *, name: str | None = None) -> Prediction:
        """Predict mean responses with standard errors and intervals.

        Parameters
        ----------
        table : object
            The rows: a frame, a file or the URL of a database. No column that the model needs may be missing in a row.
        name : str or None
            The site of the rows, if the model has site effects and the table has no column ``site``; the name of the
            file if not given.

        Returns
        -------
        Prediction
            Its ``summary_frame()`` has the means with their standard errors and intervals.

        Raises
        ------
        InputError
            If a column is not there or has another type, or a value is missing.

        Examples
        --------
        >>> results.get_prediction(table.head(2)).summary_frame()["mean_ci_upper"].round(2).tolist()
        [1.34, 2.29]
        """
        rows = self._rows(table, name)
        if not _complete(rows.frame, self._needed).all():
            raise InputError(f"{rows.name} has missing values in columns that the model needs: leave these rows out.")
        design = self._design(rows)
        scores, _ = self._scores(design)
        errors = np.sqrt(np.einsum("ij,jk,ik->i", design.X, self._covariance, design.X))
        scale = self.scale if self.model.run.link == "identity" else None
        if scale is not None and isinstance(self.metadata.figures, VarianceFigures):
            scale += self.metadata.figures.site_variance  # of an outcome at any site
        return Prediction(scores, errors, self.mean, self._combined, scale, rows.frame.index)

    @property
    def _reference(self) -> Reference:
        return Reference(self._degrees if self.statistic == "t" else None)

    @property
    def _combined(self) -> Reference:
        """Of sums of coefficients: with errors by site, the fewest degrees of freedom of any coefficient."""
        return Reference(np.min(self._degrees).item() if self.statistic == "t" else None)

    def _wald(self, R: Array, q: Array, use_f: bool | None) -> WaldTest:
        """The test of R b = q by F, or by chi squared."""
        df = self._combined.df if use_f is None else np.min(self._degrees).item() if use_f else None
        return tests.wald(R, q, self._coefficients, self._covariance, df)

    @property
    def _fitted(self) -> tests.Fitted:
        spec = self.model.spec
        data = (self.formula.left, self.nobs, repr(spec.operator), self.schema.classes)
        same = (spec.weights, spec.weight_kind, spec.offset, spec.exposure, spec.strata, spec.ties, spec.grid)
        return tests.Fitted(self._likelihoods[0], len(self._names), (*data, *same))

    @property
    def _likelihoods(self) -> tuple[float, float]:
        """Of the model, and of an intercept alone."""
        if self.model.spec.random:
            raise InputError(RESTRICTED)
        if self.llf is None or self.llnull is None:
            raise InputError(f"this model has no likelihood: {WITHOUT_LIKELIHOOD}. Use wald_test.")
        return self.llf, self.llnull

    @property
    def _terms(self) -> dict[str, list[int]]:
        """The places of each term's coefficients, without the intercept; those of all classes have the columns each."""
        found: dict[str, list[int]] = {}
        columns = column_terms(self.schema)
        copies = len(self._names) // len(columns) if self.model.run.link == "softmax" else 1
        for at, term in enumerate(columns * copies):
            if term:
                found.setdefault(term, []).append(at)
        return found

    @property
    def aic(self) -> float:
        """Akaike's information criterion; NaN if there is no likelihood."""
        return np.nan if self.llf is None else -2.0 * self.llf + 2.0 * (len(self._names) + self._inference.extra)

    @property
    def bic(self) -> float:
        """The Bayesian information criterion; NaN if there is no likelihood."""
        counted = len(self._names) + self._inference.extra
        rows = self._inference.bic_rows or self.nobs
        return np.nan if self.llf is None else float(-2.0 * self.llf + np.log(rows) * counted)

    @property
    def theta(self) -> float:
        """The shape of a negative binomial model."""
        if not isinstance(self.metadata.figures, ThetaFigures):
            raise InputError("only a negative binomial model has a theta.")
        return self.metadata.figures.theta

    def pseudo_rsquared(self, kind: str = "cs") -> float:
        """Return a share of the variation that the model explains, from likelihoods.

        Parameters
        ----------
        kind : {"cs", "mcf"}
            That of Cox and Snell, or that of McFadden.

        Returns
        -------
        float
            0 if the columns explain nothing.

        Raises
        ------
        InputError
            If the kind is another one, or the model has no likelihood or a restricted one.

        Examples
        --------
        >>> round(results.pseudo_rsquared("mcf"), 3)
        0.321
        """
        require_known("kind", kind, ("cs", "mcf"))
        llf, llnull = self._likelihoods
        return 1.0 - llf / llnull if kind == "mcf" else float(-np.expm1((llnull - llf) * 2.0 / self.nobs))

    @property
    def test(self) -> Measures | None:
        """The measures of the held-out rows of all sites; None if no rows were held out."""
        return self.metadata.test

    # Shown ---------------------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """Return the table of the summary.

        Returns
        -------
        pandas.DataFrame
            A row for each coefficient: estimate, standard error, statistic, p-value and interval.

        Examples
        --------
        >>> list(results.to_frame())
        ['coef', 'std err', 'z', 'P>|z|', '[0.025', '0.975]']
        """
        columns, values = [name.format(statistic=self.statistic) for name in SUMMARY_COLUMNS], [self._coefficients]
        if self.metadata.inference is not None:
            values += [self._errors, self.tvalues, self.pvalues, *self.conf_int().to_numpy().T]
        return self._frame(dict(zip(columns, map(np.asarray, values), strict=False)))

    def tidy(self, exponentiate: bool = False) -> pd.DataFrame:
        """Return a row for each coefficient, with the names of R's broom.

        Parameters
        ----------
        exponentiate : bool
            Whether estimates and intervals are those of ratios.

        Returns
        -------
        pandas.DataFrame
            ``term``, ``estimate``, ``std.error``, ``statistic``, ``p.value``, ``conf.low`` and ``conf.high``. Without
            standard errors they are NaN.

        Raises
        ------
        InputError
            If ratios are asked of a model that has none.

        Examples
        --------
        >>> results.tidy(exponentiate=True)["estimate"].round(2).tolist()
        [0.75, 1.98, 1.09]
        """
        return exports.tidy(self, exponentiate)

    def glance(self) -> pd.DataFrame:
        """Return one row with the figures of the whole model, with the names of R's broom.

        Returns
        -------
        pandas.DataFrame
            ``nobs``, degrees of freedom, log-likelihood, AIC, BIC, deviance and others.

        Examples
        --------
        >>> print(results.glance().loc[0, "df.residual"])
        33
        """
        return exports.glance(self)

    def to_latex(self, ratios: bool = False) -> str:
        r"""Return the coefficients with intervals and p-values as LaTeX, for the package booktabs.

        Parameters
        ----------
        ratios : bool
            Whether ratios take the place of coefficients.

        Returns
        -------
        str
            A ``table``.

        Raises
        ------
        InputError
            If ratios are asked of a model that has none.

        Examples
        --------
        >>> print(results.to_latex().splitlines()[6])
        Intercept & $-$0.285 ($-$0.86 to 0.289) & 0.331 \\
        """
        return exports.model_table(self, ratios).to_latex()

    def to_html(self, ratios: bool = False) -> str:
        """Return the coefficients with intervals and p-values as HTML.

        Parameters
        ----------
        ratios : bool
            Whether ratios take the place of coefficients.

        Returns
        -------
        str
            A ``table`` without a style.

        Raises
        ------
        InputError
            If ratios are asked of a model that has none.

        Examples
        --------
        >>> print(results.to_html(ratios=True).splitlines()[3])
        <tr><td>dose</td><td>1.98 (1.61 to 2.43)</td><td>&lt;0.001</td></tr>
        """
        return exports.model_table(self, ratios).to_html()

    def to_csv(self, exponentiate: bool = False) -> str:
        """Return ``tidy`` as comma-separated text with all digits.

        Parameters
        ----------
        exponentiate : bool
            Whether estimates and intervals are those of ratios.

        Returns
        -------
        str
            The text. No cell is a formula for a spreadsheet.

        Raises
        ------
        InputError
            If ratios are asked of a model that has none.

        Examples
        --------
        >>> print(results.to_csv().splitlines()[0])
        term,estimate,std.error,statistic,p.value,conf.low,conf.high
        """
        return exports.csv_text(self.tidy(exponentiate))

    def forest(self, file: str | Path, ratios: bool | None = None) -> None:
        """Write a forest plot of the coefficients or ratios.

        Parameters
        ----------
        file : str or Path
            The file. Its suffix is ``.pdf``, ``.svg`` or ``.png``.
        ratios : bool or None
            Whether ratios are drawn. None draws them if the model has some.

        Raises
        ------
        InputError
            If the model is an intercept alone, or the suffix is another one.

        Examples
        --------
        >>> results.forest("falls.svg")
        """
        as_ratios = self.ratio is not None if ratios is None else ratios
        frame = self.tidy(as_ratios).set_index("term").iloc[sorted(chain(*self._terms.values()))]
        frame = frame.rename(columns={"conf.low": "low", "conf.high": "high"})[["estimate", "low", "high"]]
        if frame.empty:
            raise InputError("the model is an intercept alone: there is no coefficient to draw.")
        plots.forest(frame, str(self.ratio) if as_ratios else "coefficient", file, as_ratios)

    def summary(self) -> Summary:
        """Return the coefficients as a table: print it, or let a notebook show it.

        Returns
        -------
        Summary
            The table below one line about the fit.

        Examples
        --------
        >>> "sex[T.m]" in str(results.summary())
        True
        """
        return Summary(self)

    @property
    def statistic(self) -> str:
        """The distribution of the p-values: "t" for Student's, "z" for the normal one."""
        found = self.metadata.inference
        by_row = found is not None and found.dispersed and self.model.spec.cov == "classical"
        return "t" if by_row or (found is not None and found.df is not None) else "z"

    @property
    def _degrees(self) -> Any:
        """The degrees of freedom of t: those of the rows, or of each coefficient if errors are clustered by site."""
        own = self._inference.df
        return self.df_resid if own is None else np.array(own)

    @property
    def not_converged(self) -> str | None:
        """A sentence about a fit that did not converge; None if it did."""
        return not_converged.of_model(self.model)

    @property
    def event(self) -> Level | None:
        """The label whose probability is modelled, if the outcome has two labels."""
        classes = self.schema.classes
        return classes[-1] if classes is not None and len(classes) == 2 else None

    @property
    def references(self) -> dict[str, Level]:
        """The reference level of every factor that has one: some factors have a column for each level."""
        return references_of(self.formula.terms, self.schema.levels, self._names)

    @property
    def coding(self) -> str:
        """The event and the reference levels as sentences."""
        event = "" if self.event is None else f" The event is {self.formula.left} = {self.event}."
        first = ", ".join(f"{column} = {level}" for column, level in self.references.items())
        return event + (f" Reference levels: {first}." if first else "")

    def headline(self) -> str:
        """Return one line about the fit: rows, rounds, likelihoods or why there are none, and whether it converged.

        Returns
        -------
        str
            The line above the table of ``summary``.

        Examples
        --------
        >>> results.headline()
        'falls ~ dose + sex: 36 rows of 3 sites, ... AIC 114.164, BIC 118.914. Reference levels: sex = f.'
        """
        weighted = self.model.spec.weighting and f", {self.model.spec.weighting}"
        fit = f"{self.formula}: {self.nobs} rows of {len(self.schema.parts)} sites{weighted}, {self.rounds} rounds"
        said = f" {self.not_converged}" if self.not_converged else ""
        if (found := self.metadata.inference) is None:
            return f"{fit}.{said} {self.metadata.why_none}{self.coding}"
        shown = f"Deviance {found.deviance:.6g}, AIC {self.aic:.6g}, BIC {self.bic:.6g}."
        if found.llf is None:
            shown = f"Deviance {found.deviance:.6g}, dispersion {found.scale:.6g}; {WITHOUT_LIKELIHOOD}."
        for name, value in vars(self.metadata.figures).items():
            shown += f" {name.replace('_', ' ').capitalize()} {value:.6g}."
        errors = "" if found.df is None else f" {few_sites(found.sites, len(self._names))}"
        filled = f" {FILLED}" if self.schema.means and self.model.spec.missing == "mean" else ""
        return f"{fit}, cov {self.model.spec.cov}.{said} {shown}{errors}{filled}{self.coding}"

    def plain(self) -> dict[str, Any]:
        """Return the summary in JSON's types.

        Returns
        -------
        dict[str, Any]
            What ``dsba summary --json`` prints. What a penalised model does not have is None.

        Examples
        --------
        >>> results.plain()["names"]
        ['Intercept', 'dose', 'sex[T.m]']
        """
        from dsba.tables.evaluation import Evaluation

        known: dict[str, Any] = dict.fromkeys(("names", *PLAIN_COLUMNS, *PLAIN_FIGURES, "vif", "terms"))
        shown = dict(zip(PLAIN_COLUMNS, self.to_frame().to_numpy().T.tolist(), strict=False))
        known |= {"names": self._names, **shown}
        known |= {} if self.metadata.inference is None else self._tests()
        spec = self.model.spec
        known |= {"formula": str(self.formula), "operator": str(plain_of(spec.operator)), "rounds": self.rounds}
        known |= {"rows": self.nobs, "cov": spec.cov, "weights": spec.weighting or None}
        known |= {"status": str(self.model.run.status), "residual": self.model.run.residual}
        tested = None if self.test is None else Evaluation(self.test, {}).plain()["pooled"]
        known |= {"figures": vars(self.metadata.figures), "test": tested}
        return known | {"event": self.event, "references": self.references, "digest": self.digest()}

    def _tests(self) -> dict[str, Any]:
        """Figures of the whole model, inflation factors and tests of terms, in JSON's types."""
        figures = {name: getattr(self, name) for name in PLAIN_FIGURES}
        terms = {str(term): dict(row) for term, row in self.wald_test_terms().astype(object).iterrows()}
        return {**figures, "vif": self.vif().to_dict(), "terms": terms}

    # Predictions ---------------------------------------------------------------------------------

    def predict(self, table: Any, *, labels: bool = False, name: str | None = None) -> pd.Series | pd.DataFrame:
        """Predict the mean response, or the class, of each row.

        If the fit did not converge, a ``ConvergenceWarning`` is issued.

        Parameters
        ----------
        table : object
            The rows: a frame, a file or the URL of a database, of which only the model's columns are read.
        labels : bool
            Whether classes take the place of probabilities.
        name : str or None
            The site of the rows, if the model has site effects and the table has no column ``site``; the name of the
            file if not given.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            A value for each row, missing where a column that the model needs is missing, or where a function of it is
            not a finite number. A model of more than two classes gives a column of probabilities for each class. A
            Cox model gives hazards relative to a row of zeros.

        Raises
        ------
        InputError
            If a column is not there, has another type or unknown levels, or the model has no classes to label.

        Examples
        --------
        >>> results.predict(table.head(2)).round(2).tolist()
        [0.75, 1.62]
        """
        import pandas as pd

        if self.not_converged:
            not_converged.warn(self.not_converged, stacklevel=2)
        rows = self._rows(table, name)
        whole = _complete(rows.frame, self._needed)
        with np.errstate(invalid="ignore"):
            design = self._design(rows._replace(frame=rows.frame.loc[whole]))
            finite = np.isfinite(design.X).all(axis=1)
            known = self._predicted(design, labels)[finite]
        whole[whole] = finite
        if not whole.all():  # by place, because labels of an index may be repeated
            everywhere = np.full((len(whole), *known.shape[1:]), np.nan if known.dtype.kind == "f" else None)
            everywhere[whole] = known
            known = everywhere
        if known.ndim == 1:
            return pd.Series(known, index=rows.frame.index, name="prediction")
        return pd.DataFrame(known, index=rows.frame.index, columns=list(self.schema.classes or ()))

    def _predicted(self, design: Design, labels: bool) -> npt.NDArray[Any]:
        if self.model.run.decision != "largest" or self._table_model is None:
            scores, _ = self._scores(design)
            return self._labels(scores) if labels else self.mean(scores)
        shares = self._table_model.mean(design.X, design.offset, self._coefficients)
        return np.array(self.schema.classes)[shares.argmax(axis=1)] if labels else shares

    def scores(self, table: Any, *, name: str | None = None) -> tuple[Array, Array]:
        """Return x'b + offset, and the offset, of each row.

        Parameters
        ----------
        table : object
            The rows, as in ``predict``. No column that the model needs may be missing in a row.
        name : str or None
            The site of the rows, as in ``predict``.

        Returns
        -------
        tuple[numpy.ndarray, numpy.ndarray]
            The scores with offsets, and the offsets.

        Raises
        ------
        InputError
            If a column is not there, or the model has more than two classes.

        Examples
        --------
        >>> results.scores(table.head(2))[0].round(3).tolist()
        [-0.285, 0.484]
        """
        return self._scores(self._design(self._rows(table, name)))

    def _scores(self, design: Design) -> tuple[Array, Array]:
        if design.X.shape[1] != len(self._names):
            raise InputError("a model of more than two classes has no single score: predict gives its probabilities.")
        return design.X @ self._coefficients + design.offset, design.offset

    def _rows(self, table: Any, name: str | None) -> SiteTable:
        rows = rows_to_predict(table, self.needed, name)
        _require_fit(rows.frame, self._needed, rows.name)
        return rows

    def _design(self, rows: SiteTable) -> Design:
        return designed(rows._replace(frame=rows.frame.reset_index(drop=True)), self._needed, outcome=False)

    def mean(self, scores: Array) -> Array:
        """Return the mean responses that belong to scores.

        Parameters
        ----------
        scores : numpy.ndarray
            The scores, as ``scores`` gives them.

        Returns
        -------
        numpy.ndarray
            The inverse link of the scores.

        Examples
        --------
        >>> results.mean(results.scores(table.head(2))[0]).round(2).tolist()
        [0.75, 1.62]
        """
        if self._table_model is not None:
            return self._table_model.response(scores)
        link = self.model.run.link
        return scores if link is None else link_of(link).mean(scores[:, None])

    def known_rows(self, table: Any) -> Flags:
        """Return which rows can be predicted: nothing that is needed is missing, and all levels are known.

        Parameters
        ----------
        table : object
            The rows, as in ``predict``.

        Returns
        -------
        numpy.ndarray
            A truth value for each row.

        Examples
        --------
        >>> results.known_rows(pd.DataFrame({"dose": [1, None], "sex": ["f", "m"]})).tolist()
        [True, False]
        """
        _, table = rows_to_predict(table, self.needed)
        known = _complete(table, self._needed)
        for column, levels in self.schema.levels.items():
            if column in table.columns:
                named = {*levels, *self.schema.merged.get(column, ())}
                found = np.array([plain_value(value) in named for value in table[column].tolist()], bool)
                known = known & (found | table[column].isna().to_numpy())
        return known

    def evaluate(self, table: Any, *, sites: str | None = None) -> Evaluation:
        """Measure the predictions on a table with outcomes, at every site and pooled.

        Parameters
        ----------
        table : object
            A frame, a file or the URL of a database, or a list or dict of them, as in ``dsba.fit``.
        sites : str or None
            The column of a single table that names the site of each row.

        Returns
        -------
        Evaluation
            AUC with its interval, log loss, Brier score and calibration for classes; deviance or R^2 for others.

        Raises
        ------
        InputError
            If no row has an outcome and all columns that the model needs, or the model's kind is not evaluated.

        Examples
        --------
        >>> round(results.evaluate(table, sites="ward").pooled.d2, 3)
        0.778
        """
        from dsba.tables.evaluation import evaluate

        found = evaluate(self, as_sites(table, sites, self.needed), Alone())
        for sentence in found.notices:
            warnings.warn(f"Between owners this would be refused: {sentence}", stacklevel=2)
        return found

    def by_site(self, table: Any, *, sites: str | None = None) -> SiteEstimates:
        """Fit the same model at each site alone.

        Event, levels, knots, centres and scales are those of this model. A site without a row of a reference level is
        among the failed ones: its coefficients would be compared with another level.

        Parameters
        ----------
        table : object
            A frame, a file or the URL of a database, or a list or dict of them, as in ``dsba.fit``.
        sites : str or None
            The column of a single table that names the site of each row.

        Returns
        -------
        SiteEstimates
            ``.params``, ``.bse``, ``.failed``, and ``.meta(name)``, which tests whether the sites differ.

        Raises
        ------
        InputError
            If the table does not fit the formula.

        Examples
        --------
        >>> own = results.by_site(table, sites="ward")
        >>> own.params["dose"].round(2).to_dict()
        {'east': 0.61, 'north': 0.68, 'west': 0.71}
        """
        from dsba.tables.fit import fit_each

        return fit_each(as_sites(table, sites, terms_of(self.schema)), self.model.spec, self.schema)

    def columns_of(self, table: Any, *, name: str | None = None) -> Array:
        """Return the columns of the model for rows in which nothing is missing.

        Parameters
        ----------
        table : object
            The rows, as in ``predict``.
        name : str or None
            The site of the rows, as in ``predict``.

        Returns
        -------
        numpy.ndarray
            A column for each coefficient.

        Raises
        ------
        InputError
            If a column is not there or has another type.

        Examples
        --------
        >>> results.columns_of(table.head(2)).tolist()
        [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
        """
        return self._design(self._rows(table, name)).X

    def baseline_hazard(self, table: Any, *, sites: str | None = None) -> BaselineHazard:
        """Compute the baseline hazards of a Cox model from the rows it was fitted to.

        Parameters
        ----------
        table : object
            A frame, a file or the URL of a database, or a list or dict of them, as in ``dsba.fit``.
        sites : str or None
            The column of a single table that names the site of each row.

        Returns
        -------
        BaselineHazard
            Its ``survival(persons, times)`` predicts survival.

        Raises
        ------
        InputError
            If the model is not a Cox model.

        Examples
        --------
        >>> lives = pd.DataFrame({"days": range(1, 31), "died": [1, 0, 1] * 10, "age": [50, 70, 61, 66, 58] * 6})
        >>> cox = dsba.fit(lives, "Surv(days, died) ~ age", "cox", strata="none")
        >>> cox.baseline_hazard(lives).survival(lives.head(1), [10.0])["survival"].round(2).tolist()
        [0.75]
        """
        from dsba.tables.hazards import baseline_hazard

        return baseline_hazard(self, as_sites(table, sites, terms_of(self.schema)), Alone())

    def proportional_hazards_test(
        self, table: Any, *, sites: str | None = None, transform: str = "log"
    ) -> pd.DataFrame:
        """Test whether the coefficients of a Cox model change with time: R's ``cox.zph``.

        Parameters
        ----------
        table : object
            A frame, a file or the URL of a database, or a list or dict of them, as in ``dsba.fit``.
        sites : str or None
            The column of a single table that names the site of each row.
        transform : {"log", "identity"}
            Whether they change with the logarithm of time, or with time itself.

        Returns
        -------
        pandas.DataFrame
            ``chi2``, ``df`` and ``p`` for each column, and for all of them in the row ``GLOBAL``.

        Raises
        ------
        InputError
            If the model is not a Cox model, or the transform is another one.

        Examples
        --------
        >>> lives = pd.DataFrame({"days": range(1, 31), "died": [1, 0, 1] * 10, "age": [50, 70, 61, 66, 58] * 6})
        >>> cox = dsba.fit(lives, "Surv(days, died) ~ age", "cox", strata="none")
        >>> cox.proportional_hazards_test(lives)["p"].round(2).to_dict()
        {'age': 0.27, 'GLOBAL': 0.27}
        """
        from dsba.tables.hazards import proportional_hazards

        return proportional_hazards(self, as_sites(table, sites, terms_of(self.schema)), Alone(), transform)

    @cached_property
    def _needed(self) -> Schema:
        """The schema of predictions, which need no weights."""
        plain = replace(self.schema.spec, weights=None, weight_kind=PRECISION, cov="classical", clusters=None)
        return replace(self.schema, spec=plain)

    @property
    def needed(self) -> ModelTerms:
        """The terms of predictions."""
        return terms_of(self._needed)

    def _labels(self, scores: Array) -> npt.NDArray[Any]:
        if self.schema.classes is None:
            raise InputError("only a model of classes predicts labels.")
        run = self.model.run
        if self._table_model is not None:
            return np.array(self.schema.classes)[(self.mean(scores) > 0.5).astype(int)]
        return decide(run.decision, run.link, scores[:, None], np.array(self.schema.classes))

    # Small parts ---------------------------------------------------------------------------------

    @property
    def _names(self) -> list[str]:
        return list(self.metadata.names)

    @property
    def _inference(self) -> Inference:
        if self.metadata.inference is None:
            raise InputError(str(self.metadata.why_none))
        return self.metadata.inference

    @cached_property
    def _errors(self) -> Array:
        return np.sqrt(np.diag(self._covariance))

    @cached_property
    def _covariance(self) -> Array:
        return np.array(self._inference.covariance)

    def _series(self, values: Array) -> pd.Series:
        import pandas as pd

        return pd.Series(values, index=self._names)

    def _frame(self, values: Any, columns: list[str] | None = None) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(values, self._names, columns)


def _require_fit(table: pd.DataFrame, schema: Schema, name: str) -> None:
    """An error if the table has not the columns that the model needs, or has them of another type."""
    terms, kinds = terms_of(schema), schema.kinds
    for column in (*terms.formula.columns, *terms.extras):
        if column not in table.columns and (column in kinds or column != SITE):
            hint = did_you_mean(column, map(str, table.columns))
            raise InputError(f"{name} has no column {column!r}, which the model needs{hint}")
        wanted = kinds.get(column, "text")
        if column in table.columns and (found := kind_of(table[column])) not in (wanted, "empty"):
            raise InputError(f"the column {column!r} of {name} is {found}, and the model was trained with {wanted}.")


def _complete(table: pd.DataFrame, schema: Schema) -> Flags:
    """The rows in which nothing is missing that the model does not fill in.

    A column that was missing only together with another one may not be missing alone: the model never saw that.
    """
    terms = terms_of(schema)
    filled = {*schema.means, *(column for column, levels in schema.levels.items() if MISSING_LEVEL in levels)}
    needed = [c for c in (*terms.formula.columns, *terms.extras) if c in table.columns and c not in filled]
    whole = table[needed].notna().all(axis=1).to_numpy(copy=True)
    for column, other in schema.together.items():
        if column in table.columns and other in table.columns:
            whole = whole & (table[column].notna() | table[other].isna()).to_numpy()
    return whole
