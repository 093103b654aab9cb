"""How rows and messages meet, and counters of rounds, DOUBLEs and bytes, behind one protocol."""

from dsba.network.base import MessageNetwork, Network, carries_messages
from dsba.network.simulator import MessageSimulator, Simulator

__all__ = ["MessageNetwork", "MessageSimulator", "Network", "Simulator", "carries_messages"]
