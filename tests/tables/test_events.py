"""Which label is the event and which level is the reference: as it is asked for, else by sorted order, and shown."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hospital_tables import hospitals, on_sites, pooled, sites_of
from numpy.testing import assert_allclose
from test_table_commands import ask, refused

import dsba
from dsba.fitting import FitSpec
from dsba.network import Simulator
from dsba.tables.fit import fit_sites
from dsba.tables.page import model_page

FORMULA = "outcome ~ age + C(sex) + C(ward)"
CHOSEN = {"event": "no", "levels": {"sex": ["M", "F"], "ward": ["surgery", "A&E", "cardio", "nowhere"]}}


def test_the_event_and_the_references_are_those_asked_for(tmp_path):
    frame = pooled(hospitals())
    theirs = smf.logit(
        "event ~ age + C(sex, Treatment('M')) + C(ward, Treatment('surgery'))",
        frame.assign(event=(frame["outcome"] == "no").astype(int)),
    ).fit(disp=0, tol=1e-12)
    dsba.fit(frame, FORMULA, sites="site", **CHOSEN).save(tmp_path)
    ours = dsba.load(tmp_path)
    names = ["Intercept", "age", "C(sex)[T.F]", "C(ward)[T.A&E]", "C(ward)[T.cardio]"]
    kept = [name.replace(", Treatment('M')", "").replace(", Treatment('surgery')", "") for name in theirs.params.index]
    assert sorted(ours.params.index) == sorted(kept) == sorted(names)
    assert_allclose(ours.params[kept], theirs.params, rtol=1e-7)
    assert_allclose(ours.bse[kept], theirs.bse, rtol=1e-7)
    assert_allclose(ours.predict(frame), theirs.predict(frame), rtol=1e-8)
    assert (ours.predict(frame, labels=True) == np.where(ours.predict(frame) > 0.5, "no", "yes")).all()
    measured = ours.evaluate(frame, sites="site").pooled
    assert measured.events == ours.metadata.events == (frame["outcome"] == "no").sum()
    assert measured.mean_prediction == pytest.approx(measured.mean_outcome, rel=1e-9)


def test_sorted_order_is_the_default_and_is_shown():
    frame = pooled(hospitals())
    fit = dsba.fit(frame, FORMULA, sites="site")
    assert (fit.event, fit.references) == ("yes", {"sex": "F", "ward": "A&E"})
    said = "The event is outcome = yes. Reference levels: sex = F, ward = A&E."
    assert said in " ".join(str(fit.summary()).split())
    assert said.replace("&", "&amp;") in model_page(fit, "dsba train")
    without = dsba.fit(frame, "cost ~ C(sex) + C(ward) - 1", "linear", sites="site")
    assert (without.event, without.references) == (None, {"ward": "A&E"})


@pytest.mark.parametrize(
    ("coding", "event"),
    [((0, 1), 0), ((0, 1), "0"), ((0.0, 1.0), 0.0), ((False, True), "false"), ((False, True), False)],
)
def test_an_event_is_written_as_its_column_has_it_or_as_text(coding, event):
    frame = pooled(hospitals())
    ours = dsba.fit(frame, "outcome ~ age", sites="site", event="no")
    coded = frame.assign(outcome=np.where(frame["outcome"] == "yes", coding[1], coding[0]))
    found = dsba.fit(coded, "outcome ~ age", sites="site", event=event)
    assert found.event == coding[0]
    assert (found.params == ours.params).all()


@pytest.mark.parametrize("operator", ["ordinal", "multinomial"])
def test_of_more_than_two_labels_none_is_the_event(operator):
    frame = pooled(hospitals())
    fit = dsba.fit(frame.assign(stage=frame["age"] // 30), "stage ~ crp", operator, sites="site")
    assert len(fit.schema.classes) > 2
    assert fit.event is None
    assert "event" not in fit.headline()


def test_plain_results_have_what_the_summary_has_beside_coefficients():
    frame = pooled(hospitals())
    counted = dsba.fit(frame, "visits ~ age", "negative-binomial", sites="site")
    assert counted.plain()["figures"] == {"theta": counted.theta, "theta_se": counted.metadata.figures.theta_se}
    tested = dsba.fit(frame, "outcome ~ age", sites="site", test_share=0.3)
    assert tested.plain()["test"]["auc"] == tested.test.auc
    assert json.loads(json.dumps(tested.plain()))["test"]["rows"] == tested.test.rows


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"event": "maybe"}, "the event 'maybe' is not a label of 'outcome'; its labels are no, yes"),
        ({"event": 1}, "the event 1 is not a label of 'outcome'"),
        ({"levels": {"sex": ["F"]}}, "the column 'sex' has levels at site0 that are not among those given"),
        ({"levels": {"sexx": ["F", "M"]}}, "levels are given for 'sexx', which is not a column of the model"),
        ({"levels": {"age": [40, 50]}}, "levels are given for 'age', which the model takes as a number"),
        ({"levels": {"sex": "FM"}}, "levels must be given as a list for each column"),
        ({"levels": {"site": ["site1"]}, "formula": "outcome ~ C(site)"}, "the site 'site0' is not among the levels"),
        ({"operator": "linear", "formula": "cost ~ age", "event": "no"}, "an event is one of two labels"),
    ],
)
def test_what_cannot_be_chosen_is_said(options, sentence):
    with pytest.raises(dsba.InputError, match=sentence):
        dsba.fit(hospitals(), **{"formula": "outcome ~ age + C(sex)", **options})


def test_every_process_has_the_bits_of_one():
    """Each site has only its own table, and the levels that occur there; the sites may be put in order, too."""
    frames = hospitals()
    chosen = {"event": "no", "levels": CHOSEN["levels"] | {"site": ["site2", "site0", "site1"]}}
    spec = FitSpec(formula="outcome ~ age + C(sex) + C(ward) + C(site)", graph="ring", **chosen)
    alone = fit_sites(sites_of(frames), spec, Simulator(dsba.Topology.ring(3)))
    assert alone.references == {"sex": "M", "ward": "surgery", "site": "site2"}
    for found in on_sites(frames, lambda own, net: fit_sites(own, spec, net)):
        assert found.schema == alone.schema
        assert (found.params == alone.params).all()


def test_processes_must_ask_for_the_same_order():
    specs = [FitSpec(formula=FORMULA, graph="ring", levels={"sex": order}) for order in (["F", "M"], ["M", "F"])]
    with pytest.raises(dsba.InputError, match="rank 1 differs from rank 0 in levels"):
        on_sites(hospitals(), lambda own, net: fit_sites(own, specs[net.rank == 1], net))


def test_the_command_chooses(tmp_path):
    files = []
    for name, frame in hospitals().items():
        files.append(tmp_path / f"{name}.csv")
        frame.to_csv(files[-1], index=False)
    words = ("train", *files, "--formula", FORMULA, "--graph", "ring")
    order = ("--levels", "sex=M, F", "--levels", "ward=surgery,A&E,cardio,nowhere")
    told = ask(*words, "--event", "no", *order, "--out", tmp_path / "run")
    assert "yes, no (no is the event)" in told
    assert "surgery, A&E, cardio (surgery is the reference)\n" in told
    ours = dsba.load(tmp_path / "run")
    frames = {file.stem: pd.read_csv(file) for file in files}
    assert (ours.params == dsba.fit(frames, FORMULA, graph="ring", **CHOSEN).params).all()
    plain = json.loads(ask("summary", tmp_path / "run", "--json"))
    assert (plain["event"], plain["references"]) == ("no", {"sex": "M", "ward": "surgery"})
    other = ("--out", tmp_path / "other")
    assert "--levels must be COLUMN=LEVEL,LEVEL,..., got 'sex'" in refused(*words, "--levels", "sex", *other)
    assert "event is for tables" in refused("train", "a.svm", "--event", "no", *other)


def test_levels_may_be_values_of_numpy_and_pandas(tmp_path):
    frame = pooled(hospitals())
    coded = frame.assign(outcome=(frame["outcome"] == "yes").astype(int))
    levels = {"year": pd.Index([2003, 2001, 2002])}
    dsba.fit(coded, "outcome ~ C(year)", sites="site", event=np.int64(0), levels=levels).save(tmp_path)
    found = dsba.load(tmp_path)
    assert (found.event, found.references) == (0, {"year": 2003})
