"""``dsba train`` at a pace that leaves time to disturb it, on any machine: rank 0 waits a little at every pass."""

from __future__ import annotations

import time

from dsba.cli import main
from dsba.cli import train as command

PAUSE = 0.03  # seconds


def paced():
    show = printer()

    def wait_and_show(record):
        time.sleep(PAUSE)
        show(record)

    return wait_and_show


printer, command._line_printer = command._line_printer, paced
main()
