"""A network that answers from the record of a run between sites: what the sites computed from their totals, again.

Nothing is sent and no row is needed. Every question that the program asks must be the next one of the record: the same
kind, at the same point up to ``STEP_BOUND``, of the same length. So a step that does not follow from the totals before
it is found where the next question is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from dsba.errors import InputError, shortened
from dsba.graph.link import Link
from dsba.graph.topology import Topology
from dsba.network.exact_sum import SparseRows
from dsba.network.tls.protocol import OF_LARGEST, OF_LEVELS, OF_PARTS, OF_SUMS
from dsba.network.tls.transcript import INT64, Answered, replayed, unpack
from dsba.network.transport import Network
from dsba.types import Array

STEP_BOUND = 1e-12  # how far a recorded point may lie from the recomputed one, relative to its largest coordinate


class NotRecordedError(InputError):
    """A run whose steps do not follow from its record alone. The message says why."""


class RecordEndsError(InputError):
    """A question that is not in the record any more."""


class RecordedNetwork(Network):
    """The site number ``rank`` of a run whose answers are known."""

    replayed = True

    def __init__(
        self, topology: Topology, rank: int, record: Sequence[Answered], *, masked: bool, start: bytes = b""
    ) -> None:
        super().__init__(topology, rank, topology.n_nodes)
        self.masked, self.record, self.asked, self.start = masked, record, 0, start
        self.points, self.furthest = 0, 0.0  # how many points were compared, and the largest relative distance
        self._about: tuple[str, Array] = OF_SUMS, np.zeros(0)

    def send(self, peer: int, message: bytes, purpose: int) -> None:
        raise NotRecordedError("only the sums of a run are kept, and this method also sends other messages.")

    @property
    def history(self) -> bytes:
        return replayed(self.start, self.record[: self.asked])

    def measured_link(self) -> Link | None:
        raise NotRecordedError("the method was chosen by the speed of the lines, which is not kept.")

    def about(self, kind: str, point: Array) -> None:
        self._about = kind, np.asarray(point, np.float64)

    def sum(self, rows: Array | SparseRows) -> Array:
        (kind, point), self._about = self._about, (OF_SUMS, np.zeros(0))
        width = rows.shape[1]
        offered = len(self._line().scales) == 2 * INT64.size  # several scales at once
        if offered and (line := self._next(kind, point)).exponent is not None:
            self._count_question(8, 8)
            return self._totals(line, width)
        top = self.top(0.0)
        if top == 0.0 or not math.isfinite(top):
            return np.full(width, top and math.nan)
        return self._totals(self._next(kind, point), width)

    def top(self, own: float) -> float:
        if not self.masked:
            return super().top(own)
        self._count_question(8, 8)
        (top,) = np.frombuffer(self._next(OF_LEVELS).answer.ljust(8, b"\0")[:8], "<f8").tolist()
        return top

    def _totals(self, line: Answered, width: int) -> Array:
        totals = line.totals
        if totals is None or totals.size != width:
            raise self._differs(f"its answer does not have {width} totals")
        if line.answer.strip(b"\0") or line.exponent:  # nothing but zeros takes no second question
            self._count_question(16 * width, 16 * width)
        return totals

    def _collect(self, own: bytes, discloses: str) -> list[bytes]:
        return self._parts(OF_PARTS)

    def _ask(self, own: bytes, merge: Callable[[bytes, bytes], bytes]) -> bytes:
        return reduce(merge, self._parts(OF_LARGEST))

    def _parts(self, kind: str) -> list[bytes]:
        parts = unpack(self._next(kind).answer)
        if len(parts) != self.size:
            raise self._differs(f"it has {len(parts)} parts of {self.size} sites")
        return parts

    def _line(self) -> Answered:
        """The next line of the record, whatever its kind; an error if there is none."""
        if self.asked == len(self.record):
            raise RecordEndsError(f"the record ends after question {self.asked}, and its totals lead to another one.")
        return self.record[self.asked]

    def _next(self, kind: str, point: Array | None = None) -> Answered:
        """The next line of the record, which must be of this kind and at this point."""
        line = self._line()
        if line.kind != kind:
            raise self._differs(f"it is of the kind {shortened(line.kind)!r}, and {kind!r} is due")
        self._compare(line.point, np.zeros(0) if point is None else point)
        self.asked += 1
        return line

    def _compare(self, found: Array, point: Array) -> None:
        """The point at which a question was asked with the one that the totals before it lead to."""
        if found.shape != point.shape:
            raise self._differs(f"its point has {found.size} coordinates, and {point.size} are due")
        if not point.size:
            return
        away = float(np.abs(found - point).max()) / max(float(np.abs(point).max()), 1.0)
        if not away <= STEP_BOUND:
            raise self._differs(f"its point is {away:.1e} away from the step that the totals before give")
        self.points, self.furthest = self.points + 1, max(self.furthest, away)

    def _differs(self, how: str) -> InputError:
        return InputError(f"question {self.asked} of the record does not follow from those before: {how}.")
