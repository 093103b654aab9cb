"""Joining a study: what is checked before, the run among the sites, and what every site ends with."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from dsba import algorithms
from dsba._system import signals
from dsba._version import __version__
from dsba.data.sources import TableSource
from dsba.data.table_files import Table, open_table
from dsba.engine.run import Status
from dsba.errors import DsbaError, InputError, NetworkError, did_you_mean, printable
from dsba.fitting.codec import MODEL_FILE
from dsba.fitting.disclosure import Guards
from dsba.fitting.model import FittedModel
from dsba.fitting.spec import FitSpec
from dsba.network import Network, counted
from dsba.network.contract import ITERATES, ROWS_OF_DATA, SITE_TOTALS, TOTALS
from dsba.network.tls.connections import LONGEST_PAUSE
from dsba.network.tls.site_network import (
    MASKED_FROM,
    SITE_PATIENCE,
    FinishedError,
    SiteNetwork,
    SitePlace,
    bytes_of_spread_sums,
)
from dsba.storage.atomic import write_whole
from dsba.storage.folders import locked
from dsba.study import keys
from dsba.study.answers import ANSWERS_FILE, AnswersFile
from dsba.study.audit import AUDIT, STATE, AuditLog, RunState
from dsba.study.file import Study
from dsba.study.further import further_files, leaving_further, require_like_rows, terms_of_curves
from dsba.study.ledger import Allowed, Ledger, UsedRows, used_rows
from dsba.study.policy import Policy
from dsba.study.totals import TOTALS_FILE, TotalsFile
from dsba.tables.describe import describe_sites
from dsba.tables.description import Description
from dsba.tables.evaluation import evaluated_rows, sentences
from dsba.tables.expected_cost import Way, column_names, expected_cost, told_besides
from dsba.tables.fit import evaluate_own, fitted_rows, share_each, train_own
from dsba.tables.inputs import columns_of
from dsba.tables.page import EVALUATED_ON, description_page
from dsba.tables.results import Results
from dsba.tables.schema import enforce, folded, kind_of, plain_value, usable_rows
from dsba.tables.terms import SITE, SiteTable, own_site_column
from dsba.types import Flags, Notify

CHECKPOINT = "checkpoint"
STUDY_COPY = "study.json"  # what was approved; its SHA-256 is the hash of the study
ROTATIONS = "rotations.json"  # the keys of the study that were replaced, if any were
DESCRIPTION = "description"  # .json and .html
EVALUATED = "evaluated"  # the folder with the stored model, as it was before
BY_SITE = "by-site.json"
LEDGER = ".ledger"  # after the name of the key
DECLINING = LONGEST_PAUSE + 1.0  # seconds: a neighbour that waits has dialled once by then

Show = Callable[[SiteNetwork], Sequence[Callable[[dict[str, float]], object]]]


BY_CALL = {"who": "a program", "how": "a call from Python"}
"""Who approved the study at a site, and how."""


@dataclass(frozen=True)
class Seat:
    """One site's own part of a study: its files, and what it allows."""

    study: Study
    site: str
    key: Path
    data: Path | TableSource
    out: Path
    patience: float = SITE_PATIENCE
    rows_allowed: bool = False
    listen: tuple[str, int] | None = None
    """Where the site listens, if that is not its address in the study."""
    policy: Policy = field(default_factory=Policy)
    model: Path | None = None
    """The folder of the stored model that the study evaluates."""

    @property
    def rank(self) -> int:
        return self.study.rank(self.site)

    def place(self, key: keys.Key, **more: Any) -> SitePlace:
        """Who takes part, for the network."""
        study, terms = self.study, self.policy.terms(self.study)
        more = {"policy": terms, "listen": self.listen, "totals_only": disclosed(study) == TOTALS, **more}
        return SitePlace(study.members, self.rank, self.key, key.sign, study.digest, **more)

    @cached_property
    def table(self) -> Table:
        """The site's table. What is checked, committed to and fitted is one reading of it."""
        return open_table(self.data)

    @property
    def rows(self) -> SiteTable:
        """The columns of the study in this table."""
        return own_rows(self.study, self.site, self.table)

    @cached_property
    def stored(self) -> Results | None:
        """The stored model that the study evaluates, if it does."""
        wanted = self.study.evaluates
        if wanted is None and self.model is None:
            return None
        if wanted is None or self.model is None:
            odd = "fits a model" if wanted is None else "evaluates a stored model"
            raise InputError(f"the study {odd}: give its folder with --model if, and only if, a study evaluates one.")
        found = Results.load(self.model)
        if found.digest() != wanted:
            raise InputError(f"the model in {self.model} is not the one that the study evaluates.")
        if odd_columns := sorted(set(found.needed.columns) - set(self.study.columns)):
            raise InputError(f"the stored model needs the column {odd_columns[0]!r}, which the study does not name.")
        if found.model.run.status is Status.INTERRUPTED:
            raise InputError(f"the fit of the model in {self.model} was interrupted: end it first.")
        return found

    @cached_property
    def unfit(self) -> str | None:
        """Why the table is not as the study says, in a sentence for all sites."""
        return unfit_columns(self.study, self.table, self.site)

    @property
    def spec(self) -> FitSpec:
        """What the study says, with the guards that hold here."""
        return replace(self.study.spec, guards=self.policy.for_study(self.study))

    def used(self, key: keys.Key) -> tuple[UsedRows, dict[str, UsedRows]]:
        """The rows that enter the model, and by name those of other sums, as the ledger keeps them."""
        study, terms, named = self.study, self.study.terms, [self.policy.row_id] if self.policy.row_id else []
        columns = list(dict.fromkeys((*study.columns, *named)))
        frame = self.table.read(columns, codes=terms.formula.factors)
        beside = {"described": frame} if study.describe is not None else {}
        if terms.spec.test_share:  # sums over both parts
            beside["whole"] = usable_rows(frame, terms)
        if study.curves is not None:
            beside["curves"] = usable_rows(frame, terms_of_curves(study, self.spec))
        secret = bytes.fromhex(key.commitment(b"rows of the ledger"))
        rows = frame.loc[measured_rows(study, self.site, self.table, self.rank, self.stored)]
        kept = {name: used_rows(one, columns, secret) for name, one in beside.items()}
        return used_rows(rows, columns, secret), kept

    @property
    def allowed(self) -> Allowed:
        """The runs that the study and the site's policy allow."""
        own, few = self.policy, self.policy.for_study(self.study).rows_per_level
        return Allowed(self.study.runs, few, own.close_runs, own.runs_a_month, own.row_id)


