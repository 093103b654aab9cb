"""Model formulas as data: ``outcome ~ age + C(sex) + log(crp)``.

A formula is parsed here against a list of what is allowed: names of columns, numbers, C, log, exp, sqrt, I, and
``+ - : * ~ ( )``. Nothing else reaches formulaic, which would evaluate it as Python. Names do not reach it either:
formulaic gets other names for the columns (``renamed``).

    formula := [response "~"] sum
    sum     := ["-"] product (("+" | "-") product)*
    product := part ((":" | "*") part)*
    part    := 0 | 1 | name | C(name) | transform | "(" sum ")"
    transform := (log | exp | sqrt | I) "(" arithmetic ")"
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from dsba.errors import InputError

TRANSFORMS = ("log", "exp", "sqrt", "I")
ALLOWED = ("C", *TRANSFORMS)
STATEFUL = ("center", "scale", "standardize", "poly", "bs", "cr", "cc", "cs", "te", "hashed", "lag")
FORMULA_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![\w.])|(?P<name>[^\W\d]\w*)"
    r"|`(?P<quoted>[^`{}\\\n\r]+)`|(?P<sign>[-+:*~()]))"
)
LONGEST_FORMULA = 10_000  # characters
DEEPEST = 50  # parentheses
TAKEN_NAMES = {".": "all other columns", "1": "the intercept", "Intercept": "the intercept"}
"""Names that no column may have."""


class Token(NamedTuple):
    kind: str  # "number", "name", "quoted", "sign" or "end"
    text: str
    at: int


@dataclass(frozen=True)
class Formula:
    """A parsed formula. ``left`` and ``right`` are safe to evaluate; all columns they name are listed."""

    left: str | None
    right: str
    response: tuple[str, ...]
    """The columns of the left side."""
    columns: tuple[str, ...]
    """The columns of the right side, in the order in which they come."""
    factors: tuple[str, ...]
    """Those in C(...)."""
    numbers: tuple[str, ...]
    """Those in arithmetic, which must be numbers."""

    @property
    def transformed(self) -> bool:
        """Whether the left side is more than the name of a column."""
        return self.left is not None and self.left != quoted(self.response[0])

    def __str__(self) -> str:
        return f"{self.left} ~ {self.right}" if self.left else f"~ {self.right}"


def parse(text: str) -> Formula:
    """The formula in ``text``, or an error that says at which character it is wrong."""
    if not isinstance(text, str) or len(text) > LONGEST_FORMULA:
        raise InputError(f"a formula is a text of at most {LONGEST_FORMULA} characters.")
    return _parsed(text)


@lru_cache(maxsize=64)
def _parsed(text: str) -> Formula:
    return _Parser(text).formula()


def from_columns(target: str | None, features: list[str] | tuple[str, ...]) -> Formula:
    """The formula ``target ~ features[0] + features[1] + ...``."""
    left = "" if target is None else quoted(target)
    return parse(f"{left} ~ {' + '.join(map(quoted, features)) if features else '1'}")


def quoted(name: str) -> str:
    """A column's name as a formula has it: in backquotes unless it is a plain word."""
    if meaning := TAKEN_NAMES.get(name.strip()):
        raise InputError(f"the column name {name!r} cannot stand in a formula: there it means {meaning}.")
    if re.fullmatch(r"[^\W\d]\w*", name) and not keyword.iskeyword(name):
        return name
    if not re.fullmatch(r"[^`{}\\\n\r]+", name):
        raise InputError(f"the column name {name!r} cannot stand in a formula: it has a backquote, brace or backslash.")
    return f"`{name}`"


def renamed(side: str, names: Mapping[str, str]) -> str:
    """One side of a formula with other names for its columns."""
    tokens = _tokens(side)
    return "".join(
        names[token.text] if token.kind in ("name", "quoted") and not _calls(token, following) else token.text
        for token, following in pairwise(tokens)
    )


@dataclass
class _Names:
    """The columns met so far."""

    columns: dict[str, None] = field(default_factory=dict)
    plain: dict[str, None] = field(default_factory=dict)
    factors: dict[str, None] = field(default_factory=dict)
    numbers: dict[str, None] = field(default_factory=dict)


