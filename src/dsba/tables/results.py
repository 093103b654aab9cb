"""A fitted table model, with the names that people know from statsmodels."""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dsba.engine.run import Status
from dsba.errors import InputError, unknown_name
from dsba.fitting import codec, not_converged
from dsba.fitting.model import FittedModel, Inference, Schema, TableMetadata
from dsba.network import Alone
from dsba.operators import decide, link_of
from dsba.tables import exports, plots
from dsba.tables.clustered import few_sites
from dsba.tables.columns import INTERCEPT, reference_of
from dsba.tables.design import Design, column_terms, designed
from dsba.tables.formula import Formula
from dsba.tables.inputs import as_sites
from dsba.tables.schema import MISSING_LEVEL, kind_of, plain_value
from dsba.tables.summary import Summary
from dsba.tables.terms import SITE, ModelTerms, SiteTable, terms_of
from dsba.tables.tests import (
    Fitted,
    LinearTests,
    Prediction,
    Reference,
    WaldTest,
    hypotheses,
    likelihood_ratio,
    linear_tests,
    wald,
)
from dsba.types import Array, Level

if TYPE_CHECKING:
    import pandas as pd

    from dsba.tables.evaluation import Evaluation
    from dsba.tables.hazards import BaselineHazard
    from dsba.tables.meta import SiteEstimates
    from dsba.tables.models.base import TableModel


RATIOS = {"logit": "odds ratio", "log": "rate ratio"}
PLAIN_FIGURES = (
    "bic", "llf", "llnull", "null_deviance", "pearson_chi2", "scale", "df_model", "df_resid", "converged"
)  # fmt: skip
SUMMARY_COLUMNS = ("coef", "std err", "{statistic}", "P>|{statistic}|", "[0.025", "0.975]")


def _inferred(name: str, meaning: str) -> Any:
    """A property of results: a figure of the inference, or an error that says why there is none."""
    return property(lambda results: getattr(results._inference, name), doc=meaning)


