"""The ledger of a site: all runs with its rows, so that two runs never differ by a few rows only.

A row is known by the policy's ``row_id``, or by keyed hashes of what both runs read of it. Bytes of the file, its order
and columns that no run reads do not matter. Only the site itself can compute the hashes; the files are private.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dsba.errors import InputError
from dsba.storage.atomic import PRIVATE, replacing, write_whole
from dsba.storage.folders import locked
from dsba.tables.schema import TRUTH, plain_value

if TYPE_CHECKING:
    import pandas as pd

OF_MODEL = "rows"  # the name of those of the model
UsedRows = Mapping[str, npt.NDArray[np.uint64]]
"""By column, a keyed hash of its value in each used row."""


def used_rows(frame: pd.DataFrame, columns: Sequence[str], secret: bytes) -> UsedRows:
    """The rows as the ledger keeps them."""
    import pandas as pd

    def hashed(column: str) -> npt.NDArray[np.uint64]:
        codes, values = pd.factorize(frame[column], use_na_sentinel=False)
        texts = ["" if pd.isna(value) else _text(value) for value in values.tolist()]
        digests = [hashlib.blake2b(f"{column}\0{text}".encode(), digest_size=8, key=secret).digest() for text in texts]
        return np.frombuffer(b"".join(digests), np.uint64)[codes]

    return {column: hashed(column) for column in columns}


def _text(value: Any) -> str:
    """The text of a value. A number, or a truth value, that one study reads as the level of a factor is the same."""
    if isinstance(value, str):
        with suppress(ValueError, OverflowError):
            return repr(plain_value(float(value)))
        value = TRUTH.get(value.strip().lower(), value)
    return repr(plain_value(value))


def differing(rows: UsedRows, others: UsedRows, row_id: str | None = None) -> int | None:
    """How many rows one of two runs has that the other has not; None if they have no column in common."""
    common = sorted(rows.keys() & others.keys())
    if row_id is not None and row_id in common:
        common = [row_id]
    if not common:
        return None
    both = np.concatenate([_identities(rows, common), _identities(others, common)])
    ids, numbers = np.unique(both, return_inverse=True)
    sizes = [np.bincount(part, minlength=ids.size) for part in np.split(numbers, [len(rows[common[0]])])]
    more = sizes[0] - sizes[1]
    return int(max(more[more > 0].sum(), -more[more < 0].sum()))


def _identities(rows: UsedRows, columns: Sequence[str]) -> npt.NDArray[np.uint64]:
    """A number for each row: the sum of its hashes modulo 2^64, which contain the names of their columns."""
    return np.sum([rows[column] for column in columns], axis=0, dtype=np.uint64)


@dataclass(frozen=True)
class Allowed:
    """What runs a site allows."""

    runs: int
    """With the same rows, by the study."""
    few: int = 3
    """A run that differs from an earlier one in fewer rows, and is not the same, is refused."""
    close: bool = False
    """Whether it is not."""
    a_month: int | None = None
    row_id: str | None = None


class Ledger:
    """All runs of a site: a file beside its key, and a folder with the used rows of each run."""

    def __init__(self, path: Path) -> None:
        self.path, self.folder = path, path.with_name(f"{path.name}-rows")
        self.runs = self._read()

    def add(self, study: str, rows: UsedRows, allowed: Allowed, beside: Mapping[str, UsedRows] | None = None) -> int:
        """Count a run that begins, and give the number of earlier ones with these rows; an error if it is refused.

        ``beside`` are by name the rows of other sums of the run, such as a description before the model, which has rows
        without an outcome as well.
        """
        with locked(self.path.with_name(f"{self.path.name}-lock")):
            self.runs = self._read()
            now = datetime.now(UTC).isoformat(timespec="seconds")
            now_used = {OF_MODEL: rows, **(beside or {})}
            kept = [self._rows(run["rows"]) for run in self.runs]
            same = [differing(rows, one[OF_MODEL], allowed.row_id) for one in kept].count(0)
            others = [used.values() for used in kept if not _repeated(now_used, used)]
            pairs = list(product(now_used.values(), chain.from_iterable(others)))
            apart = [differing(*pair, by) for pair in pairs for by in {allowed.row_id, None}]  # or by other values
            if complaint := self._of_month(now, allowed) or _too_close(same, apart, allowed):
                raise InputError(f"{complaint} The ledger is {self.path}.")
            self._keep({"time": now, "study": study, "rows": f"{len(self.runs)}.npz"}, now_used)
        return same

    def _of_month(self, now: str, allowed: Allowed) -> str | None:
        begun = sum(run["time"][:7] == now[:7] for run in self.runs)
        if allowed.a_month is None or begun < allowed.a_month:
            return None
        return f"{begun} runs have begun this month, and the policy of this site allows {allowed.a_month}."

    def _read(self) -> list[dict[str, str]]:
        try:
            runs = json.loads(self.path.read_text()) if self.path.exists() else []
            if not all(isinstance(run[key], str) for run in runs for key in ("time", "study", "rows")):
                raise TypeError
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            raise self._damaged() from None
        return list(runs)

    def _rows(self, name: str) -> dict[str, UsedRows]:
        """Those of the model, and those of other sums by name."""
        try:
            with np.load(self.folder / Path(name).name, allow_pickle=False) as file:
                columns, parts = file["columns"].tolist(), dict.fromkeys([OF_MODEL, *file])
                return {part: dict(zip(columns, file[part], strict=True)) for part in parts if part != "columns"}
        except Exception:  # a damaged archive raises errors of many kinds
            raise self._damaged() from None

    def _damaged(self) -> InputError:
        return InputError(f"the ledger {self.path} is damaged: no run begins before somebody has looked at it.")

    def _keep(self, run: dict[str, str], used: Mapping[str, UsedRows]) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with replacing(self.folder / run["rows"], PRIVATE) as file:
            parts: dict[str, Any] = {name: np.stack(list(one.values())) for name, one in used.items()}
            np.savez(file, columns=np.array(list(used[OF_MODEL])), **parts)
        self.runs.append(run)
        write_whole(self.path, json.dumps(self.runs, indent=1).encode(), PRIVATE)


def _repeated(now: Mapping[str, UsedRows], before: Mapping[str, UsedRows]) -> bool:
    """Whether a run has the rows of an earlier one in all of its sums: no pair of them is new."""
    return now.keys() == before.keys() and not any(differing(now[part], before[part]) != 0 for part in now)


def _too_close(same: int, apart: Sequence[int | None], allowed: Allowed) -> str | None:
    """Why a run is refused whose rows differ from those of earlier runs by so many; ``same`` had the same rows."""
    if same >= allowed.runs:
        return (
            f"these rows have been in {same} runs, and the study allows {allowed.runs}: every further run tells more "
            "about them."
        )
    if not allowed.close and any(count and count < allowed.few for count in apart):
        return (
            "this run would use all but a few rows of an earlier run, or a few more, or other values of a few, and the "
            "two models together would show these rows: use the same rows again, or set close_runs = true in the "
            "policy of this site."
        )
    return None
