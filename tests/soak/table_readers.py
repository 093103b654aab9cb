"""Readers of tables, formulas and test sets, and independent ones of the csv module and plain Python."""

from __future__ import annotations

import ast
import csv
import io
import math
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dsba
from dsba.data.tables import column_names, read_table
from dsba.errors import InputError
from dsba.fitting.formula import ALLOWED, parse
from dsba.fitting.tables import evaluate_files

Input = dict[str, bytes]

MISSING = {
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
}  # fmt: skip
NUMBER = re.compile(
    r"[ \t]*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity)[ \t]*", re.IGNORECASE
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


def sniffed_corpus() -> list[Input]:
    others = [b"a;b\n1,5;x\n2,25;y\n", b"a\tb\n1\t2\n3\t4\n", b"a|b|c\n1|2|3\n"]
    return [{"file": text} for text in (*CSVS, *others)]


def read_sniffed(folder: Path) -> bool:
    """Separator and decimal mark are found out: what comes of it has the columns that the header names."""
    frame = read_table(folder / "file")
    return list(frame.columns) == column_names(folder / "file")


# Formulas ----------------------------------------------------------------------------------------


def formula_corpus() -> list[Input]:
    return [{"file": text} for text in FORMULAS]


def read_formula(folder: Path) -> bool:
    """Whether both sides that would be evaluated are made of names, numbers and allowed calls, as Python sees it."""
    try:
        text = (folder / "file").read_bytes().decode()
    except UnicodeDecodeError:
        raise InputError("no text") from None
    formula = parse(text)
    return all(_harmless(side) for side in (formula.left, formula.right) if side is not None)


def _harmless(side: str) -> bool:
    tree = ast.parse(re.sub(r"`[^`]*`", "quoted", side).replace(":", "*"), mode="eval")
    for node in ast.walk(tree.body):
        if isinstance(node, ast.Call):
            if not (isinstance(node.func, ast.Name) and node.func.id in ALLOWED and not node.keywords):
                return False
        elif isinstance(node, ast.Constant):
            if type(node.value) not in (int, float):
                return False
        elif not isinstance(node, ast.BinOp | ast.UnaryOp | ast.Name | ast.operator | ast.unaryop | ast.Load):
            return False
    return True


# Test sets of a model ----------------------------------------------------------------------------


@cache
def _model() -> dsba.fitting.results.Results:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    table = pd.DataFrame({"x": x, "y": np.where(rng.random(300) < 1 / (1 + np.exp(-x)), "yes", "no")})
    return dsba.fit(table, "y ~ x")


def evaluation_corpus() -> list[Input]:
    rows = b"".join(b"%s,%.3f,%d\n" % ((b"no", b"yes")[i % 2], math.sin(i), i) for i in range(25))
    return [{"file": b"y,x,id\n" + rows}]


def read_test(folder: Path) -> Any:
    from dsba.fitting.guards import Guards

    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "test.csv"
        copy.write_bytes((folder / "file").read_bytes())
        found = evaluate_files(_model(), [copy], dsba.Simulator(dsba.Topology.path(1)), Guards.off()).pooled
    return found["rows"], found["left_out"], found["events"], f"{found['log_loss']:.9g}"


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
