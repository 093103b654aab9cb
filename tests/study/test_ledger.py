"""The ledger and the policy of a site: which runs may begin, by the rows that they use."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dsba
from dsba.fitting import FitSpec
from dsba.fitting.disclosure import Guards
from dsba.pages.templates import asset
from dsba.study import keys
from dsba.study import policy as policies
from dsba.study.file import (
    IN_MODEL,
    CurvesSection,
    DescribeSection,
    ElasticNetSection,
    Rotation,
    Study,
    StudySite,
    parse,
)
from dsba.study.join import Seat
from dsba.study.ledger import Allowed, Ledger, differing, used_rows
from dsba.study.trial import arrange

SECRET = b"a key of thirty-two bytes, no more"[:32]
COLUMNS = ["age", "sex", "died"]


def table(rows=40, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 90, rows),
            "sex": rng.choice(["F", "M"], rows),
            "died": rng.integers(0, 2, rows),
            "crp": rng.normal(size=rows),
            "id": np.arange(rows),
        }
    )


def kept(frame, columns=COLUMNS):
    return used_rows(frame, columns, SECRET)


def test_the_number_of_differing_rows_is_that_of_the_multisets():
    rng = np.random.default_rng(1)
    for _ in range(30):
        one, other = (table(int(n), seed=3).sample(frac=0.8, random_state=int(n)) for n in rng.integers(5, 30, 2))
        sets = [Counter(map(tuple, frame[COLUMNS].to_numpy().tolist())) for frame in (one, other)]
        wanted = max((sets[0] - sets[1]).total(), (sets[1] - sets[0]).total())
        assert differing(kept(one), kept(other)) == wanted


def test_order_types_and_other_columns_do_not_matter():
    frame = table()
    shuffled = frame.sample(frac=1.0, random_state=1).astype({"age": float})
    assert differing(kept(frame), kept(shuffled, [*COLUMNS, "crp"])) == 0
    assert differing(kept(frame), kept(frame.rename(columns=str.upper), [c.upper() for c in COLUMNS])) is None
    edited = frame.assign(age=frame["age"] + 1)
    assert differing(kept(frame, [*COLUMNS, "id"]), kept(edited, [*COLUMNS, "id"]), "id") == 0


@pytest.mark.parametrize("rows", [1, 2])
def test_a_run_that_differs_by_a_few_rows_is_refused(tmp_path, rows):
    """Two models that differ by one row show that row: the attack that masks and counts cannot see."""
    frame = table()
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.add("first", kept(frame), Allowed(5)) == 0
    for other in (frame.iloc[rows:], pd.concat([frame, table(rows, seed=9)])):
        with pytest.raises(dsba.InputError, match="a few rows of an earlier run"):
            ledger.add("second", kept(other), Allowed(5))
    assert ledger.add("again", kept(frame), Allowed(5)) == 1
    assert ledger.add("far", kept(frame.iloc[3:]), Allowed(5)) == 0
    assert ledger.add("allowed", kept(frame.iloc[rows:]), Allowed(5, close=True)) == 0
    with pytest.raises(dsba.InputError, match="this month, and the policy of this site allows 4"):
        ledger.add("month", kept(table(seed=5)), Allowed(5, a_month=4))


def test_a_number_that_another_study_reads_as_a_level_is_the_same():
    """Else a study with C(stage), and one with stage and a row less, would differ in all rows."""
    numbers = pd.DataFrame({"stage": [1, 2, 3, 10] * 5, "ill": [True, False] * 10, "sex": ["F", "M"] * 10})
    texts = numbers.assign(stage=numbers["stage"].astype(str).str.zfill(3), ill=numbers["ill"].astype(str).str.upper())
    for other in (texts, numbers.astype({"stage": float}), texts.astype("category")):
        assert differing(kept(numbers, list(numbers)), kept(other, list(numbers))) == 0
        assert differing(kept(numbers, list(numbers)), kept(other.iloc[1:], list(numbers))) == 1


def test_a_description_has_rows_that_the_model_has_not(tmp_path):
    """Two studies whose models have the same rows, and whose descriptions differ in one row without an outcome."""
    frame, ledger = table(), Ledger(tmp_path / "ledger")
    model, described = kept(frame.iloc[5:]), {"described": kept(frame)}
    assert ledger.add("first", model, Allowed(9), described) == 0
    with pytest.raises(dsba.InputError, match="a few rows of an earlier run"):
        ledger.add("second", model, Allowed(9), {"described": kept(frame.iloc[1:])})
    with pytest.raises(dsba.InputError, match="a few rows of an earlier run"):  # of a model and of a description
        ledger.add("third", kept(frame.iloc[1:]), Allowed(9))
    assert ledger.add("again", model, Allowed(9), described) == 1
    assert Ledger(tmp_path / "ledger").add("without", model, Allowed(9)) == 2


def test_a_run_again_is_no_run_close_to_itself(tmp_path):
    """Before, one row without an outcome at a site, of many at all, made every further run of the study impossible."""
    frame, ledger = table(), Ledger(tmp_path / "ledger")
    model, described = kept(frame.iloc[1:]), {"described": kept(frame)}
    assert [ledger.add("study", model, Allowed(9), described) for _ in range(2)] == [0, 1]
    with pytest.raises(dsba.InputError, match="a few rows of an earlier run"):
        ledger.add("other", kept(frame), Allowed(9))


@pytest.mark.parametrize(("rows", "refused"), [(1, True), (2, True), (3, False), (40, False)])
def test_a_value_that_was_corrected_between_two_runs(rows, refused, tmp_path):
    """Before, a policy with a row_id let the same person with another value pass, and two models told the person."""
    frame, ledger, columns = table(), Ledger(tmp_path / "ledger"), [*COLUMNS, "id"]
    edited = frame.assign(age=frame["age"] + 100 * (frame.index < rows))
    ledger.add("first", kept(frame, columns), Allowed(9, row_id="id"))
    if refused:
        with pytest.raises(dsba.InputError, match="a few rows of an earlier run"):
            ledger.add("second", kept(edited, columns), Allowed(9, row_id="id"))
    else:
        assert ledger.add("second", kept(edited, columns), Allowed(9, row_id="id")) == 1
    with pytest.raises(dsba.InputError, match="a few rows of an earlier run"):
        ledger.add("third", kept(edited.iloc[1:], columns), Allowed(9, row_id="id"))


SHARED = FitSpec(formula="crp ~ age", operator="linear", graph="ring", missing="drop")
COX = replace(SHARED, formula="Surv(crp, died) ~ age", operator="cox", strata="site")


@pytest.mark.parametrize(
    ("spec", "more"), [(replace(SHARED, test_share=0.4), {}), (COX, {"curves": {}}), (SHARED, {"evaluates": "-"})]
)
def test_every_sum_of_a_run_is_compared_with_earlier_ones(spec, more, tmp_path):
    """Before, sums of rows held out, of curves and of evaluations told a row that a later run has beside them."""
    frames = {f"h{n}": table(seed=n).assign(crp=np.arange(40.0) + 1.0 + 50 * n) for n in range(3)}
    fit = dsba.fit(pd.concat(frames.values()), "crp ~ 1", "linear")
    fit.save(tmp_path / "model")
    if more.get("evaluates"):  # of a model that does not need the column that is missing
        more = {"evaluates": fit.digest()}
    files = [tmp_path / f"{name}.csv" for name in frames]
    for file, frame in zip(files, frames.values(), strict=True):
        frame.to_csv(file, index=False)
    study = arrange(files, spec, tmp_path / "study", **more)
    key = tmp_path / "study" / "h0.pem"
    first = Seat(
        study, "h0", key, files[0], tmp_path / "out", model=tmp_path / "model" if "evaluates" in more else None
    )
    one_more = table(1, seed=9).assign(crp=7.5, age=33.0 if spec.test_share else np.nan)
    pd.concat([frames["h0"], one_more]).to_csv(tmp_path / "grown.csv", index=False)
    ledger, made = Ledger(tmp_path / "ledger"), keys.load(key)
    for seat in (first, first):
        rows, beside = seat.used(made)
        ledger.add("study", rows, Allowed(9), beside)
    rows, beside = replace(first, data=tmp_path / "grown.csv").used(made)
    with pytest.raises(dsba.InputError, match="a few rows of an earlier run"):
        ledger.add("study", rows, Allowed(9), beside)


def test_runs_are_counted_by_used_rows(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    for _ in range(2):
        ledger.add("hash", kept(table()), Allowed(2))
    ledger.add("hash", kept(table(seed=1)), Allowed(2))
    with pytest.raises(dsba.InputError, match="these rows have been in 2 runs, and the study allows 2"):
        Ledger(tmp_path / "ledger").add("hash", kept(table()), Allowed(2))
    for text in ("[{}]", "[" * 100_000):
        (tmp_path / "ledger").write_text(text)
        with pytest.raises(dsba.InputError, match=r"the ledger .* is damaged"):
            Ledger(tmp_path / "ledger")


def test_damaged_rows_of_a_run_are_named(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.add("hash", kept(table()), Allowed(2))
    (file,) = (tmp_path / "ledger-rows").iterdir()
    whole = file.read_bytes()
    changed = whole[: len(whole) // 2] + b"odd" + whole[len(whole) // 2 + 3 :]
    for content in (b"", whole[:100], whole[:-1], changed, whole.replace(b"rows.npy", b"rovs.npy")):
        file.write_bytes(content)
        with pytest.raises(dsba.InputError, match=r"the ledger .* is damaged"):
            ledger.add("hash", kept(table()), Allowed(2))
    file.write_bytes(whole)
    assert ledger.add("hash", kept(table()), Allowed(2)) == 1


def test_two_processes_do_not_both_add(tmp_path):
    """Threads with files of their own, as flock tells open files apart."""
    refused = []

    def begin():
        try:
            Ledger(tmp_path / "ledger").add("hash", kept(table()), Allowed(3))
        except dsba.InputError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads((tmp_path / "ledger").read_text())) == 3
    assert len(refused) == 5


def study(**changes):
    text = asset("dsba.study", "example.toml")
    for old, new in changes.items():
        text = text.replace(old, new)
    return parse(text.encode(), "study")


def policy(tmp_path, text):
    (tmp_path / "policy.toml").write_text(text)
    return policies.load(None, tmp_path / "site.pem")


def test_a_policy_is_stricter_than_the_study_or_equal(tmp_path):
    own = policy(tmp_path, "[guards]\nrows = 50\nrows_per_level = 1\nleverage = 0.3\n")
    assert own.for_study(study()) == Guards(rows=50, leverage=0.3)
    lines = own.numbers(study(**{"rows_per_level = 3": "rows_per_level = 1"}))
    assert "rows: 50 (this site's own)" in lines
    assert "sites: 3 (the study's)" in lines
    assert "rows per level: 1 (the study's), which guards nothing" in lines


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('columns = ["age", "readmitted"]', "does not allow the column 'sex'"),
        ('operators = ["linear"]', "does not allow logistic models"),
        ('discloses = ["iterates"]', "does not allow methods that disclose totals"),
    ],
)
def test_a_policy_refuses_a_study(tmp_path, text, sentence):
    assert sentence in policy(tmp_path, text).complaint(study(), "totals")


def test_the_example_is_a_policy_and_a_wrong_key_is_named(tmp_path):
    assert policy(tmp_path, asset("dsba.study", policies.POLICY_FILE)).runs_a_month == 20
    assert policies.load(None, Path("nowhere") / "site.pem") == policies.Policy()
    for text, sentence in [
        ("row = 1", "the key row is not known"),
        ("runs_a_month = 0", "runs_a_month"),
        ("[guards]\nleverage = 2", "leverage must be above 0"),
        ("=", "is not a TOML file"),
        ('discloses = ["all"]', "disclosure class"),
    ]:
        with pytest.raises(dsba.InputError, match=sentence):
            policy(tmp_path, text)


def test_the_example_of_a_study_shows_every_option():
    text = asset("dsba.study", "example.toml")
    sections = (Study, StudySite, Rotation, DescribeSection, CurvesSection, ElasticNetSection)
    own = [name for section in sections for name in section.model_fields]
    for name in [*IN_MODEL, *own, *asdict(Guards())]:
        assert re.search(rf"\b{name}\b", text), name
    shown = re.sub(r"^# (\[(?:describe|elastic_net)\]|by = |l1_ratio|lambdas|folds)", r"\1", text, flags=re.M)
    asked = parse(re.sub(r"^by = .* a curve for each$", "", shown, flags=re.M).encode(), "study")
    assert asked.describe == DescribeSection(by="sex")
    assert asked.elastic_net == ElasticNetSection(lambdas=(0.1, 0.01, 0.001), folds=5)
