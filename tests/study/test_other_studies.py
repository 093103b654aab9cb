"""Studies that evaluate a stored model, and studies with a description before the model."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from registered_models import JOINED
from test_study import FORMULA, NAMES, seats, tables, together
from test_totals import CHANGES, every_change_is_found
from test_verify import wrong

import dsba
from dsba.algorithms.newton import INFORMATION
from dsba.fitting import FitSpec
from dsba.network import Simulator
from dsba.network.tls.site_network import SiteNetwork
from dsba.study.audit import AUDIT, read_log
from dsba.study.join import BY_SITE, DESCRIPTION, EVALUATED, Seat, about, leaving, prepared
from dsba.study.policy import Policy
from dsba.study.recompute import differences, recomputed
from dsba.study.totals import TOTALS_FILE, read_totals
from dsba.study.trial import arrange
from dsba.study.verify import verify_study
from dsba.tables.fit import evaluate_files, train
from dsba.tables.page import model_page

__all__ = ["seats", "tables"]  # fixtures
SPEC = FitSpec(formula=FORMULA, graph="ring")


@pytest.fixture
def arranged(tables, tmp_path):
    """The seats of a study with other keys, in a folder of its own."""

    def made(**more):
        study = arrange(tables, SPEC, tmp_path / "study", **more)
        places = [(name, tmp_path / "study" / f"{name}.pem", file, tmp_path / f"out-{name}") for name, file in
                  zip(NAMES, tables, strict=True)]  # fmt: skip
        return [Seat(study, *place, patience=60.0) for place in places]

    return made


def test_a_study_moves_no_more_than_it_told(arranged):
    """Every part goes to all sites, signed, with several scales at once: not what a tree of sums would move."""
    seats = arranged()
    told = together(seats)[1]
    (expected,) = {line for said in told for line in said if line.startswith("Expected: at most")}
    size, unit = re.search(r"rounds and ([0-9.]+) (kB|MB) into", expected).groups()
    most = float(size) * {"kB": 1e3, "MB": 1e6}[unit]
    logs = [(seat.out / "audit.jsonl").read_text().splitlines() for seat in seats]
    sent = [one["bytes"] for log in logs for one in map(json.loads, log) if one["event"] == "sent"]
    assert 0.2 * most < sum(sent) / 3 <= most  # on a complete graph a site gets a third


def test_an_evaluation_is_that_of_one_process(tables, arranged, tmp_path):
    fit = dsba.fit({f.stem: pd.read_csv(f) for f in tables}, "readmitted ~ age", graph="ring")
    fit.save(tmp_path / "model")
    assert dsba.load(tmp_path / "model").digest() == fit.digest()
    places = [replace(seat, model=tmp_path / "model") for seat in arranged(evaluates=fit.digest())]
    found, told = together(places)
    alone = evaluate_files(fit, tables, Simulator(SPEC.topology(3)), SPEC.guards).pooled
    wanted = {name: value for name, value in vars(alone).items() if name not in JOINED}
    for seat, results, said in zip(places, found, told, strict=True):
        assert {k: v for k, v in vars(results.test).items() if k not in JOINED} == wanted
        assert results.test == found[0].test
        assert (results.params == fit.params).all()
        assert any(line.startswith("All sites: rows 210") for line in said)
        said = list(verify_study(seat.out))
        assert all(one.fine and not one.open for one in said), said
        assert any("The evaluation is what these totals give" in one.sentence for one in said)
        assert dsba.load(seat.out).test == results.test
    an_evaluation_is_verified(places[0], tmp_path)
    leaves = leaving(places[0])
    assert "an evaluation of the stored model" in leaves[0]
    assert not [line for line in leaves if "gradients" in line or "the model." in line]
    page = model_page(found[0], "the command", about(places[0], found[0].model))
    assert "<h3>On the rows of aarhus, bergen, cork</h3>" in page
    assert "210 rows of aarhus, bergen, cork, in groups of the predicted probability" in page
    assert "held-out" not in page
    test = found[0].test
    assert abs(test.auc - alone.auc) <= test.auc_within
    assert f"{test.auc:.4g} ({test.auc_low:.4g} to {test.auc_high:.4g})" in page


def an_evaluation_is_verified(seat, tmp_path):
    """Whatever is changed in the folder of an evaluation is found."""
    for change in CHANGES:
        folder = shutil.copytree(seat.out, tmp_path / f"kept {change}")
        every_change_is_found(change, folder, seat.study)
    folder = shutil.copytree(seat.out, tmp_path / "kept")
    results = dsba.load(folder)
    again = recomputed(seat.study, 0, read_totals(folder / TOTALS_FILE, seat.study), dsba.load(folder / EVALUATED))
    assert list(differences(results.model, again.model)) == []
    changed = results.tested(replace(results.test, auc=results.test.auc + 1e-8))
    assert list(differences(changed.model, again.model)) == ["table.test.auc"]
    changed.save(folder)
    assert any("is not the result" in sentence for sentence in wrong(folder))
    results.save(folder)
    assert wrong(folder) == []
    changed.save(folder / EVALUATED)
    assert any("is not the one that the study evaluates" in sentence for sentence in wrong(folder))
    shutil.rmtree(folder / EVALUATED)
    assert wrong(folder)


def test_another_model_is_refused_before_anybody_is_met(tables, arranged, tmp_path):
    frames = {f.stem: pd.read_csv(f) for f in tables}
    right, other = (dsba.fit(frames, formula) for formula in ("readmitted ~ age", "readmitted ~ age + id"))
    for name, fit in (("right", right), ("wrong", other)):
        fit.save(tmp_path / name)
    seat = arranged(evaluates=right.digest())[0]
    with pytest.raises(dsba.InputError, match="is not the one that the study evaluates"):
        prepared(replace(seat, model=tmp_path / "wrong"))
    with pytest.raises(dsba.InputError, match="evaluates a stored model: give its folder with --model"):
        prepared(seat)
    study = seat.study.model_copy(update={"evaluates": other.digest()})
    with pytest.raises(dsba.InputError, match="needs the column 'id', which the study does not name"):
        prepared(replace(seat, study=study, model=tmp_path / "wrong"))


def test_a_study_describes_its_columns_before_the_model(tables, arranged, tmp_path):
    places = arranged(describe={"by": "sex"})
    frame = pd.read_csv(tables[1])
    frame.loc[frame.index[:5], "age"] = -999
    frame.to_csv(tables[1], index=False)
    assert any("which levels aarhus has" in line for line in leaving(places[0]))
    found, told = together(places)
    frames = {f.stem: pd.read_csv(f)[["readmitted", "age", "sex"]] for f in tables}
    wanted = json.loads(json.dumps(dsba.describe(frames, by="sex").plain()))
    for seat, said in zip(places, told, strict=True):
        assert json.loads((seat.out / f"{DESCRIPTION}.json").read_text()) == wanted
        assert "<table" in (seat.out / f"{DESCRIPTION}.html").read_text()
        assert any("value of 'age' is repeated at bergen" in line for line in said)
    assert (found[0].params == train(tables, SPEC).params).all()
    said = list(verify_study(places[1].out))
    assert all(one.fine and not one.open for one in said), said
    assert any("and so is the description" in one.sentence for one in said)
    folder = shutil.copytree(places[2].out, tmp_path / "kept")
    for name in (f"{DESCRIPTION}.json", f"{DESCRIPTION}.html"):
        whole = (folder / name).read_bytes()
        middle = len(whole) // 2
        (folder / name).write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        assert any(f"another description than {folder / name}" in sentence for sentence in wrong(folder))
        (folder / name).write_bytes(whole)
    (folder / name).unlink()
    assert any("cannot read" in sentence for sentence in wrong(folder))
    every_change_is_found("one bit", folder, places[2].study)


@pytest.mark.parametrize("hiding", [(), ("cork",)])
def test_a_study_describes_each_site_where_policies_allow_it(hiding, tables, arranged):
    """The figures of one site that does not show its own would be the totals minus the others'."""
    shows, hides = Policy(discloses=("totals", "site totals")), Policy()
    places = [
        replace(seat, policy=hides if seat.site in hiding else shows) for seat in arranged(describe={"by": "site"})
    ]
    said = {seat.site: "\n".join(leaving(seat)) for seat in places}
    for site, lines in said.items():
        assert ("the policy of cork does not allow site totals" in lines.lower()) == (site in hiding)
        assert (f"the description of the rows of {site} alone" in lines) == (site not in hiding)
    found, told = together(places)
    assert not [one for one in found if isinstance(one, Exception)], found
    frames = {f.stem: pd.read_csv(f)[["readmitted", "age", "sex"]] for f in tables}
    wanted = json.loads(json.dumps(dsba.describe(frames, by=None if hiding else "site").plain()))
    for seat, lines in zip(places, told, strict=True):
        kept = json.loads((seat.out / f"{DESCRIPTION}.json").read_text())
        assert (kept["rows"], kept["columns"]) == (wanted["rows"], wanted["columns"])
        assert bool([line for line in lines if "cork shows no figures of its own rows" in line]) == bool(hiding)
        assert all(one.fine and not one.open for one in verify_study(seat.out)), list(verify_study(seat.out))
        sent = {line["discloses"] for line in read_log(seat.out / AUDIT) if line["event"] == "sent"}
        assert sent == {"totals", "site totals"}


