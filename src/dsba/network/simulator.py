"""All nodes in one process."""

from __future__ import annotations

import numpy as np

from dsba.kernels.mixing import mix_rows
from dsba.network.base import Array
from dsba.topology import Topology


class Simulator:
    """Owns every row; counts what the nodes would have received."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.mixing_rows = tuple(np.array(part) for part in topology.mixing_rows)
        self.reset()

    def reset(self) -> None:
        self.rounds = 0
        self.doubles = np.zeros(self.topology.n_nodes)
        self.bytes = np.zeros(self.topology.n_nodes)

    def mix(self, Z: Array) -> Array:
        out = np.empty_like(Z)
        mix_rows(self.mixing_rows, Z, out)
        self.tally(1, Z.shape[1])
        return out

    def laplacian(self, Z: Array) -> Array:
        out = np.empty_like(Z)
        indptr, nodes, weights = self.mixing_rows
        mix_rows((indptr, nodes, np.full_like(weights, -1.0)), Z, out)  # z_n + sum_m (z_n - z_m)
        self.tally(1, Z.shape[1])
        return out - Z

    def tally(self, rounds: int, width: int) -> None:
        received = rounds * width * self.topology.degrees
        self.rounds += rounds
        self.doubles += received
        self.bytes += 8 * received
