"""A picture of a split: who holds how many rows of which label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dsba.errors import InputError
from dsba.lab.figures import SCREEN, add_legend, finish, new_figure
from dsba.types import Integers

if TYPE_CHECKING:
    from dsba.problem.problem import Problem

MOST_LABELS = 20  # of a legend
CYCLE = 10  # of matplotlib's cycle; the labels beyond have hatched bars


def counted_labels(problem: Problem) -> tuple[list[str], Integers]:
    """The names of the labels, and for each node (a row) how many samples it has of each. Numbers go by quarters."""
    if len(problem.nodes) < problem.n_nodes:
        raise InputError(f"the picture needs all nodes in one process, and {len(problem.nodes)} of them are here.")
    classes, y = problem.classes, problem.y
    if classes is None:
        edges = np.quantile(y, [0.25, 0.5, 0.75])
        names, label = ["lowest quarter", "second quarter", "third quarter", "highest quarter"], np.digitize(y, edges)
    elif len(classes) > MOST_LABELS:
        raise InputError(f"the picture has room for {MOST_LABELS} classes, and the labels have {len(classes)}.")
    else:
        names, label = [str(name) for name in classes], np.searchsorted(np.unique(y), y)
    node = np.repeat(np.arange(problem.n_nodes), np.diff(problem.start))
    counts = np.zeros((problem.n_nodes, len(names)), np.int64)
    np.add.at(counts, (node, label), 1)
    return names, counts


def holdings(problem: Problem) -> Any:
    """A matplotlib figure of a split: a bar for each node, as high as its samples are many, in the colours of labels.

    Labels that are numbers are shown by quarters of all data.

    Parameters
    ----------
    problem : Problem
        The problem, with the data of all nodes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    InputError
        If matplotlib is not installed.

    Examples
    --------
    >>> import dsba
    >>> problem = dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), n_nodes=4, split="label")
    >>> dsba.lab.holdings(problem).savefig("split.png")
    """
    names, counts = counted_labels(problem)
    figure = new_figure(SCREEN)
    axes, below, handles = figure.subplots(), np.zeros(problem.n_nodes), {}
    for k, name in enumerate(names):
        again = {"hatch": "///", "edgecolor": "white"} if k >= CYCLE else {}
        handles[name] = axes.bar(range(problem.n_nodes), counts[:, k], bottom=below, color=f"C{k % CYCLE}", **again)
        below = below + counts[:, k]
    axes.set_xlabel("node", fontsize=SCREEN.small)
    axes.set_ylabel("samples", fontsize=SCREEN.small)
    add_legend(figure, handles, 4, SCREEN)
    finish(axes, SCREEN)
    return figure
