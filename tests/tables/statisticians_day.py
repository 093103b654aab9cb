"""Table 1, models with splines and contrasts, tests, predictions and evaluations, as one function of a network.

Its answers are compared with the simulator's. Under mpiexec this file is a program: rank 0 writes what all ranks found
as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from dsba.fitting.disclosure import Guards
from dsba.fitting.spec import FitSpec
from dsba.network import MPINetwork
from dsba.tables.describe import describe_sites
from dsba.tables.evaluation import evaluate
from dsba.tables.fit import fit_sites
from dsba.tables.terms import SiteTable

sys.path.append(str(Path(__file__).parents[1] / "yardsticks"))
from reference_values import table
from registered_models import FIVE, JOINED, own_sites

OPEN = Guards(dominance=1.0, leverage=1.0)  # a spline may have rows of its own
COLUMNS = ["age", "sex", "bmi", "crp", "stage", "treated", "readmitted"]
MODELS = {
    "contrasts": ("readmitted ~ age + C(stage, Treatment('II')) + C(sex, Sum) + I(crp > 5)", "logistic",
                  {"cov": "cluster", "clusters": "ward"}),
    "splines": ("cost ~ ns(age, df=3) + bs(bmi, df=4, boundary=(10, 60)) + poly(crp, 2) + scale(years) + center(sbp)",
                "linear", {"cov": "HC3"}),
    "links": ("readmitted ~ age + sex + treated", "probit", {"cov": "HC3"}),
    "products": ("visits ~ (age + sex + treated)**2 + log(crp)", "poisson", {"exposure": "years"}),
}  # fmt: skip


def answers(network):
    """By question, what a process finds. JSON keeps the bits of numbers."""
    sites = own_sites(network)
    network.reset()
    shown = [SiteTable(site.name, site.frame[COLUMNS]) for site in sites]
    found = {f"Table 1 by {by}": describe_sites(shown, network, by=by).plain() for by in ("treated", "site")}
    for name, (formula, operator, options) in MODELS.items():
        found |= {f"{name}: {question}": one for question, one in _model(formula, operator, options, sites, network)}
    return json.loads(json.dumps(found))


def _model(formula, operator, options, sites, network):
    def fitted(text):
        spec = FitSpec(formula=text, operator=operator, graph="ring", guards=OPEN, **options)
        network.reset()
        return fit_sites(sites, spec, network)

    fit, alone = fitted(formula), fitted(f"{formula.partition(' ')[0]} ~ 1")
    rows, measured = table().head(7), evaluate(fit, sites, network, OPEN).plain()["pooled"]
    found = {
        "digest": fit.digest(),
        "summary": {key: value for key, value in fit.plain().items() if key != "rounds"},
        "terms": fit.wald_test_terms().to_numpy(object).tolist(),
        "wald": list(fit.wald_test(np.eye(len(fit.params))[[1, -1]])),
        "t": fit.t_test(np.ones((1, len(fit.params)))).summary_frame().to_numpy(float).tolist(),
        "likelihood ratio": list(fit.compare_lr_test(alone)),
        "predictions": fit.get_prediction(rows).summary_frame().to_numpy(float).tolist(),
        "evaluation": {k: v for k, v in measured.items() if k not in JOINED},
        "curve": {k: measured.get(k) for k in JOINED},
        "alone": alone.digest(),
    }
    return found.items()


def main(out):
    network = MPINetwork(FIVE, timeout=300)
    everyone = network.share(json.dumps(answers(network)), discloses="totals")
    if network.rank == 0:
        Path(out).write_text(json.dumps([json.loads(one) for one in everyone]))


if __name__ == "__main__":
    main(*sys.argv[1:])