@pytest.mark.parametrize(("gaps", "refused"), [([1, 0, 0], True), ([3, 2, 0], True), ([3, 3, 0], False)])
def test_a_description_of_few_rows_that_the_model_leaves_out(gaps, refused, tables, tmp_path):
    """Their mean age would be the difference of Table 1 and of the model's means."""
    for file, count in zip(tables, gaps, strict=True):
        frame = pd.read_csv(file).astype({"readmitted": object})
        frame.loc[frame.index[:count], "readmitted"] = None
        frame.to_csv(file, index=False)
    spec = FitSpec(formula=FORMULA, graph="ring", missing="drop")
    study = arrange(tables, spec, tmp_path / "study", describe={"by": "sex"})
    places = [(name, tmp_path / "study" / f"{name}.pem", file, tmp_path / f"out-{name}") for name, file in
              zip(NAMES, tables, strict=True)]  # fmt: skip
    found, _ = together([Seat(study, *place, patience=60.0) for place in places])
    for one in found:
        if refused:
            assert "are in the description or the curves and not in the model" in str(one)
        else:
            assert one.nobs == 210 - sum(gaps)


def test_a_description_of_few_rows_that_are_held_out(tables, tmp_path):
    """Before, Table 1 less the sums of the model was the one row of another site that was held out."""
    spec = FitSpec(formula="age ~ sex", operator="linear", graph="ring", test_share=0.01)
    study = arrange(tables, spec, tmp_path / "study", describe={})
    places = [(name, tmp_path / "study" / f"{name}.pem", file, tmp_path / f"out-{name}") for name, file in
              zip(NAMES, tables, strict=True)]  # fmt: skip
    found, _ = together([Seat(study, *place, patience=60.0) for place in places])
    for one in found:
        assert "are in the description or the curves and not in the model" in str(one)


