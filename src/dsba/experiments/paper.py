"""The paper's numerical experiments as an experiment like any other."""

from __future__ import annotations

from collections.abc import Sequence

from dsba.experiments.spec import Data, Experiment, Method, Network, Problems, Stop, Tune

PROBLEMS = ("ridge", "logistic", "auc")
DATA = ("breast-cancer", "synthetic-text")
METHODS = (
    Method(algorithm="dsba"),
    Method(algorithm="dsba", communication="sparse"),
    Method(algorithm="dsa"),
    Method(algorithm="dsa", communication="sparse"),
    Method(algorithm="extra"),
    Method(algorithm="ssda"),
    Method(algorithm="dlm"),
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
    """N = 10, edges with probability 0.4, Laplacian weights, unit rows, lambda = 1/(10 Q), equal random split.

    SSDA and DLM minimise, so they are left out for AUC, as in the paper.
    """
    return Experiment(
        title="The experiments of Shen et al. (2018)",
        seeds=tuple(seeds),
        stop=Stop(max_passes=max_passes, gap_tol=gap_tol),
        tune=Tune(passes=tune_passes),
        data=tuple(Data(name=name) for name in data),
        problem=tuple(Problems(operator=name) for name in problems),
        network=(Network(graph="random", n_nodes=10, p=0.4, seed=0, mixing="laplacian"),),
        method=METHODS,
    )
