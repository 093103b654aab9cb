"""`dsba verify` of a site's folder: whether what it holds is what the site's key has signed.

This shows that log, study and model belong together and were not changed since the run, and that the model is what the
totals give that the sites have signed. It does not show that the program at a site, or the data, was what it should be.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from dsba.errors import DsbaError, InputError
from dsba.fitting import codec
from dsba.fitting.codec import MODEL_COPY, MODEL_FILE
from dsba.fitting.model import FittedModel
from dsba.network.contract import DISCLOSURE_CLASSES, SITE_TOTALS
from dsba.network.tls.protocol import made_by
from dsba.network.tls.replay import STEP_BOUND, NotRecordedError
from dsba.storage.atomic import PRIVATE, content_of, private_folder, write_whole
from dsba.study import join
from dsba.study.audit import AUDIT, STATE, RunState, log_end, read_log
from dsba.study.check import found
from dsba.study.file import Study
from dsba.study.further import further_names
from dsba.study.policy import may_leave
from dsba.study.recompute import SAME_ERRORS, differences, recomputed
from dsba.study.totals import TOTALS_FILE, EpochRecord, read_totals
from dsba.tables.results import Results
from dsba.types import Finding


class Kept(NamedTuple):
    """What a site's folder has, as far as it can be read."""

    folder: Path
    study: Study
    state: RunState
    state_signature: bytes
    events: list[dict[str, Any]]

    @property
    def site(self) -> str:
        """The name that the log says."""
        return str(self.of("joined")[0].get("site")) if self.of("joined") else ""

    @property
    def certificate(self) -> bytes:
        return self.study.members[self.study.rank(self.site)].certificate

    def of(self, event: str) -> list[dict[str, Any]]:
        return [one for one in self.events if one.get("event") == event]


def verify_study(folder: Path, approved: str | None = None) -> Iterator[Finding]:
    """Look at everything in a site's folder; the first finding that is not fine may be the last one."""
    try:
        kept = _kept(folder)
    except DsbaError as error:
        yield Finding(False, str(error))
        return
    classes = sorted({str(line.get("discloses")) for line in kept.of("sent")})
    said = {"kept": kept, "lines": len(kept.events), "classes": ", ".join(classes) or "nothing"}
    looked = [found(partial(look, kept), fine.format(**said)) for look, fine in CHECKS.items()]
    yield from looked
    if all(finding.fine for finding in looked):
        yield from _about_totals(kept.folder, kept.study, kept.study.rank(kept.site), kept.of("run"))
    yield _of_study(kept.study, kept.site, approved)
    known = {join.STUDY_COPY, join.ROTATIONS, STATE, AUDIT, TOTALS_FILE, MODEL_FILE, MODEL_COPY, *_of_this(kept.study)}
    if others := sorted({path.name for path in folder.glob("[!.]*") if path.is_file()} - known):
        yield Finding(True, f"Not looked at: {', '.join(others)}. Changes of these would not be found.")


def verify_totals(folder: Path, approved: str | None = None) -> Iterator[Finding]:
    """Look at what ``dsba study totals`` copied out of a site's folder."""
    try:
        study = _study(folder)
    except DsbaError as error:
        yield Finding(False, str(error))
        return
    yield from _about_totals(folder, study, 0)
    yield _of_study(study, "your site", approved)


def copy_totals(folder: Path, out: Path) -> None:
    """Copy study, model and totals of a run to a new folder, if every site's policy allows it."""
    study = _study(folder)
    epochs = read_totals(folder / TOTALS_FILE, study)
    for epoch in epochs:
        epoch.require_signed(study)
    if closed := [site.name for epoch in epochs for site in epoch.begun.roster if not may_leave(site.policy)]:
        raise InputError(f"the policy of {closed[0]} does not let the totals leave the sites: nothing was copied.")
    if out.exists():
        raise InputError(f"{out} is there already: give a new folder.")
    for name in (join.STUDY_COPY, MODEL_FILE, TOTALS_FILE, *_of_this(study)):
        private_folder((out / name).parent)
        write_whole(out / name, content_of(folder / name), PRIVATE)


