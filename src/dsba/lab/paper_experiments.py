"""The paper's numerical experiments as an experiment like any other."""

from __future__ import annotations

from collections.abc import Sequence

from dsba.lab.reading import read
from dsba.lab.spec import Experiment

PROBLEMS = ("ridge", "logistic", "auc", "auc-paper")
DATA = ("breast-cancer", "synthetic-text")
PAPER_METHODS: tuple[dict[str, str], ...] = (
    *(
        {"algorithm": name, "communication": how, "sampling": "independent"}
        for name in ("dsba", "dsa")
        for how in ("dense", "sparse")
    ),
    *({"algorithm": name} for name in ("extra", "ssda", "dlm")),
)


def paper(
    data: Sequence[str] = DATA,
    problems: Sequence[str] = PROBLEMS,
    *,
    max_passes: float = 60,
    gap_tol: float | None = None,
    tune_passes: float | None = None,
    seeds: Sequence[int] = (0,),
) -> Experiment:
    """The experiment of the paper: N = 10, edges with probability 0.4, Laplacian weights, lambda = 1/(10 Q).

    SSDA and DLM minimise, so they are left out for AUC, as in the paper. AUC runs with centred components and with
    the paper's own ("auc-paper").

    Parameters
    ----------
    data : Sequence[str]
        Names or paths of data sets.
    problems : Sequence[str]
        Names of operators.
    max_passes : float
        The budget of a run.
    gap_tol : float or None
        Stop at this gap.
    tune_passes : float or None
        The budget of a trial run when step sizes are searched; None is the default of an experiment.
    seeds : Sequence[int]
        Seeds of the samples; each is a run.

    Returns
    -------
    Experiment
        The experiment, for ``dsba.lab.run``.

    Raises
    ------
    InputError
        If a name is not known.

    Examples
    --------
    >>> import dsba
    >>> [method.algorithm for method in dsba.lab.paper(["breast-cancer"], ["ridge"]).method]
    ['dsba', 'dsba', 'dsa', 'dsa', 'extra', 'ssda', 'dlm']
    """
    return read({
        "title": "The experiments of Shen et al. (2018)",
        "seeds": tuple(seeds),
        "stop": {"max_passes": max_passes, "gap_tol": gap_tol},
        "tune": {"passes": tune_passes},
        "data": [{"name": name} for name in data],
        "problem": [{"operator": name} for name in problems],
        "network": [{"graph": "random", "n_nodes": 10, "p": 0.4, "seed": 0, "mixing": "laplacian"}],
        "method": PAPER_METHODS,
    })  # fmt: skip
