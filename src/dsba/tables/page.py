"""The page of a table's model: one HTML file without scripts that asks nobody for anything."""

from __future__ import annotations

import html
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dsba.fitting.measures import CalibrationGroup, ClassMeasures, MeanMeasures, RocPoint
from dsba.fitting.spec import plain_of
from dsba.pages.templates import asset, document, filled
from dsba.tables.columns import INTERCEPT
from dsba.tables.description import Description
from dsba.tables.evaluation import Z95, for_people
from dsba.tables.expected_cost import told_besides
from dsba.tables.models import MODELS
from dsba.tables.results import Results
from dsba.tables.schema_report import MISSING_WORDS, guard_sentences
from dsba.tables.summary import cell
from dsba.tables.terms import terms_of

BARS = ", in groups of the predicted probability; bars are 95 % intervals of the share."
NO_CURVE = (
    "Times are exact, and a survival curve on exact times would show single rows: the page has none. Where the rows "
    "are, Results.baseline_hazard(table) computes it."
)
MEAN_CURVE = "Times were grouped into {intervals} intervals. The survival of a row that has the mean of every column."
ROC_NOTE = "ROC curve: the share of events at or above a score, against the share of other rows there."
EVALUATED_ON = "evaluated on"
"""What a study that evaluates a stored model says of the rows."""
OPERATORS = {"logit": "Logistic", "log": "Poisson", "identity": "Linear"}


def model_page(results: Results, command: str, study: Mapping[str, str] | None = None) -> str:
    """The HTML text; ``command`` is the one that trained the model, ``study`` what there is to know of its study."""
    run, study = results.model.run, study or {}
    title, rows = str(results.formula), study.get(EVALUATED_ON, "held-out rows of all sites")
    title_of_fit, note, chart = _fit(results, rows)
    parts = {
        "title": _text(title),
        "lead": _text(_lead(results)),
        "warnings": _warnings(results),
        "coefficients": _coefficients(results),
        "effects": _effects(results),
        "figures": _figures(results),
        "tested": _tested(results, rows),
        "sites": _sites(results),
        "sites_note": _text(_sites_note(results)),
        "fit_title": title_of_fit,
        "calibration": chart or "",
        "calibration_note": _text(note),
        "convergence": _convergence(results),
        "convergence_note": _text(f"{_sentence(run.status)}: {run.message}."),
        "disclosed": "".join(f"<li>{_text(line)}</li>" for line in _disclosed(results, rows)),
        "command": _text(command),
        "made": "".join(
            f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in _made(results, study).items()
        ),
    }
    body = filled(asset("dsba.tables", "model.html"), parts)
    return document(parts["title"], body, css="\n" + asset("dsba.tables", "model.css"))


def description_page(title: str, found: Description) -> str:
    """Table 1 with its small histograms, and the signs of trouble above it."""
    head = f"<header>\n  <h1>{_text(title)}</h1>\n</header>"
    body = f'{head}\n<main>\n{_warned(found.signs)}\n<div class="card scroll">{found.to_html()}</div>\n</main>\n'
    return document(_text(title), body, css="\n" + asset("dsba.tables", "description.css"))


# Words -------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    return html.escape(str(value))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _number(value: Any) -> str:
    """A number that a person reads at a glance."""
    if value is None:
        return "–"
    if isinstance(value, int | str):
        return f"{value:,}" if isinstance(value, int) else value
    return f"{value:,.1f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def _lead(results: Results) -> str:
    spec = results.model.spec
    kind = _sentence(str(plain_of(spec.operator)))
    if spec.operator not in MODELS:
        kind = OPERATORS.get(str(results.model.run.link), kind)
    sites, penalty = len(results.schema.parts), spec.lam
    shrunk = f", penalty {penalty:g}" if penalty else ""
    shrunk += ", with a random intercept of each site" if spec.random else ""
    shrunk += spec.weighting and f", {spec.weighting}"
    made = f"{kind} model of {results.nobs:,} rows at {sites} sites{shrunk}, in {results.rounds:,} rounds of messages."
    return made + results.coding


def _warnings(results: Results) -> str:
    lines = [sentence for sentence in (results.not_converged, results.metadata.why_none) if sentence]
    return _warned([*lines, *guard_sentences(results.schema, results.metadata.notices)])


def _warned(lines: Sequence[str]) -> str:
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f'  <ul class="warnings" aria-label="Warnings">{items}</ul>' if items else ""