def test_a_description_by_a_column_that_the_study_does_not_name(arranged):
    with pytest.raises(dsba.InputError, match=r"the column 'ward' of \[describe\] is not under"):
        arranged(describe={"by": "ward"})


@pytest.mark.parametrize(("cov", "messages"), [("HC1", 380), ("site", 400)])
def test_five_sites_on_a_ring_take_at_most_180_rounds(cov, messages, tmp_path, monkeypatch):
    """A logistic model of six Newton steps with all checks; no step is summed twice, and none after the last one.

    Messages that wait for each other, with those of records and checks that are not counted as rounds.
    """
    spread, hops = SiteNetwork._spread, []

    def counted(net, own):
        hops.extend([net.rank] * net.routes.setup)
        return spread(net, own)

    monkeypatch.setattr(SiteNetwork, "_spread", counted)
    rng, files = np.random.default_rng(0), []
    for place in range(5):
        frame = pd.DataFrame({"age": rng.integers(20, 90, 200), "crp": rng.normal(size=200)})
        frame["sex"] = rng.choice(["F", "M"], 200)
        score = 0.05 * (frame.age - 55) + 0.4 * (frame.sex == "M")
        frame["y"] = np.where(rng.random(200) < 1 / (1 + np.exp(-score)), "yes", "no")
        files.append(tmp_path / f"site{place}.csv")
        frame.to_csv(files[-1], index=False)
    spec = FitSpec(formula="y ~ age + crp + C(sex)", graph="ring", cov=cov)
    study = arrange(files, spec, tmp_path / "study")
    places = [Seat(study, f.stem, tmp_path / "study" / f"{f.stem}.pem", f, tmp_path / f.stem, 60.0) for f in files]
    found, _ = together(places)
    assert found[0].model.run.message.startswith("6 Newton steps, ")
    assert {results.rounds <= 180 for results in found} == {True}
    assert hops.count(0) <= messages
    (epoch,) = read_totals(places[0].out / TOTALS_FILE, study)
    points = [line.at for line in epoch.answers if line.kind == INFORMATION]
    assert len(points) == len(set(points)) == 6


