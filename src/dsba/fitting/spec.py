"""How a model is fitted: the one set of defaults."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from dsba.algorithms import Algorithm
from dsba.graph.topology import Topology
from dsba.operators import Operator
from dsba.operators.penalties import Penalty

OF_TABLES: dict[str, Any] = {"lam": 0.0, "algorithm": "auto", "tol": 1e-12, "max_passes": 100.0}
"""The settings of tables that differ from those of other data: no penalty, and a solution to the last digits."""


@dataclass(frozen=True)
class Settings:
    """Everything about a fit except the data. All processes must have the same settings.

    Estimators and ``dsba train`` take their defaults from here. scikit-learn's alpha and C only give ``lam``.
    """

    operator: str | Operator = "logistic"
    lam: float | None = None
    """The regularisation of the coefficients; None is 1/(10 Q) for Q rows."""
    intercept: bool = True
    """Whether to fit an intercept, which lambda never shrinks."""
    graph: Any = "random"
    """Whatever ``Topology.of`` takes."""
    mixing: str = "laplacian"
    algorithm: str | Algorithm = "auto"
    communication: str | None = None
    step_size: float | str = "auto"
    max_passes: float = 1000.0
    tol: float = 1e-4
    """Stop at this residual, relative to the smaller of those of the model with only an intercept and of 0."""
    seed: int = 0
    normalize: bool = False
    """Whether to scale every row to norm 1."""
    penalty: Penalty | None = None
    """A penalty of the coefficients beyond lambda."""

    def topology(self, n_nodes: int) -> Topology:
        """The graph that was asked for, with its mixing matrix."""
        return Topology.of(self.graph, n_nodes, seed=self.seed, mixing=self.mixing)

    def facts(self) -> dict[str, Any]:
        """The settings in JSON's types; an object stands there as its ``repr``."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: v if isinstance(v, str | int | float | None) else repr(v) for name, v in values.items()}
