"""Two threads that work on one sample together.

Where a sample has many columns in copies, as softmax's have, each thread takes the columns of one half of the memory.
They wait for each other twice a sample: before its equation is solved, which needs both halves' sums, and before its
change is added. One thread alone also keeps the sums of the halves apart, so the number of threads does not show in
any bit.

On a busy machine such a wait can take longer than all the rest. A thread that had to wait for
long sets a flag, and the pair ends with the iteration.
"""

import sys
from typing import Any, NamedTuple

import numpy as np
from numba import types

from dsba.kernels.cache import part
from dsba.kernels.internals import cgutils, ir
from dsba.kernels.simd import LINE_DOUBLES, Emit, instructions
from dsba.types import Array, Indices

LONG = 2_000_000  # looks at another thread's place, about a millisecond: it sleeps
GONE = np.iinfo(np.int64).max  # no thread waits for one that came so often
CROWDED, ENDED = 2 * LINE_DOUBLES, 3 * LINE_DOUBLES  # places in ``Share.board``


class Share(NamedTuple):
    """What one thread does, and what the threads of a pair have in common."""

    lo: int  # the columns of this thread: positions lo..hi-1
    hi: int
    me: int
    size: int  # the number of threads
    board: Indices  # how often each thread came to a meeting, whether one had to wait, whether they end; a line each
    sums: Array  # (half, row): of the sample's rows with the iterate
    delta: Array

    def leave(self) -> None:
        """For good: no thread waits for this one any more."""
        self.board[self.me * LINE_DOUBLES] = GONE


def shares(k: int, cuts: tuple[int, ...]) -> list[Share]:
    """Of one thread (two cuts) or of two, for samples of k rows."""
    size = len(cuts) - 1
    common = (size, np.zeros(4 * LINE_DOUBLES, np.int64), np.zeros((2, k + LINE_DOUBLES)), np.empty(k))
    return [Share(cuts[me], cuts[me + 1], me, *common) for me in range(size)]


@part()
def barrier(share: Any) -> bool:
    """Wait until every thread has come as often as this one; whether this one solves the equation."""
    if share is None:
        return True
    board, me = share.board, share.me * LINE_DOUBLES
    mine = board[me] + 1
    _publish(board, me, mine)
    for at in range(0, share.size * LINE_DOUBLES, LINE_DOUBLES):
        looks = 0
        while _look(board, at) < mine:
            looks += 1
            if looks > LONG:
                if mine > 1:  # at the first one the other has to wake up
                    _publish(board, CROWDED, 1)
                _give_way()
    return share.me == 0


@part()
def ends(share: Any) -> bool:
    """Whether the pair ends with this iteration, as decided by the first thread between two barriers."""
    return share is not None and share.board[ENDED] != 0


@part()
def collect(share: Any, b: Any) -> None:
    """b <- the sums of both halves. The first thread does it, and then looks around whether the machine is crowded."""
    if share is not None:
        for c in range(b.size):
            b[c] = share.sums[0, c] + share.sums[1, c]
        share.board[ENDED] = _look(share.board, CROWDED)


@instructions(types.void)
def _publish(emit: Emit, array: Any, at: Any, value: Any) -> None:
    """array[at] <- value; who sees it sees all that was written before."""
    emit.builder.store_atomic(value.value, emit.pointer(array, at), "release", 8)


@instructions(types.int64)
def _look(emit: Emit, array: Any, at: Any) -> Any:
    """array[at], as another thread may have just written it."""
    return emit.builder.load_atomic(emit.pointer(array, at), "acquire", 8)


@instructions(types.void)
def _give_way(emit: Emit) -> None:
    """Let another thread have this core: it may be the one that is waited for."""
    if sys.platform != "win32":
        kind = ir.FunctionType(ir.IntType(32), [])
        emit.builder.call(cgutils.get_or_insert_function(emit.builder.module, kind, "sched_yield"), [])
