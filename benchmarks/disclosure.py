"""How often the disclosure checks refuse ordinary cohorts, how many attacks they catch, and the coverage by few sites.

`python -m benchmarks.disclosure` writes benchmarks/disclosure.json, which docs/privacy.md shows. Every cohort is fitted
as between owners: all checks are made, and the first sentence ends the fit.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

import dsba
from dsba.fitting.disclosure import Guards
from dsba.fitting.spec import FitSpec
from dsba.network import Alone
from dsba.tables.clustered import cr2
from dsba.tables.design import Design
from dsba.tables.families import FAMILIES
from dsba.tables.fit import fit_sites
from dsba.tables.inputs import as_sites
from dsba.tables.signs import signs_of

RESULTS = Path(__file__).with_suffix(".json")
COHORTS, DRAWS, SIMULATIONS, SEEDS = 500, 40, 2000, (0, 1, 2)


class Owners(dsba.Simulator):
    """All sites in one process, which is told that there are others: checks end the fit, as between owners."""

    def __init__(self, topology: dsba.Topology) -> None:
        super().__init__(topology)
        self.size = 2

    def _collect(self, own: bytes, discloses: str) -> list[bytes]:
        return [own]

    def _ask(self, own: bytes, merge: Callable[[bytes, bytes], bytes]) -> bytes:
        return own


def refusal(frame: pd.DataFrame, formula: str, operator: str) -> str:
    """The sentence that ends the fit between owners, or nothing.

    A sentence that also ends the fit without guards, as of a model without a solution, is no matter of disclosure.
    """
    sites, said = as_sites(frame, "site"), list[str]()
    for guards in (Guards(rows=0), Guards.off()):  # how many rows a site has is not what is measured
        spec = FitSpec(formula=formula, operator=operator, graph="ring", guards=guards)
        try:
            fit_sites(sites, spec, Owners(spec.topology(len(sites))))
        except dsba.DsbaError as error:
            said.append(str(error))
        else:
            break
    return said[0] if len(set(said)) == len(said) > 0 else ""


# Ordinary cohorts --------------------------------------------------------------------------------


def cohort(rng: np.random.Generator) -> tuple[pd.DataFrame, list[str]]:
    """60 to 5,000 rows at 3 to 6 sites, n >= 10 p, a quarter of the columns lognormal(1.5), some rare factors."""
    n = int(np.exp(rng.uniform(np.log(60), np.log(5000))))
    p = int(rng.integers(3, min(13, n // 10)))
    site = rng.integers(0, rng.integers(3, 7), n)
    columns = {}
    for j in range(p - 1):
        kind = rng.choice(["skewed", "rare", "usual", "usual"])
        if kind == "skewed":
            columns[f"skewed{j}"] = np.exp(1.5 * rng.normal(size=n))
        elif kind == "rare":
            columns[f"rare{j}"] = (rng.permutation(n) < max(10, rng.uniform(0.02, 0.1) * n)).astype(float)
        else:
            columns[f"usual{j}"] = rng.normal(size=n)
    frame = pd.DataFrame(columns)
    score = frame.rank(pct=True).sub(0.5).sum(axis=1)
    frame["y"] = rng.random(n) < 1 / (1 + np.exp(-score))
    frame["y"] = frame["y"].astype(int)
    return frame.assign(site=site.astype(str)), list(columns)


def named(sentence: str, columns: list[str]) -> set[str]:
    return {c for c in columns if re.search(rf"\b{c}\b", sentence)}


def cured(columns: list[str], refused: set[str], function: str) -> list[str]:
    """The columns of the formula after what the sentence names was done: a function of skewed ones, others left out."""
    kept = [c for c in columns if c not in refused or c.startswith("skewed")]
    return [f"{function}({c})" if c in refused else c for c in kept]


def ordinary() -> dict[str, Any]:
    """Shares of the cohorts that are refused, for each seed."""
    return {str(seed): _ordinary(seed) for seed in SEEDS}


def _ordinary(seed: int) -> dict[str, float]:
    """As they are, and after the cure that each sentence names was taken: as often as there are columns to cure."""
    rng, counts = np.random.default_rng(seed), {"raw": 0, "log": 0, "cap": 0}
    for _ in range(COHORTS):
        frame, columns = cohort(rng)
        first = refusal(frame, "y ~ " + " + ".join(columns), "logistic")
        counts["raw"] += bool(first)
        for function in ("log", "cap") if first else ():
            counts[function] += bool(_after_cures(frame, columns, first, function))
    return {name: count / COHORTS for name, count in counts.items()}


def _after_cures(frame: pd.DataFrame, columns: list[str], sentence: str, function: str) -> str:
    """The sentence that is left when every named column was cured once."""
    refused = set[str]()
    while sentence:
        more = named(sentence, columns) - refused
        if not more:
            break
        refused |= more
        right = cured(columns, refused, function)
        sentence = refusal(frame, "y ~ " + " + ".join(right), "logistic") if right else ""
    return sentence


# Signs of trouble --------------------------------------------------------------------------------

WARDS = [0.3, 0.2, 0.1, 0.1, 0.1, 0.08, 0.05, 0.04, 0.02, 0.01]  # shares of the levels of a factor


def signs() -> dict[str, float]:
    """Shares of ordinary cohorts with a sign of trouble, by how far sites lie apart, in standard deviations."""
    return {str(apart): _with_signs(apart) for apart in (0.0, 0.3, 0.6)}


def _with_signs(apart: float, seed: int = 3) -> float:
    rng, count = np.random.default_rng(seed), 0
    for _ in range(COHORTS):
        frame, columns = cohort(rng)
        shift = {site: apart * rng.normal(size=len(columns)) for site in sorted(frame["site"].unique())}
        moved = np.array([shift[site] for site in frame["site"]])
        for column, more in zip(columns, moved.T, strict=True):
            if column.startswith("usual"):
                frame[column] += more
            elif column.startswith("skewed"):
                frame[column] *= np.exp(1.5 * more)
        frame["ward"] = rng.choice(list("abcdefghij"), len(frame), p=WARDS)
        sites = as_sites(frame, "site")
        numbers = {column: [one.frame[column].to_numpy(np.float64) for one in sites] for column in columns}
        count += bool(signs_of(sites, numbers, {"ward": sorted(frame["ward"].unique())}, Alone(), 3))
    return count / COHORTS


# Attacks -----------------------------------------------------------------------------------------


def victims(rng: np.random.Generator) -> pd.DataFrame:
    n = int(np.exp(rng.uniform(np.log(100), np.log(3000))))
    frame = pd.DataFrame({"age": rng.uniform(20, 90, n), "bmi": rng.normal(27, 4, n), "crp": rng.exponential(5, n)})
    frame["cost"], frame["died"] = rng.normal(size=n), rng.integers(0, 2, n)
    return frame.assign(site=rng.integers(0, 4, n).astype(str))


def cell(frame: pd.DataFrame, rng: np.random.Generator, rows: int = 1) -> str:
    frame["cell"] = (np.arange(len(frame)) < rows).astype(float)
    return "cost ~ age + bmi + cell"


def product(frame: pd.DataFrame, rng: np.random.Generator) -> str:
    frame["old"] = (np.arange(len(frame)) % 2).astype(float)
    frame["ill"] = 1.0 - frame["old"]
    frame.loc[0, ["old", "ill"]] = 1.0
    return "cost ~ age + old + old:ill"


def peak(frame: pd.DataFrame, rng: np.random.Generator, persons: int = 1) -> str:
    """exp(-k (age - a)^2): k is large enough to tell the persons from their neighbours in age."""
    frame["age"] = np.sort(frame["age"])
    at = len(frame) // 2
    frame.loc[at + 1 : at + persons - 1, "age"] = frame.loc[at, "age"]
    frame.loc[at : at + persons - 1, "site"] = [str(n) for n in range(persons)]
    a, others = float(frame.loc[at, "age"]), np.delete(frame["age"].to_numpy(), range(at, at + persons))
    sharp = 10 ** rng.uniform(0.5, 3) / np.abs(others - a).min() ** 2
    return f"cost ~ bmi + exp(-{sharp:.6e}*((age-{a!r})*(age-{a!r})))".replace("e+", "e")


def difference(frame: pd.DataFrame, rng: np.random.Generator) -> str:
    frame["twin"] = frame["crp"] + (np.arange(len(frame)) == 0)
    return "cost ~ age + crp + twin"


def copied(frame: pd.DataFrame, rng: np.random.Generator) -> str:
    frame["copy"] = frame["cost"] + (np.arange(len(frame)) == 0)
    return "cost ~ age + copy"


def event(frame: pd.DataFrame, rng: np.random.Generator) -> str:
    frame["died"] = (np.arange(len(frame)) == 0).astype(int)
    return "died ~ age + bmi"


def extreme(frame: pd.DataFrame, rng: np.random.Generator) -> str:
    frame.loc[0, "crp"] = 1e7
    return "cost ~ age + crp"


def extreme_outcome(frame: pd.DataFrame, rng: np.random.Generator) -> str:
    frame.loc[0, "cost"] = 1e7
    return "cost ~ age + crp"


ATTACKS: dict[str, Callable[[pd.DataFrame, np.random.Generator], str]] = {
    "a column that is 1 in one row": cell,
    "a column that is 1 in two rows": lambda frame, rng: cell(frame, rng, 2),
    "a product that is 1 in one row": product,
    "a smooth function that singles out one person": peak,
    "a smooth function that singles out two persons at two sites": lambda frame, rng: peak(frame, rng, 2),
    "a smooth function that singles out three persons at three sites": lambda frame, rng: peak(frame, rng, 3),
    "two columns that differ in one row": difference,
    "a column that is the outcome but for one row": copied,
    "one event": event,
    "one value far from all others": extreme,
    "one outcome far from all others": extreme_outcome,
}


def caught(seed: int = 1) -> dict[str, float]:
    """The share of the draws of each attack that is refused."""
    rng, found = np.random.default_rng(seed), {}
    for name, attack in ATTACKS.items():
        count = 0
        for _ in range(DRAWS):
            frame = victims(rng)
            formula = attack(frame, rng)
            count += bool(refusal(frame, formula, "logistic" if formula.startswith("died") else "linear"))
        found[name] = count / DRAWS
    return found


# Coverage ----------------------------------------------------------------------------------------


def covered(sites: int, seed: int = 2) -> dict[str, float]:
    """How often 95 % intervals with cov="site" hold the slopes of x, which differs by site, and of w."""
    rng, hits = np.random.default_rng(seed), np.zeros(2)
    for _ in range(SIMULATIONS):
        site = np.repeat(np.arange(sites), rng.integers(20, 60, sites))
        between, within = rng.normal(size=sites)[site], rng.normal(size=site.size)
        shift, slope = 0.5 * rng.normal(size=(2, sites))[:, site]
        y = rng.normal(size=site.size) + shift + slope * within
        X = np.column_stack([np.ones(site.size), between + rng.normal(size=site.size), within])
        bread = np.linalg.inv(X.T @ X)
        slopes = bread @ (X.T @ y)
        one, zero = np.ones_like(y), np.zeros_like(y)
        parts = [Design((), *(part[site == n] for part in (X, y, one, zero))) for n in range(sites)]
        found = cr2(SimpleNamespace(designs=parts), slopes, FAMILIES["gaussian"], bread, np.eye(3), Alone())
        reach = stdtrit(found.df, 0.975) * np.sqrt(np.diag(found.covariance))
        hits += (np.abs(slopes) <= reach)[1:]
    return dict(zip(("x", "w"), (hits / SIMULATIONS).tolist(), strict=True))


PARTS: dict[str, Callable[[], Any]] = {
    "ordinary": ordinary,
    "signs": signs,
    "caught": caught,
    "coverage": lambda: {str(sites): covered(sites) for sites in (3, 5, 10)},
}


def main(wanted: list[str]) -> None:
    for name in wanted or PARTS:
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        known[name] = PARTS[name]()
        RESULTS.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