def test_trouble_is_named_at_its_site_before_the_model(tmp_path):
    """-999 for missing, another unit and another coding of sex; each site hears of its own rows alone."""
    rng, files = np.random.default_rng(3), []
    for place in range(3):
        frame = pd.DataFrame({"age": rng.normal(60, 12, 80).round(), "crp": rng.lognormal(2.0, 0.6, 80),
                              "sex": rng.choice(["F", "M"], 80), "cost": rng.normal(0, 1, 80)})  # fmt: skip
        if place == 0:
            frame.loc[:6, "age"] = -999
        if place == 1:
            frame["crp"] /= 10.0
        if place == 2:
            frame["sex"] = frame["sex"].map({"F": "female", "M": "male"})
        files.append(tmp_path / f"h{place}.csv")
        frame.to_csv(files[-1], index=False)
    study = arrange(
        files, FitSpec(formula="cost ~ age + crp + C(sex)", operator="linear", graph="ring"), tmp_path / "s"
    )
    found, told = together(
        [Seat(study, f.stem, tmp_path / "s" / f"{f.stem}.pem", f, tmp_path / f.stem, 60.0) for f in files]
    )
    assert not [one for one in found if isinstance(one, Exception)], found
    signs = [[line for line in said if line.startswith("Look at this")] for said in told]
    for own, sign in zip(
        signs, ("'age' is repeated at h0", "'crp' at h1 lies", "'sex' has 2 levels at h2"), strict=True
    ):
        assert len(own) == 1
        assert sign in own[0]
        assert "999" not in own[0]


def test_a_random_intercept_needs_policies_that_allow_site_totals(tables, tmp_path):
    """Its totals determine the sums of every site (tests/tables/test_mixed.py)."""
    spec = FitSpec(formula="age ~ sex", operator="linear", random="site", graph="ring")
    study = arrange(tables, spec, tmp_path / "mixed")
    seat = Seat(study, NAMES[0], tmp_path / "mixed" / f"{NAMES[0]}.pem", tables[0], tmp_path / "out", patience=60.0)
    with pytest.raises(dsba.InputError, match="does not allow methods that disclose site totals"):
        prepared(seat)
    allowed = replace(seat, policy=Policy(discloses=("totals", "site totals")))
    prepared(allowed)
    assert any("by what the sums give together: the number of rows of aarhus" in line for line in leaving(allowed))


def test_sites_show_their_own_estimates_where_their_policies_allow_it(tables, arranged):
    """Each site decides for itself; a site that does not show its model is named in one sentence."""
    shows = Policy(discloses=("totals", "site totals"))
    seats = [replace(seat, policy=shows) for seat in arranged(by_site=True)]
    hiding = [replace(seats[0], policy=Policy()), *seats[1:]]
    assert any("does not allow site totals" in line for line in leaving(hiding[0]))
    assert any("of the same model of bergen alone" in line for line in leaving(hiding[1]))
    found, told = together(hiding)
    assert not [one for one in found if isinstance(one, Exception)]
    frames = {f.stem: pd.read_csv(f) for f in tables}
    wanted = dsba.fit(frames, SPEC.formula, graph="ring").by_site(frames)
    for seat, said in zip(hiding, told, strict=True):
        kept = json.loads((seat.out / BY_SITE).read_text())
        assert [*kept["estimates"]] == ["bergen", "cork"]
        assert [*kept["failed"]] == ["aarhus"]
        for site, own in kept["estimates"].items():
            assert {name: tuple(pair) for name, pair in own.items()} == wanted.estimates[site]
        assert [line for line in said if "aarhus has no estimates: the policy of aarhus does not allow" in line]
        assert any(line.startswith("By site: age of 2 sites: ") for line in said)
        assert all(one.fine for one in verify_study(seat.out)), list(verify_study(seat.out))
    classes = [{line["discloses"] for line in read_log(seat.out / AUDIT) if line["event"] == "sent"} for seat in hiding]
    assert classes == [{"totals", "site totals"}] * 3


def test_a_site_whose_own_model_would_show_rows_does_not_show_it(tables, arranged):
    """Few rows at one site are no matter in the pooled model, and would be in that of the site."""
    frame = pd.read_csv(tables[2])
    frame.head(15).to_csv(tables[2], index=False)
    shows = Policy(discloses=("totals", "site totals"))
    found, told = together([replace(seat, policy=shows) for seat in arranged(by_site=True)])
    assert not [one for one in found if isinstance(one, Exception)], found
    (line,) = (line for line in told[0] if line.startswith("By site: cork has no estimates"))
    assert line.endswith("a guard does not let it show them.")
    assert "15" not in line
