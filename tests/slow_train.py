"""``dsba train`` at a pace that leaves time to disturb it, on any machine: rank 0 waits a little at every pass.

A number before the command is how long it waits, in seconds.
"""

from __future__ import annotations

import sys
import time

from dsba.cli import main
from dsba.cli import train as command

PAUSE = 0.03 if sys.argv[1].isalpha() else float(sys.argv.pop(1))  # seconds


def paced(notify):
    show = printer(notify)

    def wait_and_show(record):
        time.sleep(PAUSE)
        show(record)

    return wait_and_show


printer, command._line_printer = command._line_printer, paced
main()
