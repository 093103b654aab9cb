"""What is said of a fit that did not converge: one sentence and one category of warning, for estimators and tables."""

from __future__ import annotations

import warnings
from typing import cast

from dsba.engine.run import Status
from dsba.fitting.model import FittedModel

EXIT_CODE = 3  # of a command that saved a model which did not converge
ADVICE = {
    Status.BUDGET: "scale the features (StandardScaler), raise max_passes or tol, or regularise more",
    Status.DIVERGED: "scale the features (StandardScaler) or give a smaller step_size",
    Status.INTERRUPTED: "start it again",
}


def unconverged(who: str, message: str, tol: float, advice: str) -> str:
    """The sentence; ``message`` is that of the run."""
    return f"{who} did not converge: {message} (tol={tol:g}). Try to {advice}."


def of_model(model: FittedModel) -> str | None:
    """The sentence about a model; None if it converged."""
    run = model.run
    if run.status is Status.CONVERGED:
        return None
    message, advice = run.message, ADVICE[run.status]
    if run.status is Status.INTERRUPTED:
        message = f"{message}, the relative residual is {run.residual:.3g}"
    elif model.table is not None:  # its columns are scaled already, and Newton's method solves every model of a table
        advice = "use more passes or a larger lam" if run.method == "newton" else "use newton or a larger lam"
    return unconverged("The fit", message, model.spec.tol, advice)


class NotConvergedWarning(UserWarning):
    """A fit ended before its tolerance was met, where scikit-learn is not installed.

    The message names the tolerance, what was reached, and what to try. With scikit-learn the warning is its
    ``ConvergenceWarning``.

    Examples
    --------
    >>> import warnings
    >>> from dsba.fitting.not_converged import NotConvergedWarning
    >>> warnings.simplefilter("error", NotConvergedWarning)  # doctest: +SKIP
    """


def category() -> type[Warning]:
    """The category of the warning: scikit-learn's ConvergenceWarning where it is installed."""
    try:
        from sklearn.exceptions import ConvergenceWarning
    except ImportError:
        return NotConvergedWarning
    return cast("type[Warning]", ConvergenceWarning)


def warn(sentence: str, stacklevel: int) -> None:
    """Warn the caller who is so many calls away."""
    warnings.warn(sentence, category(), stacklevel=stacklevel + 1)