@dataclass(frozen=True)
class Results:
    """A fitted model of a table: coefficients of named columns in their own units, and their errors.

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
    >>> table = pd.DataFrame({"dose": [0, 1, 2, 3] * 9, "effect": [0, 2, 5, 6, 1, 3, 4, 7, 1, 1, 4, 6] * 3})
    >>> results = dsba.fit(table, "effect ~ dose", "linear")
    >>> results.nobs, list(results.params.index)
    (36, ['Intercept', 'dose'])
    """

    model: FittedModel

    @cached_property
    def metadata(self) -> TableMetadata:
        if self.model.table is None:
            raise InputError("this model was not trained on a table with column names: use `dsba predict`.")
        return self.model.table

    @property
    def schema(self) -> Schema:
        return self.metadata.schema

    @cached_property
    def formula(self) -> Formula:
        return terms_of(self.schema).formula

    @classmethod
    def load(cls, folder: str | Path) -> Results:
        """Read what ``save`` or ``dsba train`` wrote."""
        results = cls(codec.load(Path(folder)))
        names, found = results.metadata.names, results.metadata.inference
        shapes = {len(names)} if found is None else {len(names), len(found.covariance), *map(len, found.covariance)}
        if len(names) != results.model.n_features + (INTERCEPT in names) or len(shapes) > 1:
            raise InputError(f"the model in {folder} is damaged: its names do not fit its coefficients.")
        return results

    def save(self, folder: str | Path) -> None:
        """Write ``model.dsba`` (and ``model.json``, a copy for people) into the folder."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        codec.save(self.model, Path(folder))

    def digest(self) -> str:
        """A fingerprint of the model: the same on every network, and after it was read from its file."""
        known = [repr(self.model.spec.operator), codec.table_content(replace(self.metadata, rounds=0))]
        return hashlib.sha256(json.dumps(known).encode() + self._coefficients.tobytes()).hexdigest()

    def tested(self, measures: dict[str, Any]) -> Results:
        """The same results with the measures of held-out rows."""
        return Results(replace(self.model, table=replace(self.metadata, test=measures)))

    # Coefficients --------------------------------------------------------------------------------

    @cached_property
    def _coefficients(self) -> Array:
        weights = iter(self.model.weights[0])
        return np.array([self.model.intercepts[0] if name == INTERCEPT else next(weights) for name in self._names])

    @property
    def params(self) -> pd.Series:
        """The coefficients."""
        return self._series(self._coefficients)

    def cov_params(self) -> pd.DataFrame:
        """Their covariance."""
        import pandas as pd

        return pd.DataFrame(self._covariance, self._names, self._names)

    @property
    def bse(self) -> pd.Series:
        """Their standard errors."""
        return self._series(self._errors)

    @property
    def tvalues(self) -> pd.Series:
        """Coefficients divided by their standard errors."""
        return self._series(self._coefficients / self._errors)

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided, of the hypotheses that coefficients are zero."""
        return self._series(self._reference.two_sided(self._coefficients / self._errors))

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """The confidence intervals of level 1 - alpha."""
        import pandas as pd

        reach = self._reference.reach(alpha) * self._errors
        return pd.DataFrame({0: self._coefficients - reach, 1: self._coefficients + reach}, self._names)

    def ratios(self, alpha: float = 0.05) -> pd.DataFrame:
        """Odds, rate or hazard ratios, by the model: exp of the coefficients, with intervals."""
        import pandas as pd

        if self.ratio is None:
            raise InputError("the coefficients of this model are no logarithms of odds, rates or hazards.")
        columns = {self.ratio: self._coefficients}
        if self.metadata.inference is not None:
            columns["low"], columns["high"] = self.conf_int(alpha).to_numpy().T
        with np.errstate(over="ignore"):
            return np.exp(pd.DataFrame(columns, self._names))

    @property
    def ratio(self) -> str | None:
        """What exp of a coefficient is called, or None."""
        return RATIOS.get(str(self.model.run.link)) if self._table_model is None else self._table_model.ratio

    @cached_property
    def _table_model(self) -> TableModel | None:
        return terms_of(self.schema).model(self.schema.classes)

    # The whole model -----------------------------------------------------------------------------

    @property
    def nobs(self) -> int:
        """Rows of all sites."""
        return self.model.run.samples

    @property
    def rounds(self) -> int:
        """Rounds of communication: agreement, fit and inference, without the check with noise between processes."""
        return self.metadata.rounds

    deviance = _inferred("deviance", "The deviance.")
    null_deviance = _inferred("null_deviance", "The deviance of the model that is an intercept alone.")
    llf = _inferred("llf", "The log-likelihood.")
    llnull = _inferred("llnull", "The log-likelihood of the model that is an intercept alone.")
    df_resid = _inferred("df_resid", "Rows minus coefficients.")
    scale = _inferred("scale", "The estimated variance of a linear model, else 1.")
    pearson_chi2 = _inferred("pearson_chi2", "The sum of squared residuals, each divided by its variance.")

    @property
    def df_model(self) -> int:
        """Coefficients without the intercept."""
        return len(self._names) - (INTERCEPT in self._names)

    @property
    def converged(self) -> bool:
        return self.model.run.status is Status.CONVERGED

    def vif(self) -> pd.Series:
        """Variance inflation factors of the columns, without the intercept."""
        found = self._series(np.array(self._inference.vif))
        return found[found > 0.0]

    # Tests ---------------------------------------------------------------------------------------

    def t_test(self, hypothesis: Any) -> LinearTests:
        """Test linear combinations one by one, such as ``"stage[T.IV] - stage[T.II]"`` or ``"10*age = 1"``.

        ``hypothesis`` is a text, a list of texts, or a matrix with a column for each coefficient.
        """
        return linear_tests(hypothesis, self._coefficients, self._covariance, self._names, self._combined.df)

    def wald_test(self, hypothesis: Any, use_f: bool | None = None) -> WaldTest:
        """Test linear hypotheses together, such as ``"age = 0.02, C(sex)[T.M] = treated"``.

        The statistic is F where p-values of coefficients are of Student's t, else chi squared.
        """
        R, q, _ = hypotheses(hypothesis, self._names)
        return wald(R, q, self._coefficients, self._covariance, self._denominator(use_f))

    def wald_test_terms(self, use_f: bool | None = None) -> pd.DataFrame:
        """A test of every term of the formula: that all its coefficients are 0."""
        import pandas as pd

        R, rows = np.eye(len(self._names)), {}
        for term, at in self._terms.items():
            rows[term] = wald(R[at], np.zeros(len(at)), self._coefficients, self._covariance, self._denominator(use_f))
        return pd.DataFrame.from_dict(rows, orient="index", columns=WaldTest._fields)

    def compare_lr_test(self, restricted: Results) -> tuple[float, float, int]:
        """The likelihood-ratio test against a smaller model of the same rows: statistic, p-value, df."""
        return likelihood_ratio(self._fitted, restricted._fitted)

    def get_prediction(self, table: pd.DataFrame, *, name: str = "the table") -> Prediction:
        """Mean responses with standard errors and intervals; nothing that is needed may be missing in a row."""
        table = table.rename(columns=str)
        _require_fit(table, self._needed, name)
        if not _complete(table, self._needed).all():
            raise InputError(f"{name} has missing values in columns that the model needs: leave these rows out.")
        design = self._design(table, name)
        X, offset = design.X, design.offset
        errors = np.sqrt(np.einsum("ij,jk,ik->i", X, self._covariance, X))
        scale = self.scale if self.model.run.link == "identity" else None
        return Prediction(X @ self._coefficients + offset, errors, self.mean, self._combined, scale, table.index)

    @property
    def _reference(self) -> Reference:
        return Reference(self._degrees if self.statistic == "t" else None)

    @property
    def _combined(self) -> Reference:
        """Of sums of coefficients: with errors by site, the fewest degrees of freedom of any coefficient."""
        return Reference(np.min(self._degrees).item() if self.statistic == "t" else None)

    def _denominator(self, use_f: bool | None) -> float | None:
        """The degrees of freedom below an F statistic; None for chi squared."""
        wanted = self.statistic == "t" if use_f is None else use_f
        return np.min(self._degrees).item() if wanted else None

    @property
    def _fitted(self) -> Fitted:
        data = (self.formula.left, self.nobs, repr(self.model.spec.operator), self.schema.classes)
        return Fitted(self.llf, len(self._names), (*data, self.model.spec.weights, self.model.spec.offset))

    @property
    def _terms(self) -> dict[str, list[int]]:
        """The places of each term's coefficients, without the intercept."""
        found: dict[str, list[int]] = {}
        for at, term in enumerate(column_terms(self.schema)):
            if term:
                found.setdefault(term, []).append(at)
        return found

    @property
    def aic(self) -> float:
        """NaN where there is no likelihood."""
        return np.nan if self.llf is None else -2.0 * self.llf + 2.0 * (len(self._names) + self._inference.extra)

    @property
    def bic(self) -> float:
        counted = len(self._names) + self._inference.extra
        rows = self._inference.bic_rows or self.nobs
        return np.nan if self.llf is None else float(-2.0 * self.llf + np.log(rows) * counted)

    @property
    def theta(self) -> float:
        """The shape of a negative binomial model."""
        if "theta" not in self.metadata.figures:
            raise InputError("only a negative binomial model has a theta.")
        return self.metadata.figures["theta"]

    def pseudo_rsquared(self, kind: str = "cs") -> float:
        """ "cs": Cox and Snell. "mcf": McFadden."""
        if kind not in ("cs", "mcf"):
            raise unknown_name("kind", kind, ("cs", "mcf"))
        if kind == "mcf":
            return 1.0 - self.llf / self.llnull
        return float(-np.expm1((self.llnull - self.llf) * 2.0 / self.nobs))

    @property
    def test(self) -> dict[str, Any] | None:
        """The measures of the held-out rows of all sites, where some were held out."""
        return self.metadata.test

    # Shown ---------------------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """The table of the summary."""
        import pandas as pd

        columns = [name.format(statistic=self.statistic) for name in SUMMARY_COLUMNS]
        if self.metadata.inference is None:
            return pd.DataFrame({columns[0]: self._coefficients}, self._names)
        values = [self._coefficients, self._errors, self.tvalues, self.pvalues, *self.conf_int().to_numpy().T]
        return pd.DataFrame(dict(zip(columns, map(np.asarray, values), strict=True)), self._names)

    def tidy(self, exponentiate: bool = False) -> pd.DataFrame:
        """A row for each coefficient (or its exp), with the names of R's broom."""
        return exports.tidy(self, exponentiate)

    def glance(self) -> pd.DataFrame:
        """One row with the figures of the whole model, with the names of R's broom."""
        return exports.glance(self)

    def to_latex(self, ratios: bool = False) -> str:
        """The coefficients (or ratios) with intervals and p-values, for the package booktabs."""
        return exports.model_table(self, ratios).to_latex()

    def to_html(self, ratios: bool = False) -> str:
        """The same as an HTML table."""
        return exports.model_table(self, ratios).to_html()

    def to_csv(self, exponentiate: bool = False) -> str:
        """``tidy`` as comma-separated text with all digits; no cell is a formula for a spreadsheet."""
        return exports.csv_text(self.tidy(exponentiate))

    def forest(self, file: str | Path, ratios: bool | None = None) -> None:
        """Write a forest plot of coefficients, or of ratios where the model has some, as a PDF, SVG or PNG file."""
        as_ratios = self.ratio is not None if ratios is None else ratios
        frame = self.tidy(as_ratios).set_index("term").drop(INTERCEPT, errors="ignore")
        frame = frame.rename(columns={"conf.low": "low", "conf.high": "high"})[["estimate", "low", "high"]]
        if frame.empty:
            raise InputError("the model is an intercept alone: there is no coefficient to draw.")
        plots.forest(frame, str(self.ratio) if as_ratios else "coefficient", file, as_ratios)

    def summary(self) -> Summary:
        """The coefficients as a table: print it, or let a notebook show it."""
        return Summary(self)

    @property
    def statistic(self) -> str:
        """ "t" or "z": what the p-values are taken from."""
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
        """What to know of a fit that did not converge; None if it did."""
        return not_converged.of_model(self.model)

    @property
    def event(self) -> Level | None:
        """The label whose probability is modelled, where the outcome has two."""
        return None if self.schema.classes is None else self.schema.classes[-1]

    @property
    def references(self) -> dict[str, Level]:
        """The reference level of every factor that has one: some factors have a column for each level."""
        factors = {one.column: one for term in self.formula.terms for one in term if one.column in self.schema.levels}
        return {
            str(column): reference_of(one.contrast, str(column), self.schema.levels[str(column)])
            for column, one in factors.items()
            if any(f":{start}[T." in f":{name}" for name in self._names for start in (column, one.text))
        }

    @property
    def coding(self) -> str:
        """The event and the reference levels as sentences."""
        event = "" if self.event is None else f" The event is {self.formula.left} = {self.event}."
        first = ", ".join(f"{column} = {level}" for column, level in self.references.items())
        return event + (f" Reference levels: {first}." if first else "")

    def headline(self) -> str:
        """The fit in a line: rows, rounds and likelihoods, or why there are none, and whether it did not converge."""
        fit = f"{self.formula}: {self.nobs} rows of {len(self.schema.parts)} sites, {self.rounds} rounds"
        said = f" {self.not_converged}" if self.not_converged else ""
        if (found := self.metadata.inference) is None:
            return f"{fit}.{said} {self.metadata.why_none}{self.coding}"
        shown = f"Deviance {found.deviance:.6g}, AIC {self.aic:.6g}, BIC {self.bic:.6g}."
        if found.llf is None:
            shown = f"Deviance {found.deviance:.6g}, dispersion {found.scale:.6g}; quasi-models have no likelihood."
        for name, value in self.metadata.figures.items():
            shown += f" {name.replace('_', ' ').capitalize()} {value:.6g}."
        errors = "" if found.df is None else f" {few_sites(found.sites, len(self._names))}"
        return f"{fit}, cov {self.model.spec.cov}.{said} {shown}{errors}{self.coding}"

    def plain(self) -> dict[str, Any]:
        """The summary in JSON's types; what a penalised model does not have is null."""
        known: dict[str, Any] = {"names": self._names, "coef": self._coefficients.tolist()}
        known |= dict.fromkeys(("se", "z", "p", "low", "high", "deviance", "aic", *PLAIN_FIGURES, "vif", "terms"))
        if self.metadata.inference is not None:
            low, high = self.conf_int().to_numpy().T
            arrays = {"se": self._errors, "z": self.tvalues, "p": self.pvalues, "low": low, "high": high}
            known |= {name: np.asarray(values).tolist() for name, values in arrays.items()}
            known |= {"deviance": self.deviance, "aic": self.aic}
            known |= self._tests()
        known |= {"rounds": self.rounds, "rows": self.nobs, "cov": self.model.spec.cov}
        known |= {"status": str(self.model.run.status), "residual": self.model.run.residual}
        return known | {"event": self.event, "references": self.references, "digest": self.digest()}

    def _tests(self) -> dict[str, Any]:
        """Figures of the whole model, inflation factors and tests of terms, in JSON's types."""
        figures = {name: getattr(self, name) for name in PLAIN_FIGURES}
        terms = {str(term): dict(row) for term, row in self.wald_test_terms().astype(object).iterrows()}
        return {**figures, "vif": self.vif().to_dict(), "terms": terms}

    # Predictions ---------------------------------------------------------------------------------

    def predict(
        self, table: pd.DataFrame, *, labels: bool = False, name: str = "the table"
    ) -> pd.Series | pd.DataFrame:
        """The mean response (or with ``labels`` the class) of each row; missing where a column it needs is missing.

        A model of more than two classes gives a column of probabilities for each; a Cox model gives hazards relative
        to a row of zeros.
        ``name`` is the site of the rows if the model has site effects and the table no column ``site``. If the fit
        did not converge, a ``ConvergenceWarning`` is issued.
        """
        import pandas as pd

        if self.not_converged:
            not_converged.warn(self.not_converged, stacklevel=2)
        table = table.rename(columns=str)
        _require_fit(table, self._needed, name)
        whole = _complete(table, self._needed)
        known = self._predicted(table.loc[whole], labels, name)
        if not whole.all():  # by place, because labels of an index may be repeated
            everywhere = np.full((len(whole), *known.shape[1:]), np.nan if known.dtype.kind == "f" else None)
            everywhere[whole] = known
            known = everywhere
        if known.ndim == 1:
            return pd.Series(known, index=table.index, name="prediction")
        return pd.DataFrame(known, index=table.index, columns=list(self.schema.classes or ()))

    def _predicted(self, table: pd.DataFrame, labels: bool, name: str) -> npt.NDArray[Any]:
        if self.model.run.decision != "largest" or self._table_model is None:
            scores, _ = self.scores(table, name=name)
            return self._labels(scores) if labels else self.mean(scores)
        design = self._design(table, name)
        shares = self._table_model.mean(design.X, design.offset, self._coefficients)
        return np.array(self.schema.classes)[shares.argmax(axis=1)] if labels else shares

    def scores(self, table: pd.DataFrame, *, name: str = "the table") -> tuple[Array, Array]:
        """x'b + offset and the offset of each row, of which no column that is needed may be missing."""
        design = self._design(table, name)
        if design.X.shape[1] != len(self._names):
            raise InputError("a model of more than two classes has no single score.")
        return design.X @ self._coefficients + design.offset, design.offset

    def _design(self, table: pd.DataFrame, name: str) -> Design:
        _require_fit(table, self._needed, name)
        return designed(SiteTable(name, table.reset_index(drop=True)), self._needed, outcome=False)

    def mean(self, scores: Array) -> Array:
        """The mean responses that belong to scores."""
        if self._table_model is not None:
            return self._table_model.response(scores)
        link = self.model.run.link
        return scores if link is None else link_of(link).mean(scores[:, None])

    def known_rows(self, table: pd.DataFrame) -> npt.NDArray[np.bool_]:
        """Which rows can be predicted: nothing that is needed is missing, and all levels are known."""
        known = _complete(table, self._needed)
        for column, levels in self.schema.levels.items():
            if column in table.columns:
                named = {*levels, *self.schema.merged.get(column, ())}
                found = np.array([plain_value(value) in named for value in table[column].tolist()], bool)
                known = known & (found | table[column].isna().to_numpy())
        return known

    def evaluate(self, table: Any, *, sites: str | None = None) -> Evaluation:
        """AUC, log loss, calibration, deviance or R^2 on a table with outcomes, at every site and pooled.

        ``table`` and ``sites`` are as in ``dsba.fit``.
        """
        from dsba.tables.evaluation import evaluate

        found = evaluate(self, as_sites(table, sites, self.needed), Alone())
        for sentence in found.notices:
            warnings.warn(f"Between owners this would be refused: {sentence}", stacklevel=2)
        return found

    def by_site(self, table: Any, *, sites: str | None = None) -> SiteEstimates:
        """The same model fitted at each site alone; ``table`` and ``sites`` are as in ``dsba.fit``.

        ``.params``, ``.bse``, ``.failed`` and ``.meta(name)``, which says whether the sites differ.
        """
        from dsba.tables.fit import fit_each

        return fit_each(as_sites(table, sites, ModelTerms.of(self.model.spec)), self.model.spec)

    def columns_of(self, table: pd.DataFrame, *, name: str = "the table") -> Array:
        """The columns of the model, of rows in which nothing is missing."""
        return self._design(table, name).X

    def baseline_hazard(self, table: Any, *, sites: str | None = None) -> BaselineHazard:
        """The baseline hazards of a Cox model, from the rows it was fitted to; ``.survival(persons, times)``."""
        from dsba.tables.hazards import baseline_hazard

        return baseline_hazard(self, as_sites(table, sites, terms_of(self.schema)), Alone())

    def proportional_hazards_test(
        self, table: Any, *, sites: str | None = None, transform: str = "log"
    ) -> pd.DataFrame:
        """Whether coefficients of a Cox model change with time ("identity") or its logarithm ("log")."""
        from dsba.tables.hazards import proportional_hazards

        return proportional_hazards(self, as_sites(table, sites, terms_of(self.schema)), Alone(), transform)

    @cached_property
    def _needed(self) -> Schema:
        """The schema of predictions, which need no weights."""
        return replace(self.schema, spec=replace(self.schema.spec, weights=None, cov="classical", clusters=None))

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


