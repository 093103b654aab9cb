"""Tables for papers: LaTeX, HTML and CSV."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dsba.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from dsba.tables.results import Results

TIDY = ("term", "estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high")
GLANCE = {
    "nobs": "nobs", "df.model": "df_model", "df.residual": "df_resid", "logLik": "llf", "AIC": "aic", "BIC": "bic",
    "deviance": "deviance", "null.deviance": "null_deviance", "pearson.chi2": "pearson_chi2", "scale": "scale",
    "converged": "converged",
}  # fmt: skip
"""The names of R's broom, and ours."""
LATEX_SIGNS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "λ": r"$\lambda$",
}  # fmt: skip
MINUS = re.compile(r"(?<![\w.)])-(?=\.?\d)")  # a sign before a number, and no hyphen of a word
RUN_BY_SPREADSHEETS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # how a cell begins that a spreadsheet may run
NUMBERS_ALONE = re.compile(r"-?[\d.,]+(e[+-]\d+)?( \(-?[\d.,]+(e[+-]\d+)? to -?[\d.,]+(e[+-]\d+)?\))?")
"""Cells that begin with a sign and that no spreadsheet runs: an estimate, alone or with its interval."""


@dataclass(frozen=True)
class TextTable:
    """A table for people: every cell is a text.

    Parameters
    ----------
    title : str
        The caption.
    header : tuple[str, ...]
        The titles of the columns.
    rows : tuple[tuple[str, ...], ...]
        The cells.

    Examples
    --------
    >>> from dsba.tables.exports import TextTable
    >>> found = TextTable("Rows", ("site", "rows"), (("north", "12"), ("west", "9")))
    >>> print(found)
    Rows
    site   rows
    north    12
    west      9
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def to_frame(self) -> pd.DataFrame:
        """Return the cells as a frame whose index is the first column.

        Returns
        -------
        pandas.DataFrame
            The cells, as texts.

        Examples
        --------
        >>> found.to_frame().loc["north", "rows"]
        '12'
        """
        import pandas as pd

        index = [row[0] for row in self.rows]
        return pd.DataFrame([row[1:] for row in self.rows], index=index, columns=list(self.header[1:]))

    def to_latex(self) -> str:
        r"""Return LaTeX for the package booktabs.

        Returns
        -------
        str
            A ``table``.

        Examples
        --------
        >>> print(found.to_latex().splitlines()[0])
        \begin{table}
        """
        lines = [" & ".join(map(latex_text, row)) + r" \\" for row in (self.header, *self.rows)]
        body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
        columns = "l" + "r" * (len(self.header) - 1)
        inside = [rf"\begin{{tabular}}{{{columns}}}", *body, r"\end{tabular}", rf"\caption{{{latex_text(self.title)}}}"]
        return "\n".join([r"\begin{table}", r"\centering", *inside, r"\end{table}", ""])

    def to_html(self) -> str:
        """Return HTML.

        Returns
        -------
        str
            A ``table`` without a style.

        Examples
        --------
        >>> print(found.to_html().splitlines()[3])
        <tr><td>north</td><td>12</td></tr>
        """
        lines = [_html_row(row, "td") for row in self.rows]
        caption = f"<caption>{html.escape(self.title)}</caption>"
        return "\n".join(["<table>", caption, _html_row(self.header, "th"), *lines, "</table>", ""])

    def to_csv(self) -> str:
        """Return comma-separated text.

        Returns
        -------
        str
            The text. A cell that a spreadsheet would run gets a quote before it.

        Examples
        --------
        >>> print(found.to_csv().splitlines()[1])
        north,12
        """
        import pandas as pd

        return csv_text(pd.DataFrame(list(self.rows), columns=list(self.header)))

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]
        lines = [self.title]
        for row in (self.header, *self.rows):
            first, *others = zip(row, widths, strict=True)
            lines.append("  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]).rstrip())
        return "\n".join(lines)


def _html_row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


def figures(value: float, digits: int = 4) -> str:
    """A number with so many significant digits, and with all before its point: 12,346 and not 1.235e+04."""
    rounded = f"{value:.{digits}g}"
    return f"{value:,.0f}" if 1e3 <= abs(float(rounded)) < 1e12 else rounded


def latex_text(text: str) -> str:
    """The text with LaTeX's own signs taken literally, and the signs of numbers as such."""
    return MINUS.sub("$-$", "".join(LATEX_SIGNS.get(sign, sign) for sign in text))


