"""Tables of three hospitals, for the tests of tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
from queues import together

import dsba
from dsba.fitting.spec import FitSpec
from dsba.tables.terms import ModelTerms, SiteTable

SECRET = "patient-4711"


def hospitals(rows=(60, 40, 25), seed=0):
    """Three tables with columns in another order each, and levels that some never saw."""
    rng = np.random.default_rng(seed)
    frames = {}
    for n, count in enumerate(rows):
        frame = pd.DataFrame(
            {
                "age": rng.integers(20, 90, count).astype(float),
                "sex": rng.choice(["F", "M"], count),
                "ward": rng.choice(["A&E", "cardio", "surgery"][: n + 1], count),
                "crp": rng.exponential(5.0, count) + 0.1,
                "lab": 100 + 0.01 * rng.normal(size=count),
                "year": rng.choice([2001, 2002, 2003], count),
                "outcome": rng.choice(["no", "yes"], count),
                "visits": rng.poisson(2.0, count),
                "cost": rng.normal(5000, 100, count),
                "days": rng.uniform(1, 30, count),
                "secret name": rng.normal(size=count),
            }
        )
        frames[f"site{n}"] = frame[rng.permutation(frame.columns)]
    return frames


OPERATORS = {"real": "linear", "count": "poisson", "binary": "logistic", "multiclass": "softmax"}


def terms(formula, labels="real", missing="error", rare_levels="error", **options):
    """The terms of a formula for outcomes of this kind."""
    options |= {"missing": missing, "rare_levels": rare_levels}
    return ModelTerms.of(FitSpec(formula=str(formula), operator=OPERATORS[labels], **options))


def sites_of(frames):
    return [SiteTable(name, frame) for name, frame in frames.items()]


def pooled(frames):
    return pd.concat([frame.assign(site=name) for name, frame in frames.items()], ignore_index=True)


def on_sites(frames, work):
    """What every site finds when each is a process of its own that has only its own table."""
    names = list(frames)
    return together(
        dsba.Topology.ring(len(names)),
        len(names),
        lambda net: work([SiteTable(names[net.rank], frames[names[net.rank]])], net),
    )
