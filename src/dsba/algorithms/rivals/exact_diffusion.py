"""Exact diffusion (Yuan, Ying, Zhao and Sayed, 2019)."""

from dataclasses import dataclass

from dsba.algorithms.rivals.nids import NIDS


@dataclass(frozen=True)
class ExactDiffusion(NIDS):
    """Adapt, correct, combine:   Psi+ = Z - alpha B(Z),   Phi+ = Psi+ + Z - Psi,   Z+ = W~ Phi+.

    Start: Psi = Z. These are the iterates of NIDS without a penalty, and its summed form makes them.
    """

    name = "exact-diffusion"
    composite = False
