"""The algorithms. Adding one: a file here and a line in ``REGISTRY``, or a class of your own."""

from __future__ import annotations

from typing import Any

from dsba.algorithms.base import Algorithm, State
from dsba.algorithms.dsa import DSA
from dsba.algorithms.dsba import DSBA
from dsba.errors import InputError, unknown_name

REGISTRY: dict[str, type[Algorithm]] = {
    "dsba": DSBA,
    "dsa": DSA,
}


def names() -> list[str]:
    """All registered algorithm names."""
    return list(REGISTRY)


def get(algorithm: str | Algorithm, **options: Any) -> Algorithm:
    """An algorithm from its registered name and options, or the object itself."""
    if isinstance(algorithm, Algorithm):
        if options:
            raise InputError(f"options go into the algorithm object itself, got {', '.join(options)} beside it.")
        return algorithm
    if algorithm not in REGISTRY:
        raise unknown_name("algorithm", algorithm, REGISTRY)
    cls = REGISTRY[algorithm]
    known = set(cls.__dataclass_fields__)
    for option in options:
        if option not in known:
            raise unknown_name(f"option of {algorithm}", option, known)
    return cls(**options)


__all__ = ["DSA", "DSBA", "REGISTRY", "Algorithm", "State", "get", "names"]
