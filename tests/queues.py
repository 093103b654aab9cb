"""A transport of queues between threads: the shortest there is, to show that the contract is complete."""

from __future__ import annotations

import queue
import threading

from dsba.errors import NetworkError
from dsba.network import Network
from dsba.network.mpi import silence


class QueueNetwork(Network):
    """The nodes of one thread; every pair of threads has a queue in each direction."""

    def __init__(self, topology, rank, size, queues, timeout=300.0):
        super().__init__(topology, rank, size)
        self.queues, self.timeout = queues, timeout

    def send(self, peer, message, purpose):
        self.queues[self.rank, peer].put((purpose, message))

    def receive(self, peer, purpose):
        try:
            found, message = self.queues[peer, self.rank].get(timeout=self.timeout)
        except queue.Empty:
            raise silence(self.rank, [peer], self.timeout) from None
        assert found == purpose
        return message


class LeavingNetwork(QueueNetwork):
    """A network whose threads say that they leave."""

    def receive(self, peer, purpose):
        found, message = self.queues[peer, self.rank].get(timeout=self.timeout)
        if found is None:
            raise NetworkError("another one has left")
        assert found == purpose
        return message


def ends_of(size, make, work):
    """What becomes of ``work(network)`` in each thread, also an error; and the networks that ``make`` made."""
    queues = {(a, b): queue.Queue() for a in range(size) for b in range(size)}
    nets = [make(rank, queues) for rank in range(size)]

    def one(rank):
        try:
            return work(nets[rank])
        except Exception as error:
            return error
        finally:
            for other in range(size):
                queues[rank, other].put((None, b""))

    return side_by_side(size, one), nets


def together(topology, size, work, timeout=300.0):
    """``work(network)`` in ``size`` threads at once: their answers in order, or the first error."""
    queues = {(a, b): queue.Queue() for a in range(size) for b in range(size)}
    return side_by_side(size, lambda rank: work(QueueNetwork(topology, rank, size, queues, timeout)))


def side_by_side(size, work):
    """``work(rank)`` in ``size`` threads at once: their answers in order, or the first error."""
    answers, errors = [None] * size, []

    def one(rank):
        try:
            answers[rank] = work(rank)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return answers
