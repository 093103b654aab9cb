"""The result of a run once more, from the record of its totals alone: what a site computed, without its rows.

All that a site computes after a question follows from the answer, which is the same at every site. So the program runs
again on rows that are made up, every answer comes from the record, and what these rows would add to a sum is not used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dsba.engine.run import Status
from dsba.errors import InputError, NetworkError
from dsba.fitting import codec
from dsba.fitting.model import FittedModel
from dsba.network.contract import SITE_TOTALS, TOTALS
from dsba.network.tls.replay import NotRecordedError, RecordedNetwork, RecordEndsError
from dsba.study.file import Study
from dsba.study.further import further_files, require_like_rows
from dsba.study.join import CHECKPOINT, blaming_others, described, evaluated, own_rows, result_hash
from dsba.study.totals import TOTALS_FILE, EpochRecord
from dsba.tables.description import Description
from dsba.tables.fit import train_own
from dsba.tables.results import Results

if TYPE_CHECKING:
    import pandas as pd

SAME_ERRORS = 1e-12  # how far standard errors may be from the recomputed ones, relative to them
SAME_FIGURES = 1e-10  # the same of all other numbers of a model's file
OF_ONE_SITE = {"seconds", "cpu_seconds", "versions", "notices"}  # what depends on the machine or on a site's own rows
MADE_UP_ROWS = 6


class Recomputed(NamedTuple):
    """What the totals give."""

    model: FittedModel
    description: Description | None
    points: int
    """How many points of the record were compared with the recomputed ones."""
    furthest: float
    """The largest distance between them, relative to a point's largest coordinate."""
    files: dict[str, bytes]
    """What the study asked for beside the model."""


class MadeUpTable:
    """Rows that a study allows. Nothing of them reaches the model."""

    def __init__(self, study: Study) -> None:
        self._columns = {name: ["number"] if levels == "number" else levels for name, levels in study.columns.items()}
        self.names = list(self._columns)

    def read(self, columns: Sequence[str] | None = None, codes: Sequence[str] = ()) -> pd.DataFrame:
        import pandas as pd

        rows = range(max(MADE_UP_ROWS, *(len(levels) for levels in self._columns.values())))
        made = {name: [levels[row % len(levels)] for row in rows] for name, levels in self._columns.items()}
        numbers = {name: [1.0] * len(rows) for name, levels in self._columns.items() if levels == ["number"]}
        return pd.DataFrame({**made, **numbers})[self.names if columns is None else list(columns)]


def recomputed(study: Study, rank: int, epochs: Sequence[EpochRecord], stored: Results | None = None) -> Recomputed:
    """What all epochs lead to. An epoch that was broken off leaves a checkpoint, from which the next one goes on.

    ``stored`` is the model that the study evaluates.
    """
    with TemporaryDirectory() as folder:
        for epoch in epochs:
            begun, answers = epoch.begun, epoch.answers
            start = begun.history(study.digest)
            network = RecordedNetwork(study.topology, rank, answers, masked=begun.masked, start=start)
            try:
                with blaming_others():
                    found = _again(study, rank, network, Path(folder) / CHECKPOINT, stored)
            except NotRecordedError:
                raise
            except (InputError, NetworkError) as error:
                if epoch.signed is None and isinstance(error, RecordEndsError | NetworkError):
                    continue  # a site may have ended this epoch by a wrong number
                line = epoch.line + 1 + network.asked
                raise InputError(f"{TOTALS_FILE}, line {line}: {error}") from None
            if epoch.signed is not None and network.asked == len(epoch.answers):
                return found
    raise InputError("the record leads to no model: the run did not come to its end, or answers were added.")


def _again(study: Study, rank: int, network: RecordedNetwork, checkpoint: Path, stored: Results | None) -> Recomputed:
    site, spec = study.sites[rank].name, study.spec
    table: Any = MadeUpTable(study)
    own = {site: table}
    found = None
    if study.describe is not None:
        found = described(study, site, table, spec.guards, network, stored=stored)
    if study.curves is not None:
        require_like_rows(study, own_rows(study, site, table), spec, network)
    if stored is None:
        results = train_own(own, spec, network, notify=lambda sentence: None, checkpoint=checkpoint)
    else:
        results = evaluated(stored, own, spec, network)
    if results.model.run.status is Status.INTERRUPTED:
        network.aside().share(False, discloses=TOTALS)
        return Recomputed(results.model, found, network.points, network.furthest, {})
    files = further_files(study, [own_rows(study, site, table)], spec, network)
    if study.by_site:
        network.share(None, discloses=SITE_TOTALS)
    network.aside().share(result_hash(results.model), discloses=TOTALS)
    return Recomputed(results.model, found, network.points, network.furthest, files)


def differences(saved: FittedModel, again: FittedModel) -> Iterator[str]:
    """What of a saved model is not what the totals give, by name."""
    for name in ("weights", "intercepts", "Z"):
        theirs, wanted = getattr(saved, name), getattr(again, name)
        top = max(float(np.abs(wanted).max(initial=0.0)), 1e-300)
        if theirs.shape != wanted.shape or not np.abs(theirs - wanted).max(initial=0.0) <= SAME_ERRORS * top:
            yield name
    if not _same_errors(saved, again):
        yield "standard errors"
    yield from _unlike(codec.content_of(saved), codec.content_of(again))


def _same_errors(saved: FittedModel, again: FittedModel) -> bool:
    """Whether the covariances agree, in units of the standard errors."""
    found, wanted = (model.table.inference if model.table else None for model in (saved, again))
    if found is None or wanted is None:
        return found is wanted
    theirs, ours = np.array(found.covariance), np.array(wanted.covariance)
    if theirs.shape != ours.shape:
        return False
    errors = np.sqrt(np.diag(ours))
    return bool((np.abs(theirs - ours) <= 2.0 * SAME_ERRORS * np.outer(errors, errors)).all())


def _unlike(found: Any, wanted: Any, at: str = "") -> Iterator[str]:
    """The places at which two contents of model files differ."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name in {**found, **wanted}.keys() - OF_ONE_SITE - {"covariance"}:
            yield from _unlike(found.get(name), wanted.get(name), f"{at}.{name}".strip("."))
    elif isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        for place, pair in enumerate(zip(found, wanted, strict=True)):
            yield from _unlike(*pair, f"{at}[{place}]")
    elif isinstance(found, float) and isinstance(wanted, float):
        if not math.isclose(found, wanted, rel_tol=SAME_FIGURES, abs_tol=SAME_FIGURES):
            yield at
    elif found != wanted:
        yield at