class _Parser:
    """Recursive descent: every method reads one rule of the grammar and returns its text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0
        self.depth = 0
        self.names = _Names()

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def take(self, *signs: str) -> str | None:
        """The next token if it is one of the signs."""
        if self.next.kind == "sign" and self.next.text in signs:
            self.at += 1
            return self.tokens[self.at - 1].text
        return None

    def need(self, sign: str) -> None:
        if not self.take(sign):
            raise self.wanted(repr(sign))

    def wanted(self, what: str) -> InputError:
        got = "the end" if self.next.kind == "end" else repr(self.next.text)
        return InputError(f"formula, character {self.next.at + 1}: wanted {what}, got {got}.")

    def formula(self) -> Formula:
        left, response = None, _Names()
        if any(token.kind == "sign" and token.text == "~" for token in self.tokens):
            if self.next.text != "~":
                left, response, self.names = self.response(), self.names, _Names()
            self.need("~")
        right = self.sum()
        if self.next.kind != "end":
            raise self.wanted("+, -, : or *")
        names = self.names
        if both := response.columns.keys() & names.columns.keys():
            raise InputError(f"the column {min(both)!r} is on both sides of the formula.")
        if both := names.factors.keys() & {**names.plain, **names.numbers}.keys():
            raise InputError(
                f"the column {min(both)!r} is in C() and outside of it: write C() everywhere, or make a second column."
            )
        return Formula(
            left, right, tuple(response.columns), tuple(names.columns), tuple(names.factors), tuple(names.numbers)
        )

    def response(self) -> str:
        if self.next.kind == "name" and self.next.text in TRANSFORMS and _calls(*self.tokens[self.at : self.at + 2]):
            text = self.transform()
            if not self.names.columns:
                raise InputError(f"the outcome names no column, got {text!r}.")
            return text
        if self.next.kind not in ("name", "quoted") or _calls(*self.tokens[self.at : self.at + 2]):
            raise self.wanted("the name of the outcome")
        return self.column(self.names.plain)

    def sum(self) -> str:
        text = "-" if self.take("-") else ""
        text += self.product()
        while sign := self.take("+", "-"):
            text += f" {sign} {self.product()}"
        return text

    def product(self) -> str:
        text = self.part()
        while sign := self.take(":", "*"):
            text += f"{sign}{self.part()}"
        return text

    def part(self) -> str:
        token = self.next
        if self.take("("):
            return self.inside(self.sum)
        if token.kind == "number":
            if token.text not in ("0", "1"):
                raise self.wanted("a column, or 0 or 1 for the intercept")
            self.at += 1
            return token.text
        if token.kind == "name" and _calls(*self.tokens[self.at : self.at + 2]):
            return self.call()
        return self.column(self.names.plain)

    def call(self) -> str:
        name = self.next.text
        if name != "C":
            return self.transform()
        self.at += 2
        text = self.column(self.names.factors)
        self.need(")")
        return f"C({text})"

    def transform(self) -> str:
        name = self.next.text
        if name not in TRANSFORMS:
            why = "needs a state of all sites' rows" if name in STATEFUL else "is not known"
            raise InputError(
                f"formula, character {self.next.at + 1}: {name}() {why}; a formula may call {', '.join(ALLOWED)}."
            )
        self.at += 2
        return name + self.inside(self.arithmetic)

    def inside(self, rule: Callable[[], str]) -> str:
        """What stands in parentheses, the first of which has been read."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.wanted(f"at most {DEEPEST} parentheses in each other")
        text = rule()
        self.need(")")
        self.depth -= 1
        return f"({text})"

    def arithmetic(self) -> str:
        text = self.atom()
        while sign := self.take("+", "-", "*"):
            text += f" {sign} {self.atom()}"
        return text

    def atom(self) -> str:
        token = self.next
        if self.take("-"):
            return "-" + self.atom()
        if self.take("("):
            return self.inside(self.arithmetic)
        if token.kind == "number":
            self.at += 1
            return re.sub("^0+(?=[0-9])", "", token.text)  # Python knows no whole numbers with zeros before them
        if token.kind == "name" and _calls(*self.tokens[self.at : self.at + 2]):
            return self.transform()
        return self.column(self.names.numbers)

    def column(self, role: dict[str, None]) -> str:
        """A column, which is noted among those of its role, too."""
        token = self.next
        if token.kind not in ("name", "quoted") or _calls(*self.tokens[self.at : self.at + 2]):
            raise self.wanted("the name of a column")
        self.at += 1
        self.names.columns[token.text] = role[token.text] = None
        return quoted(token.text)


def _calls(token: Token, following: Token | None = None) -> bool:
    """Whether a name is followed by a parenthesis."""
    return token.kind == "name" and following is not None and following.kind == "sign" and following.text == "("


def _tokens(text: str) -> list[Token]:
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        found = FORMULA_TOKEN.match(text, at)
        if found is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise InputError(
                f"formula, character {at + 1}: {text[at]!r} is not allowed; a formula has names of columns, "
                f"numbers, {', '.join(ALLOWED)} and + - : * ~ ( )."
            )
        kind = str(found.lastgroup)
        tokens.append(Token(kind, found.group(kind), found.start(kind)))
        at = found.end()
    return [*tokens, Token("end", "", end)]
