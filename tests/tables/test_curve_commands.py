"""``dsba curve`` and ``dsba elastic-net``: the same as from Python, in one process and under mpiexec."""

from __future__ import annotations

import json
import sys

import pandas as pd
import pytest
from mpi import mpiexec, needs_mpi
from queues import together
from registered_models import FIVE, GUARDED, table
from test_table_commands import ask, refused

import dsba
from dsba.fitting.spec import FitSpec
from dsba.tables.inputs import as_sites
from dsba.tables.survival import curves_of

DSBA = (sys.executable, "-m", "dsba")
SURVIVAL, ALONE, LINEAR = "Surv(time, died) ~ treated", "Surv(time, died) ~ 1", "sbp ~ age + bmi + treated"
GRID = ("--grid", ",".join(map(str, GUARDED)))
LAMBDAS = ("--lambdas", "2,0.5,0.1", "--l1-ratio", "0.5", "--folds", "3")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    for name, frame in table().groupby("site"):
        frame.drop(columns="site").to_csv(folder / f"{name}.csv", index=False)
    return sorted(folder.glob("*.csv"))


def plain(found):
    return json.loads(json.dumps(found.plain()))


def test_curves_are_those_of_python(files, tmp_path):
    wanted = dsba.survival_curve(files, SURVIVAL)
    said = ask("curve", *files, "--formula", SURVIVAL, "--out", tmp_path / "c.csv", "--plot", tmp_path / "c.svg",
               "--at-risk", "0,365,730")  # fmt: skip
    assert str(wanted) in said
    assert "Log-rank test: chi2 = 5.92, df = 1, p = 0.015" in said
    assert "at most 0 rounds" not in said
    kept = pd.read_csv(tmp_path / "c.csv")
    pd.testing.assert_frame_equal(kept, wanted.to_frame(), check_dtype=False, rtol=0, atol=0)
    assert (tmp_path / "c.svg").read_text().count("<svg") == 1
    (content,) = [json.loads(ask("curve", *files, "--formula", SURVIVAL, "--json")[len(expected(files)) :])]
    assert content == plain(wanted)


def expected(files):
    """The sentence about the cost, which goes to standard error and which the runner shows as well."""
    said = ask("curve", *files, "--formula", SURVIVAL)
    return said[: said.index("\n") + 1]


def test_a_path_is_that_of_python(files, tmp_path):
    wanted = dsba.elastic_net(files, LINEAR, l1_ratio=0.5, lambdas=[2, 0.5, 0.1], folds=3)
    said = ask("elastic-net", *files, "--formula", LINEAR, *LAMBDAS, "--out", tmp_path / "p.csv",
               "--plot", tmp_path / "p.png")  # fmt: skip
    assert str(wanted) in said
    assert "lambda.1se" in said
    kept = pd.read_csv(tmp_path / "p.csv", index_col="lambda")
    pd.testing.assert_frame_equal(kept, wanted.to_frame(), rtol=0, atol=0)
    assert (tmp_path / "p.png").read_bytes()[1:4] == b"PNG"
    without = dsba.elastic_net(files, LINEAR, lambdas=[0.5])
    assert str(without) in ask("elastic-net", *files, "--formula", LINEAR, "--lambdas", "0.5")


@needs_mpi
@pytest.mark.parametrize("command", [("curve", ALONE, GRID), ("elastic-net", LINEAR, LAMBDAS)], ids=lambda c: c[0])
def test_under_mpiexec_they_are_the_same(files, command, tmp_path):
    name, formula, more = command
    code, said = mpiexec(5, *DSBA, name, *files, "--formula", formula, *more, "--graph", "ring", "--json",
                         "--out", tmp_path / "out.csv")  # fmt: skip
    assert code == 0, said
    if name == "curve":
        wanted = dsba.survival_curve(files, formula, grid=GUARDED)
    else:
        wanted = dsba.elastic_net(files, formula, l1_ratio=0.5, lambdas=[2, 0.5, 0.1], folds=3)
    assert json.loads(said[said.index("{") :]) == plain(wanted)
    assert said.count("Expected: at most") == 1
    assert len(pd.read_csv(tmp_path / "out.csv")) == len(wanted.to_frame())


@needs_mpi
@pytest.mark.full
def test_groups_under_mpiexec_are_those_of_threads(files):
    """The grid that is left depends on the guards of the groups, so the reference is between processes as well."""
    code, said = mpiexec(
        5, *DSBA, "curve", *files, "--formula", SURVIVAL, "--strata", "site", "--json", "--graph", "ring"
    )
    assert code == 0, said
    spec, sites = FitSpec(formula=SURVIVAL, operator="cox", strata="site"), as_sites(files, None)
    wanted = together(FIVE, 5, lambda net: curves_of([sites[net.rank]], spec, net))[0]
    assert json.loads(said[said.index("{") :]) == plain(wanted)


@needs_mpi
def test_guards_hold_under_mpiexec(files):
    code, said = mpiexec(2, *DSBA, "curve", *files[:2], "--formula", SURVIVAL)
    assert code != 0
    assert "sites" in said
    assert "Log-rank" not in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("curve", "--formula", "Surv(time, died) ~ age + treated"),
            "wanted a formula such as 'Surv(time, died) ~ group'",
        ),
        (("curve", "--formula", SURVIVAL, "--grid", "1,x"), "--grid must be numbers with commas between them"),
        (("curve", "--formula", SURVIVAL, "--conf-type", "plain"), "unknown conf_type 'plain'"),
        (("curve", "--formula", "Surv(time, gone) ~ 1"), "gone"),
        (("elastic-net", "--formula", LINEAR, "--operator", "gamma"), "unknown operator 'gamma'"),
        (("elastic-net", "--formula", LINEAR, "--lambdas", "a"), "--lambdas must be numbers"),
        (("elastic-net", "--formula", LINEAR, "--l1-ratio", "3"), "l1_ratio"),
        (("elastic-net", "--formula", LINEAR, "--folds", "1"), "folds"),
    ],
)
def test_what_they_refuse(files, words, sentence):
    command, *options = words
    assert sentence in refused(command, *files, *options)
