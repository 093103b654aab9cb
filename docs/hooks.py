"""A hook of MkDocs: formulas in LaTeX become MathML when the site is built, so that browsers show them offline."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

# What pymdownx.arithmatex, which knows where code ends and a formula begins, leaves of $...$ and $$...$$.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
# Without a mathematical font browsers draw the bar of a root through the letters below it: this keeps it above them.
ROOT = '<msqrt><mspace width="0" height="1em" depth="0.2em"></mspace>'
LIKE = re.compile(r'</span> - <span title="like">')  # "path-like" is no difference
DISPLAY = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    content = LIKE.sub('</span>-<span title="like">', content)
    content = INLINE.sub(lambda found: mathml(found[1], "inline"), content)
    return DISPLAY.sub(lambda found: f'<div class="formula">{mathml(found[1], "block")}</div>', content)


def mathml(formula: str, display: str) -> str:
    """The formula in MathML. The converter leaves what it does not know as text, which ends the build here."""
    formula = html.unescape(formula)
    converted = convert(formula, display=display)
    if unknown := re.search(r"<m\w+>(\\\w+|&)</m\w+>", converted):
        raise ValueError(f"the formula {formula.strip()!r} has {unknown[1]!r}, which does not become MathML.")
    return converted.replace("<msqrt>", ROOT)
