"""Model formulas as data: ``outcome ~ age + C(sex, Treatment("M")) + log(crp) + bs(bmi, df=4)``.

A formula is parsed here against a list of what is allowed. Nothing of it is ever evaluated as code: the parser makes
terms, and ``columns.py`` computes their columns with the functions that are listed here.

    formula  := [response "~"] sum             response := column | number call | (Surv | cbind)(arithmetic, arithmetic)
    sum      := ["-"] nested (("+" | "-") nested)*
    nested   := crossed (("*" | "/") crossed)*      a*b is a + b + a:b, a/b is a + a:b
    crossed  := power (":" power)*
    power    := part [("**" | "^") whole number]
    part     := 0 | 1 | "." | column | C(column[, contrast]) | number call | state call | "(" sum ")"
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple, TypeVar

from dsba.errors import InputError
from dsba.types import Level

FUNCTIONS = {"I": 1, "log": 1, "log2": 1, "log10": 1, "log1p": 1, "exp": 1, "sqrt": 1, "abs": 1, "pmin": 2, "pmax": 2}
"""Functions of numbers, and how many they take."""
STATE_OPTIONS: dict[str, tuple[str, ...]] = {
    "cap": (), "center": (), "scale": (), "poly": ("degree",), "bs": ("df", "knots", "degree", "boundary"),
    "ns": ("df", "knots", "boundary"), "cr": ("df", "knots", "boundary"),
}  # fmt: skip
"""Functions with a state of all sites' rows, and their options; the first may be given without its name."""
CONTRASTS = ("Treatment", "Sum", "Poly", "Helmert")
OUTCOMES = {"Surv": "survival", "cbind": "counts"}
"""Outcomes of two columns, and what they are: a time and an event; successes and failures."""
FORMULA_CALLS = ("C", *FUNCTIONS, *STATE_OPTIONS)
FORMULA_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![\w.])|(?P<name>[^\W\d]\w*)"
    r"|`(?P<quoted>[^`{}\\\n\r]+)`|\"(?P<double>[^\"\n\r]*)\"|'(?P<single>[^'\n\r]*)'"
    r"|(?P<sign>\*\*|[<>=!]=|[-+:*/^~(),<>=.]))"
)
INSTEAD = {
    "factor": "C(x)", "ordered": "C(x, Poly)", "relevel": 'C(x, Treatment("b"))', "ifelse": "I(x > 3)",
    "cut": "I(x > 3)", "min": "pmin(x, 3)", "max": "pmax(x, 3)", "standardize": "scale(x)", "Q": "`a name`",
    "offset": "the option offset", "strata": "the option strata", "cluster": "the option clusters", "c": "(20, 90)",
    "|": "the option random for a random intercept", "%": "a/b for b within a", "&": "I(a > 1):I(b > 1)",
    "$": "the name of the column alone", "[": "the name of the column alone, (20, 90) for knots, the option levels",
    "raw": "x + I(x**2)", "interaction": "a:b", **dict.fromkeys(("rcs", "s", "te", "cc"), "ns(x, df=4)"),
    ".": "`x.1` for a column with a dot in its name, log(x) without a module, C(x) for as.factor(x)",
    **dict.fromkeys(("Boundary", "lower_bound", "upper_bound"), "boundary=(20, 90)"),
    **dict.fromkeys(("<", ">", "==", "!=", "<=", ">="), "I(x > 3)"),
}  # fmt: skip
"""What works in the place of names and signs that people know from other programs."""
LONGEST_FORMULA = 10_000  # characters
DEEPEST = 50  # parentheses
MOST_TERMS, MOST_BASIS_COLUMNS = 2_000, 50  # of a formula; of a spline or polynomial
TAKEN_NAMES = {".": "all other columns", "1": "the intercept", "Intercept": "the intercept"}
"""Names that no column may have."""


class Token(NamedTuple):
    kind: str  # "number", "name", "quoted", "double", "single", "call" (a name before a parenthesis), "sign" or "end"
    text: str
    at: int