def _require_fit(table: pd.DataFrame, schema: Schema, name: str) -> None:
    """An error if the table has not the columns that the model needs, or has them of another type."""
    terms, kinds = terms_of(schema), schema.kinds
    for column in (*terms.formula.columns, *terms.extras):
        if column not in table.columns and (column in kinds or column != SITE):
            raise InputError(f"{name} has no column {column!r}, which the model needs.")
        wanted = kinds.get(column, "text")
        if column in table.columns and (found := kind_of(table[column])) not in (wanted, "empty"):
            raise InputError(f"the column {column!r} of {name} is {found}, and the model was trained with {wanted}.")


def _complete(table: pd.DataFrame, schema: Schema) -> npt.NDArray[np.bool_]:
    """The rows in which nothing is missing that the model does not fill in.

    A column that was missing only together with another one may not be missing alone: the model never saw that.
    """
    terms = terms_of(schema)
    filled = {*schema.means, *(column for column, levels in schema.levels.items() if MISSING_LEVEL in levels)}
    needed = [c for c in (*terms.formula.columns, *terms.extras) if c in table.columns and c not in filled]
    whole = table[needed].notna().all(axis=1).to_numpy()
    for column, other in schema.together.items():
        whole = whole & (table[column].notna() | table[other].isna()).to_numpy()
    return whole
