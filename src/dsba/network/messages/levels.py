"""Rows as compressed differences from what the neighbours know already (docs/rounds.md).

Every node keeps H, what its neighbours know of its row z, and a copy of the H of every neighbour. In a round it sends
the code C(z - H). All use z^ = H + C(z - H) in place of z, and H moves half of the way to z^, at all ends alike.

C rounds each number to a multiple of a scale s, one of 5 levels from -2s to 2s: s is half the largest magnitude, as a
float32 rounded up. Where that is too coarse, a node takes 9, 17, ... 129 levels, or sends its row as it is. It is too
coarse if omega kappa > 3/4, with omega = ||C(D) - D||^2 / ||D||^2 for D = z - H, and
kappa_n = (3/2 - W_nn)^2 + sum_{m != n} W_nm^2.

``wire.py`` specifies the frames.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dsba.kernels.levels import add_levels, largest_difference, round_to_levels
from dsba.kernels.mixing import difference_rows
from dsba.network.contract import ITERATES
from dsba.network.messages import wire
from dsba.network.transport import Network
from dsba.types import Array

COARSEST_HALF, FINEST_HALF = 2, 64  # 5 and 129 levels; beyond that a row goes as it is
LARGEST_SCALE = float(np.finfo(np.float32).max)
MOST_LOST = 0.75  # of omega kappa


@dataclass(frozen=True)
class Compression:
    """How rows are coded. With ``half`` above ``FINEST_HALF`` every row goes as it is: the identity."""

    half: int = COARSEST_HALF
    """2 half + 1 levels, at least."""
    guarded: bool = True
    """Whether more levels are taken where they are needed."""

    def coded(self, node: int, z: Array, known: Array, u: Array, kappa: float) -> wire.CodedRow:
        """The code of node's row. A difference d becomes floor(d/s + u) levels: with u = 1/2 the nearest one."""
        half, top = self.half, largest_difference(z, known)
        levels = np.zeros(z.size, np.int8)
        while half <= FINEST_HALF and top < LARGEST_SCALE:
            scale = _rounded_up(top / half)
            lost, norm = round_to_levels(z, known, u, scale, levels) if top > 0.0 else (0.0, 0.0)
            if not self.guarded or not lost * kappa > MOST_LOST * norm:
                return wire.CodedRow(wire.encode_levels(half, scale, levels), levels, scale, None)
            half *= 2
        return wire.CodedRow(wire.encode_dense(node, z), levels, 0.0, z)


class CompressedRows:
    """The rows of the nodes here and of their neighbours elsewhere, as all of them know these rows.

    An array H has the known rows: those of the nodes here first, in order, then the copies.
    """

    def __init__(self, net: Network, dim: int, compression: Compression) -> None:
        self.net, self.dim, self.compression = net, dim, compression
        self.near: list[list[int]] = [net.topology.neighbors[n].tolist() for n in net.nodes]
        elsewhere = sorted({m for near in self.near for m in near} - set(net.nodes))
        self.place = {n: i for i, n in enumerate([*net.nodes, *elsewhere])}
        indptr, nodes, weights = net.topology.mixing.rows
        own = slice(indptr[net.nodes.start], indptr[net.nodes.stop])
        ends = indptr[net.nodes.start : net.nodes.stop + 1] - indptr[net.nodes.start]
        heard, listener = nodes[own].tolist(), np.repeat(np.arange(len(net.nodes)), np.diff(ends))
        self.links = list(zip(listener.tolist(), heard, strict=True))
        self.weights = ends, np.array([self.place[m] for m in heard], np.int64), np.array(weights[own])
        at_home = self.weights[1] == listener
        squares = np.where(at_home, 2.5 - 2 * self.weights[2], 2 * self.weights[2]) ** 2  # of 3/2 - W_nn and W_nm
        self.kappas = np.add.reduceat(squares, ends[:-1]).tolist()
        self.nearest = np.full(dim, 0.5)

    def start(self, z0: Array) -> Array:
        """What all know before the first round: every row is z0. One array for each round of the mixing."""
        return np.tile(z0, (self.net.topology.mixing.rounds, len(self.place), 1))

    def differences(self, Z: Array, H: Array, draws: Sequence[Array] | None = None) -> tuple[Array, Array]:
        """(I - W~) Z^ from the messages of as many rounds as the mixing has, and H after them."""
        known = iter(H := H.copy())

        def one_round(rows: Array) -> Array:
            return self._one_round(rows, next(known), draws or [self.nearest] * len(rows))

        return self.net.topology.mixing.differences(one_round, Z), H

    def _one_round(self, Z: Array, H: Array, draws: Sequence[Array]) -> Array:
        """H changes in place. In place of a row that it did not hear, a node takes its own row."""
        own = [
            self.compression.coded(n, *row)
            for n, *row in zip(self.net.nodes, Z, H, draws, self.kappas, strict=False)  # H has copies after these rows
        ]
        indptr, places, weights = self.weights
        if self.net.local_mixing() is not None:
            rows = dict(zip(self.net.nodes, own, strict=True))
            self._count([[rows[m] for m in near] for near in self.near])
            frames = [sum(len(rows[m].entry) + wire.HEADER_BYTES for m in near) for near in self.near]
            self.net.count(1, 0, 0, frames)
        else:
            boxes = self._exchange(own)
            self._count([list(box.values()) for box in boxes])
            rows = dict(zip(self.net.nodes, own, strict=True)) | {m: row for box in boxes for m, row in box.items()}
            weights = weights * [m in boxes[row] for row, m in self.links]
        seen, out = H.copy(), np.empty_like(Z)
        for node, row in rows.items():
            _take_in(row, H[self.place[node]], seen[self.place[node]])
        difference_rows((indptr, places, weights), seen, out)
        return out

    def _exchange(self, rows: list[wire.CodedRow]) -> list[dict[int, wire.CodedRow]]:
        """For each node here, the rows that it heard."""
        net, round_ = self.net, self.net.rounds % 2**32
        outboxes = [
            {m: wire.pack(wire.Header(net.session, n, m, round_), [row.entry]) for m in near}
            for n, near, row in zip(net.nodes, self.near, rows, strict=True)
        ]
        heard = net.exchange(outboxes, discloses=ITERATES)
        return [
            {m: self._read(frame, wire.Header(net.session, m, n, round_)) for m, frame in sorted(box.items())}
            for n, box in zip(net.nodes, heard, strict=True)
        ]

    def _read(self, frame: bytes, header: wire.Header) -> wire.CodedRow:
        return wire.unpack_row(frame, header, self.net.topology.n_nodes, self.dim)

    def _count(self, received: list[list[wire.CodedRow]]) -> None:
        """Numbers and other bytes of the entries that every node received; rounds and frames are counted elsewhere."""
        doubles = np.array([self.dim * sum(row.row is not None for row in rows) for rows in received])
        self.net.count(0, doubles, [sum(len(row.entry) for row in rows) for rows in received] - 8 * doubles, 0)


def _take_in(coded: wire.CodedRow, known: Array, seen: Array) -> None:
    """seen <- z^;  known <- H+, in place."""
    if coded.row is None:
        add_levels(coded.scale, coded.levels, known, seen)
    else:
        seen[:] = coded.row
        known += 0.5 * (coded.row - known)


def _rounded_up(scale: float) -> float:
    """The smallest float32 that is not below."""
    near = np.float32(scale)
    return float(near if float(near) >= scale else np.nextafter(near, np.float32(math.inf)))
