"""A fitted table model, with the names that people know from statsmodels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtr, stdtrit  # scipy.stats takes most of a second to import

from dsba.errors import InputError, unknown_name
from dsba.fitting import codec, not_converged
from dsba.fitting.model import FittedModel, Inference, Schema, TableMetadata
from dsba.network import Alone
from dsba.operators import decide, link_of
from dsba.tables.design import INTERCEPT, as_sites, designed
from dsba.tables.formula import Formula, quoted
from dsba.tables.schema import MISSING_LEVEL, kind_of, plain_value
from dsba.tables.terms import SITE, ModelTerms, SiteTable, terms_of
from dsba.types import Array, Level

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group

    from dsba.tables.evaluation import Evaluation


RATIOS = {"logit": "odds ratio", "log": "rate ratio"}
P_VALUES = ("P>|t|", "P>|z|")  # columns of a summary
SUMMARY_COLUMNS = ("coef", "std err", "{statistic}", "P>|{statistic}|", "[0.025", "0.975]")
NAME_WIDTH = 40  # of a column in a terminal; a longer name goes on in the next line


@dataclass(frozen=True)
class Results:
    """Coefficients of named columns in their own units, and what is known of their errors."""

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
        """A fingerprint of the model, to compare between processes."""
        h = hashlib.sha256(repr(self.metadata).encode())
        h.update(self._coefficients.tobytes())
        return h.hexdigest()

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

        return pd.DataFrame(np.array(self._inference.covariance), self._names, self._names)

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
        sizes = np.abs(self._coefficients / self._errors)
        return self._series(2.0 * (stdtr(self.df_resid, -sizes) if self.statistic == "t" else ndtr(-sizes)))

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """The confidence intervals of level 1 - alpha."""
        import pandas as pd

        level = 1.0 - alpha / 2.0
        reach = (stdtrit(self.df_resid, level) if self.statistic == "t" else ndtri(level)) * self._errors
        return pd.DataFrame({0: self._coefficients - reach, 1: self._coefficients + reach}, self._names)

    def ratios(self, alpha: float = 0.05) -> pd.DataFrame:
        """Odds ratios of a logistic, rate ratios of a Poisson model: exp of the coefficients, with intervals."""
        import pandas as pd

        link = self.model.run.link
        if link not in RATIOS:
            raise InputError("only logistic and Poisson models have odds or rate ratios.")
        columns = {RATIOS[link]: self._coefficients}
        if self.metadata.inference is not None:
            columns["low"], columns["high"] = self.conf_int(alpha).to_numpy().T
        with np.errstate(over="ignore"):
            return np.exp(pd.DataFrame(columns, self._names))

    # The whole model -----------------------------------------------------------------------------

    @property
    def nobs(self) -> int:
        """Rows of all sites."""
        return self.model.run.samples

    @property
    def rounds(self) -> int:
        """Rounds of communication: agreement, fit and inference."""
        return self.metadata.rounds

    @property
    def deviance(self) -> float:
        return self._inference.deviance

    @property
    def null_deviance(self) -> float:
        """The deviance of the model that is an intercept alone."""
        return self._inference.null_deviance

    @property
    def llf(self) -> float:
        """The log-likelihood."""
        return self._inference.llf

    @property
    def llnull(self) -> float:
        return self._inference.llnull

    @property
    def df_resid(self) -> int:
        return self._inference.df_resid

    @property
    def scale(self) -> float:
        """The estimated variance of a linear model, else 1."""
        return self._inference.scale

    @property
    def aic(self) -> float:
        return -2.0 * self.llf + 2.0 * len(self._names)

    @property
    def bic(self) -> float:
        return float(-2.0 * self.llf + np.log(self.nobs) * len(self._names))

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

    def summary(self) -> Summary:
        """The coefficients as a table: print it, or let a notebook show it."""
        return Summary(self)

    @property
    def statistic(self) -> str:
        """ "t" or "z": what the p-values are taken from."""
        found = self.metadata.inference
        return "t" if found is not None and found.dispersed and self.model.spec.cov == "classical" else "z"

    @property
    def unfinished(self) -> str | None:
        """What to know of a fit that did not converge; None if it did."""
        return not_converged.of_model(self.model)

    @property
    def event(self) -> Level | None:
        """The label whose probability is modelled, where the outcome has two."""
        return None if self.schema.classes is None else self.schema.classes[-1]

    @property
    def references(self) -> dict[str, Level]:
        """The reference level of every factor that has one: some factors have a column for each level."""
        return {column: levels[0] for column, levels in self.schema.levels.items() if self._has_reference(column)}

    def _has_reference(self, column: str) -> bool:
        starts = [f":{name}[T." for name in (column, f"C({quoted(column)})")]
        return any(start in f":{name}" for name in self._names for start in starts)

    @property
    def coding(self) -> str:
        """The event and the reference levels as sentences."""
        event = "" if self.event is None else f" The event is {self.formula.left} = {self.event}."
        first = ", ".join(f"{column} = {level}" for column, level in self.references.items())
        return event + (f" Reference levels: {first}." if first else "")

    def headline(self) -> str:
        """The fit in a line: rows, rounds and likelihoods, or why there are none, and whether it did not converge."""
        fit = f"{self.formula}: {self.nobs} rows of {len(self.schema.parts)} sites, {self.rounds} rounds"
        said = f" {self.unfinished}" if self.unfinished else ""
        if (found := self.metadata.inference) is None:
            return f"{fit}.{said} {self.metadata.why_none}{self.coding}"
        shown = f"Deviance {found.deviance:.6g}, AIC {self.aic:.6g}, BIC {self.bic:.6g}."
        return f"{fit}, cov {self.model.spec.cov}.{said} {shown}{self.coding}"

    def plain(self) -> dict[str, Any]:
        """The summary in JSON's types; what a penalised model does not have is null."""
        columns: dict[str, Any] = dict.fromkeys(("se", "z", "p", "low", "high", "deviance", "aic"))
        if (found := self.metadata.inference) is not None:
            low, high = self.conf_int().to_numpy().T
            arrays = {"se": self._errors, "z": self.tvalues, "p": self.pvalues, "low": low, "high": high}
            columns = {name: np.asarray(values).tolist() for name, values in arrays.items()}
            columns |= {"deviance": found.deviance, "aic": self.aic}
        known = {"names": self._names, "coef": self._coefficients.tolist()}
        run = {"status": str(self.model.run.status), "residual": self.model.run.residual}
        coding = {"event": self.event, "references": self.references}
        return {
            **known,
            **columns,
            "rounds": self.rounds,
            "rows": self.nobs,
            "cov": self.model.spec.cov,
            **run,
            **coding,
        }

    # Predictions ---------------------------------------------------------------------------------

    def predict(self, table: pd.DataFrame, *, labels: bool = False, name: str = "the table") -> pd.Series:
        """The mean response (or with ``labels`` the class) of each row; missing where a column it needs is missing.

        ``name`` is the site of the rows if the model has site effects and the table no column ``site``. If the fit
        did not converge, a ``ConvergenceWarning`` is issued.
        """
        import pandas as pd

        if self.unfinished:
            not_converged.warn(self.unfinished, stacklevel=2)
        table = table.rename(columns=str)
        _require_fit(table, self._needed, name)
        whole = _complete(table, self._needed)
        scores, _ = self.scores(table.loc[whole], name=name)
        known = self._labels(scores) if labels else self.mean(scores)
        if not whole.all():
            known = _spread(known, whole)
        return pd.Series(known, index=table.index, name="prediction")

    def scores(self, table: pd.DataFrame, *, name: str = "the table") -> tuple[Array, Array]:
        """x'b + offset and the offset of each row, of which no column that is needed may be missing."""
        _require_fit(table, self._needed, name)
        design = designed(SiteTable(name, table.reset_index(drop=True)), self._needed, outcome=False)
        return design.X @ self._coefficients + design.offset, design.offset

    def mean(self, scores: Array) -> Array:
        """The mean responses that belong to scores."""
        link = self.model.run.link
        return scores if link is None else link_of(link).mean(scores[:, None])

    def known_rows(self, table: pd.DataFrame) -> npt.NDArray[np.bool_]:
        """Which rows can be predicted: nothing that is needed is missing, and all levels are known."""
        known = _complete(table, self._needed)
        for column, levels in self.schema.levels.items():
            if column in table.columns:
                named = {*levels, *self.schema.merged.get(column, ())}
                values = table[column]
                found = np.array([plain_value(value) in named for value in values.tolist()], bool)
                known = known & (found | values.isna().to_numpy())
        return known

    def evaluate(self, table: Any, *, sites: str | None = None) -> Evaluation:
        """AUC, log loss, calibration, deviance or R^2 on a table with outcomes, at every site and pooled.

        ``table`` and ``sites`` are as in ``dsba.fit``.
        """
        from dsba.tables.evaluation import evaluate

        return evaluate(self, as_sites(table, sites), Alone())

    @cached_property
    def _needed(self) -> Schema:
        """The schema of predictions, which need no weights."""
        return replace(self.schema, spec=replace(self.schema.spec, weights=None))

    @property
    def needed(self) -> ModelTerms:
        """The terms of predictions."""
        return terms_of(self._needed)

    def _labels(self, scores: Array) -> npt.NDArray[Any]:
        if self.schema.classes is None:
            raise InputError("only a model of classes predicts labels.")
        run = self.model.run
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
        return np.sqrt(np.diag(np.array(self._inference.covariance)))

    def _series(self, values: Array) -> pd.Series:
        import pandas as pd

        return pd.Series(values, index=self._names)


