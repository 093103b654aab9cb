"""The page of a table's model: one HTML file without scripts that asks nobody for anything."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

from dsba.fitting.spec import plain_of
from dsba.pages.templates import asset, document, filled
from dsba.tables.design import INTERCEPT
from dsba.tables.evaluation import TITLES
from dsba.tables.results import P_VALUES, Results

Z95 = 1.959963984540054  # of a normal distribution
EFFECTS = (
    "The effect of one standard deviation of each column on the score, with its 95 % interval. Levels of factors are "
    "columns of zeros and ones."
)
BARS = ", in groups of the predicted probability; bars are 95 % intervals of the share."
OPERATORS = {"logit": "Logistic", "log": "Poisson", "identity": "Linear"}
DISCLOSURE_TEXTS = {
    "masked": "As sums over all sites: losses, gradients and Hessians. The parts of sums were masked, so that nobody "
    "saw another site's.",
    "newton": "To its neighbour towards the root of the graph's tree, every site: its part of the sums of losses, "
    "gradients and Hessians. To everybody: the totals. Nobody is shown a row.",
    "dense": "To its neighbours in the graph, every site: its iterates, one vector of coefficients each round. A "
    "neighbour that watches two of them in a row can often solve for the row between them.",
    "sparse": "To everybody: multiples of raw rows. Relays pass them on.",
    "cached": "To everybody: the raw rows themselves, the first time each of them is drawn.",
}


def model_page(results: Results, command: str) -> str:
    """The HTML text; ``command`` is the one that trained the model."""
    run = results.model.run
    title = str(results.formula)
    note, chart = _calibration(results)
    parts = {
        "title": _text(title),
        "lead": _text(_lead(results)),
        "warnings": _warnings(results),
        "coefficients": _coefficients(results),
        "effects": _effects(results),
        "effects_note": EFFECTS,
        "figures": _figures(results),
        "tested": _tested(results),
        "sites": _sites(results),
        "sites_note": _text(_sites_note(results)),
        "fit_title": "Calibration" if chart else "Fit",
        "calibration": chart or "",
        "calibration_note": _text(note),
        "convergence": _convergence(results),
        "convergence_note": _text(f"{_sentence(run.status)}: {run.message}."),
        "disclosed": "".join(f"<li>{_text(line)}</li>" for line in _disclosed(results)),
        "command": _text(command),
        "made": _definitions(_made(results)),
    }
    body = filled(asset("dsba.tables", "model.html"), parts)
    return document(parts["title"], body, css="\n" + asset("dsba.tables", "model.css"))


# Words -------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    return html.escape(str(value))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _number(value: Any) -> str:
    """A number that a person reads at a glance."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def _lead(results: Results) -> str:
    spec = results.model.spec
    kind = OPERATORS.get(str(results.model.run.link), str(plain_of(spec.operator)))
    sites, penalty = len(results.schema.parts), spec.lam
    shrunk = f", penalty {penalty:g}" if penalty else ""
    made = f"{kind} model of {results.nobs:,} rows at {sites} sites{shrunk}, in {results.rounds:,} rounds of messages."
    return made + results.coding


def _warnings(results: Results) -> str:
    lines = [sentence for sentence in (results.unfinished, results.metadata.why_none) if sentence]
    lines += [f"Between owners this would be refused: {sentence}" for sentence in results.metadata.told]
    lines += [f"{part.site} {part.guards.loosened}." for part in results.schema.parts if part.guards.loosened]
    if not lines:
        return ""
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f'  <ul class="warnings" aria-label="Warnings">{items}</ul>'


def _sites_note(results: Results) -> str:
    events = results.metadata.events
    told = "" if events is None else f" Of the {results.nobs:,} rows in the model {events:,} are events"
    classes = results.schema.classes
    if events is not None and classes is not None:
        told += f" ({results.formula.left} = {classes[1]})."
    held = results.model.spec.test_share
    share = f" {100 * held:g} % of each site's rows were held out." if held else ""
    return f"Counts of single sites stay there; only their sums are known here.{told}{share}"


