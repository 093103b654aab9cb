"""Errors at the edges: what was got, what was wanted, in one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Something the caller gave is not usable. The message is one sentence for a person."""


class CheckpointError(InputError):
    """A checkpoint is truncated, foreign, or belongs to another run."""


def unknown_name(kind: str, got: object, known: Iterable[str]) -> InputError:
    """An error for a name that is not registered, with the nearest known name suggested."""
    names = sorted(known)
    close = get_close_matches(str(got).lower(), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return InputError(f"unknown {kind} {got!r}{hint} Known: {', '.join(names)}.")
