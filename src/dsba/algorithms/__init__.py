"""The algorithms. Adding one: a file here and a line in ``REGISTRY``, or a class of your own."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dsba.algorithms.acc_vr_extra import AccVRExtra
from dsba.algorithms.apapc import APAPC
from dsba.algorithms.base import Algorithm, State, WithCoins
from dsba.algorithms.choice import Choice
from dsba.algorithms.d_admm import DADMM
from dsba.algorithms.dgd import DGD
from dsba.algorithms.diging import DIGing
from dsba.algorithms.dlm import DLM
from dsba.algorithms.dsa import DSA
from dsba.algorithms.dsba import DSBA
from dsba.algorithms.dual_averaging import DualAveraging
from dsba.algorithms.dvr import DVR
from dsba.algorithms.extra import EXTRA
from dsba.algorithms.gt_saga import GTSAGA
from dsba.algorithms.lead import LEAD
from dsba.algorithms.msda import MSDA
from dsba.algorithms.newton import Newton
from dsba.algorithms.nids import NIDS
from dsba.algorithms.opapc import OPAPC
from dsba.algorithms.p_extra import PExtra
from dsba.algorithms.pg_extra import PGExtra
from dsba.algorithms.point_saga import PointSAGA
from dsba.algorithms.saga import SAGA
from dsba.algorithms.solam import SOLAM
from dsba.algorithms.ssda import SSDA
from dsba.algorithms.vi_papc import VIPAPC
from dsba.algorithms.vi_papc_vr import VIPAPCVR
from dsba.errors import InputError, unknown_name
from dsba.plugins import load_class

REGISTRY: dict[str, type[Algorithm]] = {
    "dsba": DSBA,
    "dsa": DSA,
    "newton": Newton,
    "extra": EXTRA,
    "dlm": DLM,
    "ssda": SSDA,
    "msda": MSDA,
    "pg-extra": PGExtra,
    "nids": NIDS,
    "apapc": APAPC,
    "opapc": OPAPC,
    "gt-saga": GTSAGA,
    "lead": LEAD,
    "acc-vr-extra": AccVRExtra,
    "dvr": DVR,
    "vi-papc": VIPAPC,
    "vi-papc-vr": VIPAPCVR,
    "dgd": DGD,
    "diging": DIGing,
    "p-extra": PExtra,
    "d-admm": DADMM,
    "dual-averaging": DualAveraging,
    "point-saga": PointSAGA,
    "saga": SAGA,
    "solam": SOLAM,
}


def names() -> list[str]:
    """All registered algorithm names."""
    return list(REGISTRY)


def get(algorithm: str | Algorithm | Choice, **options: Any) -> Algorithm:
    """An algorithm from its registered name (or one's own "file.py:Class") and options, or the object itself."""
    if isinstance(algorithm, Choice):
        chosen = get(algorithm.name, **options)
        return chosen.warm_started() if algorithm.warm else chosen
    if isinstance(algorithm, Algorithm):
        if options:
            raise InputError(f"options go into the algorithm object itself, got {', '.join(options)} beside it.")
        return algorithm
    if isinstance(algorithm, str) and ":" in algorithm:
        cls = load_class(algorithm, Algorithm, "algorithm")
    elif isinstance(algorithm, str) and algorithm in REGISTRY:
        cls = REGISTRY[algorithm]
    else:
        raise unknown_name("algorithm", algorithm, REGISTRY)
    known = {field.name for field in fields(cls)}
    for option in options:
        if option not in known:
            raise unknown_name(f"option of {algorithm}", option, known)
    return cls(**options)


__all__ = [
    "APAPC",
    "DADMM",
    "DGD",
    "DLM",
    "DSA",
    "DSBA",
    "DVR",
    "EXTRA",
    "GTSAGA",
    "LEAD",
    "MSDA",
    "NIDS",
    "OPAPC",
    "REGISTRY",
    "SAGA",
    "SOLAM",
    "SSDA",
    "VIPAPC",
    "VIPAPCVR",
    "AccVRExtra",
    "Algorithm",
    "DIGing",
    "DualAveraging",
    "Newton",
    "PExtra",
    "PGExtra",
    "PointSAGA",
    "State",
    "WithCoins",
    "get",
    "names",
]