def _disclosed(results: Results) -> list[str]:
    run = results.model.run
    way = results.model.spec.communication or "dense"
    if run.method == "newton":
        way = "masked" if run.masked else "newton"
    lines = [
        "To everybody: each site's name and guards, and the levels and labels that may occur there: by the study file, "
        "or those that do occur.",
        "As sums over all sites: rows, missing values and types of the columns, rows per level, means and standard "
        "deviations.",
        DISCLOSURE_TEXTS[way],
    ]
    if results.metadata.inference is not None:
        table = "" if results.metadata.calibration is None else ", and the calibration table"
        lines.append(f"As sums over all sites, after the fit: information matrix and deviance{table}.")
    if results.test is not None:
        lines.append("As sums over all sites, of the held-out rows: counts in bins of the score, and losses.")
    if run.processes == 1:
        lines.append("All sites were in one process, so that nothing was hidden from who ran it.")
    return lines


def _made(results: Results) -> dict[str, str]:
    run, spec = results.model.run, results.model.spec
    versions = ", ".join(f"{name} {value}" for name, value in run.versions.items())
    method = f"{run.method} on the graph {plain_of(spec.graph)}, {run.processes} process(es)"
    known = {"method": method, "versions": versions, "covariance": spec.cov}
    if run.choice:
        known["choice"] = _sentence(run.choice)
    known["missing values"] = spec.missing
    return known


def _definitions(pairs: dict[str, str]) -> str:
    return "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in pairs.items())


# Tables ------------------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{_text(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _coefficients(results: Results) -> str:
    frame = results.to_frame()
    ratios = results.ratios() if results.model.run.link in ("logit", "log") else None
    head = ["", *map(str, frame.columns)]
    if ratios is not None:
        head.append(str(ratios.columns[0]) + (" (95 % interval)" if "low" in ratios else ""))
    rows = []
    for name, row in frame.iterrows():
        cells = [_cell(str(column), value) for column, value in row.items()]
        rows.append([str(name), *cells, *([] if ratios is None else [_ratio(*ratios.loc[name])])])
    return _table(head, rows)


def _ratio(value: float, *ends: float) -> str:
    interval = f" ({' to '.join(_number(float(end)) for end in ends)})" if ends else ""
    return _number(float(value)) + interval


def _cell(column: str, value: float) -> str:
    return "<0.001" if column in P_VALUES and value < 0.001 else _number(float(value))


def _figures(results: Results) -> str:
    shown: dict[str, Any] = {"rows": results.nobs}
    if results.metadata.inference is not None:
        shown |= {"deviance": results.deviance, "null deviance": results.null_deviance}
        shown |= {"log-likelihood": results.llf, "AIC": results.aic, "BIC": results.bic}
    return _list(shown)


def _tested(results: Results) -> str:
    """The measures of held-out rows, if there are any."""
    if results.test is None:
        return ""
    shown = {TITLES[key]: value for key, value in results.test.items() if key in TITLES and value is not None}
    return f'<h3>On held-out rows</h3><dl class="figures">{_list(shown)}</dl>'


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


