"""Curves and elastic nets beside the model of a study: those of one process, verified, or refused in a sentence."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from queues import together as in_threads
from test_study import together
from test_verify import wrong

import dsba
from dsba.fitting import FitSpec
from dsba.network import Simulator
from dsba.study.further import CURVES, PATH
from dsba.study.join import Seat, leaving
from dsba.study.trial import arrange
from dsba.study.verify import verify_study
from dsba.tables.elastic_net import path_of
from dsba.tables.fit import training_rows
from dsba.tables.inputs import as_sites
from dsba.tables.survival import curves_of
from dsba.tables.terms import ModelTerms

sys.path.append(str(Path(__file__).parents[1] / "yardsticks"))
from reference_values import table

COX = FitSpec(formula="Surv(time, died) ~ age + C(treated)", operator="cox", strata="site", graph="ring")
LINEAR = FitSpec(formula="sbp ~ age + bmi + treated", operator="linear", graph="ring")


def frames():
    whole = table()
    return {name: part.drop(columns="site").reset_index(drop=True) for name, part in list(whole.groupby("site"))[:3]}


@pytest.fixture
def arranged(tmp_path):
    """The seats of a study of three sites."""

    def made(spec, **more):
        files = [tmp_path / f"{name}.csv" for name in frames()]
        for file, frame in zip(files, frames().values(), strict=True):
            frame.to_csv(file, index=False)
        study = arrange(files, spec, tmp_path / "study", **more)
        keys = [tmp_path / "study" / f"{f.stem}.pem" for f in files]
        return [Seat(study, f.stem, k, f, tmp_path / f"out-{f.stem}", 60.0) for f, k in zip(files, keys, strict=True)]

    return made


def every_site_has(places, name, wanted):
    """The files of all sites are alike, are verified, and a change of either is found."""
    for seat in places:
        assert json.loads((seat.out / f"{name}.json").read_text()) == json.loads(json.dumps(wanted.plain()))
        said = list(verify_study(seat.out))
        assert all(one.fine and not one.open for one in said), said
        assert any(f"and so are {name}.json, {name}.csv" in one.sentence for one in said)
    folder = shutil.copytree(places[1].out, places[1].out.parent / "kept")
    for kind in ("json", "csv"):
        file = folder / f"{name}.{kind}"
        whole = file.read_bytes()
        file.write_bytes(whole.replace(b"1", b"2", 1))
        assert any(f"another result than {file}" in sentence for sentence in wrong(folder))
        file.write_bytes(whole)
    assert wrong(folder) == []


@pytest.mark.parametrize(("by", "strata"), [("treated", "site"), (None, None)])
def test_a_cox_study_has_curves(arranged, by, strata):
    spec = replace(COX, strata=strata)
    places = arranged(spec, curves={"by": by} if by else {})
    assert any("events and other rows by interval of time" in line for line in leaving(places[0]))
    found, _ = together(places)
    assert not [one for one in found if isinstance(one, Exception)], found
    sites = as_sites(frames(), None)
    asked = FitSpec(formula=f"Surv(time, died) ~ {by or 1}", operator="cox", strata=strata)
    wanted = in_threads(spec.topology(3), 3, lambda net: curves_of([sites[net.rank]], asked, net))[0]
    every_site_has(places, CURVES, wanted)
    kept = pd.read_csv(places[0].out / f"{CURVES}.csv")
    assert [*kept["group"].astype(str).unique()] == ([*map(str, wanted.curves)])
    np.testing.assert_array_equal(kept["survival"], wanted.to_frame()["survival"])


@pytest.mark.parametrize(("folds", "share"), [(None, 0.0), (3, 0.0), (None, 0.2)])
def test_a_study_has_a_path_of_elastic_nets(arranged, folds, share):
    """Of the rows of the model: before, its sums less those of the model were sums of the rows held out, by level."""
    asked = {"lambdas": (1.0, 0.1), "l1_ratio": 0.5} | ({"folds": folds} if folds else {})
    spec = replace(LINEAR, test_share=share)
    places = arranged(spec, elastic_net=asked)
    assert any("of the elastic nets" in line for line in leaving(places[0]))
    found, _ = together(places)
    assert not [one for one in found if isinstance(one, Exception)], found
    rows = {name: training_rows(one, ModelTerms.of(spec), n) for n, (name, one) in enumerate(frames().items())}
    wanted = path_of(as_sites(rows, None), LINEAR, Simulator(LINEAR.topology(3)), 0.5, (1.0, 0.1), folds)
    every_site_has(places, PATH, wanted)


@pytest.mark.parametrize(
    ("spec", "more", "match"),
    [
        (LINEAR, {"curves": {}}, "are of the outcome of a cox model"),
        (COX, {"curves": {"by": "age"}}, r"the column 'age' of \[curves\] has no levels"),
        (COX, {"curves": {"by": "ward"}}, r"the column 'ward' of \[curves\] has no levels"),
        (COX, {"elastic_net": {}}, "unknown operator 'cox'"),
        (LINEAR, {"elastic_net": {"folds": 1}}, "folds"),
        (LINEAR, {"elastic_net": {"l1_ratio": 2.0}}, "l1_ratio"),
        (LINEAR, {"elastic_net": {"lambdas": (-1.0,)}}, "lambdas"),
        (replace(LINEAR, weights="years"), {"elastic_net": {}}, "without weights"),
    ],
)
def test_what_a_study_cannot_have_is_refused_when_it_is_read(arranged, spec, more, match):
    with pytest.raises(dsba.InputError, match=match):
        arranged(spec, **more)