class Arithmetic(NamedTuple):
    """A number for each row: a column, a constant, or an operation on others."""

    operation: str
    """ "column", "number", "negative", a function, or a sign between two."""
    text: str
    parts: tuple[Arithmetic, ...] = ()


class Contrast(NamedTuple):
    """How a factor's levels become columns."""

    kind: str = "Treatment"
    reference: Level | None = None


class TermFactor(NamedTuple):
    """One part of a term, as text and as data."""

    text: str
    column: str | None = None
    """Of a plain column, or of a factor."""
    contrast: Contrast = Contrast()
    number: Arithmetic | None = None
    state: str | None = None
    """A function with a state, of ``number``."""
    options: tuple[tuple[str, tuple[float, ...]], ...] = ()


Part = TypeVar("Part")
Term = tuple[TermFactor, ...]  # the intercept has no part
CLOSER = ("log", "log2", "log10", "log1p", "sqrt", "cap", "center", "scale")
"""Functions of one column that leave the distances of its values as they are, or bring large ones closer together."""


def is_derived(term: Term) -> bool:
    """Whether a term is more than a column, its levels, or a function of ``CLOSER`` of it: it may single out rows."""
    if len(term) != 1 or term[0].column is not None:
        return len(term) > 1
    (one,) = term
    inner = one.number if one.state is not None else one.number and one.number.parts[0]
    function = one.state or (one.number and one.number.operation)
    return function not in CLOSER or inner is None or inner.operation != "column"


def inner_parts(what: Arithmetic) -> list[Arithmetic]:
    """The parts of a function that may single out rows whatever is made of them, such as the peak in a*b + exp(...).

    What brings large distances closer together is asked for the parts of its argument only: log(a/b) has none.
    """
    asked = () if what.operation in (*CLOSER, "I") else what.parts
    found = [part for part in asked if not _is_straight(part)]
    return [*found, *(one for part in what.parts for one in inner_parts(part))]


def _is_straight(what: Arithmetic) -> bool:
    """Whether it is one column, or a function of ``CLOSER`` of it, but for its unit and zero."""
    if what.operation in ("column", "number", "name"):
        return True
    constant = [part.operation == "number" for part in (what.parts[1:] if what.operation == "/" else what.parts)]
    shifted = any(constant) and what.operation in ("+", "-", "*", "/")
    return (shifted or what.operation in (*CLOSER, "I", "negative")) and all(map(_is_straight, what.parts))


class Side(NamedTuple):
    """What a rule of the grammar read: its text and its terms."""

    text: str
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Formula:
    """A parsed formula. ``left`` and ``right`` are its sides in one spelling; all columns they name are listed."""

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
    outcomes: tuple[Arithmetic, ...] = ()
    """What the left side computes: one number a row, or the two of Surv(time, event) and cbind(successes, failures)."""
    terms: tuple[Term, ...] = ()
    """Of the right side; those with fewer parts come first."""
    dotted: bool = False
    """Whether the right side names all other columns."""

    @property
    def outcome(self) -> str | None:
        """What an outcome of two columns is, or None."""
        return OUTCOMES[str(self.left).partition("(")[0]] if len(self.outcomes) > 1 else None

    @property
    def transformed(self) -> bool:
        """Whether the left side is more than the name of a column."""
        return self.left is not None and self.left != quoted(self.response[0])

    @property
    def sharp(self) -> bool:
        """Whether the left side is more than columns, or functions of ``CLOSER`` of them: it may single out rows."""
        columns = [one.parts[0] if one.operation in CLOSER else one for one in self.outcomes]
        return any(one.operation != "column" for one in columns)

    @property
    def averaged(self) -> tuple[str, ...]:
        """The columns of the table of which a function needs a mean before the model is made."""
        every = [one for term in self.terms for one in term if one.state in ("cap", "center", "scale", "poly")]
        plain = [one.number.parts[0].text for one in every if one.number and one.number.operation == "column"]
        return tuple(dict.fromkeys(plain))

    @property
    def fewest_columns(self) -> int:
        """The columns of the right side, if every factor has two levels and every spline no more than its degree."""
        options = [[dict(one.options) for one in term] for term in self.terms]
        widths = [[int(one.get("df", one.get("degree", (1.0,)))[0]) for one in term] for term in options]
        return sum(map(math.prod, widths))

    def expanded(self, features: Sequence[str]) -> Formula:
        """The formula with the dot written out."""
        if not self.dotted:
            return self
        every = " + ".join(quoted(name) for name in features if name not in self.response) or "1"
        texts = [f"({every})" if t == Token("sign", ".", t.at) else _spelled(t) for t in _tokens(self.right)]
        return parse(f"{self.left or ''} ~ {' '.join(texts)}")

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