def _svg(width: int, height: int, label: str, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{_text(label)}">{"".join(parts)}</svg>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _word(x: float, y: float, text: str, anchor: str = "middle", kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_text(text)}</text>'


def _dot(x: float, y: float, radius: float = 4.0) -> str:
    return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"/>'


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two bounds."""
    if not high > low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (factor * step) <= most)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _effects(results: Results) -> str:
    """A line for every column but the intercept: the effect of one standard deviation, and its interval."""
    effects = results.params
    highest = effects if results.metadata.inference is None else results.conf_int().iloc[:, 1]
    shown = [
        (name, sd * effects[name], sd * float(highest[name] - effects[name]))
        for name, sd in zip(results.metadata.names, results.metadata.sd, strict=True)
        if name != INTERCEPT
    ]
    if not shown:
        return ""
    low = min(0.0, *(effect - reach for _, effect, reach in shown))
    high = max(0.0, *(effect + reach for _, effect, reach in shown))
    left, right, row = 176, 470, 24
    bottom = row * len(shown) + 10

    def at(value: float) -> float:
        return left + (right - left) * (value - low) / ((high - low) or 1.0)

    parts = [
        _line(at(t), 4, at(t), bottom, "grid") + _word(at(t), bottom + 16, f"{t:.4g}") for t in ticks(low, high, 5)
    ]
    parts.append(_line(at(0.0), 4, at(0.0), bottom, "zero"))
    for k, (name, effect, reach) in enumerate(shown):
        y = row * k + 16
        parts.append(_word(left - 10, y + 4, _short(name), "end", "name"))
        parts.append(_line(at(effect - reach), y, at(effect + reach), y, "line") + _dot(at(effect), y))
    return _svg(490, bottom + 24, "Effects of one standard deviation with intervals", parts)


def _short(name: str, most: int = 24) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _calibration(results: Results) -> tuple[str, str | None]:
    """A sentence, and the picture if the model predicts probabilities."""
    if results.test is not None and "calibration" in results.test:
        sentence = f"{_number(results.test['rows'])} held-out rows of all sites{BARS}"
        return sentence, picture(results.test["calibration"])
    if results.metadata.calibration is not None:
        return f"The rows of all sites that the model was fitted to{BARS}", picture(results.metadata.calibration)
    if results.test is not None:
        means = f"{_number(results.test['mean_prediction'])} and {_number(results.test['mean_outcome'])}"
        return f"Means of predictions and outcomes of the held-out rows: {means}.", None
    return "The model predicts no probabilities, so that it has no calibration table.", None


def picture(groups: Sequence[dict[str, float]]) -> str:
    """Shares of events against mean predictions, in groups of the predicted probability."""
    left, top, size = 46, 12, 300

    def x(value: float) -> float:
        return left + size * value

    def y(value: float) -> float:
        return top + size * (1.0 - value)

    parts = []
    for tick in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        parts.append(_line(x(tick), y(0), x(tick), y(1), "grid") + _line(x(0), y(tick), x(1), y(tick), "grid"))
        parts.append(_word(x(tick), y(0) + 18, f"{tick:g}") + _word(left - 8, y(tick) + 4, f"{tick:g}", "end"))
    parts.append(_line(x(0), y(0), x(1), y(1), "zero"))
    for group in groups:
        low, high = interval(group["observed"], group["rows"])
        at = x(group["predicted"])
        parts.append(_line(at, y(low), at, y(high), "line") + _dot(at, y(group["observed"])))
    parts.append(_word(x(0.5), y(0) + 38, "mean prediction"))
    parts.append(
        f'<text transform="translate(12 {y(0.5):.1f}) rotate(-90)" text-anchor="middle">share of events</text>'
    )
    return _svg(left + size + 14, top + size + 48, "Calibration", parts)


def interval(share: float, rows: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of so many rows."""
    spread = Z95 * math.sqrt(share * (1.0 - share) / rows + (Z95 / (2.0 * rows)) ** 2)
    middle, whole = share + Z95**2 / (2.0 * rows), 1.0 + Z95**2 / rows
    return (middle - spread) / whole, (middle + spread) / whole


def _convergence(results: Results) -> str:
    """The relative residual against rounds of the method, on a logarithmic scale."""
    points = [(rounds, max(residual, 1e-17)) for rounds, residual in results.metadata.convergence]
    left, top, width, height = 52, 12, 300, 300
    last = max(rounds for rounds, _ in points) or 1.0
    low = math.floor(math.log10(min(residual for _, residual in points)))
    high = max(math.ceil(math.log10(max(residual for _, residual in points))), low + 1)

    def x(rounds: float) -> float:
        return left + width * rounds / last

    def y(power: float) -> float:
        return top + height * (high - power) / (high - low)

    parts = []
    for power in range(low, high + 1, max(1, (high - low) // 6)):
        parts.append(
            _line(left, y(power), left + width, y(power), "grid") + _word(left - 8, y(power) + 4, f"1e{power}", "end")
        )
    parts += [_word(x(tick), top + height + 18, f"{tick:g}") for tick in ticks(0.0, last, 5)]
    path = " ".join(f"{x(rounds):.1f},{y(math.log10(residual)):.1f}" for rounds, residual in points)
    parts.append(f'<polyline class="line" points="{path}"/>')
    parts += [_dot(x(rounds), y(math.log10(residual)), 3.0) for rounds, residual in points[:60]]
    parts.append(_word(left + width / 2, top + height + 38, "rounds of messages; upwards: relative residual"))
    return _svg(left + width + 14, top + height + 48, "Convergence", parts)


def standalone(groups: Sequence[dict[str, float]]) -> str:
    """The calibration picture as a file of its own."""
    colours = {"soft": "#5a6572", "ink": "#1b2129", "line": "#dfe3e8", "accent": "#0a5fa8"}
    style = "".join(line for line in asset("dsba.tables", "model.css").splitlines() if line.startswith("svg ."))
    style += " svg text { fill: var(--soft); font: 12px sans-serif; }"
    for name, value in colours.items():
        style = style.replace(f"var(--{name})", value)
    return (
        picture(groups)
        .replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        .replace(">", f"><style>{style.replace('svg ', '')}</style>", 1)
    )
