"""Studies that evaluate a stored model, and studies with a description before the model."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from test_study import FORMULA, NAMES, seats, tables, together
from test_totals import CHANGES, every_change_is_found
from test_verify import wrong

import dsba
from dsba.algorithms.newton import INFORMATION
from dsba.fitting import FitSpec
from dsba.network import Simulator
from dsba.study.audit import AUDIT, read_log
from dsba.study.join import BY_SITE, DESCRIPTION, EVALUATED, Seat, leaving, prepared
from dsba.study.policy import Policy
from dsba.study.recompute import differences, recomputed
from dsba.study.totals import TOTALS_FILE, read_totals
from dsba.study.trial import arrange
from dsba.study.verify import verify_study
from dsba.tables.fit import evaluate_files, train

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


def test_an_evaluation_is_that_of_one_process(tables, arranged, tmp_path):
    fit = dsba.fit({f.stem: pd.read_csv(f) for f in tables}, "readmitted ~ age", graph="ring")
    fit.save(tmp_path / "model")
    assert dsba.load(tmp_path / "model").digest() == fit.digest()
    places = [replace(seat, model=tmp_path / "model") for seat in arranged(evaluates=fit.digest())]
    found, told = together(places)
    wanted = evaluate_files(fit, tables, Simulator(SPEC.topology(3)), SPEC.guards).pooled
    for seat, results, said in zip(places, found, told, strict=True):
        assert results.test == wanted
        assert (results.params == fit.params).all()
        assert any(line.startswith("All sites: rows 210") for line in said)
        said = list(verify_study(seat.out))
        assert all(one.fine and not one.open for one in said), said
        assert any("The evaluation is what these totals give" in one.sentence for one in said)
        assert dsba.load(seat.out).test == wanted
    an_evaluation_is_verified(places[0], tmp_path)
    assert "an evaluation of the stored model" in leaving(places[0])[0]


def an_evaluation_is_verified(seat, tmp_path):
    """Whatever is changed in the folder of an evaluation is found."""
    for change in CHANGES:
        folder = shutil.copytree(seat.out, tmp_path / f"kept {change}")
        every_change_is_found(change, folder, seat.study)
    folder = shutil.copytree(seat.out, tmp_path / "kept")
    results = dsba.load(folder)
    again = recomputed(seat.study, 0, read_totals(folder / TOTALS_FILE, seat.study), dsba.load(folder / EVALUATED))
    assert list(differences(results.model, again.model)) == []
    changed = results.tested({**results.test, "auc": results.test["auc"] + 1e-8})
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


def test_a_description_by_a_column_that_the_study_does_not_name(arranged):
    with pytest.raises(dsba.InputError, match=r"the column 'ward' of \[describe\] is not under"):
        arranged(describe={"by": "ward"})


@pytest.mark.parametrize("cov", ["HC1", "site"])
def test_five_sites_on_a_ring_take_at_most_180_rounds(cov, tmp_path):
    """A logistic model of six Newton steps with all checks; no step is summed twice, and none after the last one."""
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
    assert "the last of 6 Newton steps" in found[0].model.run.message
    assert {results.rounds <= 180 for results in found} == {True}
    (epoch,) = read_totals(places[0].out / TOTALS_FILE, study)
    points = [line.at for line in epoch.answers if line.kind == INFORMATION]
    assert len(points) == len(set(points)) == 6


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