# Terms -------------------------------------------------------------------------------------------


def _united(*sides: tuple[Term, ...]) -> tuple[Term, ...]:
    """Every term once, whatever the order of its parts."""
    terms = tuple({frozenset(term): term for term in reversed(list(chain(*sides)))}.values())[::-1]
    if len(terms) > MOST_TERMS:
        raise InputError(f"the formula has more than {MOST_TERMS} terms.")
    return terms


def _crossed(left: tuple[Term, ...], right: tuple[Term, ...]) -> tuple[Term, ...]:
    return _united(tuple(tuple(dict.fromkeys((*a, *b))) for a in left for b in right))


def _without(terms: tuple[Term, ...], gone: tuple[Term, ...]) -> tuple[Term, ...]:
    out = {frozenset(term) for term in gone}
    return tuple(term for term in terms if frozenset(term) not in out)


class _Parser:
    """Recursive descent: every method reads one rule of the grammar and returns its text and what it means."""

    def __init__(self, text: str) -> None:
        self.tokens, self.at, self.depth, self.dotted = _tokens(text), 0, 0, False
        self.roles: dict[str, set[str]] = {}  # of the columns met so far: "plain", "factor" or "number"

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def take(self, *signs: str) -> str | None:
        """The next token if it is one of the signs."""
        if self.next.kind == "sign" and self.next.text in signs:
            self.at += 1
            return self.tokens[self.at - 1].text
        return None

    def token(self, what: str, *kinds: str) -> Token:
        """The next token, which must be of one of these kinds."""
        if self.next.kind not in kinds:
            raise self.wanted(what)
        self.at += 1
        return self.tokens[self.at - 1]

    def need(self, sign: str) -> None:
        if not self.take(sign):
            raise self.wanted(repr(sign))

    def wanted(self, what: str) -> InputError:
        got = "the end" if self.next.kind == "end" else repr(self.next.text)
        hint = "" if self.next.kind == "name" else _instead(self.next.text)
        before = self.tokens[self.at - 1]
        if self.at and self.next.kind == before.kind == "name":
            hint = f": use `{before.text} {self.next.text}` for a name with a space"
        return InputError(f"formula, character {self.next.at + 1}: wanted {what}, got {got}{hint}.")

    def formula(self) -> Formula:
        left, response, outcomes = "", tuple[str, ...](), tuple[Arithmetic, ...]()
        if any(token.kind == "sign" and token.text == "~" for token in self.tokens):
            if self.next.text != "~":
                left, outcomes = self.response()
                response, self.roles = tuple(self.roles), {}
            if not self.take("~"):
                raise self.wanted("'~' (an outcome may be computed in I(), such as I(2*y))")
        right = self.sum(((),))
        if self.next.kind != "end":
            raise self.wanted("+, -, :, * or /")
        self._check_roles(response)
        factors, numbers = (
            tuple(c for c, roles in self.roles.items() if role in roles) for role in ("factor", "number")
        )
        terms = tuple(sorted(right.terms, key=len))
        columns = tuple(self.roles)
        return Formula(left or None, right.text, response, columns, factors, numbers, outcomes, terms, self.dotted)

    def _check_roles(self, response: tuple[str, ...]) -> None:
        if both := self.roles.keys() & set(response):
            raise InputError(f"the column {min(both)!r} is on both sides of the formula.")
        if both := {column for column, roles in self.roles.items() if roles > {"factor"}}:
            raise InputError(
                f"the column {min(both)!r} is in C() and outside of it: write C() everywhere, or make a second column."
            )

    # The left side -------------------------------------------------------------------------------

    def response(self) -> tuple[str, tuple[Arithmetic, ...]]:
        if self.next.kind == "call" and self.next.text in OUTCOMES:
            name, both = self.next.text, self.arguments(2)
            self.need(")")
            return f"{name}({both[0].text}, {both[1].text})", both
        if self.next.kind == "call" and self.next.text in FUNCTIONS:
            one = self.function()
            if not self.roles:
                raise InputError(f"the outcome names no column, got {one.text!r}.")
            return one.text, (one,)
        name = self.column("plain", "the name of the outcome")
        return quoted(name), (_column(name),)

    # The right side ------------------------------------------------------------------------------

    def sum(self, start: tuple[Term, ...] = ()) -> Side:
        minus = self.take("-")
        first = self.nested()
        text, terms = ("-" if minus else "") + first.text, _added(start, "-" if minus else "+", first)
        while sign := self.take("+", "-"):
            more = self.nested()
            text, terms = f"{text} {sign} {more.text}", _added(terms, sign, more)
        return Side(text, terms)

    def nested(self) -> Side:
        text, terms = self.crossed()
        while sign := self.take("*", "/"):
            more = self.crossed()
            within = terms if sign == "*" else (tuple(dict.fromkeys(chain(*terms))),)
            own = more.terms if sign == "*" else ()
            text, terms = f"{text}{sign}{more.text}", _united(terms, own, _crossed(within, more.terms))
        return Side(text, terms)

    def crossed(self) -> Side:
        text, terms = self.power()
        while self.take(":"):
            more = self.power()
            text, terms = f"{text}:{more.text}", _crossed(terms, more.terms)
        return Side(text, terms)

    def power(self) -> Side:
        side = self.part()
        if not self.take("**", "^"):
            return side
        if self.next.kind != "number" or not re.fullmatch("[1-9]", self.next.text):
            raise self.wanted("a whole number from 1 to 9 (inside I() any power is a number's)")
        text, terms = f"{side.text}**{self.next.text}", side.terms
        for _ in range(int(self.next.text) - 1):
            terms = _united(terms, _crossed(terms, side.terms))
        self.at += 1
        return Side(text, terms)

    def part(self) -> Side:
        token = self.next
        if self.take("("):
            side = self.inside(self.sum)
            self.need(")")
            return Side(f"({side.text})", side.terms)
        if self.take("."):
            self.dotted = True
            return Side(".", ())
        if token.kind == "number":
            if token.text not in ("0", "1"):
                raise self.wanted("a column, 0 or 1 for the intercept, or arithmetic in I() such as I(2*x)")
            self.at += 1
            return Side(token.text, ((),) if token.text == "1" else ())
        one = self.call() if token.kind == "call" else self.plain()
        return Side(one.text, ((one,),))

    def plain(self) -> TermFactor:
        name = self.column("plain")
        return TermFactor(quoted(name), column=name)

    def call(self) -> TermFactor:
        name = self.next.text
        if name == "C":
            return self.factor()
        if name in STATE_OPTIONS:
            return self.stateful()
        one = self.function()
        return TermFactor(one.text, number=one)

    def factor(self) -> TermFactor:
        self.at += 2
        column = self.column("factor")
        text, contrast = quoted(column), Contrast()
        if self.take(","):
            if self.next.text not in CONTRASTS:
                raise self.wanted(f"one of {', '.join(CONTRASTS)}")
            more, contrast = self.contrast()
            text = f"{text}, {more}"
        self.need(")")
        return TermFactor(f"C({text})", column=column, contrast=contrast)

    def contrast(self) -> tuple[str, Contrast]:
        kind = self.next.text
        self.at += 1
        if kind != "Treatment" or not self.take("("):
            return kind, Contrast(kind)
        if self.next.text == "reference":
            self.at += 1
            self.need("=")
        level = self.level()
        self.need(")")
        quote = '"' if "'" in str(level) else "'"
        shown = f"{quote}{level}{quote}" if isinstance(level, str) else str(level)
        return f"Treatment({shown})", Contrast(kind, level)

    def level(self) -> Level:
        token = self.token('a level: a number, or a text in quotes such as "c"', "number", "single", "double")
        if token.kind != "number":
            return token.text
        return int(token.text) if token.text.isdigit() else float(token.text)

    def stateful(self) -> TermFactor:
        name = self.next.text
        (of,), given = self.arguments(1), dict[str, tuple[float, ...]]()
        while self.take(","):
            named = self.next.kind in ("name", "call")
            option = self.next.text if named else STATE_OPTIONS[name][0] if STATE_OPTIONS[name] and not given else ""
            if option not in STATE_OPTIONS[name] or option in given:
                allowed = f"{', '.join(STATE_OPTIONS[name]) or 'no option'}{_instead(option)}"
                raise InputError(f"formula, character {self.next.at + 1}: {name}() takes {allowed}.")
            if named:
                self.at += 1
                self.need("=")
            given[option] = self.values()
        self.need(")")
        _check_options(name, given)
        shown = [of.text, *(f"{option}={_shown(values)}" for option, values in given.items())]
        return TermFactor(f"{name}({', '.join(shown)})", number=of, state=name, options=tuple(given.items()))

    def values(self) -> tuple[float, ...]:
        """A number, or several in parentheses."""
        if not self.take("("):
            return (self.value(),)
        found = [self.value()]
        while self.take(",") and self.next.text != ")":
            found.append(self.value())
        self.need(")")
        return tuple(found)

    def value(self) -> float:
        sign = -1.0 if self.take("-") else 1.0
        return sign * float(self.token("a number, or several in parentheses such as (20, 90)", "number").text)

    # Numbers -------------------------------------------------------------------------------------

    def function(self) -> Arithmetic:
        name = self.next.text
        if name not in FUNCTIONS:
            what, known = f"is not known{_instead(name)}; a formula", FORMULA_CALLS
            if name in FORMULA_CALLS:
                what, known = "stands by itself, and not inside another function; a function", tuple(FUNCTIONS)
            raise InputError(f"formula, character {self.next.at + 1}: {name}() {what} may call {', '.join(known)}.")
        parts = self.arguments(FUNCTIONS[name])
        if not self.take(")"):
            raise self.wanted("')' (other bases are log2() and log10())" if name == "log" else "')'")
        return Arithmetic(name, f"{name}({', '.join(part.text for part in parts)})", parts)

    def arguments(self, count: int) -> tuple[Arithmetic, ...]:
        """What stands behind the name of a function and a parenthesis."""
        self.at += 2
        parts = [self.inside(self.comparison)]
        for _ in range(count - 1):
            self.need(",")
            parts.append(self.inside(self.comparison))
        return tuple(parts)

    def inside(self, rule: Callable[[], Part]) -> Part:
        """What a rule reads within another one, such as in parentheses."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.wanted(f"at most {DEEPEST} parentheses in each other")
        found = rule()
        self.depth -= 1
        return found

    def comparison(self) -> Arithmetic:
        left = self.additive()
        sign = self.take("<", ">", "<=", ">=", "==", "!=")
        return _between(left, sign, self.additive()) if sign else left

    def additive(self) -> Arithmetic:
        return self.joined(self.product, "+", "-")

    def product(self) -> Arithmetic:
        return self.joined(self.signed, "*", "/")

    def joined(self, rule: Callable[[], Arithmetic], *signs: str) -> Arithmetic:
        """What a rule reads, once or several times with signs between."""
        left = rule()
        while sign := self.take(*signs):
            left = _between(left, sign, rule())
        return left

    def signed(self) -> Arithmetic:
        if self.take("-"):
            of = self.inside(self.signed)
            return Arithmetic("negative", f"-{of.text}", (of,))
        base = self.atom()
        return _between(base, "**", self.inside(self.signed)) if self.take("**", "^") else base

    def atom(self) -> Arithmetic:
        token = self.next
        if self.take("("):
            found = self.inside(self.comparison)
            self.need(")")
            return found._replace(text=f"({found.text})")
        if token.kind == "number":
            self.at += 1
            return Arithmetic("number", re.sub("^0+(?=[0-9])", "", token.text))  # one text for one number
        if token.kind == "call":
            return self.function()
        return _column(self.column("number"))

    def column(self, role: str, what: str = "the name of a column") -> str:
        """A column in this role."""
        token = self.token(what, "name", "quoted")
        self.roles.setdefault(token.text, set()).add(role)
        quoted(token.text)  # an error if it is taken
        return token.text


def _column(name: str) -> Arithmetic:
    return Arithmetic("column", quoted(name), (Arithmetic("name", name),))


def _between(left: Arithmetic, sign: str, right: Arithmetic) -> Arithmetic:
    return Arithmetic(sign, f"{left.text} {sign} {right.text}", (left, right))


def _added(terms: tuple[Term, ...], sign: str, more: Side) -> tuple[Term, ...]:
    """0 takes the intercept away, and -0 gives it."""
    intercept: tuple[Term, ...] = ((),)
    if more.text == "0":
        return _without(terms, intercept) if sign == "+" else _united(terms, intercept)
    return _united(terms, more.terms) if sign == "+" else _without(terms, more.terms)


def _check_options(name: str, given: dict[str, tuple[float, ...]]) -> None:
    """An error about options of a spline or polynomial that mean nothing."""
    for option in ("df", "degree"):
        value = given.get(option, (1.0,))
        if len(value) != 1 or value[0] != int(value[0]) or not 1 <= value[0] <= MOST_BASIS_COLUMNS:
            raise InputError(f"{name}() needs a whole number from 1 to {MOST_BASIS_COLUMNS} as its {option}.")
    if name == "bs" and not given.get("degree", (3.0,))[0] <= given.get("df", (MOST_BASIS_COLUMNS,))[0]:
        raise InputError("bs() needs a df that is not below its degree, which is 3 if not given.")
    if name in ("bs", "ns", "cr") and ("df" in given) == ("knots" in given):
        raise InputError(f"{name}() needs either df or knots, such as df=4 or knots=(50, 60).")
    low, *rest = given.get("boundary", (-math.inf, math.inf))
    knots = (low, *given.get("knots", ()), *rest)
    if len(rest) != 1 or len(knots) > MOST_BASIS_COLUMNS or any(b <= a for a, b in pairwise(knots)):
        raise InputError(f"{name}() needs knots that rise, inside of a boundary of two numbers.")


def _shown(values: tuple[float, ...]) -> str:
    texts = [f"{value:.17g}" if value != int(value) else str(int(value)) for value in values]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _spelled(token: Token) -> str:
    """A token as it is written; a call's parenthesis is a token of its own."""
    quotes = {"quoted": "`", "single": "'", "double": '"'}.get(token.kind, "")
    return f"{quotes}{token.text}{quotes}"


def _instead(text: str) -> str:
    known = INSTEAD.get(text, "`x.1` for a column with a dot in its name" if text.startswith(".") else "")
    return known and f": use {known}"


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        found = FORMULA_TOKEN.match(text, at)
        if found is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise InputError(
                f"formula, character {at + 1}: {text[at]!r} is not allowed{_instead(text[at])}; a formula has names of "
                f"columns, numbers, {', '.join(FORMULA_CALLS)} and + - : * / ** ~ ( )."
            )
        kind = str(found.lastgroup)
        if kind == "sign" and found["sign"] == "(" and tokens and tokens[-1].kind == "name":
            tokens[-1] = tokens[-1]._replace(kind="call")
        tokens.append(Token(kind, found.group(kind), found.start(kind)))
        at = found.end()
    return [*tokens, Token("end", "", end)]
