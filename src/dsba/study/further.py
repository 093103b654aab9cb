"""What a study computes beside its model: survival curves and a path of elastic nets, as files for every site."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dsba.fitting.spec import FitSpec
from dsba.network import Network, counted
from dsba.study.file import Study
from dsba.tables.elastic_net import ElasticNetPath, PathOptions, path_of
from dsba.tables.fit import training_rows
from dsba.tables.formula import parse, quoted
from dsba.tables.schema import enforce, usable_rows
from dsba.tables.survival import SurvivalCurves, curves_of
from dsba.tables.terms import ModelTerms, SiteTable

CURVES, PATH = "curves", "elastic-net"  # .json and .csv
COUNTED = "As sums over all sites, of the curves: events and other rows by interval of time{by}."
FOLDED = "As sums over all sites, of the elastic nets: gradients, Hessians and losses of all rows{folds}."


def require_like_rows(study: Study, site: SiteTable, spec: FitSpec, network: Network) -> None:
    """An error where few rows are in the curves and not in the model, or the other way round."""
    model, curves = (usable_rows(site.frame, terms).index for terms in (study.terms, terms_of_curves(study, spec)))
    own = np.array([[len(curves.difference(model)), len(model.difference(curves))]], np.float64)
    total = counted(network, own)
    enforce(network, [spec.guards.few_left_out(int(count)) for count in (*total, *np.subtract(total, own[0]))])


def further_files(study: Study, sites: Sequence[SiteTable], spec: FitSpec, network: Network) -> dict[str, bytes]:
    """What the sections of the study ask for, by the names of the files; ``spec`` has the guards of the site."""
    found: dict[str, SurvivalCurves | ElasticNetPath] = {}
    if study.curves is not None:
        found[CURVES] = curves_of(sites, _of_curves(study, spec), network)
    if study.elastic_net is not None:
        held = zip(network.nodes, sites, strict=True)  # the sums of all rows less the model's are of those held out
        own = [SiteTable(one.name, training_rows(one.frame, study.terms, int(node))) for node, one in held]
        found[PATH] = path_of(own, spec, network, *PathOptions(**study.elastic_net.model_dump()))
    files = {}
    for name, one in found.items():
        frame = one.to_frame()
        files[f"{name}.json"] = json.dumps(one.plain()).encode()
        files[f"{name}.csv"] = frame.to_csv(index=frame.index.name is not None).encode()
    return files


def further_names(study: Study) -> list[str]:
    """The names of these files."""
    asked = {CURVES: study.curves, PATH: study.elastic_net}
    return [f"{name}.{kind}" for name, section in asked.items() if section is not None for kind in ("json", "csv")]


def leaving_further(study: Study) -> list[str]:
    """What the sums of these sections tell, as sentences."""
    lines = []
    if study.curves is not None:
        by = study.curves.by
        lines.append(COUNTED.format(by="" if by is None else f" and by {by}"))
    if study.elastic_net is not None:
        folds = study.elastic_net.folds
        lines.append(FOLDED.format(folds="" if folds is None else f" and without each of {folds} folds"))
    return lines


def terms_of_curves(study: Study, spec: FitSpec) -> ModelTerms:
    """The terms of the curves."""
    return ModelTerms.of(_of_curves(study, spec))


def _of_curves(study: Study, spec: FitSpec) -> FitSpec:
    """The specification of the curves: the outcome, strata and grid of the model."""
    by = None if study.curves is None else study.curves.by
    formula = f"{parse(str(spec.formula)).left} ~ {'1' if by is None else quoted(by)}"
    levels = {} if by is None else {by: study.levels[by]}
    asked = FitSpec(formula=formula, operator="cox", strata=spec.strata, grid=spec.grid, levels=levels)
    missing = "error" if spec.missing == "error" else "drop"
    return replace(asked, missing=missing, graph=spec.graph, mixing=spec.mixing, guards=spec.guards)