def csv_text(frame: pd.DataFrame) -> str:
    """Comma-separated text of a frame, numbers with all digits, in which no cell is a formula for a spreadsheet."""
    safe = frame.rename(columns=_safe)
    for column in safe:
        if safe[column].dtype.kind not in "iufb":
            safe[column] = [_safe(cell) for cell in safe[column]]
    return safe.to_csv(index=False)


def _safe(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    plain = cell.replace("\r", " ")  # the writer puts no quotes around it, and readers begin another row there
    return f"'{plain}" if cell.startswith(RUN_BY_SPREADSHEETS) and not NUMBERS_ALONE.fullmatch(cell) else plain


# Models ------------------------------------------------------------------------------------------


def tidy(results: Results, exponentiate: bool = False) -> pd.DataFrame:
    """A row for each coefficient, with the names of R's broom."""
    found = results.to_frame()
    found = found.set_axis(TIDY[1 : 1 + len(found.columns)], axis=1).reindex(columns=TIDY[1:])
    if exponentiate:
        results.ratios()  # an error if there are none
        for name in ("estimate", "conf.low", "conf.high"):
            found[name] = np.exp(found[name])
    return found.rename_axis("term").reset_index()


def glance(results: Results) -> pd.DataFrame:
    """One row with the figures of the whole model, with the names of R's broom."""
    import pandas as pd

    if results.metadata.inference is None:
        return pd.DataFrame({"nobs": [results.nobs], "converged": [results.converged]})
    return pd.DataFrame({name: [getattr(results, ours)] for name, ours in GLANCE.items()})


def model_table(results: Results, ratios: bool = False) -> TextTable:
    """The coefficients, or with ``ratios`` exp of them, with intervals and p-values."""
    return side_by_side({"": results}, ratios=ratios, wide=True)


def side_by_side(models: Mapping[str, Results], *, ratios: bool = False, wide: bool = False) -> TextTable:
    """Several models in one table: a line for each coefficient, and the rows and AIC of each model below.

    Parameters
    ----------
    models : Mapping[str, Results]
        The models by the names that the header shows.
    ratios : bool
        Show exp of coefficients: odds ratios, rate ratios.
    wide : bool
        Give p-values a column of their own.

    Returns
    -------
    TextTable
        With ``to_frame``, ``to_latex``, ``to_html`` and ``to_csv``.

    Raises
    ------
    InputError
        If there is no model, or if ratios are asked for and a model has none.

    Examples
    --------
    >>> dsba.side_by_side({"crude": first, "adjusted": second}).to_latex()  # doctest: +SKIP
    """
    if not models:
        raise InputError("a table of models needs at least one model, got none.")
    tidied = {name: tidy(one, ratios).set_index("term") for name, one in models.items()}
    terms = list(dict.fromkeys(term for frame in tidied.values() for term in frame.index))
    terms = [term for term in terms if not (ratios and term == "Intercept")]
    header, columns = [""], [[*terms, "rows", "AIC"]]
    for name, one in models.items():
        what = str(one.ratios().columns[0]) if ratios else "estimate"
        header.append(f"{name}: {what} (95 % interval)" if name else f"{what} (95 % interval)")
        figures = [f"{one.nobs:,}", "" if one.metadata.inference is None or np.isnan(one.aic) else f"{one.aic:.1f}"]
        found = tidied[name].reindex(terms)
        intervals = map(_interval, found["estimate"], found["conf.low"], found["conf.high"])
        columns.append([*intervals, *figures])
        if wide:
            header.append("p")
            columns.append([*map(_p_value, found["p.value"]), "", ""])
    left = dict.fromkeys(str(one.formula.left) for one in models.values())
    return TextTable(f"Models of {', '.join(left)}", tuple(header), tuple(zip(*columns, strict=True)))


def _interval(estimate: float, *ends: float) -> str:
    """Nothing for a coefficient that the model does not have."""
    interval = "" if np.isnan(ends[0]) else f" ({' to '.join(figures(end, 3) for end in ends)})"
    return "" if np.isnan(estimate) else figures(estimate, 3) + interval


def _p_value(value: float) -> str:
    return "" if np.isnan(value) else "<0.001" if value < 0.001 else f"{value:.3f}"


def plain_columns(frame: pd.DataFrame) -> dict[str, list[float | None]]:
    """The columns of a frame of numbers in JSON's types."""
    return {str(name): [None if value != value else float(value) for value in frame[name]] for name in frame}
