"""`python -m tests.soak`: all inputs and all kills; `--share 0.01` is the hundredth part. The same command resumes."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # conftest sits there

from conftest import ROOT
from tests.soak import site_kills, site_noise
from tests.soak.inputs import BAD, NAMES, Ledger, soak_inputs
from tests.soak.kills import KILLS, SERIES, SUBJECTS, Rounds, round_of_kills, soak_kills
from tests.soak.readers import READERS

ROUNDS = {name: Rounds(KILLS, SERIES, partial(round_of_kills, subject)) for name, subject in SUBJECTS.items()}
ROUNDS["kill-sites"] = Rounds(site_kills.KILLS, SERIES, site_kills.round_of_kills)
for noise, count in site_noise.NOISES.items():
    one_round = partial(site_noise.round_of_noise, noise)
    ROUNDS[f"noise-{noise.__name__.replace('_', '-')}"] = Rounds(count, site_noise.SERIES, one_round)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the stated counts")
    parser.add_argument("--only", action="append", choices=[*READERS, *ROUNDS], help="these alone")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--state", type=Path, default=ROOT / ".cache" / "soak", help="folder of counts and failures")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    wanted = given.only or [*READERS, *ROUNDS]
    ledger = Ledger(given.state)
    soak_inputs(ledger, [name for name in wanted if name in READERS], given.share, given.workers)
    for name in wanted:
        if name in ROUNDS:
            soak_kills(ledger, name, ROUNDS[name], given.share)
    return report(ledger, wanted)


def report(ledger: Ledger, wanted: list[str]) -> int:
    """The table of docs/reliability.md; 1 if anything is bad that is not known to wait for a repair."""
    columns = [NAMES[letter] for letter in NAMES]
    print("| reader | inputs | " + " | ".join(columns) + " | a second |")
    print("| --- |" + " ---: |" * (len(columns) + 2))
    failed = 0
    for name in wanted:
        counts = ledger.total(name)
        if name in ROUNDS:
            print(f"{name}: {counts['kills']} disturbances, {counts['different']} ended with other bits")
            failed |= counts["different"] > 0
            continue
        inputs = sum(counts[column] for column in columns)
        rate = 1000 * inputs / max(counts["milliseconds"], 1)
        print(f"| {name} | {inputs:,} | " + " | ".join(f"{counts[c]:,}" for c in columns) + f" | {rate:.0f} |")
        bad = sum(counts[NAMES[letter]] for letter in BAD)
        failed |= bad > 0 and not READERS[name].waits_for
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
