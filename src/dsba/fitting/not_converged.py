"""What is said of a fit that did not converge: one sentence and one category of warning, for estimators and tables."""

from __future__ import annotations

import warnings
from typing import Any

from dsba.engine.run import Status

EXIT_CODE = 3  # of a command that saved a model which did not converge
ADVICE = {
    Status.BUDGET: "scale the features (StandardScaler), raise max_passes or tol, or regularise more",
    Status.DIVERGED: "scale the features (StandardScaler) or give a smaller step_size",
    Status.INTERRUPTED: "start it again",
}


def unconverged(who: str, message: str, tol: float, advice: str) -> str:
    """The sentence; ``message`` is that of the run."""
    return f"{who} did not converge: {message} (tol={tol:g}). Try to {advice}."


def of_model(facts: dict[str, Any]) -> str | None:
    """The sentence about a model, from the facts of its file; None if it converged."""
    status = Status(facts.get("status", Status.CONVERGED))
    if status is Status.CONVERGED:
        return None
    message = str(facts["message"])
    if status is Status.INTERRUPTED:
        message = f"{message}, the relative residual is {facts['figures']['residual']:.3g}"
    return unconverged("The fit", message, facts["tol"], _advice(status, facts))


def warn(sentence: str, stacklevel: int) -> None:
    """Warn the caller who is so many calls away."""
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(sentence, ConvergenceWarning, stacklevel=stacklevel + 1)


def _advice(status: Status, facts: dict[str, Any]) -> str:
    """The columns of tables are scaled already, and Newton's method solves every model of a table."""
    if "table" not in facts or status is Status.INTERRUPTED:
        return ADVICE[status]
    return "use more passes or a larger lam" if facts["method"] == "newton" else "use newton or a larger lam"
