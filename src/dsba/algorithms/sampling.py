"""Which sample each node touches, and random numbers that all share. Randomness is data: it enters as arrays."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dsba.problem.problem import Problem
from dsba.types import Indices

BLOCK = 1024
COINS, PASSES_APART = 0xC0115, 0x9A55  # tell the streams of common numbers and of permutations from the draws
SHUFFLED, INDEPENDENT = "shuffled", "independent"


@lru_cache(maxsize=4096)
def _block(seed: int, node: int, size: int, block: int, order: str) -> Indices:
    if order == INDEPENDENT:
        return np.random.default_rng([seed, node, block]).integers(size, size=BLOCK)
    first = block * BLOCK
    passes = range(first // size, (first + BLOCK - 1) // size + 1)
    samples = np.concatenate([_permutation(seed, node, size, k) for k in passes])
    return samples[first - passes.start * size :][:BLOCK].copy()


@lru_cache(maxsize=32)  # few, as a permutation may be long; a block needs one or two of long ones
def _permutation(seed: int, node: int, size: int, pass_: int) -> Indices:
    return np.random.default_rng([seed, node, pass_, PASSES_APART]).permutation(size)


def draw(
    seed: int, sizes: npt.ArrayLike, first: int, count: int, first_node: int = 0, order: str = INDEPENDENT
) -> Indices:
    """Samples of iterations first .. first+count-1, one column a node, in 0..size-1.

    The ``order`` is "independent", uniform draws, or "shuffled", a fresh permutation of a node's samples in each of
    its passes. Node n's column depends on (seed, n, its size) and the iteration only: not on how often one
    stops, nor on which process owns the node.
    """
    sizes = np.asarray(sizes)
    blocks = range(first // BLOCK, -(-(first + count) // BLOCK))
    out = np.empty((len(blocks) * BLOCK, sizes.size), np.int64)
    for n, size in enumerate(sizes):
        for b, block in enumerate(blocks):
            out[b * BLOCK : (b + 1) * BLOCK, n] = _block(seed, first_node + n, int(size), block, order)
    offset = first - blocks.start * BLOCK
    return np.ascontiguousarray(out[offset : offset + count])


@lru_cache(maxsize=64)
def _coin_block(seed: int, width: int, block: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng([seed, block, COINS]).random((BLOCK, width))


def coins(seed: int, width: int, first: int, count: int) -> npt.NDArray[np.float64]:
    """``width`` numbers in [0, 1) for each of the iterations first .. first+count-1, the same for all nodes."""
    blocks = range(first // BLOCK, -(-(first + count) // BLOCK))
    out = np.concatenate([_coin_block(seed, width, block) for block in blocks])
    offset = first - blocks.start * BLOCK
    return out[offset : offset + count]


def generators(coin: float, nodes: range) -> list[np.random.Generator]:
    """A generator for each of these nodes, from a number that all nodes share and the node's own number."""
    return [np.random.default_rng([int(coin * 2.0**53), n, COINS]) for n in nodes]


def anchor_probability(problem: Problem, batch: int) -> float:
    """With which nodes that take ``batch`` samples an iteration move their anchors: once in a pass, in the mean."""
    return min(1.0, batch / problem.constants.q)


def batches(coin: float, nodes: range, sizes: npt.ArrayLike, count: int) -> Indices:
    """``count`` samples of each node, drawn with replacement: a row has one sample of each node."""
    draws = zip(generators(coin, nodes), np.asarray(sizes), strict=True)
    return np.array([generator.integers(size, size=count) for generator, size in draws]).T