def prepared(seat: Seat) -> keys.Key:
    """The site's key, after a check of everything that can be checked before meeting the others."""
    seat.study.require_open()
    key = own_key(seat.study, seat.site, seat.key)
    require_valid(key.certificate, seat.site)
    require_young(seat.study)
    if disclosed(seat.study) == ROWS_OF_DATA and not seat.rows_allowed:
        raise InputError(f"the study's method sends rows of the data, and {seat.site} does not allow it.")
    if complaint := seat.policy.complaint(seat.study, disclosed(seat.study)):
        raise InputError(complaint)
    seat.policy.require_row_id(seat.table)
    _ = seat.stored, seat.unfit  # an error if it is not the study's, or cannot be read
    return key


def own_key(study: Study, site: str, path: Path) -> keys.Key:
    """The key in a file, which must be that of the site."""
    key = keys.load(path)
    if key.certificate != study.members[study.rank(site)].certificate:
        raise InputError(f"{path} is not the key of {site} in the study: the certificates differ.")
    return key


def require_young(study: Study) -> None:
    """An error if the certificate of a site is valid for longer than a key may be used."""
    certificates = {member.name: keys.parse(keys.text_of(member.certificate)) for member in study.members}
    old = [name for name, c in certificates.items() if c.not_valid_after_utc - c.not_valid_before_utc > keys.OLDEST]
    if old:
        raise InputError(
            f"the certificate of {old[0]} is valid for more than {keys.OLDEST.days} days, the largest age of a key: it "
            "was not made by dsba study key."
        )


def require_valid(certificate: bytes, site: str) -> None:
    """An error if a certificate is not valid today."""
    found, now = keys.parse(keys.text_of(certificate)), datetime.now(UTC)
    begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
    if now < begins:
        raise InputError(f"the certificate of {site} is not valid before {begins:%Y-%m-%d %H:%M} UTC.")
    if now > ends:
        expired = f"the certificate of {site} expired on {ends:%Y-%m-%d}"
        raise InputError(f"{expired}: make a new one, which changes the study. (Before it expires, dsba study rotate.)")


def require_columns(study: Study, table: Table, name: str) -> None:
    """An error unless the table, for which ``name`` stands, is as the study says."""
    if complaint := unfit_columns(study, table, name):
        raise InputError(complaint)


