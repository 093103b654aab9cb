"""What a site has answered in one run, over all its starts: nothing is answered twice with other numbers.

An algorithm's sum has a kind and a point (``Group.about``), and a member that makes sites start again must not get it
at more points, or of other columns. So a site writes down every such question before anything is sent: what it is
known by, and a commitment to this site's own part. After a restart the same question is answered with the same part or
not at all, and its total must be the one of before. The number of questions and of starts is limited, and so are the
numbers that all of them tell: with n rows, n_own of them here, p columns and K points,
K ((p + 1) (p + 2) / 2 + p + 1) <= ``told`` p (n - n_own). As many equations as there are cells would determine them.

This file knows no files: ``write`` gets every line, and must have it on disk when it returns. A line has one of these:

- ``begun``: the epoch, and ``data``, the commitments of all sites to their data. It is written before the first sum.
- ``asked``: a question, ``own``, the commitment to this site's part, and ``numbers``, how many are told of the rows.
- ``told``: a question, and ``total``, the hash of its total.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dsba.errors import InputError, NetworkError
from dsba.network.tls.transcript import INT64, Begun, hashed

MOST_STARTS = 3  # of a run that did not end
MOST_POINTS = 15  # at which a run sums an information matrix
MOST_TOLD = 0.5  # of the cells of the other sites' rows: the numbers that a run tells of them
LEAST_POINTS = 2  # of every fit: the start, and where its first step leads

FLOAT_BYTES = 8  # of a coordinate of a point

Line = dict[str, Any]


class Answers:
    """The answers of one site in one run; ``kept`` are the lines of earlier starts."""

    def __init__(
        self, commit: Callable[[bytes], str], write: Callable[[Line], object], kept: Iterable[Mapping[str, Any]] = (),
        *, starts: int = MOST_STARTS, points: int = MOST_POINTS, told: float = MOST_TOLD,
    ) -> None:  # fmt: skip
        self._commit, self._write, self.starts, self.points, self.share = commit, write, starts, points, told
        self._cells = math.inf  # of the other sites' rows
        self._epochs: list[Any] = []  # the data of all sites, in every epoch that had a sum
        self._own: dict[str, str] = {}
        self._totals: dict[str, str] = {}
        self._numbers = 0  # told of the other sites' rows, over all questions
        for line in kept:
            self._remember(line)
        self._begun: Line | None = None
        self._parts: dict[bytes, list[str]] = {}  # by kind and point, own parts of this epoch
        self._open: str | None = None

    @property
    def epochs(self) -> int:
        """In how many starts something was summed."""
        return len(self._epochs)

    def began(self, begun: Begun) -> None:
        """An epoch begins; an error if it is one too many, or if a site has other data than before."""
        if len(self._epochs) >= self.starts:
            raise InputError(
                f"this run has begun {len(self._epochs)} times and did not end, and this site allows {self.starts} "
                "starts: every start may tell more about the rows. Find out why; a larger number of starts in the "
                "policy of this site allows more."
            )
        data = [one.data for one in begun.roster]
        for one, before in zip(begun.roster, self._epochs[0] if self._epochs else data, strict=True):
            if one.data != before:
                sentence = f"the data of {one.name} changed since the run began: a run with other data is another run."
                raise NetworkError(sentence)
        self._begun, self._open = {"begun": begun.epoch, "data": data}, None
        self._parts = {}

    def tells_of(self, coefficients: int, cells: int) -> None:
        """The next sums are of so many coefficients, and the rows of the other sites have so many cells."""
        self._cells = cells or math.inf  # an intercept alone tells of no column
        self._require_half(LEAST_POINTS * _numbers(coefficients, coefficients * (coefficients + 3) // 2))

    def asked(self, kind: str, at: bytes, own: bytes, told: int = 0) -> None:
        """A sum of ``told`` numbers, before anything of it is sent. One without a point is not limited in an epoch."""
        if self._begun is not None:
            self._add(self._begun)
            self._begun = None
        self._open = None
        if not at:
            return
        question = hashed("dsba answers", kind.encode(), at)
        part, parts = self._commit(own), self._parts.setdefault(question, [])
        if part not in parts:  # a model may ask about several things at one point, always in the same order
            parts.append(part)
        self._open = hashed("dsba answers", question, INT64.pack(parts.index(part))).hex()
        if self._own.get(self._open, part) != part:
            raise InputError(
                "this site would answer a question of before the restart with other numbers: what the sites agreed on "
                "is not what it was, or the data, the program or the processor changed here. Nothing was sent."
            )
        if self._open not in self._own:
            numbers = _numbers(len(at) // FLOAT_BYTES, told)
            self._require_few()
            self._require_half(self._numbers + numbers)
            self._add({"asked": self._open, "own": part, "numbers": numbers})

    def record(self, exponent: int, total: bytes) -> None:
        """The total of the sum, before it is read."""
        if self._open is None:
            return
        question, found = self._open, hashed("dsba total", INT64.pack(exponent), total).hex()
        if self._totals.get(question, found) != found:
            raise NetworkError(
                "the total of a question of before the restart is not what it was: a site has changed its part. The "
                "total was not read."
            )
        if question not in self._totals:
            self._add({"told": question, "total": found})

    def _require_few(self) -> None:
        if len(self._own) >= self.points:
            raise InputError(
                f"this run has asked for a sum of an algorithm at {len(self._own)} points, restarts included, and this "
                f"site allows {self.points}: more of them may tell single rows. A larger number of points in the "
                "policy of this site allows more."
            )

    def _require_half(self, numbers: int) -> None:
        if numbers > self.share * self._cells:
            raise InputError(
                f"the sums of this fit would tell {numbers} numbers of the rows of the other sites, restarts included, "
                f"and this site allows {self.share:g} of the numbers in these rows: more of them may tell single rows. "
                "Use fewer columns or more rows. A larger share (told) in the policy of this site allows more."
            )

    def _add(self, line: Line) -> None:
        self._write(line)
        self._remember(line)

    def _remember(self, line: Mapping[str, Any]) -> None:
        if "begun" in line:
            self._epochs.append(line["data"])
        elif "asked" in line:
            self._own[line["asked"]] = line["own"]
            self._numbers += line["numbers"]
        else:
            self._totals[line["told"]] = line["total"]


def _numbers(coefficients: int, told: int) -> int:
    """What a question tells of rows: its numbers, but no more than a slope and two matrices have.

    A sum over risk sets has more. These are guarded by the grid of their times.
    """
    return min(told, coefficients * (coefficients + 2))
