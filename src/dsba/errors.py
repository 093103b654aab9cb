"""Errors at the edges: what was got, what was wanted, in one sentence."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt


class DsbaError(Exception):
    """Base class of the errors of this package. The message is one sentence for a person.

    Examples
    --------
    >>> import dsba
    >>> try:
    ...     dsba.algorithms.get("sgd")
    ... except dsba.DsbaError as error:
    ...     print(type(error).__name__)
    InputError
    """


class InputError(DsbaError, ValueError):
    """The caller gave something that is not usable.

    Parameters
    ----------
    message : str
        One sentence that says what was given and what was wanted.
    key : str or None
        The key in question, if it was given in a table.

    Examples
    --------
    >>> import dsba
    >>> dsba.Link(latency=-1.0)
    Traceback (most recent call last):
        ...
    dsba.errors.InputError: latency must be a number >= 0, got -1.0.
    """

    def __init__(self, message: str = "", *, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


def noted(error: InputError, own: Sequence[str]) -> InputError:
    """The error with a note about this process's own sites. People here see notes; nobody is sent them."""
    if own:
        error.add_note(f"Here: {'; '.join(own)}.")
    return error


class FitError(InputError):
    """The data does not determine the coefficients.

    Parameters
    ----------
    sentence : str
        The message, with {columns} where it names the columns.
    columns : Iterable[int]
        The columns in question, numbered like the coordinates of z: columns of the data, intercept, coordinates that
        the operator adds.
    names : Sequence[str]
        The names of the columns.

    Examples
    --------
    >>> from dsba.errors import FitError
    >>> print(FitError("{columns} depend on each other.", [0, 2], ["age", "sex", "birth_year"]))
    age and birth_year depend on each other.
    """

    def __init__(self, sentence: str, columns: Iterable[int], names: Sequence[str] = ()) -> None:
        self.sentence, self.columns = sentence, tuple(int(c) for c in columns)
        known = [names[c] if c < len(names) else f"column {c}" for c in self.columns]
        shown = known if len(known) <= 10 else [*known[:9], f"{len(known) - 9} more"]
        super().__init__(sentence.format(columns=" and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))))

    def named(self, names: Sequence[str]) -> FitError:
        """The same error with the columns' names in its sentence.

        Parameters
        ----------
        names : sequence of str
            The names of all columns.

        Returns
        -------
        FitError
            The error with names.
        """
        return FitError(self.sentence, self.columns, names)


class CheckpointError(InputError):
    """A checkpoint is truncated, foreign, or belongs to another run.

    Parameters
    ----------
    message : str
        One sentence that says what is wrong with the file.
    key : str or None
        The key in question, if there is one.

    Examples
    --------
    >>> import dsba
    >>> issubclass(dsba.CheckpointError, dsba.InputError)
    True
    """


class StorageError(DsbaError, OSError):
    """The system refuses to read or write a file: a full disk, a missing permission, a broken disk.

    Examples
    --------
    >>> import dsba
    >>> issubclass(dsba.StorageError, OSError)
    True
    """


class NetworkError(DsbaError, RuntimeError):
    """Another process is silent, or the connection to it failed.

    Examples
    --------
    >>> import dsba
    >>> issubclass(dsba.NetworkError, RuntimeError)
    True
    """


def cannot(do: str, error: Exception, otherwise: str = "") -> StorageError | InputError:
    """An error for a file: the system refuses it, or what the caller named is missing or unusable (``otherwise``)."""
    if isinstance(error, StorageError):
        return error
    refusal = error.strerror if isinstance(error, OSError) else None
    refused = refusal is not None and not isinstance(error, FileNotFoundError)
    return (StorageError if refused else InputError)(f"cannot {do}: {refusal or otherwise or error}.")


FEW_NAMES = 30  # a longer list hides the name that was meant


def unknown_name(kind: str, got: object, known: Iterable[str]) -> InputError:
    """An error for a name that is not registered: the nearest known name, and all of them where they are few."""
    names = sorted(known)
    close = get_close_matches(str(got).lower(), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    listed = (
        f" Known: {', '.join(names)}." if not close or len(names) <= FEW_NAMES else f" There are {len(names)} names."
    )
    return InputError(f"unknown {kind} {got!r}{hint}{listed}", key=str(got))


def did_you_mean(got: str, known: Iterable[str], otherwise: str = ".") -> str:
    """The end of a sentence about a name that people gave to a column or a table: the nearest one, in any case."""
    folded = {name.casefold(): name for name in known}
    close = get_close_matches(got.casefold(), folded, n=1)
    return f"; did you mean {folded[close[0]]!r}?" if close else otherwise


def require_known(kind: str, got: object, known: Collection[str]) -> None:
    """An error if a name is not registered."""
    if got not in known:
        raise unknown_name(kind, got, known)


def validation_sentence(found: Mapping[str, Any], got: str = "") -> str:
    """The sentence of one of pydantic's errors: the validator's own, or pydantic's and what it ``got``."""
    error = found.get("ctx", {}).get("error")
    if isinstance(error, InputError):
        return str(error)
    if found["type"] == "missing":
        return "it is missing."
    return f"{found['msg']}{got}." if error is None else f"{error}."


def as_number(name: str, value: object, *, at_least: float = -math.inf, above: float = -math.inf) -> float:
    """A finite or infinite real number within bounds, as a float; strings and booleans are refused."""
    bound = f" > {above:g}" if above > -math.inf else f" >= {at_least:g}" if at_least > -math.inf else ""
    real = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
    real = real and not (isinstance(value, int) and value.bit_length() > 1023)  # no float is as large
    if not real or not (float(value) >= at_least and float(value) > above):  # type: ignore[arg-type]
        raise InputError(f"{name} must be a number{bound}, got {shortened(repr(value))}.")
    return float(value)  # type: ignore[arg-type]


def as_share(name: str, value: object) -> float:
    """A number from 0 to 1."""
    share = as_number(name, value, at_least=0.0)
    if share > 1.0:
        raise InputError(f"{name} must be between 0 and 1, got {shortened(repr(value))}.")
    return share


def as_integer(name: str, value: object, *, at_least: int) -> int:
    """An integer within bounds; booleans and floats are refused."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or int(value) < at_least:  # type: ignore[call-overload]
        raise InputError(f"{name} must be an integer >= {at_least}, got {shortened(repr(value))}.")
    return int(value)  # type: ignore[call-overload]


def as_array(name: str, value: Any) -> npt.NDArray[Any]:
    """An array of anything; ragged lists are refused in our own words."""
    try:
        return np.asarray(value)
    except ValueError:
        raise InputError(f"{name} must be an array, got a ragged list.") from None


def shortened(value: object, limit: int = 120) -> str:
    """A value for a message, in one line of bearable length."""
    text = " ".join(str(value).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def printable(sentence: str, limit: int = 1000) -> str:
    """What another process says, in one line without control characters: a terminal would obey these."""
    return shortened("".join(c if c.isprintable() else " " for c in sentence), limit)


def require_package(what: str, package: str, extra: str) -> None:
    """An error that names the extra to install if a package is missing."""
    if find_spec(package) is None:
        raise InputError(f"{what} needs the package {package}: install dsba[{extra}].")
