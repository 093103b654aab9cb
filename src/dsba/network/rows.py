"""What networks of rows share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dsba.kernels.mixing import difference_rows, mix_rows
from dsba.network.base import Array
from dsba.topology import Topology


class Rows:
    """The owned rows of sums over neighbours, and counters.

    ``_meet`` says how an owned row comes to its neighbours' rows: it gives an array in which the owned rows
    come first and every neighbour's row is where ``mixing_rows`` says.
    """

    topology: Topology
    nodes: range
    mixing_rows: tuple[Any, Any, Any]

    @property
    def degrees(self) -> npt.NDArray[np.int64]:
        return self.topology.degrees[self.nodes.start : self.nodes.stop]

    def reset(self) -> None:
        self.rounds = 0
        self.doubles, self.index_bytes, self.bytes = np.zeros((3, len(self.nodes)))

    def _meet(self, Z: Array) -> Array:
        raise NotImplementedError

    def mix(self, Z: Array) -> Array:
        return self._sum(mix_rows, self.mixing_rows, Z)

    def differences(self, Z: Array) -> Array:
        return self._sum(difference_rows, self.mixing_rows, Z)

    def laplacian(self, Z: Array) -> Array:
        indptr, nodes, weights = self.mixing_rows
        return self._sum(difference_rows, (indptr, nodes, np.ones_like(weights)), Z)

    def _sum(self, kernel: Any, mixing: Any, Z: Array) -> Array:
        out = np.empty_like(Z)
        kernel(mixing, self._meet(Z), out)
        self.tally(1, Z.shape[1])
        return out

    def tally(self, rounds: int, width: int) -> None:
        received = rounds * width * self.degrees
        self.count(rounds, received, 0, 8 * received)

    def count(self, rounds: int, doubles: npt.ArrayLike, index_bytes: npt.ArrayLike, bytes: npt.ArrayLike) -> None:
        self.rounds += rounds
        self.doubles += np.asarray(doubles)
        self.index_bytes += np.asarray(index_bytes)
        self.bytes += np.asarray(bytes)
