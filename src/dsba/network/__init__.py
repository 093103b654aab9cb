"""How rows and messages are exchanged, and counters of rounds, DOUBLEs and bytes, behind one contract."""

from dsba.network.contract import COUNTERS, Counts, Group, alike, counted, require_agreement, summed
from dsba.network.imperfect import FLAWS, Activation, Bursty, Changing, Delayed, Lossy
from dsba.network.messages.compression import Compressed
from dsba.network.mpi import MPINetwork
from dsba.network.simulator import Alone, MessageSimulator, Simulator
from dsba.network.transport import Network

__all__ = [
    "COUNTERS", "FLAWS", "Activation", "Alone", "Bursty", "Changing", "Compressed", "Counts", "Delayed", "Group",
    "Lossy", "MPINetwork", "MessageSimulator", "Network", "Simulator", "alike", "counted", "require_agreement",
    "summed",
]  # fmt: skip
