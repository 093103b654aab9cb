"""Templates that come with the package, and what is put into them."""

from __future__ import annotations

from importlib.resources import files


def asset(package: str, name: str) -> str:
    """The text of a file in the folder ``assets`` of a package."""
    return (files(package) / "assets" / name).read_text(encoding="utf-8")


def filled(template: str, parts: dict[str, str]) -> str:
    """The text of a template with its parts put in. Text inside a part is never replaced."""
    head, *rest = template.split("{{")
    for piece in rest:
        name, _, tail = piece.partition("}}")
        head += parts[name] + tail
    return head


def document(title: str, body: str, *, css: str = "", allowed: str = "img-src data:") -> str:
    """A whole page in the style of all pages. It loads nothing from elsewhere but what ``allowed`` names.

    ``title`` and ``body`` are HTML, ``css`` comes after the common style, ``allowed`` is a part of the page's policy.
    """
    style = asset("dsba.pages", "page.css") + css
    return filled(asset("dsba.pages", "frame.html"), {"allowed": allowed, "title": title, "css": style, "body": body})