def unfit_columns(study: Study, table: Table, name: str) -> str | None:
    """A sentence unless the table has the columns of the study, of their types and with no other levels.

    The others may read it, so that it has neither the name of a file nor a value.
    """
    held = table.names
    if complaint := own_site_column({name: held}, study.terms):
        return complaint
    if missing := [column for column in study.columns if column not in held]:
        return f"{name} has no column {missing[0]!r}, which the study names{did_you_mean(missing[0], held)}"
    frame = table.read(list(study.columns), codes=study.terms.formula.factors)
    for column, levels in study.columns.items():
        kind = kind_of(frame[column])
        if isinstance(levels, str):
            if kind not in ("number", "truth", "empty"):
                return f"the column {column!r} of {name} must be a number, by the study."
            continue
        known = [str(plain_value(level)) for level in levels]
        rows = Counter({str(plain_value(level)): n for level, n in frame[column].value_counts().items()})
        if strangers := {level for level in +rows if level not in known}:
            few = max(study.guards.rows_per_level, Guards().rows_per_level)  # a level of fewer rows may be a name
            often = {folded(level) for level in strangers if rows[level] >= few}
            close = [f"; one is {level!r} but for case or spaces" for level in known if folded(level) in often]
            odd = f"the column {column!r} of {name} has levels that the study does not name"
            return f"{odd}{''.join(close[:1])}."
    return None


def disclosed(study: Study) -> str:
    """What the study's method discloses."""
    if study.evaluates is not None:
        return TOTALS
    spec, name = study.spec, str(study.spec.algorithm)
    if spec.random is not None:  # the totals at several ratios of variances determine the sums of every site
        return SITE_TOTALS
    if name == "auto":  # without a penalty that is Newton; else whatever is chosen sends at most iterates
        name = "newton" if spec.lam == 0.0 else "extra"
    options = {} if spec.communication is None else {"communication": spec.communication}
    return algorithms.get(name, **options).discloses


def leaving(seat: Seat) -> list[str]:
    """What leaves the site if it joins, and to whom, as sentences."""
    study, discloses = seat.study, disclosed(seat.study)
    neighbours = ", ".join(study.sites[int(m)].name for m in study.topology.neighbors[seat.rank])
    hidden = "masked, so that members who run the program as it is see only the total over all sites"
    sums = hidden if len(study.sites) >= MASKED_FROM else "NOT masked: the other site sees them"
    lines = [
        f"The study {study.name} of {len(study.sites)} sites: {study.spec.formula} ({study.spec.operator})"
        + ("." if study.evaluates is None else f", an evaluation of the stored model {study.evaluates}."),
        f"{seat.site} talks to {neighbours} and to nobody else; they pass on what is meant for all.",
        *_sums(study, sums),
        *of_model(study),
        *leaving_further(study),
    ]
    if study.describe is not None:
        lines.append("Before the model, as such sums: means, standard deviations and counts of the columns in bins. To "
                     f"all sites: which levels {seat.site} has, and which of its columns look wrong.")  # fmt: skip
    if study.spec.test_share and study.evaluates is None:
        lines.append("As such sums, of the rows held out: counts of events and of other rows in bins of the score.")
    lines += _of_site(seat)
    if discloses == SITE_TOTALS:
        lines.append(f"To all sites, by what the sums give together: the number of rows of {seat.site}, and the means "
                     "of its columns and outcomes.")  # fmt: skip
    if discloses in (ITERATES, ROWS_OF_DATA):
        lines.append(f"To all sites: the number of rows of {seat.site}, and the constants that step sizes are made of.")
    if discloses == ITERATES:
        lines.append(f"To {neighbours}: the model's iterates, in every round. They are not masked.")
    if discloses == ROWS_OF_DATA:
        lines.append("To all sites: ROWS OF THE DATA, because of the study's communication.")
    lines += [*replaced(study), *expected(study)]
    lines.append(f"The guards that hold here: {'; '.join(seat.policy.numbers(study))}.")
    end = "the model" if study.evaluates is None else "the measures, pooled over all sites"
    return [*lines, f"To all sites, at the end: {end}. The study's hash is {study.hash}."]


