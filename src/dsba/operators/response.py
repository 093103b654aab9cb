"""How scores become answers: links to the mean response, and decisions.

Both are plain names that an operator declares. A model on disk keeps the names, so it predicts without
the operator's code. Scores have one row per sample and one column per output.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # its parts are loaded when they are asked for

from dsba.errors import InputError, unknown_name
from dsba.types import Array


class LinkFunction(NamedTuple):
    """A link between scores and the mean response: each is a function of the other.

    Parameters
    ----------
    mean : Callable[[numpy.ndarray], numpy.ndarray]
        The mean response of scores (Q x outputs): Q numbers, or one column per class.
    score : Callable[[numpy.ndarray], numpy.ndarray]
        The score whose mean response is the given one.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> dsba.operators.LINKS["log"].mean(np.array([[0.0]])).tolist()
    [1.0]
    """

    mean: Callable[[Array], Array]
    score: Callable[[Array], Array]


LINKS: dict[str, LinkFunction] = {
    "identity": LinkFunction(lambda scores: scores[:, 0], lambda mean: mean),
    "log": LinkFunction(lambda scores: np.exp(scores[:, 0]), np.log),
    "logit": LinkFunction(lambda scores: scipy.special.expit(scores[:, 0]), lambda mean: scipy.special.logit(mean)),
    "softmax": LinkFunction(lambda scores: scipy.special.softmax(scores, axis=1), np.log),
}
"""The mean of a logit is the probability of the second class."""

DECISIONS = ("number", "sign", "largest", "rank")
"""number: the mean response. sign: the second class where the score is positive. largest: the class with
the largest score. rank: the score itself, which only orders samples."""


def link_of(name: str) -> LinkFunction:
    """The link with this name.

    Parameters
    ----------
    name : str
        A key of ``LINKS``, such as "logit".

    Returns
    -------
    LinkFunction
        The link.

    Raises
    ------
    InputError
        If the name is not known.

    Examples
    --------
    >>> import dsba
    >>> dsba.operators.link_of("log").score(1.0).item()
    0.0
    """
    if name not in LINKS:
        raise unknown_name("link", name, LINKS)
    return LINKS[name]


def decide(decision: str, link: str | None, scores: Array, classes: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """The predictions for scores: numbers, members of ``classes``, or scores to rank by.

    Parameters
    ----------
    decision : str
        One of ``DECISIONS``: "number", "sign", "largest" or "rank".
    link : str or None
        The name of the link, for numbers.
    scores : numpy.ndarray
        One row per sample, one column per output.
    classes : numpy.ndarray or None
        The labels, for decisions between classes.

    Returns
    -------
    numpy.ndarray
        One prediction per sample.

    Raises
    ------
    InputError
        If the decision is not known, or needs classes and gets none.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> dsba.operators.decide("sign", None, np.array([[-0.5], [2.0]]), np.array(["no", "yes"])).tolist()
    ['no', 'yes']
    """
    if decision not in DECISIONS:
        raise unknown_name("decision", decision, DECISIONS)
    if decision == "rank":
        return scores[:, 0]
    if decision == "number":
        return scores[:, 0] if link is None else link_of(link).mean(scores)
    if classes is None:
        raise InputError(f"the decision {decision!r} needs the classes, got none.")
    return classes[np.argmax(scores, axis=1) if decision == "largest" else (scores[:, 0] > 0).astype(int)]