def _of_this(study: Study) -> Iterator[str]:
    """What a folder also needs to be verified, by what the study is."""
    if study.rotations:
        yield join.ROTATIONS
    if study.evaluates is not None:
        yield f"{join.EVALUATED}/{MODEL_FILE}"
    if study.describe is not None:
        yield from (f"{join.DESCRIPTION}.json", f"{join.DESCRIPTION}.html")
    yield from further_names(study)


def _of_study(study: Study, site: str, approved: str | None) -> Finding:
    compare = f"The study is {study.name}, hash {study.hash}"
    if approved is None:
        return Finding(True, f"{compare}: compare it with the hash that {site} approved.")
    return found(partial(study.require_approved, approved), f"{compare}, as approved.")


def _about_totals(
    folder: Path, study: Study, rank: int, logged: Sequence[dict[str, Any]] | None = None
) -> Iterator[Finding]:
    """Whether the sites have signed the totals, and whether the model is what they give."""
    try:
        epochs = read_totals(folder / TOTALS_FILE, study)
        for epoch in epochs:
            epoch.require_signed(study)
        begun = [epoch.begun.history(study.digest).hex() for epoch in epochs]
        if logged is not None and [line.get("run") for line in logged] != begun:
            raise InputError(f"{folder / TOTALS_FILE} has other runs than the audit log: lines were removed or added.")
        if (last := epochs[-1]).signed is None:
            raise InputError(
                f"{folder / TOTALS_FILE} has no signed end: the run did not end here, or lines are missing."
            )
        many = f"{len(last.answers)} questions in {TOTALS_FILE}"
        yield Finding(True, f"All {len(study.sites)} sites have signed the answers to the {many}, and the result.")
        saved = codec.load(folder)
        if {json.dumps(join.result_hash(saved)).encode()} != set(last.results):
            raise InputError(f"the model in {folder} is not the result that the sites have signed.")
        yield _recomputed(folder, study, saved, rank, epochs)
    except DsbaError as error:
        yield Finding(False, str(error))


def _recomputed(folder: Path, study: Study, saved: FittedModel, rank: int, epochs: Sequence[EpochRecord]) -> Finding:
    stored = None if study.evaluates is None else Results.load(folder / join.EVALUATED)
    if stored is not None and stored.digest() != study.evaluates:
        raise InputError(f"the model in {folder / join.EVALUATED} is not the one that the study evaluates.")
    try:
        again = recomputed(study, rank, epochs, stored)
    except NotRecordedError as error:
        return Finding(True, f"NOT RECOMPUTED, because the steps do not follow from totals alone: {error}", open=True)
    if odd := sorted(differences(saved, again.model)):
        return Finding(False, f"the totals give another model than the one in the folder: {', '.join(odd[:3])} differ.")
    files = {} if again.description is None else join.description_files(study, again.description)
    for kind, made in {"description": files, "result": again.files}.items():
        if changed := [name for name, content in made.items() if content_of(folder / name) != content]:
            return Finding(False, f"the totals give another {kind} than {folder / changed[0]}: it was changed.")
    what = f"The {'model' if stored is None else 'evaluation'} is what these totals give"
    if files:
        what += ", and so is the description"
    if again.files:
        what += f", and so are {', '.join(again.files)}"
    steps = f"{again.points} points lie at most {again.furthest:.1e} from the steps of the totals before them"
    fitted = f": {steps} (bound {STEP_BOUND:g}), {again.model.run.message}, standard errors within {SAME_ERRORS:g}"
    return Finding(
        True, f"{what}{fitted if stored is None else ''}. This shows nothing about the data behind the totals."
    )