def _sites_note(results: Results) -> str:
    note = "Counts of single sites stay there; only their sums are known here."
    if (events := results.metadata.events) is not None:
        coded = "" if results.event is None else f" ({results.formula.left} = {results.event})"
        note += f" Of the {results.nobs:,} rows in the model {events:,} are events{coded}."
    held = results.model.spec.test_share
    return f"{note} {100 * held:g} % of each site's rows were held out." if held else note


def _disclosed(results: Results, tested: str) -> list[str]:
    """``tested`` says which rows the measures are of."""
    run = results.model.run
    way = results.model.spec.communication or "dense"
    if run.method == "newton":
        way = "masked" if run.masked else "newton"
    lines = [tomllib.loads(asset("dsba.tables", "disclosure.toml"))[way]]
    if results.metadata.inference is not None:
        table = "" if results.metadata.calibration is None else ", and the calibration table"
        lines.append(f"As sums over all sites, after the fit: information matrix and deviance{table}.")
    lines += told_besides(terms_of(results.schema))
    if results.test is not None:
        lines.append(f"As sums over all sites, of the {tested}: counts in bins of the score, and losses.")
    if run.processes == 1:
        lines.append("All sites of the fit were in one process, so that nothing was hidden from who ran it.")
    return lines


def _made(results: Results, study: Mapping[str, str]) -> dict[str, str]:
    run, spec = results.model.run, results.model.spec
    versions = ", ".join(f"{name} {value}" for name, value in run.versions.items())
    method = f"{run.method} on the graph {plain_of(spec.graph)}, {run.processes} process(es)"
    known = {"method": method, "versions": versions, "covariance": spec.cov}
    if run.plan:
        known["plan"] = _sentence(run.plan)
    known["missing values"] = f"{spec.missing}. {MISSING_WORDS[spec.missing]}"
    if results.schema.levels:
        levels = [f"{column}: {', '.join(map(str, own))}" for column, own in results.schema.levels.items()]
        known["levels"] = "; ".join(levels)
    if results.event is not None:
        known["event"] = f"{results.formula.left} = {results.event}"
    return {**study, **known}


# Tables ------------------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{_text(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _coefficients(results: Results) -> str:
    frame = results.to_frame()
    ratios = results.ratios() if results.ratio else None
    head = ["", *map(str, frame.columns)]
    if ratios is not None:
        head.append(str(ratios.columns[0]) + (" (95 % interval)" if "low" in ratios else ""))
    rows = []
    for name, row in frame.iterrows():
        cells = [cell(str(column), value, _digits) for column, value in row.items()]
        rows.append([str(name), *cells, *([] if ratios is None else [_ratio(*ratios.loc[name])])])
    return _table(head, rows)


def _ratio(value: float, *ends: float) -> str:
    interval = f" ({' to '.join(map(_digits, ends))})" if ends else ""
    return _digits(value) + interval


def _digits(value: float) -> str:
    """Four digits, zeros as well: numbers below each other are equally precise."""
    return f"{value:#.4g}".rstrip(".") if abs(value) < 1000 else _number(float(value))


def _figures(results: Results) -> str:
    shown: dict[str, Any] = {"rows": results.nobs}
    if results.metadata.inference is not None:
        shown |= {"deviance": results.deviance, "null deviance": results.null_deviance}
        shown |= {"log-likelihood": results.llf, "AIC": results.aic, "BIC": results.bic}
    shown |= {name.replace("_", " "): value for name, value in vars(results.metadata.figures).items()}
    return _list(shown)


def _tested(results: Results, rows: str) -> str:
    """The measures of these rows, if there are any."""
    if results.test is None:
        return ""
    curve = getattr(results.test, "roc", None)
    chart = f'<div class="card plot curve">{roc_picture(curve)}<p class="note">{ROC_NOTE}</p></div>' if curve else ""
    return f'<h3>On the {_text(rows)}</h3><dl class="figures">{_list(for_people(results.test))}</dl>{chart}'


def _list(shown: dict[str, Any]) -> str:
    return "".join(f"<div><dt>{_text(key)}</dt><dd>{_text(_number(value))}</dd></div>" for key, value in shown.items())


def _sites(results: Results) -> str:
    """The sites, and what is known of all of them together."""
    schema = results.schema
    gaps = [f"{column} {count:,}" for column, count in schema.missing.items() if count]
    names = ", ".join(part.site for part in schema.parts)
    row = [names, f"{schema.rows:,}", f"{sum(schema.missing.values()):,}", ", ".join(gaps) or "–"]
    return _table(["sites", "rows", "missing values", "by column"], [row])


# Pictures ----------------------------------------------------------------------------------------


