"""The algorithms. Adding one: a file here and a line in ``REGISTRY``, or a class of your own."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dsba.algorithms.base import Algorithm, State, WithCoins
from dsba.algorithms.dsba.dsa import DSA
from dsba.algorithms.dsba.method import DSBA
from dsba.algorithms.newton import Newton
from dsba.algorithms.planner import Choice
from dsba.algorithms.rivals.acc_vr_extra import AccVRExtra
from dsba.algorithms.rivals.apapc import APAPC
from dsba.algorithms.rivals.d_admm import DADMM
from dsba.algorithms.rivals.d_bfgs import DBFGS
from dsba.algorithms.rivals.dgd import DGD
from dsba.algorithms.rivals.diging import DIGing
from dsba.algorithms.rivals.dlm import DLM
from dsba.algorithms.rivals.dual_averaging import DualAveraging
from dsba.algorithms.rivals.dual_rbcd import DualRBCD
from dsba.algorithms.rivals.dvr import DVR
from dsba.algorithms.rivals.extra import EXTRA
from dsba.algorithms.rivals.gossip_pairwise import GossipPairwise
from dsba.algorithms.rivals.gt_saga import GTSAGA
from dsba.algorithms.rivals.lead import LEAD
from dsba.algorithms.rivals.msda import MSDA
from dsba.algorithms.rivals.network_newton import NetworkNewton
from dsba.algorithms.rivals.nids import NIDS
from dsba.algorithms.rivals.opapc import OPAPC
from dsba.algorithms.rivals.p_extra import PExtra
from dsba.algorithms.rivals.pg_extra import PGExtra
from dsba.algorithms.rivals.point_saga import PointSAGA
from dsba.algorithms.rivals.saga import SAGA
from dsba.algorithms.rivals.solam import SOLAM
from dsba.algorithms.rivals.ssda import SSDA
from dsba.algorithms.rivals.vi_papc import VIPAPC
from dsba.algorithms.rivals.vi_papc_vr import VIPAPCVR
from dsba.errors import InputError, unknown_name
from dsba.storage.plugins import load_class

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
    "network-newton": NetworkNewton,
    "d-bfgs": DBFGS,
    "dual-rbcd": DualRBCD,
    "gossip-pairwise": GossipPairwise,
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
    "DBFGS",
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
    "DualRBCD",
    "GossipPairwise",
    "NetworkNewton",
    "Newton",
    "PExtra",
    "PGExtra",
    "PointSAGA",
    "State",
    "WithCoins",
    "get",
    "names",
]
