"""What every model of a table must do on every network, as one function: its answers are compared with the simulator's.

The cases are made from the registry and from what the outcome of a model is, so a model that is registered is tried.
Under mpiexec this file is a program: rank 0 writes what all ranks found as JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dsba
from dsba.fitting.spec import FitSpec
from dsba.network import MPINetwork
from dsba.tables import fit as tables
from dsba.tables.elastic_net import path_of
from dsba.tables.hazards import baseline_hazard, proportional_hazards
from dsba.tables.inputs import as_sites
from dsba.tables.models import MODELS
from dsba.tables.survival import curves_of

sys.path.append(str(Path(__file__).parents[1] / "yardsticks"))
from reference_values import table, values

RIGHT = "age + sex + log(crp) + treated + stage"
COUNTS = "cbind(events, trials - events)"
OUTCOMES = {
    "binary": "readmitted", "count": "los", "positive": "cost", "multiclass": "score", "survival": "Surv(time, died)",
}  # fmt: skip
"""A column of the cohort for each kind of outcome: a model of another kind needs a line here."""
ORDERED = {"levels": {"severity": ["mild", "moderate", "severe"]}}
GUARDED = tuple(float(end) for end in values("cox")["grids"]["guarded"])
FIVE = dsba.Topology.ring(5)
JOINED = ("auc", "auc_low", "auc_high", "auc_within", "roc", "calibration")  # measures of joined bins and groups


class Registered(NamedTuple):
    operator: str
    left: str
    options: dict

    def spec(self, **options):
        formula = f"{self.left} ~ {options.pop('right', RIGHT)}"
        return FitSpec(formula=formula, operator=self.operator, graph="ring", **{**self.options, **options})


def of_registry(name):
    """The cases of one registered model, by name."""
    model = MODELS[name](FitSpec(formula="y ~ x", operator=name), (1, 2, 3))
    if model.labels == "survival":
        sides = {"strata": {"strata": "site"}, "grid": {"strata": None, "grid": GUARDED}}
        return {f"{name}/{side}": Registered(name, OUTCOMES["survival"], options) for side, options in sides.items()}
    if model.ordered:
        return {name: Registered(name, "severity", ORDERED)}
    return {name: Registered(name, OUTCOMES[model.labels], {})}


REGISTERED = {key: case for name in MODELS for key, case in of_registry(name).items()}
REGISTERED["logistic/counts"] = Registered("logistic", COUNTS, {})
REGISTERED["random intercept"] = Registered("linear", "sbp", {"random": "site"})


def own_sites(network, frame=None):
    sites = as_sites(table() if frame is None else frame, "site")
    return [sites[n] for n in network.nodes]


def fitted(name, network, frame=None, **options):
    spec = REGISTERED[name].spec(**options)
    network.reset()
    return tables.fit_sites(own_sites(network, frame), spec, network)


def digest(*parts):
    """Of the bits of arrays and frames."""
    found = hashlib.sha256()
    for part in parts:
        found.update(np.ascontiguousarray(np.asarray(part, np.float64)).tobytes())
    return found.hexdigest()


def answers(network, frame=None):
    """By analysis, the bits that it gives and the rounds that it took."""
    found, sites = {}, own_sites(network, frame)
    for name, case in REGISTERED.items():
        cov = "classical" if case.options.get("random") else "site"
        results = fitted(name, network, frame, cov=cov)
        inference = repr(results.metadata.inference)
        found[name] = [digest(results.params, results.cov_params()), inference, results.rounds]
        if name == "cox/grid":
            stratum = baseline_hazard(results, sites, network).strata["all"]
            found["baseline hazard"] = [digest(*stratum)]
            found["proportional hazards"] = [digest(proportional_hazards(results, sites, network, "log"))]
    spec = FitSpec(formula="Surv(time, died) ~ 1", operator="cox", strata=None, grid=GUARDED)
    found["curve"] = [digest(*curves_of(sites, spec, network).curves.values())]
    spec = FitSpec(formula="readmitted ~ age + treated + years", operator="logistic")
    path = path_of(sites, spec, network, 0.5, [0.05, 0.01], 3)
    found["elastic net"] = [digest(path.coefficients, path.cv)]
    return found


def main(out):
    network = MPINetwork(FIVE, timeout=300)
    everyone = network.share(answers(network), discloses="totals")
    if network.rank == 0:
        Path(out).write_text(json.dumps(everyone))


if __name__ == "__main__":
    main(*sys.argv[1:])