def _require_fit(table: pd.DataFrame, schema: Schema, name: str) -> None:
    """An error if the table has not the columns that the model needs, or has them of another type."""
    terms, kinds = terms_of(schema), schema.kinds
    held = {str(column) for column in table.columns}
    for column in (*terms.formula.columns, *terms.extras):
        if column not in held:
            if column in kinds or column != SITE:
                raise InputError(f"{name} has no column {column!r}, which the model needs.")
            continue
        found, wanted = kind_of(table[column]), kinds.get(column, "text")
        if found not in (wanted, "empty"):
            raise InputError(f"the column {column!r} of {name} is {found}, and the model was trained with {wanted}.")


def _spread(known: npt.NDArray[Any], at: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """What is known of some rows as an array of all rows: NaN, or None for labels, in the others.

    It goes by place, because labels of an index may be repeated.
    """
    numbers = known.dtype.kind == "f"
    everywhere = np.full(len(at), np.nan if numbers else None, known.dtype if numbers else object)
    everywhere[at] = known
    return everywhere


def _complete(table: pd.DataFrame, schema: Schema) -> npt.NDArray[np.bool_]:
    """The rows in which nothing is missing that the model does not fill in.

    A column that was missing only together with another one may not be missing alone: the model never saw that.
    """
    terms = terms_of(schema)
    needed = [
        column
        for column in (*terms.formula.columns, *terms.extras)
        if column in table.columns
        and column not in schema.means
        and MISSING_LEVEL not in schema.levels.get(column, ())
    ]  # fmt: skip
    whole = table[needed].notna().all(axis=1).to_numpy() if needed else np.ones(len(table), bool)
    for column, other in schema.together.items():
        whole = whole & (table[column].notna() | table[other].isna()).to_numpy()
    return whole


@dataclass(frozen=True)
class Summary:
    """The table of a fit, for terminals and notebooks."""

    results: Results

    def to_frame(self) -> pd.DataFrame:
        return self.results.to_frame()

    def __rich__(self) -> Group:
        """The headline above the table, which is as wide as it must be: nothing is cut on a narrow terminal."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Console, Group
        from rich.table import Table
        from rich.text import Text

        frame = self.to_frame()
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("", overflow="fold", max_width=NAME_WIDTH)
        for name in frame.columns:
            table.add_column(Text(str(name)), justify="right", no_wrap=True)
        for name, row in frame.iterrows():
            table.add_row(Text(str(name)), *(_cell(str(column), value) for column, value in row.items()))
        table.width = Console(width=1000).measure(table).maximum
        return Group(Text(self.results.headline()), table)

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=100, file=None, no_color=True)
        with console.capture() as captured:
            console.print(self, crop=False)
        return captured.get()

    def _repr_html_(self) -> str:
        import html

        return f"<p>{html.escape(self.results.headline())}</p>{self.to_frame().to_html(float_format='{:.4g}'.format)}"


def _cell(column: str, value: float) -> str:
    """A number for the terminal; a tiny p-value says no more than that it is tiny."""
    if column in P_VALUES:
        return "<0.001" if value < 0.001 else f"{value:.3f}"
    return f"{value:.4g}"
