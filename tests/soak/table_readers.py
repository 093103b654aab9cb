"""Readers of tables, formulas and test sets, and independent ones of the csv module and plain Python."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import numpy as np
import pandas as pd

import dsba
from dsba.data import table_files, text_tables
from dsba.data.table_files import TableFile
from dsba.data.text_tables import Dialect
from dsba.errors import InputError
from dsba.fitting.disclosure import Guards
from dsba.fitting.spec import FitSpec
from dsba.network import Alone
from dsba.tables.design import design_tables
from dsba.tables.fit import evaluate_files
from dsba.tables.formula import CONTRASTS, FORMULA_CALLS, OUTCOMES, parse
from dsba.tables.terms import ModelTerms, SiteTable

Input = dict[str, bytes]

MISSING = {
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
}  # fmt: skip
NUMBER = re.compile(
    r"\s*[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity)\s*", re.IGNORECASE | re.ASCII
)
TRUTH = {"true": True, "false": False}
CSVS = [
    b"age,sex,crp\n40,F,1.5\n,M,2e-3\n61,F,NA\n",
    b'name,n\n"a, b",1\n"say ""x""",2\r\nplain,-3\r\n',
    b"\xef\xbb\xbfflag,when\ntrue,2020\nfalse,2021\n",
    b"".join(b"%d,%s,%.6f\n" % (i, b"FM"[i % 2 : i % 2 + 1], math.sin(i)) for i in range(30)).join(
        [b"id,sex,v\n", b""]
    ),
]
FORMULAS = [
    b"y ~ age + C(sex) + log(crp)",
    b"log(cost) ~ 0 + age*C(ward):sbp - 1 + I(age*age + 2.5)",
    b"`my outcome` ~ sqrt(exp(x)) + (a + b):c",
]


# Tables ------------------------------------------------------------------------------------------


def _plain_columns(data: bytes) -> tuple[list[str], list[list[str]]]:
    lines = [line for line in csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=False) if line]
    if any(len(line) != len(lines[0]) for line in lines):
        raise ValueError("fields")
    return lines[0], [[line[k] for line in lines[1:]] for k in range(len(lines[0]))]


def _plain_values(column: list[str]) -> list[Any]:
    """Numbers if all are, truth values if all are, else text."""
    known = [value for value in column if value not in MISSING]
    if all(NUMBER.fullmatch(value) for value in known):
        return [None if value in MISSING else float(value) for value in column]
    if all(value.lower() in TRUTH for value in known) and known:
        return [None if value in MISSING else TRUTH[value.lower()] for value in column]
    return [None if value in MISSING else value for value in column]


def table_corpus() -> list[Input]:
    return [{"file": text} for text in CSVS]


class Commas:
    """Text with commas and points, as the independent reader takes it: nothing is found out."""

    dialect = Dialect(",", ".")

    def recognises(self, head: bytes) -> bool:
        return True

    def names(self, file: IO[bytes]) -> list[Any]:
        return text_tables.names(file, self.dialect)

    def read(self, file: IO[bytes], wanted: list[str]) -> Any:
        return text_tables.read(file, wanted, self.dialect)

    def texts(self, file: IO[bytes], wanted: list[str]) -> Any:
        return text_tables.texts(file, wanted, self.dialect)


def read_columns(folder: Path) -> dict[str, list[Any]]:
    with patch.object(table_files, "FORMATS", (Commas(),)):
        frame = TableFile(folder / "file").read()
    return {name: [_comparable(value) for value in frame[name]] for name in frame}


def plain_columns(folder: Path) -> dict[str, list[Any]]:
    names, columns = _plain_columns((folder / "file").read_bytes())
    return {
        name: [_comparable(value) for value in _plain_values(column)]
        for name, column in zip(names, columns, strict=True)
    }


def _comparable(value: Any) -> Any:
    """Numbers as floats, truth values as they are, and one way to say that nothing is there."""
    if value is None or value != value:
        return None
    return value if isinstance(value, str | bool | np.bool_) else float(value)


def sniffed_corpus() -> list[Input]:
    others = [b"a;b\n1,5;x\n2,25;y\n", b"a\tb\n1\t2\n3\t4\n", b"a|b|c\n1|2|3\n"]
    return [{"file": text} for text in (*CSVS, *others)]


