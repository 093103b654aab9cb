"""Studies: the file and its hash, keys, what a site checks and keeps, and whole runs at sites in threads."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
import signal
import socket
import ssl
import sys
import threading
import tomllib
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w
from benchmarks.namespaces import Unavailable, hosts
from local_sites import GIVE_UP, until
from mpi import run
from registered_models import JOINED
from test_mpi import same_model
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.data.table_files import TableFile
from dsba.fitting import FitSpec
from dsba.network.tls.site_network import SiteNetwork, SitePlace
from dsba.study import keys, trial
from dsba.study.audit import AUDIT, STATE, read_log
from dsba.study.check import check
from dsba.study.display import StudyDisplay
from dsba.study.file import Study, load
from dsba.study.join import LEDGER, Seat, about, join, leaving, prepared, require_columns, result_hash
from dsba.study.ledger import Ledger
from dsba.study.trial import TRIAL_FILE, Trial, arrange
from dsba.study.verify import verify_study
from dsba.tables.fit import train
from dsba.tables.page import model_page

NAMES = ("aarhus", "bergen", "cork")
FORMULA = "readmitted ~ age + C(sex)"
STOPPED = "bergen was asked to stop, and all sites have stopped."
DSBA = (sys.executable, "-m", "dsba", "study")


@pytest.fixture
def tables(tmp_path):
    """Three small CSV files."""
    rng, files = np.random.default_rng(0), []
    for name, rows in zip(NAMES, (60, 80, 70), strict=True):
        table = pd.DataFrame(
            {"id": range(rows), "age": rng.integers(20, 90, rows), "sex": rng.choice(["F", "M"], rows)}
        )
        score = 0.05 * (table["age"] - 55) + 0.4 * (table["sex"] == "M")
        table["readmitted"] = np.where(rng.random(rows) < 1 / (1 + np.exp(-score)), "yes", "no")
        files.append(tmp_path / f"{name}.csv")
        table.to_csv(files[-1], index=False)
    return files


@pytest.fixture
def seats(tables, tmp_path):
    study = arrange(tables, FitSpec(formula=FORMULA, test_share=0.2, graph="ring"), tmp_path / "study", runs=2)
    return [
        Seat(study, name, tmp_path / "study" / f"{name}.pem", file, tmp_path / f"out-{name}", patience=60.0)
        for name, file in zip(NAMES, tables, strict=True)
    ]


def together(seats):
    """Every site in a thread: the results in order or the errors, and what was told."""
    found, told = [None] * len(seats), [[] for _ in seats]

    def one(rank, seat):
        seat.out.mkdir(exist_ok=True)
        try:
            found[rank] = join(seat, notify=told[rank].append)
        except (dsba.InputError, dsba.NetworkError) as error:
            found[rank] = error

    threads = [threading.Thread(target=one, args=(rank, seat)) for rank, seat in enumerate(seats)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, told


def test_a_table_that_is_replaced_before_a_study_reads_it_is_refused(seats):
    seat, other = seats[1], seats[1].data.with_suffix(".new")
    prepared(seat)
    pd.read_csv(seat.data).assign(age=50).to_csv(other, index=False)
    other.replace(seat.data)
    found, _ = together([seat])
    assert f"{seat.data} was changed or replaced after its header was read" in str(found[0])


# Before anybody is met -------------------------------------------------------------------------------


def words_of(seat):
    """The command that joins."""
    words = ["study", "join", str(seat.key.parent / TRIAL_FILE), "--site", seat.site, "--data", str(seat.data)]
    return [*words, "--key", str(seat.key), "--out", str(seat.out)]


def test_what_leaves_the_site_is_said_and_a_wrong_hash_is_refused(seats, monkeypatch):
    monkeypatch.setattr("dsba.study.join.DECLINING", 0.1)
    seat, words = seats[0], words_of(seats[0])
    wrong = CliRunner().invoke(app, [*words, "--approve", "0000-1111"])
    assert "masked, so that members who run the program as it is see only the total over all sites: the" in wrong.output
    assert "of the rows held out: counts of events and of other rows in bins of the score" in wrong.output
    assert "aarhus talks to bergen, cork and to nobody else" in wrong.output
    assert "if no model can be fitted: why, and which columns separate the outcomes" in wrong.output
    assert f"the approved hash is 0000-1111, and this study's is {seat.study.hash}" in str(wrong.exception)
    nobody = CliRunner().invoke(app, words)
    assert f"Pass --approve {seat.study.hash} to approve the study." in str(nobody.exception)
    assert not seat.out.exists()


def test_neighbours_that_wait_are_told_of_a_wrong_hash_and_go_on_waiting(seats, monkeypatch):
    """Bergen is neither the first nor the last: it dials one neighbour, and the other one dials it."""
    monkeypatch.setattr("dsba.study.join.DECLINING", GIVE_UP)
    first, refused, last = seats
    found, told = [None] * 3, [[] for _ in seats]

    def one(rank):
        seats[rank].out.mkdir(exist_ok=True)
        found[rank] = join(seats[rank], notify=told[rank].append)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in (0, 2)]
    for thread in threads:
        thread.start()
    wrong = CliRunner().invoke(app, [*words_of(refused), "--approve", "0000-1111"])
    assert "the approved hash is 0000-1111" in str(wrong.exception)
    assert "Sites that were told: aarhus, cork. Nothing of the data has left this site." in wrong.output
    sentence = (
        "bergen refused this site: bergen has not approved this study: the hash that was approved there is another"
    )
    for rank, seat in ((0, first), (2, last)):
        until(lambda: any(sentence in line for line in told[rank]), lambda: told)  # noqa: B023
        assert threads[rank // 2].is_alive()
        assert any(sentence in str(event.get("said")) for event in read_log(seat.out / AUDIT))
    one(1)
    for thread in threads:
        thread.join()
    assert all((results.params == found[0].params).all() for results in found)


def test_all_are_told_what_a_table_lacks_and_go_on_waiting(seats, tmp_path, monkeypatch):
    """The name of the file stays at the site. The site comes again with the column as the study names it."""
    monkeypatch.setattr("dsba.study.join.DECLINING", GIVE_UP)
    monkeypatch.setattr("dsba.network.tls.site_network.SAY_AFTER", 0.5)
    monkeypatch.setattr("dsba.network.tls.site_network.SAY_EVERY", 0.5)
    pd.read_csv(seats[2].data).rename(columns={"age": "agee"}).to_csv(tmp_path / "private.csv", index=False)
    found, told = [None] * 3, [[] for _ in seats]

    def one(rank):
        seats[rank].out.mkdir(exist_ok=True)
        found[rank] = join(seats[rank], notify=told[rank].append)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    sentence = "cork has no column 'age', which the study names; did you mean 'agee'?"
    with pytest.raises(dsba.InputError, match=re.escape(sentence)):
        join(replace(seats[2], data=tmp_path / "private.csv"), notify=told[2].append)
    assert "Sites that were told: aarhus, bergen. Nothing of the data has left this site." in told[2]
    until(lambda: all(any(f"cork refuses: {sentence}" in line for line in lines) for lines in told[:2]), lambda: told)
    assert not any("private" in line for lines in told for line in lines)
    one(2)
    for thread in threads:
        thread.join()
    assert all((results.params == found[0].params).all() for results in found)


def test_a_site_looks_at_its_own_files_first(seats, tmp_path, monkeypatch):
    monkeypatch.setattr("dsba.study.join.DECLINING", 0.1)
    seat, table = seats[0], pd.read_csv(seats[0].data)
    for change, sentence in (
        (lambda t: t.drop(columns="age"), "has no column 'age', which the study names"),
        (lambda t: t.assign(age="old"), "the column 'age' of aarhus must be a number, by the study"),
        (lambda t: t.assign(sex="unknown"), "the column 'sex' of aarhus has levels that the study does not name."),
        (lambda t: t.assign(sex=t["sex"].replace("M", "m ")), "name; one is 'M' but for case or spaces."),
    ):
        change(table).to_csv(tmp_path / "changed.csv", index=False)
        with pytest.raises(dsba.InputError, match=sentence):
            join(replace(seat, data=tmp_path / "changed.csv"), notify=print)
    with pytest.raises(dsba.InputError, match="is not the key of aarhus in the study"):
        join(replace(seat, key=seats[1].key), notify=print)
    with pytest.raises(dsba.InputError, match="unknown site 'delft'"):
        join(replace(seat, site="delft"), notify=print)
    ended = seat.study.model_copy(update={"ends": (datetime.now(UTC) - timedelta(days=2)).date()})
    with pytest.raises(dsba.InputError, match="the study trial ended on"):
        join(replace(seat, study=ended), notify=print)


def test_site_is_the_name_of_a_site_and_no_column(tables, tmp_path):
    """A column that the study does not name is never read, not even if the formula has its name."""
    study = arrange(tables, FitSpec(formula="readmitted ~ age + C(site)", graph="ring"), tmp_path / "study")
    table = pd.read_csv(tables[0]).assign(site="lung")
    table.to_csv(tables[0], index=False)
    with pytest.raises(dsba.InputError, match="has a column 'site' of its own, and in a study's formula"):
        require_columns(study, TableFile(tables[0]), "aarhus")
    with pytest.raises(dsba.InputError, match="aarhus has a column 'site' of its own, and in a study's formula"):
        arrange(tables, FitSpec(formula="readmitted ~ age + C(site)", graph="ring"), tmp_path / "another")


def test_what_is_refused_leaves_nothing_behind(tables, tmp_path):
    """The corrected command runs in the same folder."""
    with pytest.raises(dsba.InputError, match="has no column 'agee'; did you mean 'age'"):
        arrange(tables, FitSpec(formula="readmitted ~ agee", graph="ring"), tmp_path / "study")
    with pytest.raises(dsba.InputError, match=r"2 sites take part, and at least 3 are wanted: .* guards of a study"):
        arrange(tables[:2], FitSpec(formula="readmitted ~ age"), tmp_path / "study")
    study = arrange(tables[:2], FitSpec(formula="readmitted ~ age", guards={"sites": 2}), tmp_path / "study")
    assert [site.name for site in study.sites] == ["aarhus", "bergen"]


def test_levels_may_be_written_as_floats(tables, tmp_path):
    for file in tables:
        pd.read_csv(file).assign(dose=lambda t: t["id"] % 2 + 0.5 * (t["id"] % 3 == 0)).to_csv(file, index=False)
    study = arrange(tables, FitSpec(formula="readmitted ~ C(dose)", graph="ring"), tmp_path / "study")
    assert 1 in study.columns["dose"]
    floats = tuple(float(level) for level in study.columns["dose"])
    require_columns(
        study.model_copy(update={"columns": study.columns | {"dose": floats}}), TableFile(tables[0]), "aarhus"
    )


def test_rows_are_refused_unless_the_site_allows_them(tables, tmp_path):
    model = {"formula": FORMULA, "algorithm": "dsba", "communication": "cached", "lam": 0.1, "max_passes": 3.0}
    study = arrange(tables, FitSpec(**model, graph="ring"), tmp_path / "study")
    seat = Seat(study, "cork", tmp_path / "study" / "cork.pem", tables[2], tmp_path / "out")
    assert any("ROWS OF THE DATA" in line for line in leaving(seat))
    with pytest.raises(dsba.InputError, match="the study's method sends rows of the data, and cork does not allow it"):
        join(seat, notify=print)


def test_check_says_what_is_wrong(seats, tmp_path):
    seat = seats[1]
    found = list(check(seat.study, "bergen", seat.key, seat.data))
    wrong = [finding.sentence for finding in found if not finding.fine]
    assert seat.study.hash in found[0].sentence
    assert len(wrong) == 2
    assert all("nobody listens there: has the site started" in sentence for sentence in wrong)
    printed = CliRunner().invoke(app, ["study", "check", str(seat.key.parent / TRIAL_FILE)])
    assert printed.exit_code == 0
    assert seat.study.hash in printed.output


def test_check_measures_the_line_to_a_site_that_waits(seats):
    study, key = seats[0].study, keys.load(seats[0].key)
    place = SitePlace(study.members, 0, seats[0].key, key.sign, study.digest)
    with SiteNetwork(study.topology, place, patience=0.2):
        found = [finding for finding in check(study, "bergen", seats[1].key, None) if "aarhus" in finding.sentence]
        renamed = Study.model_validate({**study.model_dump(), "name": "another"})
        other = check(renamed, "bergen", seats[1].key, None)
        refusals = [finding.sentence for finding in other if not finding.fine]
    assert all(finding.fine for finding in found)
    sentences = [finding.sentence for finding in found]
    assert "aarhus speaks TLS 1.3 and shows the certificate of the study." in sentences
    assert "aarhus has the same study and version." in sentences
    assert re.fullmatch(r"The line to aarhus: [0-9.]+ ms there and back, [0-9.]+ MB/s\.", sentences[-1])
    assert "aarhus refused this site: bergen has another study file than aarhus" in refusals[0]


def test_check_names_what_ends_tls_in_between(seats, tmp_path):
    """Something at the address of a site that ends TLS with its own certificate, as a reverse proxy does."""
    keys.make("aarhus", tmp_path / "proxy.pem")
    proxy = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    proxy.load_cert_chain(tmp_path / "proxy.pem")

    def answer(listener):
        line, _ = listener.accept()
        with suppress(OSError), proxy.wrap_socket(line, server_side=True) as secured:
            secured.recv(1)

    with socket.create_server(seats[0].study.members[0].address) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        wrong = [one.sentence for one in check(seats[1].study, "bergen", seats[1].key, None) if not one.fine]
        thread.join()
    assert "aarhus" in wrong[0]
    assert "a reverse proxy or TLS inspection must let this port through" in wrong[0]


# Runs ------------------------------------------------------------------------------------------------


def test_a_study_is_what_train_would_have_written(seats, tables, tmp_path):
    """The same model at all sites, bit by bit that of one process; the log and the ledger of each site."""
    said = [line for line in leaving(seats[0]) if line.startswith("Expected: at most")]
    assert said == [one.sentence for one in check(seats[0].study, None, None, None) if one.sentence in said]
    found, told = together(seats)
    assert found[0].rounds <= int(re.search(r"at most (\d+) rounds", said[0])[1]) < 2 * found[0].rounds
    assert any(said[0].startswith(line) for line in told[1] if line.startswith("Expected"))
    alone = train(tables, FitSpec(formula=FORMULA, graph="ring", test_share=0.2))
    alone.save(tmp_path / "alone")
    for seat, results in zip(seats, found, strict=True):
        assert not isinstance(results, Exception), results
        same_model(tmp_path / "alone", seat.out, JOINED)
        assert results.test.auc is None  # of so few rows no two bins may be counted
        assert results.test == found[0].test
        assert results.test.rows == round(0.2 * 210)
        page = unescape(model_page(results, "dsba study join", about(seat, results.model)))
        for shown in (
            f"{seat.study.name}, hash {seat.study.hash}", result_hash(results.model), *seat.policy.numbers(seat.study),
            *(one.fingerprint for one in seat.study.sites), "sex: F, M", "readmitted = yes",
        ):  # fmt: skip
            assert shown in page
        assert re.search(r">date\W.*\d{4}-\d\d-\d\d", page)
        assert re.search(rf"earlier runs at {seat.site}\W.*\D0\D", page)
        assert "The parts of sums were masked, so that nobody saw another" in page
        assert "towards the root" not in page
        events = read_log(seat.out / AUDIT)
        kinds = [event["event"] for event in events]
        assert {"joined", "connected", "run", "sent", "ended"} <= set(kinds)
        assert {event["discloses"] for event in events if event["event"] == "sent"} == {"totals"}
        assert [event["result"] for event in events if event["event"] == "ended"] == [
            json.loads((seat.out / "run.json").read_text())["result"]
        ]
        assert len(Ledger(seat.key.with_name(f"{seat.key.name}.ledger")).runs) == 1
    again = join(seats[0], notify=told[0].append)  # it is complete: nobody is needed
    assert told[0][-1].startswith("This run is complete")
    assert (again.params == found[0].params).all()
    _changed_data_is_another_run(seats[0])
    _a_changed_log_is_found(seats[1].out / AUDIT)


def test_a_terminal_obeys_no_sentence_of_another_site(capsys):
    StudyDisplay(False).notify("Look at this: \x1b[2J [bold]age\n")
    assert capsys.readouterr().out == "Look at this:  [2J [bold]age\n\n"


def test_the_file_says_the_event_and_the_references(seats, tables, tmp_path):
    """The second label is the event and the first level the reference, whatever their order in the alphabet is."""
    file = tmp_path / "study" / TRIAL_FILE
    content = tomllib.loads(file.read_text())
    assert (content["columns"]["readmitted"], content["columns"]["sex"]) == (["no", "yes"], ["F", "M"])
    content["columns"] |= {"readmitted": ["yes", "no"], "sex": ["M", "F"]}
    file.write_text(tomli_w.dumps(content))
    found, told = together([replace(seat, study=load(file)) for seat in seats])
    asked = FitSpec(formula=FORMULA, graph="ring", test_share=0.2, event="no", levels={"sex": ["M", "F"]})
    alone = train(tables, asked)
    alone.save(tmp_path / "alone")
    for seat, results, said in zip(seats, found, told, strict=True):
        assert not isinstance(results, Exception), results
        same_model(tmp_path / "alone", seat.out, JOINED)
        assert (results.event, results.references) == ("no", {"sex": "M"})
        assert any(line.endswith("yes, no (no is the event)") for line in said)
    chosen = arrange(tables, FitSpec(formula=FORMULA, event="no", levels={"sex": ["M", "F"]}), tmp_path / "chosen")
    assert (chosen.columns["readmitted"], chosen.columns["sex"]) == (("yes", "no"), ("M", "F"))
    with pytest.raises(dsba.InputError, match="is of another trial"):
        arrange(tables, FitSpec(formula=FORMULA), tmp_path / "chosen")


def test_a_site_opens_its_table_once_and_commits_to_what_it_parsed(seats, opened):
    before = [opened(seat.data) for seat in seats]
    keys_of = [prepared(seat) for seat in seats]  # as the command does before it asks for approval
    found, _ = together(seats)
    assert [result.not_converged for result in found] == [None] * 3
    assert [opened(seat.data) - count for seat, count in zip(seats, before, strict=True)] == [1] * 3
    for seat, key in zip(seats, keys_of, strict=True):
        content = hashlib.sha256(seat.data.read_bytes()).hexdigest()
        state = json.loads((seat.out / STATE).read_text())
        assert state["data"] == key.commitment(seat.study.digest + content.encode())
        assert len(Ledger(Path(f"{seat.key}{LEDGER}")).runs) == 1


def test_a_table_that_is_replaced_after_it_was_hashed_is_refused(seats, tmp_path):
    """While a person reads what will leave the site, another file may come in its place."""
    seat = seats[0]
    prepared(seat)
    pd.read_csv(seat.data).head(50).to_csv(tmp_path / "other.csv", index=False)
    (tmp_path / "other.csv").replace(seat.data)
    with pytest.raises(dsba.InputError, match="was changed or replaced after its header was read"):
        join(seat, notify=print)
    assert not seat.out.exists()
    assert not Path(f"{seat.key}{LEDGER}").exists()


def test_a_site_that_starts_twice_at_once(seats, tmp_path):
    """In its folder, or in a copy of it: the second process changes nothing, and the run of the first one is whole."""
    first, over = replace(seats[2], patience=GIVE_UP), []
    first.out.mkdir()
    thread = threading.Thread(target=lambda: over.append(join(first, notify=lambda sentence: None)))
    thread.start()
    until(lambda: (first.out / AUDIT).exists())
    copied = replace(first, out=shutil.copytree(first.out, tmp_path / "copied"))
    for second in (first, copied):
        with pytest.raises(dsba.InputError, match="another process takes part in this study with the key"):
            join(second, notify=print)
    found, _ = together(seats[:2])
    thread.join()
    assert [results.not_converged for results in (*found, *over)] == [None] * 3
    assert all(finding.fine for finding in verify_study(first.out))


def _changed_data_is_another_run(seat):
    pd.read_csv(seat.data).head(50).to_csv(seat.data, index=False)
    with pytest.raises(dsba.InputError, match=r"the data of aarhus changed since the run in .* began"):
        join(replace(seat), notify=print)


def _a_changed_log_is_found(path):
    lines = path.read_bytes().splitlines(keepends=True)
    for changed in (
        [lines[0], *lines[2:]],
        [lines[0].replace(b"joined", b"joyned"), *lines[1:]],
        [lines[1], lines[0], *lines[2:]],
    ):
        path.write_bytes(b"".join(changed))
        with pytest.raises(dsba.InputError, match=r"line [12]: this line does not follow from the line before"):
            read_log(path)


def test_an_error_at_one_site_ends_the_study_with_its_sentence(seats):
    """Too few rows at cork (one of five is held out): its guard speaks, and all sites end with the sentence.

    Nobody is told how many rows cork has.
    """
    pd.read_csv(seats[2].data).head(5).to_csv(seats[2].data, index=False)
    found, _ = together(seats)
    for error in found:
        assert "cork has fewer usable rows than the 10 that are wanted at a site." in str(error)


@pytest.mark.full
def test_try_is_train_with_real_processes(tables, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = (
        *map(str, tables),
        "--formula",
        FORMULA,
        "--operator",
        "logistic",
        "--lam",
        "0",
        "--test-share",
        "0.2",
        "--event",
        "no",
        "--levels",
        "sex=M,F",
        "--out",
    )
    code, text = run(*DSBA, "try", *words, "run")
    assert code == 0, text
    code, text = run(sys.executable, "-m", "dsba", "train", *words, "alone")
    assert code == 0, text
    same_model(tmp_path / "alone", tmp_path / "run", JOINED)
    assert "AUC" in (tmp_path / "alone" / "report.html").read_text()
    for folder in ("", "study/aarhus", "study/bergen", "study/cork"):
        page = (tmp_path / "run" / folder / "report.html").read_text()
        assert "Brier score" in page
        assert "AUC" not in page  # of so few rows no two bins may be counted between sites
    code, text = run(sys.executable, "-m", "dsba", "summary", "run")
    assert code == 0, text
    assert "C(sex)[T.F]" in text
    assert "The event is readmitted = no. Reference levels: sex = M." in " ".join(text.split())


def test_a_trial_takes_free_ports_and_none_twice(monkeypatch):
    """Below those of dialled lines: one of these could come before a site listens."""
    ports = trial.free_ports(20) + trial.free_ports(20)
    assert len(set(ports)) == 40
    assert max(ports) < 32768
    with socket.create_server(("127.0.0.1", 0)) as busy:
        taken = busy.getsockname()[1]
        monkeypatch.setattr(trial, "PORT_RANGE", range(taken, taken + 1))
        monkeypatch.setattr(trial, "PORTS", itertools.cycle([taken]))
        with pytest.raises(dsba.InputError, match="1 free ports were not found"):
            trial.free_ports(1)


@pytest.mark.full
def test_sites_on_three_hosts(tables, tmp_path):
    """Every site in a network namespace of its own; cork only dials out."""
    study = arrange(tables, FitSpec(formula=FORMULA, graph="ring"), tmp_path / "study")
    text = (tmp_path / "study" / TRIAL_FILE).read_text()
    try:
        with hosts(3) as there:
            for rank, member in enumerate(study.members):
                listens = f'"127.0.0.1:{member.address[1]}"'
                line = f'"{there.address(rank)}:{member.address[1]}"'
                text = text.replace(f"address = {listens}\n", "" if rank == 2 else f"address = {line}\n")
            (tmp_path / "study" / TRIAL_FILE).write_text(text)

            class There(Trial):
                def command(self, rank):
                    return there.inside(rank, *super().command(rank))

            There(load(tmp_path / "study" / TRIAL_FILE), tables, tmp_path / "study").run(print).save(tmp_path / "run")
    except Unavailable as error:
        pytest.skip(f"hosts cannot be made here: {error}")
    alone = train(tables, FitSpec(formula=FORMULA, graph="ring"))
    alone.save(tmp_path / "alone")
    same_model(tmp_path / "alone", tmp_path / "run")


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_one_site_stops_all_and_all_are_told_who(number, tables, tmp_path):
    model = {"formula": FORMULA, "algorithm": "extra", "lam": 0.1, "tol": 0.0, "max_passes": 1e6}
    study = arrange(tables, FitSpec(**model, graph="ring"), tmp_path / "study")
    sites, said = Trial(study, tables, tmp_path / "study"), {name: [] for name in NAMES}
    for rank, name in enumerate(NAMES):
        stream = sites.start(rank).stdout
        threading.Thread(target=lambda s=stream, n=name: said[n].extend(line.decode() for line in s)).start()
    until(lambda: any("passes" in line for line in said["bergen"]), lambda: said)
    sites.processes[1].send_signal(number)
    assert [process.wait(60) for process in sites.processes.values()] == [130] * 3
    for name in NAMES:
        until(lambda: any(STOPPED in line for line in said[name]), lambda: said[name])  # noqa: B023
