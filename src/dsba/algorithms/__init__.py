"""The algorithms. Adding one: a file here and its class in ``_METHODS``, or a user-defined class."""

from dataclasses import fields
from typing import Any

from dsba._system.docstrings import inherit_parameters
from dsba.algorithms import needs
from dsba.algorithms.base import Algorithm, State, WithCoins
from dsba.algorithms.dsba.dsa import DSA
from dsba.algorithms.dsba.method import DSBA
from dsba.algorithms.newton import Newton
from dsba.algorithms.planner import MethodPlan
from dsba.algorithms.rivals.acc_gt import AccGT
from dsba.algorithms.rivals.acc_vr_extra import AccVRExtra
from dsba.algorithms.rivals.adom_plus import ADOMPlus
from dsba.algorithms.rivals.apapc import APAPC, OPAPC
from dsba.algorithms.rivals.d_admm import DADMM
from dsba.algorithms.rivals.d_bfgs import DBFGS
from dsba.algorithms.rivals.dgd import DGD
from dsba.algorithms.rivals.diging import DIGing
from dsba.algorithms.rivals.dlm import DLM
from dsba.algorithms.rivals.dual_averaging import DualAveraging
from dsba.algorithms.rivals.dual_rbcd import DualRBCD
from dsba.algorithms.rivals.dvr import DVR
from dsba.algorithms.rivals.exact_diffusion import ExactDiffusion
from dsba.algorithms.rivals.extra import EXTRA, PGExtra
from dsba.algorithms.rivals.extragradient import Extragradient
from dsba.algorithms.rivals.gossip_pairwise import GossipPairwise
from dsba.algorithms.rivals.gt_saga import GTSAGA
from dsba.algorithms.rivals.lead import LEAD
from dsba.algorithms.rivals.lt_admm import LTADMM
from dsba.algorithms.rivals.network_newton import NetworkNewton
from dsba.algorithms.rivals.nids import NIDS
from dsba.algorithms.rivals.p_extra import PExtra
from dsba.algorithms.rivals.pmgt_saga import PMGTSAGA
from dsba.algorithms.rivals.proxskip import ProxSkip
from dsba.algorithms.rivals.push_diging import PushDIGing
from dsba.algorithms.rivals.push_pull import PushPull
from dsba.algorithms.rivals.saga import SAGA, PointSAGA
from dsba.algorithms.rivals.solam import SOLAM
from dsba.algorithms.rivals.ssda import MSDA, SSDA
from dsba.algorithms.rivals.vi_papc import VIPAPC
from dsba.algorithms.rivals.vi_papc_vr import VIPAPCVR
from dsba.errors import InputError, require_known, unknown_name
from dsba.storage.plugins import load_class

_METHODS: tuple[type[Algorithm], ...] = (
    DSBA, DSA, Newton, EXTRA, DLM, SSDA, MSDA, PGExtra, NIDS, APAPC, OPAPC, GTSAGA, LEAD, AccVRExtra, DVR, VIPAPC,
    VIPAPCVR, NetworkNewton, DBFGS, DualRBCD, GossipPairwise, DGD, DIGing, PExtra, DADMM, DualAveraging, PointSAGA,
    SAGA, SOLAM, ProxSkip, ExactDiffusion, Extragradient, PMGTSAGA, AccGT, LTADMM, ADOMPlus, PushPull, PushDIGing,
)  # fmt: skip
REGISTRY = {method.name: method for method in _METHODS}
_EXAMPLE = """\
>>> import dsba
>>> problem = dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), "{loss}", n_nodes={n_nodes}, lam=0.1)
>>> len(dsba.solve(problem, dsba.Topology.path({n_nodes}), "{name}", max_passes=2).Z)
{n_nodes}"""
for _method in _METHODS:
    _loss, _nodes = "auc" if needs.auc in _method.needs else "logistic", 1 if needs.one_node in _method.needs else 4
    inherit_parameters(_method, _EXAMPLE.format(name=_method.name, loss=_loss, n_nodes=_nodes))


def names() -> list[str]:
    """The names of all registered algorithms.

    Returns
    -------
    list[str]
        The names.

    Examples
    --------
    >>> import dsba
    >>> dsba.algorithms.names()[:3]
    ['dsba', 'dsa', 'newton']
    """
    return list(REGISTRY)


def get(algorithm: str | Algorithm | MethodPlan, **options: Any) -> Algorithm:
    """An algorithm from its name and options.

    Parameters
    ----------
    algorithm : str or Algorithm or MethodPlan
        A registered name, a user's file and class ("mine.py:Mine"), the plan of a planner, or an algorithm.
    **options : object
        Fields of the algorithm, such as ``batch_size=16``.

    Returns
    -------
    Algorithm
        The algorithm.

    Raises
    ------
    InputError
        If a name or an option is not known.

    Examples
    --------
    >>> import dsba
    >>> dsba.algorithms.get("network-newton", K=2)
    NetworkNewton(step_size='auto', K=2)
    """
    if isinstance(algorithm, MethodPlan):
        chosen = get(algorithm.chosen.name, **algorithm.options, **options)
        return chosen.warm_started() if algorithm.warm else chosen
    if isinstance(algorithm, Algorithm):
        if options:
            raise InputError(f"options go into the algorithm object itself, got {', '.join(options)} beside it.")
        return algorithm
    if isinstance(algorithm, type):
        raise InputError(f"an algorithm is a name or an object: use {algorithm.__name__}() for the class.")
    if isinstance(algorithm, str) and ":" in algorithm:
        cls = load_class(algorithm, Algorithm, "algorithm")
    elif isinstance(algorithm, str) and algorithm in REGISTRY:
        cls = REGISTRY[algorithm]
    else:
        raise unknown_name("algorithm", algorithm, REGISTRY)
    known = {field.name for field in fields(cls)}
    for option in options:
        require_known(f"option of {algorithm}", option, known)
    return cls(**options)


__all__ = [
    "APAPC", "DADMM", "DBFGS", "DGD", "DLM", "DSA", "DSBA", "DVR", "EXTRA", "GTSAGA", "LEAD", "LTADMM", "MSDA", "NIDS",
    "OPAPC", "PMGTSAGA", "REGISTRY", "SAGA", "SOLAM", "SSDA", "VIPAPC", "VIPAPCVR", "ADOMPlus", "AccGT", "AccVRExtra",
    "Algorithm", "DIGing", "DualAveraging", "DualRBCD", "ExactDiffusion", "Extragradient", "GossipPairwise",
    "NetworkNewton", "Newton", "PExtra", "PGExtra", "PointSAGA", "ProxSkip", "PushDIGing", "PushPull", "State",
    "WithCoins", "get", "names",
]  # fmt: skip
