"""What DSBA and DSA share: the table of components, their three forms, and the choice between these.

    "step"   the definition, NumPy on stacked rows
    "dense"  a fused kernel on stacked rows, O(p (edges + N)) work per iteration
    "lazy"   a fused kernel in mode space, O(N^2 nnz) work per iteration

All three give the same iterates up to rounding. "auto" takes the cheaper fused one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices
from dsba.errors import InputError, unknown_name
from dsba.kernels.dense import advance_dense
from dsba.kernels.lanes import padded
from dsba.kernels.modes import ModePlan, advance_modes, plan_modes, rows_from_modes
from dsba.network import Network, Simulator
from dsba.problem import Problem

FORMS = ("auto", "step", "dense", "lazy")
TABLES = ("zero", "full")


@dataclass
class RowState:
    """Stacked rows: Z, Z_prev (N x p), the table phi (Q x k), carry (N x p)."""

    Z: Array
    Z_prev: Array
    phi: Array
    carry: Array
    t: int = 0
    norms: Array | None = field(default=None, metadata={"static": True})


@dataclass
class ModeState:
    """The same in mode space: ``modes`` (column, z or v, mode), each column as of ``stamp``."""

    modes: Array
    stamp: Indices
    phi: Array
    plan: ModePlan = field(metadata={"static": True})
    norms: Array = field(metadata={"static": True})
    t: int = 0

    @property
    def Z(self) -> Array:
        """The nodes' iterates now; the state itself stays as it is."""
        out = np.empty((self.plan.basis.shape[0], self.modes.shape[0]))
        rows_from_modes(self.plan, self.modes, self.stamp, self.t, out)
        return out


@dataclass(frozen=True)
class OneSample(Algorithm):
    """Base of DSBA (``backward`` True) and DSA."""

    table: str = "zero"
    """Starting table: "zero" needs no first pass over the data, "full" is the paper's B(z0)."""
    form: str = "auto"

    backward: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise unknown_name("form", self.form, FORMS)
        if self.table not in TABLES:
            raise unknown_name("table", self.table, TABLES)

    def init(self, problem: Problem, net: Network, z0: Array) -> RowState | ModeState:
        """z = z_prev = z0, carry = -(phibar + lam z0): the general step then holds from the start."""
        form = self._form(problem, net)
        rows = np.broadcast_to(z0, (problem.n_nodes, problem.dim))
        if self.table == "full":
            phi = problem.table(np.ascontiguousarray(rows))
            carry = -(problem.average(phi) + problem.lam_diag * rows)
        else:
            phi = np.zeros((problem.n_samples, problem.k))
            carry = np.broadcast_to(-problem.lam_diag * z0, rows.shape)
        if form == "step":
            return RowState(rows.copy(), rows.copy(), phi, carry.copy())
        norms = problem.squared_norms(self._shrink(problem))
        if form == "dense":
            return RowState(rows.copy(), rows.copy(), phi, carry.copy(), norms=norms)
        plan = self._plan(problem, net)
        stamp = np.zeros(problem.dim, np.int64)
        return ModeState(_start_modes(plan, z0, carry, self.alpha), stamp, phi, plan, norms)

    def advance(self, s: Any, problem: Problem, net: Any, samples: Indices) -> RowState | ModeState:
        if isinstance(s, RowState) and s.norms is None:
            return super().advance(s, problem, net, samples)
        data = (problem.csr, problem.y, s.norms, problem.weight, problem.start, samples)
        if isinstance(s, ModeState):
            mode_state = (s.plan, s.modes, s.stamp, s.phi, s.t)
            advance_modes(problem.component, self.backward, self.alpha, *data, *mode_state)
            s = replace(s, t=s.t + len(samples))
        else:
            s = replace(s, t=s.t + len(samples))
            recursion = (self._coefficients(problem.lam), self._coefficients(0.0), problem.n_regular)
            dense = (net.mixing_rows, self._shrink(problem), *recursion, s.Z, s.Z_prev, s.phi, s.carry)
            advance_dense(problem.component, self.backward, self.alpha, *data, *dense)
        net.tally(len(samples), problem.dim)
        return s

    def samples_per_step(self, problem: Problem) -> int:
        return problem.n_nodes

    def passes(self, s: Any, problem: Problem) -> float:
        return super().passes(s, problem) + (self.table == "full")

    def _coefficients(self, lam: float) -> tuple[float, float]:
        """(r, damp): Z+ = Z + r (W~(2Z - Z_prev) - Z - damp (Z - Z_prev) + ...), without the sample."""
        x = self.alpha * lam
        return (1.0 / (1.0 + x), 0.0) if self.backward else (1.0, x)

    def _shrink(self, problem: Problem) -> Array:
        """r for every coordinate."""
        return 1.0 / (1.0 + self.alpha * problem.lam_diag) if self.backward else np.ones(problem.dim)

    def _plan(self, problem: Problem, net: Network) -> ModePlan:
        spectrum = (net.topology.eigenvalues, net.topology.eigenvectors)
        alpha_lam = self.alpha * problem.lam
        return plan_modes(problem.A.indices, problem.dim, problem.n_regular, *spectrum, alpha_lam, self.backward)

    def _form(self, problem: Problem, net: Network) -> str:
        if not isinstance(net, Simulator):
            if self.form in ("auto", "step"):
                return "step"
            raise InputError(f"form {self.form!r} needs all nodes in one process; use 'step' or 'auto'.")
        if self.form != "auto":
            return self.form
        return "lazy" if lazy_cost(problem) < dense_cost(problem, net) else "dense"


def lazy_cost(problem: Problem) -> float:
    """Nanoseconds per iteration of the lazy form: every nonzero of N samples moves padded(N) modes."""
    nonzeros = problem.n_nodes * problem.A.nnz / problem.n_samples
    return nonzeros * (38.0 + 1.4 * padded(problem.n_nodes))


def dense_cost(problem: Problem, net: Simulator) -> float:
    """Nanoseconds per iteration of the dense form: every coordinate meets every neighbour."""
    meetings = net.mixing_rows[1].size + 4 * problem.n_nodes
    touched = problem.n_nodes * problem.A.nnz / problem.n_samples
    return 1.05 * problem.dim * meetings + 12.0 * touched


def _start_modes(plan: ModePlan, z0: Array, carry: Array, alpha: float) -> Array:
    """All nodes at z0, so only the constant mode is there, and v = alpha carry as z = z_prev."""
    n_nodes, width = plan.basis.shape
    modes = np.zeros((z0.size, 2, width))
    modes[plan.position, 0, 0] = np.sqrt(n_nodes) * z0
    if carry.any():
        modes[plan.position, 1, :n_nodes] = alpha * (carry.T @ plan.basis[:, :n_nodes])
    return modes
