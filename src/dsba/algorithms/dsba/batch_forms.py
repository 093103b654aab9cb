"""The forms of DSBA and DSA whose components are blocks of samples (``batches.py``).

Rounds are few here and each has much to do, so that the dense form lets the rows meet through the network everywhere:
what a fused mixing would save is small beside the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from dsba.algorithms.dsba.dense import DenseForm, rehearse_meeting
from dsba.algorithms.dsba.form import Start
from dsba.algorithms.dsba.lazy import LazyForm, metric
from dsba.kernels.batches import BlockParts, advance_block_modes, finish_blocks
from dsba.kernels.dense import Recursion
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Array, Indices

if TYPE_CHECKING:
    from dsba.algorithms.dsba.one_sample import OneSample


@dataclass
class BlockDense(DenseForm):
    """One kernel call after each meeting of rows."""

    parts: BlockParts | None = field(default=None, metadata={"static": True}, kw_only=True)

    @classmethod
    def start(cls, method: OneSample, problem: Problem, net: Network, begin: Start) -> Self:
        form = super().start(method, problem, net, begin)
        return replace(form, parts=_parts(form.rule, begin))

    def advance(self, method: OneSample, problem: Problem, net: Network, samples: Indices) -> Self:
        form = self._advance_meeting(problem, net, samples)
        self.recount(net, self.t, samples, problem.dim)
        return form

    def _land(self, problem: Problem, samples: Indices, apart: Array) -> None:
        finish_blocks(problem.component, self.parts, samples, self._rows, self.phi, apart)

    def warm_up(self, method: OneSample, problem: Problem, net: Network) -> None:
        rehearse_meeting(net, self.Z)
        self._land(problem, np.zeros(0, np.int64), np.zeros((0, problem.dim)))


@dataclass
class BlockLazy(LazyForm):
    """All iterations in one call, in mode space."""

    parts: BlockParts | None = field(default=None, metadata={"static": True}, kw_only=True)

    @classmethod
    def start(cls, method: OneSample, problem: Problem, net: Network, begin: Start) -> Self:
        form = super().start(method, problem, net, begin)
        return replace(form, parts=_parts(form.rule, begin))

    def _advance(self, problem: Problem, samples: Indices) -> None:
        data = (problem.component, self.parts, samples, self.plan, self.state, self.t)
        advance_block_modes(*data, self.share(problem))


def _parts(rule: Recursion, begin: Start) -> BlockParts:
    assert begin.blocks is not None
    return BlockParts(rule, begin.blocks.samples, begin.blocks.plan(metric(rule)))
