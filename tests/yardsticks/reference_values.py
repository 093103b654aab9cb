"""Reference values from R, and the tables that they belong to. The README of this folder explains the keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

YARDSTICKS = Path(__file__).parent


def values(subject: str) -> dict[str, Any]:
    """What R found, for example ``values("cox")["cases"]["exact/site/efron"]["params"]["age"]``."""
    return json.loads((YARDSTICKS / f"{subject}.json").read_text())


def table(name: str = "cohort") -> pd.DataFrame:
    """``cohort``: 500 rows; ``gaps``: the same with empty cells; ``small``: 60 rows for formulas."""
    return pd.read_csv(YARDSTICKS / f"{name}.csv")
