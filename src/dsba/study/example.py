"""The study file that `dsba study example` prints, with certificates of sites that nobody has the keys of."""

from __future__ import annotations

from dsba.pages.templates import asset


def example() -> str:
    return asset("dsba.study", "example.toml")
