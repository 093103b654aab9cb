"""``solve``: a run from what people give, each part checked before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dsba import algorithms
from dsba.algorithms import Algorithm
from dsba.algorithms.costs import Configuration
from dsba.algorithms.planner import MethodPlan, plan
from dsba.engine import checkpoint
from dsba.engine.budgets import Limits
from dsba.engine.progress import Progress
from dsba.engine.recorder import Metric, Recorder
from dsba.engine.run import Callback, Result, Run, identity_of
from dsba.errors import CheckpointError, InputError, as_array, as_integer, as_number, shortened
from dsba.graph.link import Link
from dsba.graph.topology import Topology
from dsba.network import Group, Network, require_agreement
from dsba.network.contract import TOTALS
from dsba.problem.problem import Problem
from dsba.solvers.reference import Optimum, optimum
from dsba.types import Array


def solve(
    problem: Problem,
    topology: Topology,
    algorithm: str | Algorithm | MethodPlan = "dsba",
    step_size: float | str = "auto",
    max_passes: float | None = 50,
    tol: float | None = None,
    seed: int = 0,
    reference: bool | npt.ArrayLike | None = None,
    *,
    z0: npt.ArrayLike | None = None,
    gap_tol: float | None = None,
    max_seconds: float | None = None,
    max_doubles: float | None = None,
    max_rounds: float | None = None,
    record_every: float | None = None,
    record_first: float | None = None,
    checkpoint: str | PathLike[str] | None = None,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
    metrics: Mapping[str, Metric] | None = None,
    network: Network | None = None,
    communication: str | None = None,
    link: Link | None = None,
    **options: Any,
) -> Result:
    """Run an algorithm on a problem over a network until a tolerance or a budget is met.

    Parameters
    ----------
    problem : Problem
        The data, the loss and lambda.
    topology : Topology
        The graph of the nodes.
    algorithm : str or Algorithm or MethodPlan
        A registered name (options such as ``table="full"`` as further keywords), an object, or "auto": the method and
        the options that ``dsba.algorithms.planner`` expects to be the fastest. ``result.plan`` says why.
    step_size : float or str
        A number or a rule's name; "auto" leaves an algorithm object's own.
    max_passes : float or None
        A budget of passes over the data.
    tol : float or None
        Stop at this relative residual ||operator(mean z)|| / ||operator(0)||, whatever z0 is, if the nodes agree: their
        root mean square distance from their mean is at most ``tol`` times the larger of the mean's norm and
        ||operator(0)||/L. Where 0 is the solution, the mean norm of the components at 0 takes the place of
        ||operator(0)||. "newton" goes on to its own end, which costs a few steps more, unless "auto" took it
        because it is the fastest to this tolerance.
    seed : int
        The seed of the draws of samples.
    reference : bool or array-like or None
        The solution z*, or True to compute it; without it gap and distance are absent.
    z0 : array-like or None
        The common start, zero by default.
    gap_tol : float or None
        Stop at this gap, (f(mean z) - f*) / (f(0) - f*).
    max_seconds : float or None
        A budget of seconds of the algorithm alone, evaluation excluded.
    max_doubles : float or None
        A budget of DOUBLEs received at the busiest node.
    max_rounds : float or None
        A budget of communication rounds.
    record_every : float or None
        Passes between two record points; None is 1, and where "auto" measures the lines it is what the plan takes.
    record_first : float or None
        Passes before the first record point; the distance then doubles up to ``record_every``.
    checkpoint : path-like or None
        A file; written at record points, and resumed from if it is there.
    progress : bool
        Show a progress bar.
    callbacks : Sequence[Callback]
        Called with each record; a true return value stops the run.
    metrics : Mapping[str, Metric] or None
        More columns for the history, each a function of the mean iterate.
    network : Network or None
        How rows or messages move; by default the group of processes that holds the problem, or a
        ``Simulator`` where this process holds all of it.
    communication : str or None
        For DSBA and DSA: "dense" sends iterates to the neighbours, "compressed" their changes in few bits,
        "sparse" (DSBA-s) sparse deltas to all nodes, "cached" the same with every sample's indices and values
        only once. None leaves it to the algorithm, whose default is "dense". P-EXTRA has the first two.
    link : Link or None
        How fast the lines are, for "auto"; None measures them, and in one process is ``Link()``.
    **options : object
        Options of a named algorithm, such as ``batch_size=16``.

    Returns
    -------
    Result
        The iterates of all nodes, their mean, the history, and how the run ended.

    Raises
    ------
    InputError
        If the method does not apply to the problem on this network, or an argument is not usable.
    CheckpointError
        If the checkpoint file belongs to another run.
    NetworkError
        If another process is silent or a connection fails.

    Examples
    --------
    >>> import dsba
    >>> problem = dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), n_nodes=4, lam=0.1)
    >>> ring = dsba.Topology.ring(4)
    >>> result = dsba.solve(problem, ring, "newton", tol=1e-10, reference=True)
    >>> print(result.status, bool(result.history["gap"][-1] < 1e-10))
    converged True
    """
    limits = Limits(tol, gap_tol, max_passes, max_seconds, max_doubles, max_rounds)
    net = _network(problem, topology, network)
    path = _checkpoint_path(checkpoint)
    records = _record_points(record_every, record_first)
    if link is not None and not isinstance(link, Link):
        raise InputError(f"link must be a dsba.Link, got {shortened(repr(link))}.")
    if isinstance(algorithm, str) and algorithm == "auto":
        given = step_size != "auto" or communication is not None or bool(options)
        algorithm = plan_of(
            problem, net, given, path, accuracy=limits.accuracy, link=link, record_every=record_every,
            max_passes=max_passes,
        )  # fmt: skip
    made = algorithm if isinstance(algorithm, MethodPlan) else None
    if made is not None and record_every is None:
        records = _record_points(made.record_every, record_first)
    algorithm = _chosen(algorithm, options, step_size, communication)
    seed = as_integer("seed", seed, at_least=0)
    if not isinstance(callbacks, (list, tuple)):
        raise InputError(f"callbacks must be a list of functions, got {shortened(callbacks)}.")
    start = _as_point(z0, problem, "z0") if z0 is not None else np.zeros(problem.dim)
    group = problem.group
    with _mixing_of(made, topology, net) as topology:
        if why_not := algorithm.why_not(problem, net):
            raise InputError(f"{algorithm.name or type(algorithm).__name__} does not apply: {why_not}")
        z_star = _reference(reference, problem)
        if gap_tol is not None and (z_star is None or not problem.has_objective):
            raise InputError("gap_tol needs reference=True (or z*) and a problem with an objective.")
        algorithm = algorithm.resolved(problem, topology)
        identity = identity_of(net, algorithm, seed, records, start, z_star)
        require_agreement(
            group, identity | {"limits": repr(limits), "checkpoint": "none" if path is None else "a file"}
        )
        with np.errstate(all="ignore"):  # a step size far too large may overflow: the loop finds out
            run = Run(problem, net, algorithm, start, seed, Recorder(problem, z_star, metrics), *records)
        run.plan = made
        if path is not None:
            run.attach(path)
        with Progress(progress and group.rank == 0, algorithm.name, limits.max_passes) as bar:
            return run.until(limits, [*callbacks, bar.update])


@contextmanager
def _mixing_of(made: MethodPlan | None, topology: Topology, net: Network) -> Iterator[Topology]:
    """The topology with as many rounds of gossip as the plan has; the network has it for as long."""
    if made is None or made.chosen.gossip == 1:
        yield topology
        return
    mixed = topology.chebyshev(made.chosen.gossip)
    net.network(mixed)
    try:
        yield mixed
    finally:
        net.network(topology)


def _network(problem: Problem, topology: Topology, network: Network | None) -> Network:
    """The network of a run, checked against problem and topology, its counters at zero."""
    if not isinstance(problem, Problem) or not isinstance(topology, Topology):
        got = f"{type(problem).__name__} and {type(topology).__name__}"
        raise InputError(f"solve takes a Problem and a Topology, got {got}.")
    if problem.n_nodes != topology.n_nodes:
        raise InputError(f"the problem has {problem.n_nodes} nodes, the topology {topology.n_nodes}.")
    network = (network or problem.group).network(topology)
    if network.nodes != problem.nodes:
        owned, held = ([nodes.start, nodes.stop - 1] for nodes in (network.nodes, problem.nodes))
        raise InputError(f"the network owns the nodes {owned} here and the problem holds {held}: give it the shards.")
    network.reset()  # from here on the method's traffic is counted, and not the questions of the problem
    return network


def _record_points(every: float | None, first: float | None) -> tuple[float, int]:
    """The distance between two record points, and the number of those before the first regular one."""
    every = as_number("record_every", 1.0 if every is None else every, above=0.0)
    if not math.isfinite(every):
        raise InputError(f"record_every must be finite, got {every}.")
    return every, 0 if first is None else _early_records(first, every)


def _early_records(first: float, every: float) -> int:
    """From ``first`` on, the distance doubles up to ``every``."""
    least = as_number("record_first", first, above=0.0)
    return math.ceil(math.log2(every) - math.log2(least) - 1e-9) if least < every else 0


def plan_of(problem: Problem, net: Network, given: bool, path: Path | None = None, **wanted: Any) -> MethodPlan:
    """The plan of "auto": the one that the checkpoint at ``path`` kept, or a new one. All processes get the same.

    ``given`` is whether a step size, a way to communicate or an option was given: these are dsba's. ``wanted`` is what
    ``planner.plan`` takes.
    """
    if path is not None and (kept := _kept_plan(path, problem.group, net.topology)):
        return kept
    if given:
        return MethodPlan(
            Configuration("dsba"), "dsba was chosen: a step size or an option was given, which belong to it."
        )
    return plan(problem, net, **wanted)


def _kept_plan(path: Path, group: Group, topology: Topology) -> MethodPlan | None:
    """A resumed run goes on with the method that was chosen when it began."""
    files = [path] if group.size == 1 else checkpoint.slots(path, group.rank)
    own = next(filter(None, map(checkpoint.kept_plan, files)), None)
    kept = next(filter(None, group.aside().share(own, discloses=TOTALS)), None)
    try:
        return None if kept is None else MethodPlan.from_dict(kept, topology)
    except ValueError as error:
        raise CheckpointError(f"the plan in {path} cannot be used: {error}.") from None


def _chosen(
    algorithm: str | Algorithm | MethodPlan, options: dict[str, Any], step_size: float | str, communication: str | None
) -> Algorithm:
    """The algorithm asked for, with its options."""
    chosen = algorithms.get(algorithm, **options)
    if not (isinstance(step_size, str) and step_size == "auto"):
        chosen = replace(chosen, step_size=step_size)
    return chosen if communication is None else _communicating(chosen, communication)


def _communicating(algorithm: Algorithm, communication: str) -> Algorithm:
    """The algorithm with another way to communicate, where it has one."""
    if "communication" in {f.name for f in fields(algorithm)}:
        return replace(algorithm, communication=communication)  # type: ignore[call-arg]
    if communication != "dense":
        raise InputError(
            f"{algorithm.name} sends dense rows only; communication={communication!r} is for dsba, dsa and p-extra."
        )
    return algorithm


def _checkpoint_path(file: str | PathLike[str] | None) -> Path | None:
    if file is None:
        return None
    if not isinstance(file, (str, PathLike)):
        raise InputError(f"checkpoint must be the path of a file, got {file!r}.")
    checkpoint.require_file(Path(file))
    return Path(file)


def _as_point(z: npt.ArrayLike, problem: Problem, name: str) -> Array:
    point = as_array(name, z)
    if point.shape != (problem.dim,) or point.dtype.kind not in "biuf":
        got = f"shape {point.shape}, dtype {point.dtype}: {shortened(point)}"
        raise InputError(f"{name} must be {problem.dim} numbers, got {got}.")
    if not np.isfinite(point).all():
        raise InputError(f"{name} must be finite, got {point[~np.isfinite(point)][0]}.")
    return np.array(point, dtype=np.float64)


def _reference(reference: bool | npt.ArrayLike | None, problem: Problem) -> Array | None:
    if reference is None or reference is False:
        return None
    if reference is True and problem.group.size > 1:
        raise InputError("reference=True needs all data in one process: compute the optimum there, and give z*.")
    if reference is True:
        return optimum(problem).z
    if isinstance(reference, Optimum):
        return reference.z
    return _as_point(reference, problem, "reference")