def _study(folder: Path) -> Study:
    """The study that a folder holds."""
    try:
        content = content_of(folder / join.STUDY_COPY)
        rotations = (folder / join.ROTATIONS).read_bytes() if (folder / join.ROTATIONS).exists() else b"[]"
        study = Study.from_content(content, rotations)
        if study.rotations_content != rotations:
            raise ValueError
    except (ValidationError, ValueError, TypeError, RecursionError):
        odd = f"{folder / join.STUDY_COPY} is damaged: it is no study, or {join.ROTATIONS} is not signed by its keys."
        raise InputError(odd) from None
    if hashlib.sha256(content).digest() != study.digest:
        raise InputError(f"{folder / join.STUDY_COPY} was changed: its hash is not that of the study in it.")
    return study


def _kept(folder: Path) -> Kept:
    study = _study(folder)
    kept = Kept(folder, study, *RunState.read(folder), read_log(folder / AUDIT))
    if not kept.of("joined"):
        raise InputError(f"{folder / AUDIT} does not begin with a site that joined: lines are missing.")
    study.rank(kept.site)
    return kept


def _state_is_signed(kept: Kept) -> None:
    if not made_by(kept.certificate, kept.state_signature, kept.state.content):
        raise InputError(f"{kept.folder / STATE} is not signed by the key of {kept.site}: it was changed.")


def _log_is_signed(kept: Kept) -> None:
    path = kept.folder / AUDIT
    (digest, signed, signature), last = log_end(path, kept.events), f"{path}, line {len(kept.events)}:"
    if not made_by(kept.certificate, signature, signed):
        raise InputError(f"{last} the end is not signed by the key of {kept.site}, so the log was written anew.")
    if digest != kept.state.log:
        raise InputError(f"{last} {STATE} has another end. Lines were removed, or the run still goes on.")


def _same_study(kept: Kept) -> None:
    wanted: dict[str, str | None] = {"study": kept.study.digest.hex(), "site": kept.site, "data": kept.state.data}
    wanted |= {"discloses": join.disclosed(kept.study), "formula": kept.study.spec.formula}
    if kept.state.study != kept.study.hash:
        raise InputError(f"{STATE} is of another study than {join.STUDY_COPY}.")
    for line in kept.of("joined"):
        if odd := [name for name, value in wanted.items() if line.get(name) != value]:
            raise InputError(f"the log says another {odd[0]} than {STATE} and {join.STUDY_COPY}.")


def _nothing_above(kept: Kept) -> None:
    most = join.disclosed(kept.study)
    allowed = [*DISCLOSURE_CLASSES[: DISCLOSURE_CLASSES.index(most) + 1]]  # what the log says may be of any type
    if kept.study.shows_sites:
        allowed.append(SITE_TOTALS)
    if odd := [line for line in kept.of("sent") if line.get("discloses") not in allowed]:
        raise InputError(f"the study discloses {most}, and {odd[0].get('discloses')} were sent.")


def _same_result(kept: Kept) -> None:
    if kept.state.result is None:
        raise InputError(f"the run of {kept.site} is not complete: there is no result to compare.")
    if (kept.of("ended") or [{}])[-1].get("result") != kept.state.result:
        raise InputError(f"the log ends with another result than {STATE}.")
    if join.result_hash(codec.load(kept.folder)) != kept.state.result:
        raise InputError(f"the model in {kept.folder} is not the result of the run.")
    if content_of(kept.folder / MODEL_COPY) != codec.copy_of(codec.load(kept.folder)):
        raise InputError(f"{kept.folder / MODEL_COPY} is not a copy of {MODEL_FILE}: one of them was changed.")


CHECKS: dict[Callable[[Kept], None], str] = {
    _state_is_signed: "{kept.site} has signed the state of the run.",
    _log_is_signed: "The audit log has {lines} lines, and {kept.site} has signed its end.",
    _same_study: "Log, state and study are of one study and one data set.",
    _nothing_above: "Sent: {classes}; nothing above what the study declares.",
    _same_result: "The model is the result of the run, hash {kept.state.result}.",
}
"""What is looked at, in this order, and what is said where it is fine."""
