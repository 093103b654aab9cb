"""The record of a run's totals: signed by all sites, every change is found, and the model follows from it alone."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from test_study import FORMULA, NAMES, tables, together  # noqa: F401  # fixtures
from test_verify import finished, kept, wrong  # noqa: F401  # fixtures
from typer.testing import CliRunner

import dsba
from dsba.algorithms.newton import INFORMATION
from dsba.cli import app
from dsba.fitting import FitSpec, codec
from dsba.fitting.disclosure import Guards
from dsba.study.answers import ANSWERS_FILE
from dsba.study.file import Study
from dsba.study.join import Seat, join
from dsba.study.policy import Policy
from dsba.study.recompute import differences, recomputed
from dsba.study.totals import LINES, TOTALS_FILE, _after, read_totals
from dsba.study.trial import arrange
from dsba.study.verify import copy_totals, verify_study, verify_totals
from dsba.tables.scaling import scaled


def lines_of(folder):
    return (folder / TOTALS_FILE).read_bytes().splitlines(keepends=True)


def one_bit(line):
    """The last bit of what an answer, a nonce or a signature holds."""
    said = json.loads(line)
    (name, record), _ = said.items()
    if name == "answered" and record["answer"]:
        place, key = record, "answer"
    elif name == "answered":
        record["number"] ^= 1
        return json.dumps(said).encode() + b"\n"
    else:
        place, key = (record["roster"][1], "nonce") if name == "begun" else (record["signatures"], 0)
    place[key] = place[key][:-1] + f"{int(place[key][-1], 16) ^ 1:x}"
    return json.dumps(said).encode() + b"\n"


def is_broken(folder, study):
    """What `verify` says of the record before it computes anything; None if nothing is wrong."""
    try:
        epochs = read_totals(folder / TOTALS_FILE, study)
        for epoch in epochs:
            epoch.require_signed(study)
    except dsba.InputError as error:
        return str(error)
    return "no signed end" if epochs[-1].signed is None else None


def written_anew(lines, study):
    """With every T that follows from the lines, as somebody who knows the program can write it."""
    made, history = [], b""
    for text in lines:
        (name, record), _ = json.loads(text).items()
        history = _after(LINES[name].from_record(record), history, study)
        made.append(json.dumps({name: record, "after": history.hex()}).encode() + b"\n")
    return made


CHANGES = {
    "one bit": lambda lines, n: [*lines[:n], one_bit(lines[n]), *lines[n + 1 :]],
    "a space": lambda lines, n: [*lines[:n], lines[n].replace(b": ", b":  ", 1), *lines[n + 1 :]],
    "a removed line": lambda lines, n: [*lines[:n], *lines[n + 1 :]],
    "a line twice": lambda lines, n: [*lines[: n + 1], *lines[n:]],
    "cut after": lambda lines, n: lines[:n],
}


def every_change_is_found(change, kept, study):  # noqa: F811
    """A file that was only edited, whose line is named; and one whose hashes were written anew."""
    lines = lines_of(kept)
    for number in range(len(lines)):
        changed = CHANGES[change](lines, number)
        assert changed != lines
        (kept / TOTALS_FILE).write_bytes(b"".join(changed))
        why = is_broken(kept, study)
        assert why, (change, number)
        last = number == len(lines) - 1
        if change != "cut after" and not last:
            (named,) = re.findall(r"totals\.jsonl, line (\d+):", why)
            assert int(named) in (number + 1, number + 2), (change, number, why)
        if change != "a space":
            (kept / TOTALS_FILE).write_bytes(b"".join(written_anew(changed, study)))
            assert is_broken(kept, study), (change, number)
    assert wrong(kept)


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_every_line_is_found(change, finished, kept):  # noqa: F811
    assert len(lines_of(kept)) > 80
    every_change_is_found(change, kept, finished.study)
    (kept / TOTALS_FILE).unlink()
    assert "does not begin with the beginning of a run" in wrong(kept)[0]


def test_it_says_what_it_shows(finished, kept):  # noqa: F811
    said = [finding.sentence for finding in verify_study(kept)]
    assert any("All 3 sites have signed the answers to the" in sentence for sentence in said)
    assert any("This shows nothing about the data behind the totals." in sentence for sentence in said)
    assert oct((kept / TOTALS_FILE).stat().st_mode)[-3:] == "600"


def test_steps_and_gradient_by_plain_numpy(finished, kept):  # noqa: F811
    """An independent reading of the record: each point is the Newton step of the totals before it."""
    study = Study.from_content((kept / "study.json").read_bytes())
    (epoch,) = read_totals(kept / TOTALS_FILE, study)
    sums = list({line.at: line for line in epoch.answers if line.kind == INFORMATION}.values())  # a point once
    p = sums[0].point.size
    upper = np.triu_indices(p)
    largest = []
    for before, after in pairwise(sums):
        gradient, H = before.totals[1 : 1 + p], np.zeros((p, p))
        H[upper] = before.totals[1 + p : 1 + p + upper[0].size]
        step = np.linalg.solve(H + np.triu(H, 1).T, -gradient)
        np.testing.assert_allclose(after.point, before.point + step, rtol=1e-9, atol=1e-12)
        largest.append(np.abs(after.totals[1 : 1 + p]).max())
    assert largest[-1] < 1e-10 < 1e-3 < largest[0]


@pytest.mark.parametrize("part", ["weight", "error", "figure", "covariance"])
def test_a_changed_model_is_found(part, finished, kept):  # noqa: F811
    model = codec.load(kept)
    inference = model.table.inference
    C = np.array(inference.covariance)
    if part == "weight":
        model.weights[:] *= 1 + 4e-12
    elif part == "error":
        C[1] *= 1 + 4e-12
        C[:, 1] *= 1 + 4e-12
    elif part == "covariance":
        C[0, 1] += 1e-6 * C[0, 0]
    inference = replace(inference, covariance=tuple(map(tuple, C.tolist())))
    if part == "figure":
        inference = replace(inference, llf=inference.llf * (1 + 1e-9))
    changed = replace(model, table=replace(model.table, inference=inference))
    study = Study.from_content((kept / "study.json").read_bytes())
    again = recomputed(study, 1, read_totals(kept / TOTALS_FILE, study)).model
    assert list(differences(model if part == "weight" else codec.load(kept), again)) == (
        ["weights"] * (part == "weight")
    )
    codec.save(changed, kept)
    assert wrong(kept)
    name = {"weight": "weights", "figure": "table.inference.llf"}.get(part, "standard errors")
    assert list(differences(changed, again)) == [name]


def test_totals_that_do_not_lead_to_the_next_point_are_found_without_signatures(finished, kept):  # noqa: F811
    study = Study.from_content((kept / "study.json").read_bytes())
    (epoch,) = read_totals(kept / TOTALS_FILE, study)
    places = {line.at: n for n, line in enumerate(epoch.answers) if line.kind == INFORMATION}
    for place in list(places.values())[:-2]:
        line, answers = epoch.answers[place], list(epoch.answers)
        high = np.frombuffer(line.answer, "<u8").copy()
        high[1] ^= np.uint64(1 << 40)  # of the gradient's first total
        answers[place] = line._replace(answer=high.tobytes())
        with pytest.raises(dsba.InputError, match=r"totals.jsonl, line \d+: .*does not follow from those before"):
            recomputed(study, 0, [epoch._replace(answers=tuple(answers))])


def arranged(tmp_path, files, policy=None, **options):
    spec = FitSpec(formula=FORMULA, graph="ring", **options)
    study = arrange(files, spec, tmp_path / "study", runs=9)
    return [
        Seat(
            study,
            name,
            tmp_path / "study" / f"{name}.pem",
            file,
            tmp_path / f"out-{name}",
            60.0,
            policy=policy or Policy(),
        )
        for name, file in zip(NAMES, files, strict=True)
    ]


def test_totals_leave_only_where_every_policy_allows_it(finished, kept, tables, tmp_path):  # noqa: F811
    with pytest.raises(dsba.InputError, match="the policy of aarhus does not let the totals leave"):
        copy_totals(kept, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    seated = arranged(tmp_path, tables, Policy(totals_may_leave=True))
    together(seated)
    said = CliRunner().invoke(app, ["study", "totals", str(seated[2].out), "--out", str(tmp_path / "copy")])
    assert said.exit_code == 0, said.exception
    said = CliRunner().invoke(app, ["verify", str(tmp_path / "copy"), "--approved", seated[0].study.hash])
    assert (said.exit_code, said.output.count("ok    ")) == (0, 3)
    (tmp_path / "copy" / TOTALS_FILE).write_bytes(b"".join(lines_of(tmp_path / "copy")[:-1]))
    assert not all(finding.fine for finding in verify_totals(tmp_path / "copy"))


def test_the_rows_that_are_made_up_are_not_judged_by_a_strict_policy(tables, tmp_path):  # noqa: F811
    """More rows of a level than are made up: a site that looked at them would not have sent its part."""
    seated = arranged(tmp_path, tables)
    together([replace(seated[0], policy=Policy(guards={"rows_per_level": 10})), *seated[1:]])
    for seat in seated:
        assert wrong(seat.out) == []
    joined = [json.loads((seat.out / "audit.jsonl").read_text().splitlines()[0]) for seat in seated]
    assert [one["own_guards"] for one in joined] == [["rows_per_level"], [], []]


def test_a_run_that_was_stopped_and_went_on(tables, tmp_path, monkeypatch):  # noqa: F811
    """The record has both epochs; the second begins at the checkpoint that the first leads to."""
    seated = arranged(tmp_path, tables)
    stop = {"show": lambda network: [lambda record: record["iteration"] >= 2]}
    monkeypatch.setattr("test_study.join", lambda seat, **options: join(seat, **options, **stop))
    found, _ = together(seated)
    assert {results.model.run.status for results in found} == {"interrupted"}
    stop.clear()
    found, _ = together(seated)
    assert {results.model.run.status for results in found} == {"converged"}
    for seat in seated:
        assert wrong(seat.out) == []
    assert len(read_totals(seated[0].out / TOTALS_FILE, seated[0].study)) == 2
    folder = shutil.copytree(seated[0].out, tmp_path / "kept")
    first = [n for n, line in enumerate(lines_of(folder)) if b'"begun"' in line][1]
    (folder / TOTALS_FILE).write_bytes(b"".join(lines_of(folder)[first:]))
    assert "has other runs than the audit log" in wrong(folder)[0]


def test_a_method_that_sends_iterates_is_not_recomputed(tables, tmp_path):  # noqa: F811
    seated = arranged(tmp_path, tables, lam=0.1, algorithm="extra", max_passes=2)
    together(seated)
    said = list(verify_study(seated[0].out))
    assert all(finding.fine for finding in said)
    (unknown,) = [finding.sentence for finding in said if finding.open]
    assert "NOT RECOMPUTED, because the steps do not follow from totals alone" in unknown
    shown = CliRunner().invoke(app, ["verify", str(seated[0].out)])
    assert (shown.exit_code, shown.output.count("OPEN  ")) == (4, 1)
    assert json.loads(CliRunner().invoke(app, ["verify", str(seated[0].out), "--json"]).output)["fine"] is False


def stopped_at(monkeypatch, iteration):
    stop = {"show": lambda network: [lambda record: record["iteration"] >= iteration]}
    monkeypatch.setattr("test_study.join", lambda seat, **options: join(seat, **options, **stop))
    return stop


def test_a_member_that_restarts_with_other_rows_is_refused(tables, tmp_path, monkeypatch):  # noqa: F811
    """In a new folder, as one who knows nothing of the first start: the others know its data commitment."""
    seated = arranged(tmp_path, tables)
    stop = stopped_at(monkeypatch, 2)
    together(seated)
    stop.clear()
    other = tmp_path / "other.csv"
    other.write_text(tables[2].read_text().replace("yes", "no", 5))
    together([*seated[:2], replace(seated[2], data=other, out=tmp_path / "elsewhere")])
    found, _ = together([*seated[:2], replace(seated[2], data=other, out=tmp_path / "elsewhere")])
    assert all("the data of cork changed since the run began" in str(end) for end in found[:2]), found


def test_a_run_that_never_ends_begins_three_times(tables, tmp_path, monkeypatch):  # noqa: F811
    seated = arranged(tmp_path, tables)
    stopped_at(monkeypatch, 1)
    for _ in range(3):
        found, _ = together(seated)
        assert {results.model.run.status for results in found} == {"interrupted"}
    found, _ = together(seated)
    assert all("has begun 3 times and did not end" in str(end) for end in found), found
    asked = [line for line in (seated[0].out / ANSWERS_FILE).read_text().splitlines() if "asked" in line]
    assert len(asked) == 2  # at the start and after one step
    assert len(set(asked)) == 2
    found, _ = together([replace(seat, policy=Policy(starts=4)) for seat in seated])
    assert {results.model.run.status for results in found} == {"interrupted"}


def small_tables(tmp_path, rows, columns):
    rng, files = np.random.default_rng(1), []
    for name in NAMES:
        X = rng.normal(size=(rows, columns))
        y = np.where(X[:, 0] + rng.logistic(size=rows) > 0, "yes", "no")
        files.append(tmp_path / f"{name}.csv")
        pd.DataFrame({"y": y, **{f"x{j}": X[:, j] for j in range(columns)}}).to_csv(files[-1], index=False)
    return files


@pytest.mark.parametrize(("operator", "rows", "most"), [("logistic", 10, 0), ("logistic", 20, 3), ("probit", 30, 3)])
def test_no_more_is_told_than_half_of_the_others_cells(operator, rows, most, tmp_path, monkeypatch):
    """Before the first sum over columns where two points are too many, and else before one point too many."""
    names, guards = [f"x{j}" for j in range(5)], Guards(rows_per_parameter=1, leverage=1.0, dominance=1.0)
    files, summed = small_tables(tmp_path, rows, len(names)), []
    monkeypatch.setattr("dsba.tables.fit.scaled", lambda *given: summed.append(given) or scaled(*given))
    spec = FitSpec(formula=f"y ~ {' + '.join(names)}", operator=operator, graph="ring", guards=guards)
    study = arrange(files, spec, tmp_path / "study", runs=9)
    keys = [tmp_path / "study" / f"{name}.pem" for name in NAMES]
    parts = zip(NAMES, keys, files, strict=True)
    seated = [Seat(study, name, key, file, tmp_path / f"out-{name}", 60.0) for name, key, file in parts]
    found, _ = together(seated)
    assert all("numbers of the rows of the other sites" in str(end) for end in found), found
    (epoch,) = read_totals(seated[0].out / TOTALS_FILE, study)
    told = {line.at: line for line in epoch.answers if line.kind == INFORMATION and line.exponent is not None}.values()
    assert len(told) == most
    assert sum(line.totals.size - 1 for line in told) <= 5 * 2 * rows / 2
    assert bool(summed) == (operator == "logistic" and most > 0)  # means, standard deviations and all later sums
    allowed = [replace(seat, policy=Policy(told=9.0), out=tmp_path / f"more-{seat.site}") for seat in seated]
    found, _ = together(allowed)
    assert {results.model.run.status for results in found} == {"converged"}


def test_a_damaged_file_of_answers_is_a_sentence(tables, tmp_path, monkeypatch):  # noqa: F811
    seated = arranged(tmp_path, tables)
    stopped_at(monkeypatch, 1)
    together(seated)
    (seated[0].out / ANSWERS_FILE).write_text('{"asked": 1}\n')
    with pytest.raises(dsba.InputError, match="is damaged: the run cannot go on"):
        join(seated[0], notify=print)


@pytest.mark.parametrize("kept", [0, 1])
def test_a_run_does_not_go_on_with_an_older_file_of_answers(kept, tables, tmp_path, monkeypatch):  # noqa: F811
    """An officer put back a copy of the first start, or removed the file."""
    seated = arranged(tmp_path, tables)
    stopped_at(monkeypatch, 1)
    together(seated)
    file = seated[0].out / ANSWERS_FILE
    older = file.read_bytes()
    together(seated)
    file.write_bytes(older * kept)
    with pytest.raises(dsba.InputError, match="lacks starts of this run, in which sums were answered"):
        join(seated[0], notify=print)


def test_a_checkpoint_of_another_history_is_not_gone_on_from(tables, tmp_path, monkeypatch):  # noqa: F811
    """One site's checkpoints are those of another run of the same study: no common T, so all begin at the start."""
    seated = arranged(tmp_path, tables)
    stop = stopped_at(monkeypatch, 2)
    together(seated)
    elsewhere = [replace(seat, out=tmp_path / f"second-{seat.site}") for seat in seated]
    together(elsewhere)
    for path in seated[2].out.glob("checkpoint*"):
        path.unlink()
    for path in elsewhere[2].out.glob("checkpoint*"):
        shutil.copy(path, seated[2].out)
    stop.clear()
    reached = []
    stop["show"] = lambda network: [lambda record: reached.append(record["iteration"])]
    found, _ = together(seated)
    assert {results.model.run.status for results in found} == {"converged"}
    assert min(reached) == 0
