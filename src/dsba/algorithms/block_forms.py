"""The forms of DSBA and DSA whose components are blocks of samples (``blocks.py``).

Rounds are few here and each has much to do, so that the dense form lets the rows meet through the network everywhere:
what a fused mixing would save is small beside the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from dsba.algorithms.base import Array, Indices
from dsba.algorithms.forms import DenseForm, LazyForm, Start, metric
from dsba.kernels.blocks import BlockParts, BlockPlan, advance_block_modes, finish_blocks
from dsba.kernels.samples import Samples
from dsba.network import Network
from dsba.problem import Problem

if TYPE_CHECKING:
    from dsba.algorithms.one_sample import OneSample


@dataclass
class BlockDense(DenseForm):
    """One kernel call after each meeting of rows."""

    samples: Samples | None = field(default=None, metadata={"static": True}, kw_only=True)
    blocks: BlockPlan | None = field(default=None, metadata={"static": True}, kw_only=True)

    @classmethod
    def start(cls, method: OneSample, problem: Problem, net: Network, begin: Start) -> Self:
        assert begin.blocks is not None
        form = super().start(method, problem, net, begin)
        return replace(form, samples=begin.blocks.samples, blocks=begin.blocks.plan(metric(form.rule)))

    def advance(self, method: OneSample, problem: Problem, net: Network, samples: Indices) -> Self:
        form = self._advance_meeting(problem, net, samples)
        self.recount(net, self.t, samples, problem.dim)
        return form

    def _land(self, problem: Problem, samples: Indices, apart: Array) -> None:
        parts = BlockParts(self.rule, self.samples, self.blocks)
        finish_blocks(problem.component, parts, samples, self._rows, self.phi, apart)

    def warm_up(self, method: OneSample, problem: Problem, net: Network) -> None:
        self._land(problem, np.zeros(0, np.int64), np.zeros((0, problem.dim)))


@dataclass
class BlockLazy(LazyForm):
    """All iterations in one call, in mode space."""

    samples: Samples | None = field(default=None, metadata={"static": True}, kw_only=True)
    blocks: BlockPlan | None = field(default=None, metadata={"static": True}, kw_only=True)

    @classmethod
    def start(cls, method: OneSample, problem: Problem, net: Network, begin: Start) -> Self:
        assert begin.blocks is not None
        form = super().start(method, problem, net, begin)
        return replace(form, samples=begin.blocks.samples, blocks=begin.blocks.plan(metric(form.rule)))

    def _advance(self, problem: Problem, samples: Indices) -> None:
        copies = problem.k if self.plan.copied else None
        parts = BlockParts(self.rule, self.samples, self.blocks)
        advance_block_modes(problem.component, parts, samples, self.plan, self.state, self.t, copies)