def _sums(study: Study, how: str) -> list[str]:
    """What is summed over the sites, as sentences."""
    columns = ", ".join(study.columns)
    if study.evaluates is not None:
        return [f"As sums over all sites, {how}, of the columns {columns}: the number of rows with and without all "
                "that the model needs, means of outcomes and predictions, losses, and counts of events and of other "
                "rows in bins of the score."]  # fmt: skip
    return [f"As sums over all sites, {how}: the number of rows, and of the columns {columns} the types, the missing "
            "values and the rows per level.",
            "As such sums: whether columns are constant or equal at every site, means, gradients, Hessians and losses.",
            "To all sites, if no model can be fitted: why, and which columns separate the outcomes, depend on each "
            "other or show few rows.",
            ]  # fmt: skip


def _of_site(seat: Seat) -> list[str]:
    """What the site shows of its own rows, as sentences."""
    study, hidden = seat.study, seat.policy.hides_figures(seat.site)
    if not study.shows_sites:
        return []
    if hidden is not None:
        return [f"{hidden[0].upper()}{hidden[1:]}"]
    model = f"To all sites, after the fit: coefficients and standard errors of the same model of {seat.site} alone."
    table = f"To all sites, before the model: the description of the rows of {seat.site} alone."
    return [*([table] if study.describes_sites else []), *([model] if study.by_site else [])]


def of_model(study: Study) -> list[str]:
    """What the study's model tells beside the sums of all models, as a sentence."""
    return told_besides(study.terms) if study.evaluates is None else []


def replaced(study: Study) -> list[str]:
    """The keys that replace those in the study, as sentences: the hash of the study does not stand for them."""
    return [
        f"The key of {member.name} was replaced, and its old key has signed the new one: fingerprint "
        f"{member.fingerprint}. Compare it with {member.name}."
        for member, chain in zip(study.members, study.chains, strict=True)
        if len(chain) > 1
    ]


def expected(study: Study) -> list[str]:
    """What the study is expected to cost, where that follows from its file."""
    terms = study.terms
    if study.evaluates is not None or not terms.by_sums:
        return []
    names = column_names(terms, study.columns, [site.name for site in study.sites])
    classes = study.levels.get(terms.formula.response[0]) if terms.of_classes else None
    besides = (study.describe, study.curves, study.elastic_net, terms.spec.test_share)
    way = Way(study.topology, partial(bytes_of_spread_sums, len(study.sites)))
    more = " What is asked beside the model takes further rounds." if any(besides) else ""
    return [f"{expected_cost(terms, names, study.levels, classes, way)}{more}"]


def decline(seat: Seat, refusal: str, notify: Notify) -> None:
    """Tell the neighbours that wait why this site does not take part; they tell the others, and all go on waiting.

    No row is sent and nothing that was counted.
    """
    place = seat.place(keys.load(seat.key), refusal=refusal)
    notify(f"Telling the neighbours that wait: {refusal}")
    with SiteNetwork(seat.study.topology, place, patience=0.0) as network:
        told = network.decline(DECLINING)
    notify(f"Sites that were told: {', '.join(told) or 'none'}. Nothing of the data has left this site.")


def join(
    seat: Seat, *, notify: Notify, show: Show = lambda network: [], approval: Mapping[str, str] = BY_CALL
) -> Results:
    """Take part in the study until the model is there; the same call goes on with a run that was stopped.

    ``notify`` gets sentences for people; ``show`` gives callbacks of the engine for the network.
    """
    key = prepared(seat)
    if seat.unfit:
        decline(seat, seat.unfit, notify)
        raise InputError(seat.unfit)
    busy = (
        f"another process takes part in this study with the key {seat.key}, in this folder or in a copy of it: end one."
    )
    with locked(Path(f"{seat.key}.{seat.study.hash}.lock"), busy):
        return _taken_part(seat, key, notify, show, approval)


def _taken_part(seat: Seat, key: keys.Key, notify: Notify, show: Show, approval: Mapping[str, str]) -> Results:
    study = seat.study
    state = RunState(study.hash, key.commitment(study.digest + seat.table.digest.encode()))
    if _begun(seat, state):
        notify(f"This run is complete: {seat.out / MODEL_FILE}")
        return Results.load(seat.out)
    if not (seat.out / STATE).exists():
        rows, beside = seat.used(key)
        Ledger(Path(f"{seat.key}{LEDGER}")).add(study.hash, rows, seat.allowed, beside)
        _write(seat, {STUDY_COPY: study.content})
        state.write(seat.out, key.sign)
    if study.rotations:
        _write(seat, {ROTATIONS: study.rotations_content})
    answers = AnswersFile(seat.out / ANSWERS_FILE, key, seat.policy)
    log, totals = AuditLog(seat.out / AUDIT, key.sign), TotalsFile(seat.out / TOTALS_FILE, study)
    try:
        answers.require_epochs(totals.summed)
        log.log("joined", **_joined(seat, state), approved=approval)
        place = seat.place(key, data=state.data, notify=notify, log=log.log, keep=totals.keep, answers=answers.answers)
        results = _among_sites(seat, place, show)
        result = result_hash(results.model)
        log.log("ended", said=results.model.run.message, result=result)
        if results.model.run.status is not Status.INTERRUPTED:
            state = state._replace(result=result)
    except BaseException as error:
        log.log("ended", said=printable(str(error)) if isinstance(error, DsbaError) else type(error).__name__)
        raise
    finally:
        totals.close()
        answers.close()
        state._replace(log=log.close()).write(seat.out, key.sign)
    return results


