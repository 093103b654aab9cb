"""How data, problems, networks and methods are called in figures, tables and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsba.data import registry

COMMUNICATION = {"dense": "", "sparse": "-s", "cached": "-c"}  # what it adds to a method's title


def class_name(name: str) -> str:
    """The class of "folder/file.py:Class" or "module:Class"; a registered name as it is."""
    return name.rpartition(":")[2]


def data_title(name: str, label: str = "", binarised: bool = False) -> str:
    """The label, or the registry's title; it says when classes were joined to two."""
    return label or registry.title(name) + (" (binarised)" if binarised else "")


def problem_title(
    operator: str,
    lam: float | None,
    regularize: str,
    options: Mapping[str, object] | None = None,
    intercept: bool | float = False,
) -> str:
    extras = [
        f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in (options or {}).items()
    ]
    extras += ["intercept"] if intercept is True else [f"intercept = {intercept:g}"] if intercept else []
    extras += [f"λ = {lam:g}"] if lam else []
    extras += ["λ on all coordinates"] if regularize == "all" else []
    return ", ".join([class_name(operator), *extras])


def network_title(
    graph: str, p: float | None, n_nodes: int | None, mixing: str, *, seed: int | str = 0, tau: float | None = None
) -> str:
    """A random graph says how it was drawn; the usual seed 0 and the usual tau are not written out."""
    drawn = {0: "", "each": ", a graph per seed"}.get(seed, f", seed = {seed}")
    how = f" (p = {p:g}{drawn})" if graph == "random" and p is not None else ""
    scale = f" (tau = {tau:g})" if tau else ""
    size = "" if n_nodes is None else f", N = {n_nodes}"
    return f"{graph}{how}{size}, {mixing}{scale}"


def besides(
    problem: tuple[str, str], network: tuple[str, str], n_nodes: int, flaws: Sequence[str] = ()
) -> dict[str, str]:
    """What a case is besides N, lambda or the spectral gap: only cases with the same are one line of a sweep.

    ``problem`` is its title with lambda and without, ``network`` its title with N and without.
    """
    return {
        "N": f"{problem[0]}, {network[1]}",
        "lam": f"{problem[1]}, {network[0]}",
        "gamma": ", ".join([problem[0], f"N = {n_nodes}", *flaws]),
    }


def method_title(algorithm: str, communication: str, label: str = "") -> str:
    name = class_name(algorithm) if ":" in algorithm else algorithm.upper()
    return label or name + COMMUNICATION[communication]
