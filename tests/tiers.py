"""Which tests run when. A plugin of pytest, loaded by conftest.py.

The choice depends on the code alone: on no clock, and on nothing that an earlier run has left.

- `make test`, the gate, leaves out what is marked `full`. Of a test with three or more parameters it runs a selection
  in which every pair of values occurs; the other combinations are marked `full` here. Hypothesis draws the same
  examples in every gate, so that its verdict depends on the code alone; `make full` draws new ones.
- `make quick` is the gate of the files that the Makefile lists: those that compile little and start few processes.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import Any

import pytest
from hypothesis import settings


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("gate", derandomize=True)
    settings.load_profile("gate" if config.getoption("markexpr") else "default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pairs of values instead of all combinations."""
    seen: dict[str, set[Any]] = defaultdict(set)
    for item in items:
        values = list(enumerate(item.callspec._idlist)) if hasattr(item, "callspec") else []
        if len(values) < 3:
            continue
        pairs, known = set(combinations(values, 2)), seen[item.nodeid.partition("[")[0]]
        if pairs <= known:
            item.add_marker(pytest.mark.full)
        known |= pairs