class _Plot:
    """A picture with linear axes, which go from the first to the second number of ``xs`` and ``ys``."""

    def __init__(
        self, left: int, width: int, height: int, xs: tuple[float, float], ys: tuple[float, float] = (0.0, 1.0)
    ) -> None:
        self.left, self.width, self.height, self.xs, self.ys = left, width, height, xs, ys
        self.parts: list[str] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        (x0, x1), (y0, y1) = self.xs, self.ys
        return self.left + self.width * (x - x0) / ((x1 - x0) or 1.0), 12 + self.height * (y1 - y) / (y1 - y0)

    def line(self, start: tuple[float, float], end: tuple[float, float], kind: str) -> None:
        (x1, y1), (x2, y2) = self.at(*start), self.at(*end)
        self.parts.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def word(
        self, x: float, y: float, text: str, right: int = 0, down: int = 4, anchor: str = "middle", kind: str = ""
    ) -> None:
        """A text beside a point: so many pixels to the right of it and below it."""
        at = f'x="{self.at(x, y)[0] + right:.1f}" y="{self.at(x, y)[1] + down:.1f}"'
        self.parts.append(f'<text class="{kind}" {at} text-anchor="{anchor}">{_text(text)}</text>')

    def dot(self, x: float, y: float) -> None:
        cx, cy = self.at(x, y)
        self.parts.append(f'<circle class="dot" cx="{cx:.1f}" cy="{cy:.1f}" r="4"/>')

    def path(self, points: Iterable[tuple[float, float]]) -> None:
        places = " ".join("{:.1f},{:.1f}".format(*self.at(*point)) for point in points)
        self.parts.append(f'<polyline class="line" points="{places}"/>')

    def grid(self, across: Iterable[float], upwards: dict[float, str]) -> None:
        """Lines through these places of the axes, with what stands beside them."""
        for x in across:
            self.line((x, self.ys[0]), (x, self.ys[1]), "grid")
            self.word(x, self.ys[0], f"{x:.4g}", down=18)
        for y, text in upwards.items():
            self.line((self.xs[0], y), (self.xs[1], y), "grid")
            self.word(self.xs[0], y, text, right=-8, anchor="end")

    def svg(self, label: str, below: str = "") -> str:
        """The whole picture, with a text below the axis."""
        if below:
            self.word(sum(self.xs) / 2.0, self.ys[0], below, down=38)
        size = f"{self.left + self.width + 24} {self.height + (60 if below else 36)}"
        return f'<svg viewBox="0 0 {size}" role="img" aria-label="{_text(label)}">{"".join(self.parts)}</svg>'


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two bounds."""
    if not high > low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (factor * step) <= most)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _effects(results: Results) -> str:
    """A line for every column but the intercept: the effect of one standard deviation, and its interval."""
    effects, known = results.params, results.metadata.inference is not None
    highest = results.conf_int().iloc[:, 1] if known else effects
    columns = results.vif() if known else effects  # neither the intercepts of classes nor cuts have a vif
    shown = [
        (name, sd * effects[name], sd * float(highest[name] - effects[name]))
        for name, sd in zip(results.metadata.names, results.metadata.sd, strict=True)
        if name != INTERCEPT and name in columns.index
    ]
    if not shown:
        return ""
    low = min(0.0, *(effect - reach for _, effect, reach in shown))
    high = max(0.0, *(effect + reach for _, effect, reach in shown))
    plot = _Plot(176, 294, 24 * len(shown), (low, high), (len(shown), 0.0))
    plot.grid(ticks(low, high, 5), {})
    plot.line((0.0, 0.0), (0.0, len(shown)), "zero")
    for k, (name, effect, reach) in enumerate(shown):
        plot.word(low, k + 0.5, _short(name), right=-10, anchor="end", kind="name")
        plot.line((effect - reach, k + 0.5), (effect + reach, k + 0.5), "line")
        plot.dot(effect, k + 0.5)
    return plot.svg("Effects of one standard deviation with intervals")


def _short(name: str, most: int = 24) -> str:
    """The name with its end, which has the level of a factor."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[most // 2 + 1 - most :]}"


def _fit(results: Results, tested: str) -> tuple[str, str, str | None]:
    """A title, a sentence, and the picture that shows how the model fits, if it has one."""
    if results.schema.labels != "survival":
        note, chart = _calibration(results, tested)
        return "Calibration" if chart else "Fit", note, chart
    if not (curve := results.metadata.survival):
        return "Fit", NO_CURVE, None
    return "Survival", MEAN_CURVE.format(intervals=len(curve)), survival_picture(curve)


