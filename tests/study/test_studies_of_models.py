"""Studies of models with sums of their own, as risk sets, theta and classes: what is said before, and `dsba verify`."""

from __future__ import annotations

import json

import pytest
from reference_values import table
from test_study import together
from test_totals import is_broken, lines_of, one_bit, written_anew
from test_verify import wrong

from dsba.fitting import FitSpec
from dsba.study.check import check
from dsba.study.join import Seat, leaving
from dsba.study.policy import Policy
from dsba.study.totals import TOTALS_FILE
from dsba.study.trial import arrange
from dsba.study.verify import verify_study

RIGHT = "age + treated"
STUDIES = {
    "cox by strata": FitSpec(formula=f"Surv(time, died) ~ {RIGHT}", operator="cox", strata="site"),
    "cox on a grid": FitSpec(formula=f"Surv(time, died) ~ {RIGHT}", operator="cox", strata=None),
    "negative binomial": FitSpec(formula=f"los ~ {RIGHT}", operator="negative-binomial"),
    "multinomial": FitSpec(formula=f"score ~ {RIGHT}", operator="multinomial"),
    "random intercept": FitSpec(formula=f"sbp ~ {RIGHT}", operator="linear", random="site"),
}


def seated(spec, folder):
    """Three of the cohort's sites."""
    parts = dict(list(table().groupby("site"))[:3])
    for name, part in parts.items():
        part.drop(columns="site").to_csv(folder / f"{name}.csv", index=False)
    files = [folder / f"{name}.csv" for name in parts]
    study = arrange(files, spec, folder / "study")
    keys = [folder / "study" / f"{name}.pem" for name in parts]
    outs = [folder / f"out-{name}" for name in parts]
    policy = Policy(discloses=("totals", "site totals"))  # a random intercept needs both
    places = zip(parts, keys, files, outs, strict=True)
    return [Seat(study, *place, patience=60.0, policy=policy) for place in places]


TELL = {
    "cox by strata": "the number of events; the sums over a site's own risk sets stay there",
    "cox on a grid": "sums of e^u and e^u x (u: the score, x: the columns) over the rows at risk",
    "negative binomial": "the sum of the squared outcomes, the sum of the outcomes",
    "multinomial": "the rows of every class",
    "random intercept": "weighted products of a site's sums of columns and outcomes",
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_person_reads_what_the_sums_of_the_model_tell_before_anything_is_sent(name, tmp_path):
    seat = seated(STUDIES[name], tmp_path)[0]
    for lines in (leaving(seat), [finding.sentence for finding in check(seat.study, None, None, None)]):
        (said,) = (line for line in lines if line.startswith("As sums over all sites, of the model"))
        assert TELL[name] in said
    assert ("risk sets" in " ".join(leaving(seat)) or "at risk" in " ".join(leaving(seat))) == ("cox" in name)


@pytest.mark.parametrize("name", STUDIES)
def test_it_verifies_and_one_changed_bit_of_a_total_is_found(name, tmp_path):
    seats = seated(STUDIES[name], tmp_path)
    found, _ = together(seats)
    assert [results.not_converged for results in found] == [None] * 3
    seat = seats[1]
    said = list(verify_study(seat.out))
    assert all(one.fine and not one.open for one in said), said
    lines = lines_of(seat.out)
    answers = [n for n, line in enumerate(lines) if json.loads(line).get("answered", {}).get("answer")]
    assert len(answers) > 20
    for number in answers:
        changed = [*lines[:number], one_bit(lines[number]), *lines[number + 1 :]]
        (seat.out / TOTALS_FILE).write_bytes(b"".join(changed))
        assert f"totals.jsonl, line {number + 1}" in is_broken(seat.out, seat.study)
        (seat.out / TOTALS_FILE).write_bytes(b"".join(written_anew(changed, seat.study)))
        assert is_broken(seat.out, seat.study), number
    assert wrong(seat.out)