def _joined(seat: Seat, state: RunState) -> dict[str, Any]:
    """What the audit log says of the study and of this site's part in it."""
    study, guards = seat.study, asdict(seat.spec.guards)
    model = {"formula": study.spec.formula, "operator": study.spec.operator, "discloses": disclosed(study)}
    own = {"site": seat.site, "fingerprint": study.members[seat.rank].fingerprint, "data": state.data, "guards": guards}
    own["own_guards"] = [name for name, number in guards.items() if number != getattr(study.guards, name)]
    return {"study": study.digest.hex(), "program": f"dsba {__version__}", **model, **own}


def _among_sites(seat: Seat, place: SitePlace, show: Show) -> Results:
    study, notify = seat.study, place.notify
    network = SiteNetwork(study.topology, place, patience=seat.patience, rows_allowed=seat.rows_allowed)
    asked = threading.Event()

    def notice(record: dict[str, float]) -> None:
        if signals.requested():
            asked.set()

    def work() -> Results:
        callbacks, checkpoint = [notice, *show(network)], seat.out / CHECKPOINT
        own = {seat.site: seat.table}
        if study.describe is not None:
            _describe(seat, network, notify)
        if study.curves is not None:
            require_like_rows(study, seat.rows, seat.spec, network)
        if seat.stored is not None:
            results = evaluated(seat.stored, own, seat.spec, network)
            seat.stored.save(seat.out / EVALUATED)
            if results.test is not None:
                notify(sentences("All sites", results.test))
        else:
            results = train_own(own, seat.spec, network, notify=notify, checkpoint=checkpoint, callbacks=callbacks)
        if results.model.run.status is Status.DIVERGED:
            raise InputError(f"no model was saved: {results.model.run.message}.")
        results.save(seat.out)
        if results.model.run.status is Status.INTERRUPTED:
            notify(_stopped(network, asked.is_set()))
            return results
        _write(seat, further_files(study, [seat.rows], seat.spec, network))
        if study.by_site:
            _show_estimates(seat, results, network, notify)
        network.finish(result_hash(results.model))
        return results

    with network:
        try:
            with blaming_others():
                return network.run(work)
        except FinishedError as over:
            return _saved(seat, over.result)


@contextmanager
def blaming_others() -> Iterator[None]:
    """An error of arithmetic becomes a sentence: some contribution may look right and lead to no numbers at all.

    What overflows on the way gives no warning: what comes of it is checked.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except DsbaError:
        raise
    except (ArithmeticError, ValueError) as error:  # whose own words may contain a value
        raise NetworkError(
            f"what the sites sent led to an error of arithmetic here ({type(error).__name__}): a site sent wrong "
            "numbers, or the program is at fault."
        ) from error


def evaluated(stored: Results, own: dict[str, Table], spec: FitSpec, network: Network) -> Results:
    """A stored model with its measures on the tables of all sites."""
    network.reset()
    return stored.tested(evaluate_own(stored, own, network, spec.guards).pooled)


def described(
    study: Study, site: str, table: Table, guards: Guards, network: Network, *, shows: bool = False,
    stored: Results | None = None,
) -> Description:  # fmt: skip
    """Table 1 of the columns of the study at all sites; ``shows``: this one may have a column of its own."""
    assert study.describe is not None
    rows, by = own_rows(study, site, table), study.describe.by
    outside = ~measured_rows(study, site, table, int(network.nodes[0]), stored)
    out = rows.frame.loc[outside]
    own = np.array([[len(out), *out.notna().sum()]], np.float64)  # each column has a mean of its own
    total = counted(network, own)
    enforce(network, [guards.few_left_out(int(count)) for count in (*total, *np.subtract(total, own[0]))])
    beside = by != SITE or study.by_site  # what follows tells sums of the same strata
    return describe_sites([rows], network, by=by, guards=guards, shows=shows, outside=[outside] if beside else None)


def measured_rows(study: Study, site: str, table: Table, rank: int, stored: Results | None) -> Flags:
    """Which rows of a table enter the model, or the measures of the stored one that the study evaluates."""
    if stored is not None:
        return evaluated_rows(stored, SiteTable(site, columns_of(table, stored.needed)))
    return fitted_rows(own_rows(study, site, table).frame, study.terms, rank)


def own_rows(study: Study, site: str, table: Table) -> SiteTable:
    """The columns of the study in a site's table."""
    return SiteTable(site, table.read(list(study.columns), codes=study.terms.formula.factors))