def survival_picture(curve: Sequence[tuple[float, float]]) -> str:
    """The steps of a survival curve."""
    last = curve[-1][0]
    plot = _Plot(46, 300, 300, (0.0, last))
    plot.grid(ticks(0.0, last, 5), {tick: f"{tick:.4g}" for tick in ticks(0.0, 1.0)})
    before = [(0.0, 1.0), *curve[:-1]]
    steps = zip(before, curve, strict=True)
    plot.path([(0.0, 1.0), *(point for (_, high), (time, low) in steps for point in ((time, high), (time, low)))])
    return plot.svg("Survival", "time; upwards: share without an event")


def _calibration(results: Results, tested: str) -> tuple[str, str | None]:
    """A sentence, and the picture if the model predicts probabilities."""
    if isinstance(results.test, ClassMeasures):
        sentence = f"{_number(results.test.rows)} {tested}{BARS}"
        return sentence, picture(results.test.calibration)
    if results.metadata.calibration is not None:
        return f"The rows of all sites that the model was fitted to{BARS}", picture(results.metadata.calibration)
    if isinstance(results.test, MeanMeasures):
        means = f"{_number(results.test.mean_prediction)} and {_number(results.test.mean_outcome)}"
        return f"Means of predictions and outcomes of the {tested}: {means}.", None
    return "The model predicts no probabilities, so that it has no calibration table.", None


def picture(groups: Sequence[CalibrationGroup]) -> str:
    """Shares of events against mean predictions, in groups of the predicted probability."""
    plot = _shares()
    for group in groups:
        low, high = interval(group.observed, group.rows)
        plot.line((group.predicted, low), (group.predicted, high), "line")
        plot.dot(group.predicted, group.observed)
    return plot.svg("Calibration", "mean prediction; upwards: share of events")


def roc_picture(curve: Sequence[RocPoint]) -> str:
    """Shares of events against shares of other rows, at or above each score."""
    plot = _shares()
    plot.path((point.false_positive, point.true_positive) for point in curve)
    return plot.svg("ROC curve", "1 - specificity; upwards: sensitivity")


def _shares() -> _Plot:
    """Both axes from 0 to 1, with the diagonal."""
    plot = _Plot(46, 300, 300, (0.0, 1.0))
    plot.grid(ticks(0.0, 1.0), {tick: f"{tick:.4g}" for tick in ticks(0.0, 1.0)})
    plot.line((0.0, 0.0), (1.0, 1.0), "zero")
    return plot


def interval(share: float, rows: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of so many rows."""
    spread = Z95 * math.sqrt(share * (1.0 - share) / rows + (Z95 / (2.0 * rows)) ** 2)
    middle, whole = share + Z95**2 / (2.0 * rows), 1.0 + Z95**2 / rows
    return (middle - spread) / whole, (middle + spread) / whole


def _convergence(results: Results) -> str:
    """What is left at every step of the method, on a logarithmic scale."""
    points = [(rounds, math.log10(max(residual, 1e-17))) for rounds, residual in results.metadata.convergence]
    rounds, powers = zip(*points, strict=True)
    low, last = math.floor(min(powers)), max(rounds) or 1.0
    high = max(math.ceil(max(powers)), low + 1)
    plot = _Plot(52, 300, 300, (0.0, last), (low, high))
    plot.grid(ticks(0.0, last, 5), {power: f"1e{power}" for power in range(low, high + 1, max(1, (high - low) // 6))})
    plot.path(points)
    for point in points[:60]:
        plot.dot(*point)
    return plot.svg("Convergence", _convergence_axes(results))


def _convergence_axes(results: Results) -> str:
    if results.model.spec.random:
        return "evaluations; upwards: slope of the likelihood"
    if terms_of(results.schema).model(results.schema.classes) is not None:
        return "Newton steps; upwards: next step in standard errors"
    return "rounds of messages; upwards: relative residual"


def standalone(svg: str) -> str:
    """A picture as a file of its own."""
    colours = {"soft": "#5a6572", "ink": "#1b2129", "line": "#dfe3e8", "accent": "#0a5fa8"}
    style = "".join(line for line in asset("dsba.tables", "model.css").splitlines() if line.startswith("svg ."))
    style += " svg text { fill: var(--soft); font: 12px sans-serif; }"
    for name, value in colours.items():
        style = style.replace(f"var(--{name})", value)
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        ">", f"><style>{style.replace('svg ', '')}</style>", 1
    )
