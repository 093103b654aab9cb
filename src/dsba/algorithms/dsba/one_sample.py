"""What DSBA and DSA share: the table of components, how they communicate, and the choice of a form.

Communication is "dense" (iterates go to the neighbours), "compressed" (their differences from what the neighbours know
already, rounded to few levels: ``dual.py``), "sparse" (DSBA-s: deltas go to everybody, along the graph) or "cached"
(the same, a sample's block sent only once). The iterates are the same, up to what compression changes. With deltas,
only the counting differs where all rows are in one process; elsewhere every node is an object (``node.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dsba.algorithms.base import Algorithm, most_of_a_mixing
from dsba.algorithms.costs import automatic_batch_size
from dsba.algorithms.dsba.dense import DenseForm
from dsba.algorithms.dsba.dual import DualForm
from dsba.algorithms.dsba.form import Counted, Form, Start
from dsba.algorithms.dsba.lazy import LazyForm
from dsba.algorithms.dsba.nodes import NodesForm
from dsba.algorithms.dsba.step import StepForm
from dsba.algorithms.iterates import Iterates
from dsba.algorithms.sampling import INDEPENDENT, SHUFFLED
from dsba.algorithms.step_rules import slopes_change
from dsba.errors import as_integer, require_known
from dsba.graph.topology import Topology
from dsba.kernels.dense import Recursion
from dsba.kernels.simd import padded
from dsba.network import Network
from dsba.network.contract import ITERATES, ROWS_OF_DATA
from dsba.problem.components import counts
from dsba.problem.problem import Problem
from dsba.types import Array, Indices

FORMS: dict[str, type[Form]] = {"step": StepForm, "dense": DenseForm, "lazy": LazyForm, "dual": DualForm}
TABLES = ("zero", "full")
MODE_WORK = 8  # multiply-adds that move a mode of a column to the present, read it and add to it
DELTA_FORMS = ("step", "dense", "lazy")
FITTING_FORMS = {"dense": (*FORMS,), "compressed": ("dual",), "sparse": DELTA_FORMS, "cached": DELTA_FORMS}


@dataclass(frozen=True)
class OneSample(Algorithm):
    """Base of DSBA (``backward`` True) and DSA.

    Parameters
    ----------
    table : str
        The starting memory phi: "zero" needs no first pass over the data, "full" is the paper's B(z0).
    form : str
        How the iterates are held and advanced; "auto" takes the cheaper of "dense" and "lazy".
    communication : str
        "dense": iterates to the neighbours; "compressed": their changes in few levels; "sparse": deltas to all nodes
        (DSBA-s); "cached": each sample only once.
    cache_bytes : int or None
        With "cached", the memory for each other node's samples; None is all, 0 is "sparse".
    batch_size : int or str
        Samples of a node that an iteration takes as one component; "auto" uses a cost model.
    sampling : str
        "shuffled": a new order of a node's components in every pass; "independent": uniform draws, as in the paper.
    replan : bool or None
        Whether the step size is planned again during the run, from the slopes that were seen; None: for batches of DSBA
        where ``step_size`` is "auto" and the loss has one score and slopes that change.
    """

    table: str = "zero"
    form: str = "auto"
    communication: str = "dense"
    cache_bytes: int | None = None
    batch_size: int | str = 1
    sampling: str = SHUFFLED

    replan: bool | None = None

    backward: ClassVar[bool] = True
    rows_updated: ClassVar[int] = 6

    def __post_init__(self) -> None:
        for kind, name, known in (
            ("form", self.form, ("auto", *FORMS)),
            ("table", self.table, TABLES),
            ("communication", self.communication, FITTING_FORMS),
            ("sampling", self.sampling, (SHUFFLED, INDEPENDENT)),
        ):
            require_known(kind, name, known)
        if self.cache_bytes is not None:
            as_integer("cache_bytes", self.cache_bytes, at_least=0)
        if self.batch_size != "auto":
            as_integer("batch_size", self.batch_size, at_least=1)

    @property
    def discloses(self) -> str:
        return ROWS_OF_DATA if self.sends_deltas else ITERATES

    @property
    def order(self) -> str:
        return self.sampling

    @property
    def sends_deltas(self) -> bool:
        """Whether deltas go to everybody, instead of iterates to the neighbours."""
        return self.communication in ("sparse", "cached")

    # A run ----------------------------------------------------------------------------------------

    def init(self, problem: Problem, net: Network, z0: Array) -> Form:
        """z = z_prev = z0, carry = -(phibar + lam z0): the general step then holds from the start."""
        form = FORMS[self.chosen_form(problem, net)]
        if self.sends_deltas and net.local_mixing() is None:
            form = NodesForm
        rows = np.broadcast_to(z0, (len(problem.nodes), problem.dim))
        if self.table == "full":
            phi = problem.local.table(np.ascontiguousarray(rows))
            carry = -(problem.local.average(phi) + problem.lam_diag * rows)
        else:
            phi = np.zeros((problem.y.size, problem.k))
            carry = np.broadcast_to(-problem.lam_diag * z0, rows.shape)
        return form.start(self, problem, net, Start(z0, phi, carry, problem.batches(self.samples_at_once)))

    def advance(self, s: Form, problem: Problem, net: Network, samples: Indices) -> Form:
        return s.advance(self, problem, net, samples)

    def rows(self, s: Form) -> Array:
        return s.rows()

    def iterates(self, s: Form, problem: Problem) -> Iterates:
        return s.iterates(problem)

    def warm_up(self, s: Form, problem: Problem, net: Network, *draws: Any) -> None:
        s.warm_up(self, problem, net)

    def resolved(self, problem: Problem, topology: Topology) -> Self:
        """With the batch size and the step size as numbers."""
        if self.batch_size == "auto":
            b = 1 if _no_batches(problem) else automatic_batch_size(problem, topology, self.communication)
            return replace(self, batch_size=b).resolved(problem, topology)
        if self.replan is None:
            return replace(self, replan=self._replans(problem)).resolved(problem, topology)
        return super().resolved(problem, topology)

    def _replans(self, problem: Problem) -> bool:
        """Whether a step size that is "auto" is planned again during the run."""
        batches = self.backward and self.samples_at_once > 1 and self.form in ("auto", "dual")
        automatic = isinstance(self.step_size, str) and self.step_size == "auto"
        return automatic and batches and slopes_change(problem) and not self.sends_deltas

    def why_not(self, problem: Problem, net: Network) -> str | None:
        """As of every method, and whether its options suit the problem and the network."""
        reasons = (self._unfit_problem(problem), self._unfit_network(problem, net), super().why_not(problem, net))
        return next(filter(None, reasons), None)

    def _unfit_problem(self, problem: Problem) -> str | None:
        if self.batch_size not in (1, "auto") and (reason := _no_batches(problem)):
            return f"batch_size={self.batch_size} {reason}"
        if problem.penalty is not None and (self.form not in ("auto", "step") or self.communication != "dense"):
            return (
                "with a penalty the iterates are advanced by form 'step' with dense communication, got "
                f"form={self.form!r} and communication={self.communication!r}."
            )
        if self.form not in ("auto", *FITTING_FORMS[self.communication]):
            forms = " or ".join(map(repr, ("auto", *FITTING_FORMS[self.communication])))
            return f"communication={self.communication!r} needs form {forms}, got {self.form!r}."
        return None

    @property
    def exact_links(self) -> str:
        if self.communication == "dense":
            return ""
        return f"with communication={self.communication!r} nodes rebuild the others' states from all messages"

    def _unfit_network(self, problem: Problem, net: Network) -> str | None:
        deltas, rounds = self.sends_deltas, net.topology.mixing.rounds
        if deltas and rounds > 1:
            return (
                f"communication={self.communication!r} rebuilds single rounds of mixing, and this mixing takes "
                f"{rounds}: use communication='dense'."
            )
        if net.local_mixing() is not None:
            return None
        if not deltas and self.form == "lazy":
            return (
                "form 'lazy' with dense communication needs all nodes in one process, and rows that are mixed by "
                "the mixing matrix alone; use 'auto'."
            )
        if deltas and self.form == "step":
            return (
                f"form 'step' sends whole rows, not the messages of communication={self.communication!r}; "
                "use 'dense', 'lazy' or 'auto'."
            )
        return None

    def warm_started(self) -> Self:
        """With the full table: a table of zeros would forget where the start is."""
        return replace(self, table="full")

    @property
    def samples_at_once(self) -> int:
        """The batch size as a number; ``resolved`` replaces "auto"."""
        assert not isinstance(self.batch_size, str)
        return self.batch_size

    def choices(self, problem: Problem) -> Indices:
        return counts(problem.sizes, self.samples_at_once)

    def samples_per_step(self, problem: Problem) -> float:
        """One sample of each node, or the mean size of its batches."""
        return float(np.sum(problem.all_sizes / counts(problem.all_sizes, self.samples_at_once)))

    @property
    def first_passes(self) -> float:
        """The full table costs one pass, and so do the batches' Gram matrices."""
        gram = self.backward and self.samples_at_once > 1
        return float((self.table == "full") + gram)

    def work(self, s: Form, problem: Problem, net: Network) -> float:
        """The lazy form moves the modes of the columns that samples touch, the others whole rows."""
        if self.chosen_form(problem, net) != "lazy":
            return super().work(s, problem, net)
        moved = s.t * self.samples_per_step(problem) * problem.mean_nnz * MODE_WORK * problem.n_nodes
        return self.passes(s, problem) + moved / problem.sweep

    def most(self, s: Form, problem: Problem, net: Network) -> dict[str, float]:
        passes = super().most(s, problem, net)
        if not self.sends_deltas:
            return passes | most_of_a_mixing(net, problem.dim)
        traffic = s.traffic if isinstance(s, Counted) else None
        return passes | {"rounds": 1.0} | ({} if traffic is None else {"doubles_max": traffic.most_doubles})

    def recursion(self, problem: Problem) -> Recursion:
        """The numbers that kernels need."""
        coefficients = (self.coefficients(problem.lam), self.coefficients(0.0))
        shrink = np.full(problem.dim, coefficients[0][0])
        shrink[problem.n_regular :] = coefficients[1][0]
        single = self.samples_at_once == 1  # a batch has its Gram matrix
        norms = problem.squared_norms(1.0 - shrink) if single else np.empty((0, problem.k))
        return Recursion(self.backward, self.alpha, shrink, *coefficients, problem.n_regular, norms)

    def coefficients(self, lam: float) -> tuple[float, float]:
        """(s, damp) for coordinates with this lambda."""
        x = self.alpha * lam
        return (x / (1.0 + x), 0.0) if self.backward else (0.0, x)

    @property
    def cache_limit(self) -> int | None:
        """Bytes that a node remembers of another one's samples; None is no limit."""
        return self.cache_bytes if self.communication == "cached" else 0

    # The choice of a form -------------------------------------------------------------------------

    def chosen_form(self, problem: Problem, net: Network) -> str:
        """The form that was asked for; "auto" is the cheaper one of those that are possible."""
        if problem.penalty is not None:
            return "step"
        if self.form != "auto":
            return self.form
        if self.communication == "compressed" or (self.replan and net.mixes_by_matrix):
            return "dual"
        if net.local_mixing() is None and not self.sends_deltas:
            return "dense"
        nonzeros = self.samples_per_step(problem) * problem.mean_nnz
        return "lazy" if lazy_cost(problem, nonzeros) < dense_cost(problem, net, nonzeros) else "dense"


def _no_batches(problem: Problem) -> str | None:
    """Why batches of samples cannot be components of this problem, or None."""
    if problem.penalty is not None:
        return "is for problems without a penalty: use batch_size=1."
    if not problem.component.has_jacobian:
        return f"needs an operator with a jacobian, and {type(problem.component).__name__} has none."
    return None


def lazy_cost(problem: Problem, nonzeros: float) -> float:
    """Nanoseconds per iteration of the lazy form: every nonzero that is touched moves padded(N) modes."""
    return nonzeros * (38.0 + 1.4 * padded(problem.n_nodes))


def dense_cost(problem: Problem, net: Network, nonzeros: float) -> float:
    """Nanoseconds per iteration of the dense form: every coordinate meets every neighbour."""
    mixing = net.topology.mixing
    meetings = mixing.rounds * mixing.rows[1].size + 4 * problem.n_nodes
    return 1.05 * problem.dim * meetings + 12.0 * nonzeros