def read_sniffed(folder: Path) -> bool:
    """Separator and decimal mark are found out: what comes of it has the columns that the header names."""
    frame = TableFile(folder / "file").read()
    return list(frame.columns) == TableFile(folder / "file").names


# What a site is told by another -------------------------------------------------------------------


class Told(Alone):
    """A group of two, whose other process answers from a file; without a file, one process that keeps its answers."""

    def __init__(self, answers: list[Any] | None = None) -> None:
        self.answers, self.given = answers, []
        self.size = 1 if answers is None else 2

    def share(self, value: Any, *, discloses: str) -> list[Any]:
        value = json.loads(json.dumps(value))
        self.given.append(value)
        if self.answers is None:
            return [value]
        if len(self.given) > len(self.answers):
            raise InputError("the other says no more")
        return [value, self.answers[len(self.given) - 1]]


def _site(name: str, seed: int) -> SiteTable:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=60), "ward": ["a", "b", "c"] * 20, "y": ["no", "yes"] * 30})
    return SiteTable(name, frame)


def _terms() -> ModelTerms:
    return ModelTerms.of(FitSpec(formula="y ~ x + C(ward)"))


def told_corpus() -> list[Input]:
    other = Told()
    design_tables([_site("other", 1)], _terms(), other, Guards.off())
    return [{"file": json.dumps(other.given).encode()}]


def read_told(folder: Path) -> bool:
    """Whatever the other site says, its columns are those of the formula."""
    try:
        answers = json.loads((folder / "file").read_bytes())
    except (ValueError, RecursionError):
        raise InputError("no JSON: the transport refuses it") from None
    found = design_tables([_site("own", 0)], _terms(), Told(list(answers)), Guards.off())
    return len(found.names) == found.designs[0].X.shape[1]


# Formulas ----------------------------------------------------------------------------------------


def formula_corpus() -> list[Input]:
    return [{"file": text} for text in FORMULAS]


def read_formula(folder: Path) -> bool:
    """Whether both sides call nothing but what is allowed, and mean the same when they are read again."""
    try:
        text = (folder / "file").read_bytes().decode()
    except UnicodeDecodeError:
        raise InputError("no text") from None
    formula = parse(text)
    return parse(str(formula)).terms == formula.terms and all(
        _harmless(side) for side in (formula.left, formula.right) if side is not None
    )


def _harmless(side: str) -> bool:
    plain = re.sub(r"""`[^`]*`|"[^"]*"|'[^']*'""", "quoted", side)
    return set(re.findall(r"([^\W\d][\w.]*)\s*\(", plain)) <= {*FORMULA_CALLS, *OUTCOMES, *CONTRASTS}


# Test sets of a model ----------------------------------------------------------------------------


@cache
def _model() -> dsba.tables.results.Results:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    table = pd.DataFrame({"x": x, "y": np.where(rng.random(300) < 1 / (1 + np.exp(-x)), "yes", "no")})
    return dsba.fit(table, "y ~ x")


def evaluation_corpus() -> list[Input]:
    rows = b"".join(b"%s,%.3f,%d\n" % ((b"no", b"yes")[i % 2], math.sin(i), i) for i in range(25))
    return [{"file": b"y,x,id\n" + rows}]


def read_test(folder: Path) -> Any:
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "test.csv"
        copy.write_bytes((folder / "file").read_bytes())
        found = evaluate_files(_model(), [copy], dsba.Simulator(dsba.Topology.path(1)), Guards.off()).pooled
    return found.rows, found.left_out, found.events, f"{found.log_loss:.9g}"


def plain_test(folder: Path) -> Any:
    names, columns = _plain_columns((folder / "file").read_bytes())
    intercept, slope = _model().params.tolist()
    y, x = (_plain_values(columns[names.index(name)]) for name in "yx")
    losses, events = [], 0
    for label, value in zip(y, x, strict=True):
        if label is None or value is None:
            continue
        score = (intercept + slope * value) * {"yes": 1.0, "no": -1.0}[label]
        losses.append(-score + math.log1p(math.exp(score)) if score < 0 else math.log1p(math.exp(-score)))
        events += label == "yes"
    return len(losses), len(y) - len(losses), events, f"{math.fsum(losses) / len(losses):.9g}"