def description_files(study: Study, found: Description) -> dict[str, bytes]:
    """What a site's folder has of a description, by the names of the files."""
    page = description_page(study.name, found)
    return {f"{DESCRIPTION}.json": json.dumps(found.plain()).encode(), f"{DESCRIPTION}.html": page.encode()}


def _describe(seat: Seat, network: SiteNetwork, notify: Notify) -> None:
    """Write Table 1 of all sites into the folder, and notify people of what looks wrong."""
    shows = seat.policy.hides_figures(seat.site) is None
    own = (seat.site, seat.table, seat.spec.guards, network)
    found = described(seat.study, *own, shows=shows, stored=seat.stored)
    _write(seat, description_files(seat.study, found))
    for sign in found.signs:
        notify(f"Look at this: {sign}")


def _write(seat: Seat, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        write_whole(seat.out / name, content)


def _show_estimates(seat: Seat, results: Results, network: SiteNetwork, notify: Notify) -> None:
    """Write the model of each site alone, of the sites that show theirs, and tell people how much the sites differ."""
    hidden = seat.policy.hides_figures(seat.site)
    found = share_each([seat.rows], seat.spec, results.schema, network, hidden)
    _write(seat, {BY_SITE: json.dumps(found.plain()).encode()})
    for line in found.sentences():
        notify(line)


def _stopped(network: SiteNetwork, asked: bool) -> str:
    """Who was asked to stop, for the people at all sites."""
    everyone = network.aside().share(asked, discloses=TOTALS)
    names = [member.name for member, was in zip(network.place.members, everyone, strict=True) if was]
    return f"{', '.join(names) or 'A site'} was asked to stop, and all sites have stopped."


def _saved(seat: Seat, result: str) -> Results:
    """The model that this site had saved before it was stopped, if it is the one the others ended with."""
    if (seat.out / MODEL_FILE).exists() and result_hash((found := Results.load(seat.out)).model) == result:
        return found
    raise NetworkError("the other sites have ended this run, and its model is not here: start again at all sites.")


def result_hash(model: FittedModel) -> str:
    """The hash of the coefficients, all nodes' iterates and measures; it is the same at all sites."""
    digest = hashlib.sha256()
    for part in (model.weights, model.intercepts, model.Z):
        digest.update(part.tobytes())
    if model.table is not None and model.table.test is not None:
        digest.update(json.dumps(asdict(model.table.test), sort_keys=True).encode())
    return digest.hexdigest()


def about(seat: Seat, model: FittedModel) -> dict[str, str]:
    """What the page says of the study and of this site."""
    study, runs = seat.study, Ledger(Path(f"{seat.key}{LEDGER}")).runs
    rows = {EVALUATED_ON: f"rows of {', '.join(one.name for one in study.sites)}"} if study.evaluates else {}
    return {
        "study": f"{study.name}, hash {study.hash}",
        **rows,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "hash of the result": result_hash(model),
        "fingerprints": "; ".join(f"{one.name}: {one.fingerprint}" for one in study.members),
        f"guards that hold at {seat.site}": "; ".join(seat.policy.numbers(study)),
        f"earlier runs at {seat.site}": str(max(len(runs) - 1, 0)),
    }


def _begun(seat: Seat, wanted: RunState) -> bool:
    """Whether the run in the folder is complete; an error if it is another run than this one."""
    if not (seat.out / STATE).exists():
        return False
    state, _ = RunState.read(seat.out)
    if state.study != wanted.study:
        raise InputError(f"{seat.out} belongs to a run of another study: give another folder.")
    if state.data != wanted.data:
        raise InputError(
            f"the data of {seat.site} changed since the run in {seat.out} began: a run with other data is another run, "
            "in another folder, which all sites must begin anew."
        )
    return state.result is not None
