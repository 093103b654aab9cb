"""How rows meet: ``mix`` and counters of rounds, DOUBLEs and bytes behind one protocol."""

from dsba.network.base import Network
from dsba.network.simulator import Simulator

__all__ = ["Network", "Simulator"]
