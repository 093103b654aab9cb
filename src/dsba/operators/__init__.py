"""Component operators. Adding one: a file here and a line in ``REGISTRY``, or a class of your own."""

from dsba.errors import InputError, unknown_name
from dsba.operators import compiled as compiled  # teaches Numba what an operator is
from dsba.operators.auc import AUC
from dsba.operators.base import Operator, Saddle, ScalarOperator
from dsba.operators.losses import Huber, Logistic, Poisson, Ridge, SquaredHinge
from dsba.operators.response import DECISIONS, LINKS, LinkFunction, decide, link_of
from dsba.operators.scaled_huber import ScaledHuber
from dsba.operators.softmax import Softmax
from dsba.storage.plugins import load_class

REGISTRY: dict[str, type[Operator]] = {
    "ridge": Ridge, "logistic": Logistic, "auc": AUC, "squared-hinge": SquaredHinge, "huber": Huber, "poisson": Poisson,
    "softmax": Softmax,
}  # fmt: skip


ALIASES = {"linear": "ridge"}
VARIANTS: dict[str, Operator] = {"auc-paper": AUC(centered=False)}
"""Registered operators with other settings; ``names`` leaves them out."""


def names() -> list[str]:
    """The names of all registered operators.

    Returns
    -------
    list[str]
        The names, without aliases.

    Examples
    --------
    >>> import dsba
    >>> "logistic" in dsba.operators.names()
    True
    """
    return list(REGISTRY)


def get(operator: str | Operator) -> Operator:
    """An operator from its registered name, from a user's file ("my_loss.py:Absolute"), or the object itself.

    Parameters
    ----------
    operator : str or Operator
        A registered name, a user's file and class ("my_loss.py:Absolute"), or an operator.

    Returns
    -------
    Operator
        The operator.

    Raises
    ------
    InputError
        If the name is not known, or a class is given instead of an object.

    Examples
    --------
    >>> import dsba
    >>> dsba.operators.get("huber")
    Huber(delta=1.35)
    """
    if isinstance(operator, Operator):
        return operator
    if isinstance(operator, type) and issubclass(operator, Operator):
        raise InputError(f"operator must be an object, got the class {operator.__name__}: write {operator.__name__}().")
    if isinstance(operator, str) and ":" in operator:
        return load_class(operator, Operator, "operator")()
    if isinstance(operator, str) and operator in VARIANTS:
        return VARIANTS[operator]
    name = ALIASES.get(operator, operator) if isinstance(operator, str) else operator
    if not isinstance(name, str) or name not in REGISTRY:
        raise unknown_name("operator", operator, [*REGISTRY, *ALIASES, *VARIANTS])
    return REGISTRY[name]()


__all__ = [
    "AUC", "DECISIONS", "LINKS", "REGISTRY", "Huber", "LinkFunction", "Logistic", "Operator", "Poisson", "Ridge",
    "Saddle", "ScalarOperator", "ScaledHuber", "Softmax", "SquaredHinge", "decide", "get", "link_of", "names",
]  # fmt: skip
